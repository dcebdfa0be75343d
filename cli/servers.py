"""Configurations of the servers under test, as pure functions.

Every setting that bends a measurement is set here and nowhere else: no response rate limiting (NSD's default
loses 31 % at 3,000 q/s from one address), TCP connections well over the peak (above half of tcp-count NSD
cuts idle timeouts to 200 ms), the EDNS sizes of the experiment, no control sockets, no notifies, no
transfers.

TLS has a port of its own. NSD takes a listening socket for it where an address has that port.
"""

from __future__ import annotations

from dataclasses import dataclass

from cli.experiment import Server

_DESCRIPTOR_RESERVE = 512  # what a server process needs beside connections and listening sockets
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
    and TLS where it is wanted.
    """

    folder: str
    zone_file: str
    origin: str
    addresses: tuple[str, ...]
    user: str
    descriptors: int
    tls: Service | None = None


def tcp_count(server: Server, site: Site) -> int:
    """Connections a process may hold: as asked, otherwise what its descriptors allow.

    NSD is told twice that, for it cuts idle timeouts to 200 ms above half of its tcp-count; its descriptors
    stop it before. Every process of NSD keeps the listening sockets of all.
    """
    if server.tcp_count:
        return server.tcp_count
    listening = 3 * len(site.addresses) * (server.processes if server.kind == "nsd" else 1)
    room = max(1_000, min(site.descriptors - _DESCRIPTOR_RESERVE - listening, 200_000))
    return 2 * room if server.kind == "nsd" else room


def nsd_config(server: Server, site: Site) -> str:
    """nsd.conf for one authoritative zone."""
    ports = (server.port, *((site.tls.port,) if site.tls else ()))
    listen = "".join(f"    ip-address: {one}@{port}\n" for port in ports for one in site.addresses)
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
    directory "{site.folder}";
    managed-keys-directory "{site.folder}";
    pid-file none;
    lock-file none;
    session-keyfile none;
    listen-on port {server.port} {{ {four} }};
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
