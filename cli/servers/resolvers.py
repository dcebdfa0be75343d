"""Configurations of the resolvers under test, as pure functions.

A resolver gets the emulated root's hints and trust anchor and is otherwise as its packager made it, but for
what keeps it from the hierarchy or from the network of the experiment: no zones of its own for special
names and private addresses (emulated zones may have any), no probing of the outside. It asks from one
address, its upstream address, which the data path knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from cli.experiment.schema import Hierarchy, Server
from cli.servers import named_lines

_BIND_MAX_IDLE = 1200  # named's upper limit of tcp-idle-timeout, in units of 100 ms
_DESCRIPTOR_RESERVE = 1_024  # what a resolver needs beside its clients' connections
STATISTICS_PORT = 8053  # named's, on the resolver's own loopback


@dataclass(frozen=True)
class Site:
    """Where a resolver runs: its folder, the files of the emulated root, its addresses, the user it drops to
    ("" = none), a process's descriptors, the lines the user adds, and its version.
    """

    folder: str
    hints: str
    anchors: str  # DNSKEY records as zone text
    bind_anchors: str  # the same as a statement of named.conf
    service: tuple[str, ...]
    upstream: tuple[str, str]
    user: str
    descriptors: int
    extra: str = ""
    version: str = ""


def config(kind: str, server: Server, emulated: Hierarchy, site: Site) -> str:
    """The configuration file of a resolver of this kind."""
    make = {"bind": named, "unbound": unbound, "knot-resolver": kresd}[kind]
    return make(server, emulated, site)


def users_lines(name: str, config: str, lines: str) -> dict[str, str]:
    """Places in the configuration `name` that hold one of the user's lines, each with that line's place in
    hierarchy.resolver_config. They are found by their text, from the end, where the user's lines are: BIND's
    are split up.
    """
    found: dict[str, str] = {}
    theirs: dict[str, list[int]] = {}
    for number, text in enumerate(lines.splitlines(), 1):
        theirs.setdefault(text.strip(), []).append(number)
    ours = config.splitlines()
    for number in range(len(ours), 0, -1):
        if same := theirs.get(ours[number - 1].strip()):
            found[f"{name}:{number}:"] = f"hierarchy.resolver_config:{same.pop()}:"
    return found


def _split(addresses: tuple[str, ...]) -> tuple[list[str], list[str]]:
    return [one for one in addresses if ":" not in one], [one for one in addresses if ":" in one]


def _clients(server: Server, site: Site) -> int:
    """Connections of clients at once."""
    return server.tcp_count or max(100, min(site.descriptors // 2 - _DESCRIPTOR_RESERVE, 100_000))


def named(server: Server, emulated: Hierarchy, site: Site) -> str:
    """named.conf of a recursive server. With `validate` it trusts the emulated root's key and no other."""
    four, six = (" ".join(f"{one};" for one in part) for part in _split(site.service))
    idle = max(1, min(round(server.tcp_idle_timeout_s * 10), _BIND_MAX_IDLE))
    anchors = f'include "{site.bind_anchors}";\n' if emulated.validate else ""
    expired = "    dnssec-accept-expired yes;\n" if emulated.expired_signatures == "accept" else ""
    text = f"""{anchors}options {{
{named_lines.own_folder(site.folder, site.version)}    listen-on port {server.port} {{ {four} }};
    listen-on-v6 port {server.port} {{ {six} }};
    query-source address {site.upstream[0]};
    query-source-v6 address {site.upstream[1]};
    recursion yes;
    allow-query {{ any; }};
    allow-recursion {{ any; }};
    allow-query-cache {{ any; }};
    dnssec-validation {"yes" if emulated.validate else "no"};
{expired}    qname-minimization {"relaxed" if emulated.qname_minimisation else "disabled"};
    empty-zones-enable no;
    max-udp-size {min(server.edns_size, 4096)};
    edns-udp-size {min(server.edns_size, 4096)};
    nocookie-udp-size {min(server.edns_size, 4096)};
    minimal-responses {"yes" if server.minimal_responses else "no-auth-recursive"};
    recursive-clients 100000;
    clients-per-query 0;
    tcp-clients {_clients(server, site)};
    tcp-idle-timeout {idle};
    tcp-keepalive-timeout {idle};
    tcp-listen-queue {server.tcp_listen_queue};
    notify no;
    zone-statistics none;
}};
controls {{ }};
statistics-channels {{ inet 127.0.0.1 port {STATISTICS_PORT} allow {{ 127.0.0.1; }}; }};
zone "." {{ type hint; file "{site.hints}"; }};
"""
    return named_lines.merge(text, site.extra)


def unbound(server: Server, emulated: Hierarchy, site: Site) -> str:
    """unbound.conf. Local zones that a packager would serve are the hierarchy's own matter here."""
    listen = "".join(f"    interface: {one}@{server.port}\n" for one in site.service)
    per_thread = max(50, min(site.descriptors // (2 * server.processes) - _DESCRIPTOR_RESERVE, 4_096))
    anchors = f'    trust-anchor-file: "{site.anchors}"\n' if emulated.validate else ""
    anchors += '    val-override-date: "-1"\n' if emulated.expired_signatures == "accept" else ""
    modules = "validator iterator" if emulated.validate else "iterator"
    return f"""server:
    directory: "{site.folder}"
    chroot: ""
    username: "{site.user}"
    pidfile: ""
    use-syslog: no
    verbosity: 1
    num-threads: {server.processes}
{listen}    outgoing-interface: {site.upstream[0]}
    outgoing-interface: {site.upstream[1]}
    outgoing-range: {per_thread}
    num-queries-per-thread: {per_thread}
    incoming-num-tcp: {max(10, _clients(server, site) // server.processes)}
    tcp-idle-timeout: {max(1, round(server.tcp_idle_timeout_s * 1000))}
    access-control: 0.0.0.0/0 allow
    access-control: ::/0 allow
    do-not-query-localhost: no
    root-hints: "{site.hints}"
    module-config: "{modules}"
{anchors}    qname-minimisation: {"yes" if emulated.qname_minimisation else "no"}
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
{_no_local_zones()}{site.extra}"""


# Names for which unbound answers by itself unless told otherwise (its manual, "local-zone").
_UNBOUND_ZONES = (
    "localhost.",
    "127.in-addr.arpa.",
    "onion.",
    "home.arpa.",
    "service.arpa.",
    "test.",
    "invalid.",
    "1." + "0." * 31 + "ip6.arpa.",
)


def _no_local_zones() -> str:
    return "server:\n" + "".join(f'    local-zone: "{zone}" nodefault\n' for zone in _UNBOUND_ZONES)


def kresd(server: Server, emulated: Hierarchy, site: Site) -> str:
    """kresd.conf. Without its answers for special names; anchors of an unsigned root are none."""
    listen = "".join(
        f"net.listen('{one}', {server.port}, {{ kind = 'dns', freebind = false }})\n" for one in site.service
    )
    anchors = (
        f"""local anchors = io.open('{site.anchors}')
local text = anchors and anchors:read('*a') or ''
trust_anchors.remove('.')
if text:match('DNSKEY') then trust_anchors.add_file('{site.anchors}', true) end
"""
        if emulated.validate
        else "trust_anchors.remove('.')\n"
    )
    return f"""modules.unload('priming')
modules.unload('ta_signal_query')
modules.unload('ta_sentinel')
modules.unload('ta_update')
modules.unload('detect_time_jump')
modules.unload('detect_time_skew')
{listen}net.outgoing_v4('{site.upstream[0]}')
net.outgoing_v6('{site.upstream[1]}')
net.bufsize({server.edns_size}, {server.edns_size})
net.tcp_pipeline(100)
cache.open(256 * MB, 'lmdb://{site.folder}/cache')
modules = {{ 'stats', 'hints > iterate' }}
hints.root_file('{site.hints}')
{anchors}option('NO_MINIMIZE', {"false" if emulated.qname_minimisation else "true"})
policy.special_names = {{}}
{site.extra}"""
