"""Knot DNS: an authoritative server.

Every setting that bends a measurement is set here and nowhere else: TCP connections over the peak, the EDNS
size of the experiment, no control socket, no changes to the zone, no name of the machine in answers. Its
answers leave out what they need not hold in any case, and it speaks no DNS over TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.servers.kind import CONNECTIONS, IDLE, RATE_LIMIT, UDP_SIZE, Condition, ServerKind, Site

if TYPE_CHECKING:
    from cli.experiment.schema import Server

_DESCRIPTOR_RESERVE = 512  # what it needs beside TCP connections
_SMALLEST_UDP = 512


def config(server: Server, site: Site) -> str:
    """knot.conf for one authoritative zone."""
    listen = ", ".join(f'"{one}@{server.port}"' for one in site.addresses)
    clients = server.tcp_count or max(1_000, min(site.descriptors - _DESCRIPTOR_RESERVE, 200_000))
    idle = max(1, round(server.tcp_idle_timeout_s))
    user = f'    user: "{site.user}:{site.user}"\n' if site.user else ""
    udp = max(_SMALLEST_UDP, min(server.edns_size, 4096))
    modules, limits = "", ""
    if server.rrl:
        modules = f"mod-rrl:\n  - id: rrl\n    rate-limit: {server.rrl}\n"
        limits = "    global-module: mod-rrl/rrl\n"
    return f"""server:
    rundir: "{site.folder}"
    identity: "reprise"
    nsid: ""
{user}    listen: [ {listen} ]
    udp-workers: {server.processes}
    tcp-workers: {server.processes}
    background-workers: 1
    tcp-max-clients: {clients}
    tcp-idle-timeout: {idle}
    udp-max-payload: {udp}
    tcp-reuseport: {"on" if server.processes > 1 else "off"}
log:
  - target: stderr
    any: info
database:
    storage: "{site.folder}"
{modules}template:
  - id: default
{limits}    storage: "{site.folder}"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
    semantic-checks: off
zone:
  - domain: "{site.origin}"
    file: "{site.zone_file}"
{site.extra}"""


KIND = ServerKind(
    "Knot DNS",
    program="knotd",
    asks="-V",
    user="knot",
    tested=("3.2", "3.4"),
    section="knot",
    services=("knot",),
    options=("-c", "{config}"),
    complaints=r"critical:|not enough memory|out of memory",
    reloads=True,
    checker="knotc",
    checks=("-c", "{file}", "conf-check"),
    zone_checker=("named-checkzone", "-i", "none", "-k", "ignore"),
    over_tls=False,
    shows='knotc -c "$1" conf-export',
    conditions=(
        Condition(CONNECTIONS, "tcp-max-clients"),
        Condition(IDLE, "tcp-idle-timeout"),
        Condition(UDP_SIZE, "udp-max-payload"),
        Condition(RATE_LIMIT, "rate-limit"),
    ),
    authoritative=config,
)
