"""Knot DNS: an authoritative server.

Every setting that bends a measurement is set here and nowhere else: TCP connections over the peak, the EDNS
size of the experiment, no changes to the zone, no name of the machine in answers. Its answers leave out what
they need not hold in any case, and it speaks no DNS over TLS. It counts queries where a module is told to,
which counts no more than is asked of it here.
"""

from __future__ import annotations

import re

from cli.servers import kind
from cli.servers.kind import Condition, ServerKind, Serving, Site, Title, asked

_COUNTS = """mod-stats:
  - id: counted
    request-protocol: on
    server-operation: on
    response-code: on
    request-bytes: off
    response-bytes: off
"""


def config(server: kind.Server, site: Site) -> str:
    zones = "".join(f'  - domain: "{name}"\n    file: "{file}"\n' for name, file in site.zones)
    listen = ", ".join(f'"{one}@{server.port}"' for one in site.addresses)
    user = f'    user: "{site.user}:{site.user}"\n' if site.user else ""
    limits = f"mod-rrl:\n  - id: rrl\n    rate-limit: {server.rrl}\n" if server.rrl else ""
    modules = ", ".join((*(("mod-rrl/rrl",) if server.rrl else ()), "mod-stats/counted"))
    return f"""server:
    rundir: "{site.folder}"
    identity: "reprise"
    nsid: ""
{user}    listen: [ {listen} ]
    udp-workers: {server.processes}
    tcp-workers: {server.processes}
    background-workers: 1
    tcp-max-clients: {site.connections(server)}
    tcp-idle-timeout: {round(server.tcp_idle_timeout_s)}
    udp-max-payload: {server.edns_size}
    tcp-reuseport: {"on" if server.processes > 1 else "off"}
log:
  - target: stderr
    any: info
database:
    storage: "{site.folder}"
{limits}{_COUNTS}template:
  - id: default
    global-module: [ {modules} ]
    storage: "{site.folder}"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
    semantic-checks: off
zone:
{zones}{site.extra}"""


def counted(server: Serving) -> dict[str, int]:
    """By knotc, over the server's own socket."""
    said = asked("knotc", "-s", f"{server.folder}/knot.sock", "stats", "mod-stats")
    found = re.findall(r"^mod-stats\.([a-z-]+)\[([^\]]+)\] = (\d+)$", said, re.MULTILINE)

    def sum_of(counter: str, what: str) -> int:
        return sum(int(count) for name, of, count in found if name == counter and re.match(what, of))

    return {
        "queries": sum_of("server-operation", "query"),
        "tcp_queries": sum_of("request-protocol", "tcp"),
        "answers": sum_of("response-code", ""),
    }


KIND = ServerKind(
    "Knot DNS",
    program="knotd",
    asks="-V",
    user="knot",
    tested=("3.2", "3.4"),
    packages=("knot",),
    tools=("knotc",),
    services=("knot",),
    options=("-c", "{config}"),
    complaints=r"critical:|not enough memory|out of memory",
    reason=r"(?<=error: )config, file .+",
    reloads=True,
    checker="knotc",
    checks=("-c", "{file}", "conf-check"),
    over_tls=False,
    unused=("tcp_listen_queue",),
    largest_edns=4096,
    shows='knotc -c "$1" conf-export',
    conditions=(
        Condition(Title.CONNECTIONS, "tcp-max-clients"),
        Condition(Title.IDLE, "tcp-idle-timeout"),
        Condition(Title.UDP_SIZE, "udp-max-payload"),
        Condition(Title.RATE_LIMIT, "rate-limit"),
    ),
    authoritative=config,
    counted=counted,
)
