"""Configurations of the servers under test, as pure functions.

Every setting that bends a measurement is set here and nowhere else: no response rate limiting (NSD's default
loses 31 % at 3,000 q/s from one address), TCP connections well over the peak (above half of tcp-count NSD
cuts idle timeouts to 200 ms), the EDNS sizes of the experiment, no control sockets, no notifies, no
transfers.

TLS has a port of its own. NSD takes a listening socket for it where an address has that port.
"""

from __future__ import annotations

from dataclasses import dataclass

from cli.experiment.schema import Server
from cli.servers import named_lines

_DESCRIPTOR_RESERVE = 512  # what BIND needs beside its TCP connections
_MOST_LISTENERS = 64  # processes; NSD opens so many UDP sockets for each, which nobody needs then
_BIND_MAX_UDP = 4096  # named's own upper limit of max-udp-size
_BIND_MAX_IDLE = 1200  # named's upper limit of tcp-idle-timeout, in units of 100 ms


@dataclass(frozen=True)
class Service:
    """DNS over TLS: its port, and the files of the key and the certificate."""

    port: int
    key: str
    certificate: str


@dataclass(frozen=True)
class Site:
    """Where a server runs: its folder, addresses, the user it drops to ("" = none), a process's descriptors,
    TLS where it is wanted, and the server's version.
    """

    folder: str
    zone_file: str
    origin: str
    addresses: tuple[str, ...]
    user: str
    descriptors: int
    tls: Service | None = None
    connections_only: bool = False  # no query comes over UDP
    version: str = ""


def tcp_count(server: Server, site: Site) -> int:
    """Connections a process may hold: as asked, otherwise what its descriptors allow.

    NSD is told twice that: above half of its tcp-count it cuts idle timeouts to 200 ms, and its descriptors
    shall be gone before. Then it only takes no more connections, which is left to its other processes.
    """
    if server.tcp_count:
        return server.tcp_count
    if server.kind == "nsd":
        return 2 * min(max(1_000, site.descriptors), 200_000)
    return max(1_000, min(site.descriptors - _DESCRIPTOR_RESERVE, 200_000))


def nsd_config(server: Server, site: Site) -> str:
    """nsd.conf for one authoritative zone."""
    listen = "".join(f"    ip-address: {one}\n" for one in _nsd_addresses(server, site))
    minimal = "yes" if server.minimal_responses else "no"
    return f"""server:
{listen}    server-count: {server.processes}
    reuseport: {"yes" if server.processes > 1 else "no"}
    username: "{site.user}"
    zonesdir: "{site.folder}"
    database: ""
    zonelistfile: "{site.folder}/zone.list"
    xfrdfile: "{site.folder}/xfrd.state"
    xfrdir: "{site.folder}"
    pidfile: ""
    verbosity: 1
    identity: "reprise"
    zonefiles-check: no
    zonefiles-write: 0
    minimal-responses: {minimal}
    refuse-any: no
    round-robin: no
    ipv4-edns-size: {server.edns_size}
    ipv6-edns-size: {server.edns_size}
    tcp-count: {tcp_count(server, site)}
    tcp-query-count: 0
    tcp-timeout: {max(1, round(server.tcp_idle_timeout_s))}
{_nsd_tls(site.tls)}    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: "{site.origin}"
    zonefile: "{site.zone_file}"
"""


def _nsd_addresses(server: Server, site: Site) -> list[str]:
    """Where NSD listens: with several processes, each has a socket of its own where only connections come.

    Otherwise they take connections off one socket, whose queue is 256 long, as they come: one process may get
    twice as many as another. Told apart by `servers`, they share connections alike, and UDP not at all.
    """
    plain = [f"{one}@{server.port}" for one in site.addresses]
    tls = [f"{one}@{site.tls.port}" for one in site.addresses] if site.tls else []
    if not 1 < server.processes <= _MOST_LISTENERS:
        return plain + tls
    numbers = range(1, server.processes + 1)
    alone = (plain if site.connections_only else []) + tls
    shared = [] if site.connections_only else plain
    return shared + [f"{one} servers={number}" for one in alone for number in numbers]


def _nsd_tls(service: Service | None) -> str:
    if service is None:
        return ""
    return f"""    tls-port: {service.port}
    tls-service-key: "{service.key}"
    tls-service-pem: "{service.certificate}"
"""


def bind_config(server: Server, site: Site) -> str:
    """named.conf for one authoritative zone."""
    four = " ".join(f"{address};" for address in site.addresses if ":" not in address) or "none;"
    six = " ".join(f"{address};" for address in site.addresses if ":" in address) or "none;"
    idle = max(1, min(round(server.tcp_idle_timeout_s * 10), _BIND_MAX_IDLE))
    udp = min(server.edns_size, _BIND_MAX_UDP)
    blocks, listen = _bind_tls(site.tls, four, six)
    return f"""{blocks}options {{
{named_lines.own_folder(site.folder, site.version)}    listen-on port {server.port} {{ {four} }};
    listen-on-v6 port {server.port} {{ {six} }};
{listen}    recursion no;
    allow-query {{ any; }};
    allow-transfer {{ none; }};
    notify no;
    dnssec-validation no;
    empty-zones-enable no;
    minimal-responses {"yes" if server.minimal_responses else "no"};
    max-udp-size {udp};
    edns-udp-size {udp};
    nocookie-udp-size {udp};
    tcp-clients {min(tcp_count(server, site), 1_000_000)};
    tcp-idle-timeout {idle};
    tcp-keepalive-timeout {idle};
    tcp-listen-queue {server.tcp_listen_queue};
    zone-statistics none;
}};
controls {{ }};
zone "{site.origin}" {{
    type primary;
    file "{site.zone_file}";
    check-integrity no;
    check-names ignore;
    notify no;
}};
"""


def _bind_tls(service: Service | None, four: str, six: str) -> tuple[str, str]:
    """The block that describes TLS, and the lines that listen for it."""
    if service is None:
        return "", ""
    block = f"""tls service {{
    key-file "{service.key}";
    cert-file "{service.certificate}";
    protocols {{ TLSv1.2; TLSv1.3; }};
    session-tickets yes;
}};
"""
    listen = f"""    listen-on port {service.port} tls service {{ {four} }};
    listen-on-v6 port {service.port} tls service {{ {six} }};
"""
    return block, listen
