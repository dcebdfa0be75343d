"""BIND: an authoritative server, a resolver, and one of the engines of a hierarchy.

Every setting that bends a measurement is set here and nowhere else: TCP connections well over the peak, the
EDNS sizes of the experiment, no control sockets, no notifies, no transfers. What it has counted it says over
HTTP on the loopback of its host.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct

from cli.servers import kind, named_lines
from cli.servers.kind import Condition, ServerKind, Serving, Site, Title

_STATISTICS_PORT = 8053
_STATISTICS_S = 5.0


def config(server: kind.Server, site: Site) -> str:
    limits = f"    rate-limit {{ responses-per-second {server.rrl}; }};\n" if server.rrl else ""
    options = f"""    recursion no;
    allow-transfer {{ none; }};
    dnssec-validation no;
    minimal-responses {"yes" if server.minimal_responses else "no"};
"""
    zones = "".join(_ZONE.format(name=name, file=file) for name, file in site.zones)
    return _named(server, site, site.connections(server), options, zones, limits=limits)


_ZONE = """zone "{name}" {{
    type primary;
    file "{file}";
    check-integrity no;
    check-names ignore;
    notify no;
}};
"""
_TLS = """tls service {{
    key-file "{tls.key}";
    cert-file "{tls.certificate}";
    protocols {{ TLSv1.2; TLSv1.3; }};
    session-tickets yes;
}};
"""


def _named(
    server: kind.Server, site: Site, clients: int, own: str, zones: str, anchors: str = "", limits: str = ""
) -> str:
    """named.conf of a server with these options of its `own`."""
    ports = [str(server.port), *([f"{site.tls.port} tls service"] if site.tls else [])]
    listed = [[f"{one};" for one in site.addresses if (":" in one) is six] for six in (False, True)]
    four, six = (" ".join(of_family) or "none;" for of_family in listed)
    listen = "".join(
        f"    listen-on port {one} {{ {four} }};\n    listen-on-v6 port {one} {{ {six} }};\n" for one in ports
    )
    idle = round(server.tcp_idle_timeout_s * 10)
    text = f"""{anchors}{_TLS.format(tls=site.tls) if site.tls else ""}options {{
{named_lines.own_folder(site.folder, site.version)}{listen}{own}    tcp-idle-timeout {idle};
    tcp-keepalive-timeout {idle};
{named_lines.shared(server.edns_size, clients, server.tcp_listen_queue)}{limits}}};
controls {{ }};
statistics-channels {{ inet 127.0.0.1 port {_STATISTICS_PORT} allow {{ 127.0.0.1; }}; }};
{zones}"""
    return named_lines.merge(text, site.extra)


def resolver(server: kind.Server, emulated: kind.Hierarchy, site: Site) -> str:
    """named.conf of a recursive server. With `validate` it trusts the emulated root's key and no other."""
    anchors = f'include "{site.bind_anchors}";\n' if emulated.validate else ""
    expired = "    dnssec-accept-expired yes;\n" if emulated.expired_signatures == "accept" else ""
    options = f"""    query-source address {site.upstream[0]};
    query-source-v6 address {site.upstream[1]};
    recursion yes;
    allow-recursion {{ any; }};
    allow-query-cache {{ any; }};
    dnssec-validation {"yes" if emulated.validate else "no"};
{expired}    qname-minimization {"relaxed" if emulated.qname_minimization else "disabled"};
    minimal-responses {"yes" if server.minimal_responses else "no-auth-recursive"};
    recursive-clients 100000;
    clients-per-query 0;
"""
    hints = f'zone "." {{ type hint; file "{site.zone_file}"; }};\n'
    return _named(server, site, site.clients(server), options, hints, anchors)


def counted(_server: Serving) -> dict[str, int]:
    """By its statistics channel. The connection leaves no TIME-WAIT, which would count as one of clients."""
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - too slow to import for a bootstrap

    with contextlib.closing(HTTPConnection("127.0.0.1", _STATISTICS_PORT, _STATISTICS_S)) as channel:
        channel.connect()
        channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            channel.request("GET", "/json/v1/server")
            found = json.load(channel.getresponse())
        except HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from None
    own, views = found.get("nsstats", {}), found.get("views", {}).values()
    return {
        "queries": int(found.get("opcodes", {}).get("QUERY", 0)),
        "tcp_queries": int(own.get("ReqTCP", 0)),
        "answers": int(own.get("Response", 0)),
        "recursions": int(own.get("QryRecursion", 0)),
        "under_way": sum(int(one.get("resolver", {}).get("stats", {}).get("NumFetch", 0)) for one in views),
    }


KIND = ServerKind(
    "BIND",
    program="named",
    asks="-v",
    user="bind",
    tested=("9.18", "9.20"),
    packages=("bind9",),
    services=("named", "bind9", "named-resolvconf"),
    options=("-g", "-c", "{config}", "-n", "{processes}"),
    as_user=("-u", "{user}"),
    events=r"reloading configuration succeeded|: (?:loaded|transferred) serial \d",
    reloads=True,
    complaints=r"assertion failure|out of memory|unexpected error|fatal error",
    copied=True,
    checker="named-checkconf",
    zone_checker=("named-checkzone", "-i", "none", "-k", "ignore"),
    refused=r"zone (?P<what>\S+?)/IN(?:/\S+)?: (?:loading from master file .+ failed: )?(?P<why>.+)$"
    r"(?=\n.*zone (?P=what)/IN\S*: not loaded due to errors\.$)",
    shows='{program} -C | sed "/^};/q"; named-checkconf -px "$1" | sed -n "/^options {/,/^};/p"',
    conditions=(
        Condition(Title.CONNECTIONS, "tcp-clients"),
        Condition(Title.IDLE, "tcp-idle-timeout", 0.1),
        Condition(Title.UDP_SIZE, "max-udp-size"),
        Condition(Title.EDNS_SIZE, "edns-udp-size"),
        Condition(Title.RATE_LIMIT, "responses-per-second"),
        Condition("minimal answers", "minimal-responses"),
        Condition(Title.MINIMIZATION, "qname-minimization"),
        Condition(Title.CACHE, "max-cache-size", 1e-6),
    ),
    idle_step_s=0.1,
    longest_idle_s=120.0,
    largest_edns=4096,
    authoritative=config,
    resolver=resolver,
    counted=counted,
    sees_early=True,
)
