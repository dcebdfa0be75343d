"""NSD: an authoritative server, and one of the engines of a hierarchy (see slots.py).

Every setting that bends a measurement is set here and nowhere else: no response rate limiting unless it is
asked for (NSD's default loses 31 % at 3,000 q/s from one address), TCP connections well over the peak (above
half of tcp-count NSD cuts idle timeouts to 200 ms), the EDNS sizes of the experiment, no control sockets.

TLS has a port of its own. NSD takes a listening socket for it where an address has that port.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

from cli.servers import kind
from cli.servers.kind import Condition, ServerKind, Service, Serving, Site, Title
from cli.servers.running import tree

_MOST_LISTENERS = 64  # processes; NSD opens so many UDP sockets for each, which nobody needs then
_PATIENCE_S = 1.0  # with its processes, which count apart
_EACH_S = 0.02
_TAIL = 65_536  # bytes of its log in which each of them has a line
_COUNTS = re.compile(r"nsd\[(\d+)\]: \w+: XSTATS (.+)\n")
_SLEPT = re.compile(r"^voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)


def tcp_count(server: kind.Server, site: Site) -> int:
    """Connections a process may hold: as asked, otherwise what its descriptors allow.

    NSD is told twice that: above half of its tcp-count it cuts idle timeouts to 200 ms, and its descriptors
    shall be gone before. Then it only takes no more connections, which is left to its other processes.
    """
    return server.tcp_count or 2 * min(max(1_000, site.descriptors), 200_000)


def config(server: kind.Server, site: Site) -> str:
    zones = "".join(f'zone:\n    name: "{name}"\n    zonefile: "{file}"\n' for name, file in site.zones)
    listen = "".join(f"    ip-address: {one}\n" for one in _addresses(server, site))
    lines = shared_lines(
        site.user, site.folder, "", server.edns_size, server.minimal_responses, tcp_count(server, site)
    )
    return f"""server:
{listen}    server-count: {server.processes}
    reuseport: {"yes" if server.processes > 1 else "no"}
    identity: "reprise"
    tcp-timeout: {round(server.tcp_idle_timeout_s)}
    rrl-ratelimit: {server.rrl}
    rrl-whitelist-ratelimit: {server.rrl}
{tls_lines(site.tls)}{lines}{zones}{site.extra}"""


def shared_lines(
    user: str, folder: str, suffix: str, edns_size: int, minimal_responses: bool, connections: int
) -> str:
    """What each nsd.conf has; `suffix`: of files that several in one folder have for themselves."""
    return f"""    username: "{user}"
    zonesdir: "{folder}"
    database: ""
    zonelistfile: "{folder}/zone{suffix}.list"
    xfrdfile: "{folder}/xfrd{suffix}.state"
    xfrdir: "{folder}"
    pidfile: ""
    verbosity: 1
    zonefiles-check: no
    zonefiles-write: 0
    minimal-responses: {"yes" if minimal_responses else "no"}
    refuse-any: no
    round-robin: no
    ipv4-edns-size: {edns_size}
    ipv6-edns-size: {edns_size}
    tcp-count: {connections}
    tcp-query-count: 0
remote-control:
    control-enable: no
"""


def _addresses(server: kind.Server, site: Site) -> list[str]:
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


def tls_lines(service: Service | None) -> str:
    if service is None:
        return ""
    return f"""    tls-port: {service.port}
    tls-service-key: "{service.key}"
    tls-service-pem: "{service.certificate}"
"""


def counted(server: Serving) -> dict[str, int]:
    """By its log, into which each of its processes that has counted anything writes so after a signal.

    One that writes nothing has woken and gone to sleep again, or is busy: that is waited for.
    `nsd-control stats_noreset` is not asked: up to release 4.7 NSD starts all its processes anew for it.
    """
    begin = server.log.stat().st_size
    said = _said(server.log, max(0, begin - _TAIL))
    waiting = _slept(server.process)
    os.kill(server.process, signal.SIGUSR1)
    end, now = time.monotonic() + _PATIENCE_S, dict[str, str]()
    while waiting and time.monotonic() < end:
        time.sleep(_EACH_S)
        slept, now = _slept(server.process), _said(server.log, begin)
        waiting = {one: was for one, was in waiting.items() if slept.get(one) == was and one not in now}
    time.sleep(_EACH_S)  # it may have slept before it wrote
    now = _said(server.log, begin)
    if not now:
        raise ValueError(f"{server.log.name} has no new counts of NSD")
    counts = [dict(one.split("=") for one in line.split() if "=" in one) for line in (said | now).values()]

    def sum_of(name: str) -> int:
        return sum(int(one[name]) for one in counts)

    if server.tls:  # which it counts neither as TCP nor as answered
        return {"queries": sum_of("RQ")}
    return {
        "queries": sum_of("RQ"),
        "tcp_queries": sum_of("RTCP"),
        "answers": sum_of("SAns") + sum_of("RTCP"),
    }


def _slept(process: int) -> dict[str, str]:
    """How many times each of the processes that answer queries, which have none below them, has slept."""
    found = dict[str, str]()
    for proc in tree(process):
        with contextlib.suppress(OSError):  # it has ended
            text = (proc / "status").read_text(encoding="utf-8")
            if not any(task.read_text(encoding="ascii") for task in proc.glob("task/*/children")):
                found[proc.name] = _SLEPT.findall(text)[0]
    return found


def _said(log: Path, begin: int) -> dict[str, str]:
    """The last counts of each process in its log from a place on; those that have ended count no more."""
    with log.open("rb") as file:
        file.seek(begin)
        found = _COUNTS.findall(file.read().decode("utf-8", "replace"))
    return {process: counts for process, counts in found if Path("/proc", process).exists()}


KIND = ServerKind(
    "NSD",
    program="nsd",
    asks="-v",
    user="nsd",
    tested=("4.6", "4.12"),
    packages=("nsd",),
    tools=("nsd-checkconf", "nsd-checkzone"),
    section="run",
    services=("nsd",),
    options=("-d", "-c", "{config}"),
    complaints=r"died unexpectedly|malloc failed|out of memory|internal error",
    events=r"SIGHUP received, reloading|zone \S+ (?:read with success|written to)|received update to serial",
    reloads=True,
    checker="nsd-checkconf",
    zone_checker=("nsd-checkzone",),
    unused=("tcp_listen_queue",),
    refused=r"error: (?P<why>zone (?P<what>\S+) .+)$",
    shows='nsd-checkconf -v "$1"',
    conditions=(
        Condition(Title.CONNECTIONS, "tcp-count"),
        Condition(Title.IDLE, "tcp-timeout"),
        Condition(Title.UDP_SIZE, "ipv4-edns-size"),
        Condition(Title.RATE_LIMIT, "rrl-ratelimit"),
        Condition("minimal answers", "minimal-responses"),
    ),
    authoritative=config,
    counted=counted,
)
