"""`reprise bench stateless`: what a query costs a real server over UDP, TCP and the statelessTCP fronts.

Parts of the table: `rates` (each server, rate and way, replies of 100 bytes), `sizes` (replies of other sizes
at one rate) and `flood` (SYNs from addresses that nobody has).

The client's side, our controller, the bench itself and its watch run on core 0. Core 1 is the server's: the
server, the front and the kernel thread that receives at the server's interface.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bench import traces, veth
from bench.bed import CLIENT, CLIENT_CORE, CLIENT_IF, SERVER, SERVER_CORE, SERVER_IF, Bed
from bench.session import Options, Session, Step, run_all, want_rows
from bench.tools import Reprise, Sink
from cli import programs
from cli.experiment.schema import Server
from cli.plan import network
from cli.process import Process
from cli.servers import bind, nsd
from cli.servers.kind import Site
from tests.bed import below

EDNS_SIZE = 4096  # of the queries, and the most that the servers send over UDP
NAMES = 200  # of each size of reply
STATISTICS = "front.json"
_MOST_IN_STRING = 255  # of TXT data
_BESIDE_RDATA = 12 + 4 + 12 + 11  # header, type and class of the question, record, OPT
Kind = Literal["bind", "nsd"]
# How its configuration is made, its program and options, what it says when it is ready.
_SERVERS: dict[Kind, tuple[Callable[[Server, Site], str], str, tuple[str, ...], str]] = {
    "bind": (bind.config, "named", ("-g", "-n", "1"), " running\n"),
    "nsd": (nsd.config, "nsd", ("-d",), "nsd started"),
}
_APEX = """$ORIGIN .
. 300 IN SOA ns. hostmaster. 1 3600 600 86400 300
. 300 IN NS ns.
ns. 300 IN A 192.0.2.1
"""
PARTS = ("rates", "sizes", "flood")
SMALL = 100  # bytes of a reply
_TXT = 16
_SOURCES = 100
_CLIENT = "198.19.1.1"  # its address at the link to the server


@dataclass(frozen=True)
class Way:
    """How queries reach the server: the transport, and the front where there is one."""

    name: str
    transport: tuple[str, ...]  # the controller's options
    front: tuple[str, ...] = ()  # options of `reprise-proxy stateless`
    cookies: str = "1"  # net.ipv4.tcp_syncookies: 1 where the queue of half-open ones is full, 2 always


_SINGLE = ("--transport", "stateless-tcp")
UDP = Way("udp", ("--transport", "udp"))
TCP = Way("tcp", _SINGLE)
TCP_COOKIES = Way("tcp-cookies", _SINGLE, cookies="2")
PERSISTENT = Way("tcp-persistent", ("--transport", "tcp", "--idle-timeout-s", "600"))
REFERENCE = Way("reference", _SINGLE, ("--front", "reference", "--active", "1"))
REFERENCE_AXFR = Way("reference-axfr", _SINGLE, (*REFERENCE.front, "--axfr-detect", "1"))
BPF = Way("bpf", _SINGLE, ("--front", "bpf"))
BPF_NO_AXFR = Way("bpf-no-axfr", _SINGLE, (*BPF.front, "--axfr-detect", "0"))

_RATE_WAYS = (UDP, TCP, PERSISTENT, REFERENCE, REFERENCE_AXFR, BPF, BPF_NO_AXFR)
_SIZE_WAYS = (UDP, TCP, REFERENCE, BPF)
_FLOOD_WAYS = (TCP, TCP_COOKIES, BPF)
# The loss is what is measured. One query a connection needs no more than that.
_PATIENCE = ("--late-ms", "0", "--max-lateness-s", "20")


@dataclass(frozen=True)
class Size:
    """How much is sent. Quick: enough to see that everything works."""

    rates: tuple[int, ...] = (500, 2_000, 5_000, 10_000)
    sizes: tuple[int, ...] = (SMALL, 500, 1_200, 2_000, 4_000)  # bytes of a reply
    sizes_rate: int = 2_000
    seconds: int = 5
    flood_rate: int = 200_000  # SYNs a second
    flood_queries: int = 500  # a second, of clients beside them
    flood_seconds: int = 10


_QUICK = Size((500,), (SMALL, 2_000), 500, 1, 10_000, 100, 2)


@dataclass(frozen=True)
class Case:
    """A run: queries of one rate and size of reply to one server in one way."""

    part: str
    row: str
    server: Kind
    way: Way
    rate: int
    size: int
    seconds: int
    flood: int = 0  # SYNs a second beside the queries


def size(options: Options) -> Size:
    how = _QUICK if options.quick else Size()
    if options.seconds is None:
        return how
    return replace(how, seconds=options.seconds, flood_seconds=options.seconds)


def cases(how: Size) -> list[Case]:
    """The runs of one repeat with queries, all ways of a row in turn."""
    found = [
        Case("rates", f"rates-{server}-{rate}", server, way, rate, SMALL, how.seconds)
        for server in _SERVERS
        for rate in how.rates
        for way in _RATE_WAYS
    ]
    found += [
        Case("sizes", f"sizes-{server}-{reply}", server, way, how.sizes_rate, reply, how.seconds)
        for server in _SERVERS
        for reply in how.sizes
        for way in _SIZE_WAYS
    ]
    found += [
        Case("flood", "flood", "bind", way, how.flood_queries, SMALL, how.flood_seconds, how.flood_rate)
        for way in _FLOOD_WAYS
    ]
    return found


def wanted(found: list[Case], only: tuple[str, ...]) -> list[Case]:
    known = {*PARTS, *(case.row for case in found)}
    want_rows(only, known)
    return [case for case in found if not only or {case.part, case.row} & set(only)]


def measure(session: Session) -> None:
    how = size(session.options)
    todo = wanted(cases(how), session.options.only)
    zone_file = session.traces / "zone"
    zone_file.write_text(zone(tuple(sorted({SMALL, *how.sizes}))), encoding="ascii")
    steps = [_step(session, case, zone_file) for case in todo]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {SERVER_CORE} or before)  # the bench keeps off the server's core
    try:
        run_all(session, steps)
    finally:
        os.sched_setaffinity(0, before)
    shutil.rmtree(session.traces)  # made again in seconds


def _step(session: Session, case: Case, zone_file: Path) -> Step:
    trace = session.traces / f"{case.rate}-{case.size}-{case.seconds}.pcap"
    if not trace.exists():
        queries, gap_us = case.rate * case.seconds, 1_000_000 // case.rate
        traces.write_pcap(trace, queries, _SOURCES, names(case.size), gap_us, _TXT, traces.OPT)
    tool = Reprise(trace, (*_PATIENCE, *case.way.transport), controller_core=CLIENT_CORE)
    served = Served(case.server, zone_file, case.way, case.flood)
    mode = "ports" if case.flood else "addresses"
    return Step(case.row, case.way.name, tool, mode, sink=served, plain=True)


# --- the zone ---------------------------------------------------------------------------------------------


def names(size: int) -> list[str]:
    """Whose TXT records make replies of so many bytes."""
    return [f"n{number:03d}.s{size}.bench.example" for number in range(NAMES)]


def zone(sizes: tuple[int, ...]) -> str:
    """A root zone with the names of all sizes."""
    lines = (f"{name}. 300 IN TXT {_strings(size)}\n" for size in sizes for name in names(size))
    return _APEX + "".join(lines)


def _strings(size: int) -> str:
    """Of a record: as many bytes as the reply has left for it."""
    left = size - _BESIDE_RDATA - (len(names(size)[0]) + 2)
    whole, rest = divmod(left, 1 + _MOST_IN_STRING)
    lengths = [_MOST_IN_STRING] * whole + [rest - 1] * (rest > 0)
    if rest == 1:  # a string of its own needs two
        lengths[-2:] = [_MOST_IN_STRING - 1, 1]
    return " ".join('"' + "x" * length + '"' for length in lengths)


# --- the server -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Served(Sink):
    """BIND or NSD with one thread or process on the server's core, the front where the way has one, and where
    it is told a flood.
    """

    kind: Kind
    zone_file: Path
    way: Way
    flood: int = 0  # SYNs a second

    def start(self, bed: Bed, captured: bool) -> list[Process]:
        # As on a wire, and without segmentation, which needs the offload; the receiver verifies them.
        veth.set_offloads(bed.hosts.of(CLIENT), CLIENT_IF, {veth.SEND_CHECKSUMS: False})
        with bed.inside(network.SERVER):
            Path("/proc/sys/net/ipv4/tcp_syncookies").write_text(self.way.cookies, encoding="ascii")
        file = str(self.zone_file)
        settings = Server(
            kind=self.kind, zone=file, edns_size=EDNS_SIZE, minimal_responses=True, tcp_idle_timeout_s=60
        )
        make, program, options, ready = _SERVERS[self.kind]
        config = bed.folder / f"{self.kind}.conf"
        config.write_text(make(settings, bed.site(zone=self.zone_file)), encoding="ascii")
        copy = programs.copied(program, bed.folder)
        argv = [copy, *options, "-c", str(config)]
        found = [bed.start(network.SERVER, argv, "server", SERVER_CORE).until(ready)]
        Path(copy).unlink()
        if self.way.front:
            argv = [programs.own("reprise-proxy"), "stateless", "--interface", SERVER_IF]
            argv += ["--stats", str(bed.folder / STATISTICS), *self.way.front]
            found.append(bed.start(network.SERVER, argv, "front", SERVER_CORE).until("event=ready"))
        bed.receive_in_threads()  # last: a front may change the interface's settings
        return [*found, *([_start_flood(bed, self.flood)] if self.flood else [])]

    def read(self, bed: Bed, when: str) -> None:
        """Readings of the server, the front, the core and both hosts' counters of TCP as well."""
        for program in bed.started:
            if program.name in ("server", "front"):
                bed.log.processes([program.pid, *below(program.pid)], when, program.name)
        name = f"ksoftirqd/{SERVER_CORE}"  # does softirq work which that core has put off
        for pid in veth.processes_named(name):
            bed.log.process(when, "ksoftirqd", pid, "schedstat")
        bed.log.file(when, "machine", "cpu", Path("/proc/stat"))
        for who, host in (("client", CLIENT), ("server", network.SERVER)):
            with bed.inside(host):
                for kind in ("snmp", "netstat"):
                    bed.log.file(when, who, kind, Path("/proc/thread-self/net") / kind)
        super().read(bed, when)


def _start_flood(bed: Bed, rate: int) -> Process:
    """SYNs from addresses whose way back leads to the client's host, which drops the SYN/ACKs."""
    bed.ip(network.SERVER, "route", "add", "default", "via", _CLIENT)
    for thread in bed.threads.values():  # as the softirq of a network card, before all processes
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    mac = (bed.sysfs(network.SERVER) / "class/net" / SERVER_IF / "address").read_text(encoding="ascii")
    argv = [programs.own("reprise-flood"), CLIENT_IF, SERVER, "--mac", mac.strip(), "--rate", str(rate)]
    return bed.start(CLIENT, argv, "flood", CLIENT_CORE).until("event=sending")
