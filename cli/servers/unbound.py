"""unbound: its configuration as a resolver, and what its log complains of."""

from __future__ import annotations

import re

from cli.servers import kind
from cli.servers.kind import DESCRIPTOR_RESERVE, Condition, ServerKind, Serving, Site, Title, talk
from cli.servers.nsd import tls_lines

# Names for which unbound answers by itself unless told otherwise (its manual, "local-zone").
_ZONES = (
    *("localhost.", "127.in-addr.arpa.", "onion.", "home.arpa.", "service.arpa.", "test.", "invalid."),
    "1." + "0." * 31 + "ip6.arpa.",
)
# It drops questions of one client where over 1,000 of it wait for recursion (since 1.20, and in Debian's
# 1.17), and here one address may stand for all clients. Without that limit the option is an error.
_PREPARE = """'! unbound-checkconf -o wait-limit "$1" > /dev/null 2>&1 ||
echo "server: wait-limit: 0" > "${1%/*}/unbound-limits.conf"
exec unbound-checkconf "$1"'"""
_NO_LOCAL_ZONES = "server:\n" + "".join(f'    local-zone: "{zone}" nodefault\n' for zone in _ZONES)


def resolver(server: kind.Server, emulated: kind.Hierarchy, site: Site) -> str:
    """unbound.conf. Local zones that a packager would serve are the hierarchy's own matter here."""
    ports = [server.port, *([site.tls.port] if site.tls else [])]
    listen = "".join(f"    interface: {one}@{port}\n" for port in ports for one in site.addresses)
    per_thread = max(50, min(site.descriptors // (2 * server.processes) - DESCRIPTOR_RESERVE, 4_096))
    anchors = f'    trust-anchor-file: "{site.anchors}"\n' if emulated.validate else ""
    anchors += '    val-override-date: "-1"\n' if emulated.expired_signatures == "accept" else ""
    return f"""server:
    directory: "{site.folder}"
    chroot: ""
    username: "{site.user}"
    pidfile: ""
    use-syslog: no
    verbosity: 1
    num-threads: {server.processes}
{listen}{tls_lines(site.tls)}    outgoing-interface: {site.upstream[0]}
    outgoing-interface: {site.upstream[1]}
    outgoing-range: {per_thread}
    num-queries-per-thread: {per_thread}
    incoming-num-tcp: {max(10, site.clients(server) // server.processes // len(ports))}
    tcp-idle-timeout: {round(server.tcp_idle_timeout_s * 1000)}
    access-control: 0.0.0.0/0 allow
    access-control: ::/0 allow
    do-not-query-localhost: no
    root-hints: "{site.hints}"
    module-config: "{"validator " if emulated.validate else ""}iterator"
{anchors}    qname-minimisation: {"yes" if emulated.qname_minimization else "no"}
    edns-buffer-size: {server.edns_size}
    max-udp-size: {server.edns_size}
    unblock-lan-zones: yes
    insecure-lan-zones: yes
    so-reuseport: yes
    statistics-cumulative: yes
    extended-statistics: yes
remote-control:
    control-enable: yes
    control-interface: {site.folder}/control.sock
    control-use-cert: no
include: "{site.folder}/../unbound-limits*.conf"
{_NO_LOCAL_ZONES}{site.extra}"""


def counted(server: Serving) -> dict[str, int]:
    """By unbound-control, over the resolver's own socket."""
    text = talk(str(server.folder / "control.sock"), b"UBCT1 stats_noreset\n")
    values = dict(re.findall(r"^([\w.]+)=([\d.]+)$", text, re.MULTILINE))
    queries = int(values["total.num.queries"])
    return {
        "queries": queries,
        "recursions": queries - int(values["total.num.cachehits"]),
        "under_way": int(values["total.requestlist.current.all"]),
    }


KIND = ServerKind(
    "unbound",
    program="unbound",
    asks="-V",
    user="unbound",
    tested=("1.17", "1.26"),
    packages=("unbound",),
    section="test",
    services=("unbound", "unbound-resolvconf"),
    options=("-d", "-p", "-c", "{config}"),
    complaints=r"fatal error|malloc failure|out of memory",
    copied=True,
    checker="sh",
    checks=("-c", _PREPARE, "sh", "{file}"),
    unused=("tcp_listen_queue",),
    idle_step_s=0.001,
    shows='for key in {keys}; do echo "$key: $(unbound-checkconf -o "$key" "$1")"; done',
    conditions=(
        Condition(f"{Title.CONNECTIONS}, a thread", "incoming-num-tcp"),
        Condition(Title.IDLE, "tcp-idle-timeout", 0.001),
        Condition(Title.UDP_SIZE, "max-udp-size"),
        Condition(Title.EDNS_SIZE, "edns-buffer-size"),
        Condition(Title.MINIMIZATION, "qname-minimisation"),
        Condition(f"{Title.CACHE}, of messages", "msg-cache-size", 1e-6),
        Condition(f"{Title.CACHE}, of RRsets", "rrset-cache-size", 1e-6),
    ),
    resolver=resolver,
    takes_expired=True,
    counted=counted,
)
