"""`reprise bench stateless`: what a query costs the server over UDP, TCP and the statelessTCP fronts.

Parts of the table: `rates` (each server, rate and way, replies of 100 bytes), `sizes` (replies of other sizes
at one rate) and `flood` (SYNs from addresses that nobody has).
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from bench import traces
from bench.bed import CLIENT, CLIENT_CORE, CLIENT_IF, SERVER, SERVER_IF
from bench.session import Options, Session, want_rows
from bench.stateless_bed import (
    BPF,
    BPF_NO_AXFR,
    PERSISTENT,
    REFERENCE,
    REFERENCE_AXFR,
    TCP,
    TCP_COOKIES,
    UDP,
    Kind,
    ServedBed,
    Way,
    command_lines,
    names,
    pin_bench,
    served,
    zone,
)
from bench.tools import Reprise
from cli import programs
from cli.errors import complain
from cli.plan import network
from cli.process import Process

PARTS = ("rates", "sizes", "flood")
SERVERS: tuple[Kind, ...] = ("bind", "nsd")
SMALL = 100  # bytes of a reply
_TXT = 16
_SOURCES = 100
_CLIENT = "198.19.1.1"  # its address at the link to the server
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
    """By what the user asked for."""
    how = _QUICK if options.quick else Size()
    if options.seconds is None:
        return how
    return replace(how, seconds=options.seconds, flood_seconds=options.seconds)


def cases(how: Size) -> list[Case]:
    """The runs of one repeat with queries, all ways of a row in turn."""
    found = [
        Case("rates", f"rates-{server}-{rate}", server, way, rate, SMALL, how.seconds)
        for server in SERVERS
        for rate in how.rates
        for way in _RATE_WAYS
    ]
    found += [
        Case("sizes", f"sizes-{server}-{reply}", server, way, how.sizes_rate, reply, how.seconds)
        for server in SERVERS
        for reply in how.sizes
        for way in _SIZE_WAYS
    ]
    found += [
        Case("flood", "flood", "bind", way, how.flood_queries, SMALL, how.flood_seconds, how.flood_rate)
        for way in _FLOOD_WAYS
    ]
    return found


def wanted(found: list[Case], only: tuple[str, ...]) -> list[Case]:
    """The cases of the parts or rows that the user asked for."""
    known = {*PARTS, *(case.row for case in found)}
    want_rows(only, known)
    return [case for case in found if not only or {case.part, case.row} & set(only)]


def measure(session: Session) -> None:
    """All repeats, the ways in turn."""
    how = size(session.options)
    todo = wanted(cases(how), session.options.only)
    zone_file = session.traces / "zone"
    zone_file.write_text(zone(tuple(sorted({SMALL, *how.sizes}))), encoding="ascii")
    before = pin_bench()
    try:
        for repeat in range(session.options.repeats):
            for case in todo:
                _run(session, case, repeat, zone_file)
    finally:
        os.sched_setaffinity(0, before)
    shutil.rmtree(session.traces)  # made again in seconds


def _trace(session: Session, case: Case) -> Path:
    """The queries of a case, made once."""
    path = session.traces / f"{case.rate}-{case.size}-{case.seconds}.pcap"
    if not path.exists():
        queries = case.rate * case.seconds
        gap_us = 1_000_000 // case.rate
        traces.write_pcap(path, queries, _SOURCES, names(case.size), gap_us, _TXT, traces.OPT)
    return path


def _run(session: Session, case: Case, repeat: int, zone_file: Path) -> None:
    folder = session.next_folder(case.row, case.way.name)
    complain(f"bench: {folder.name} (repeat {repeat + 1} of {session.options.repeats})")
    tool = Reprise(_trace(session, case), (*_PATIENCE, *case.way.transport), controller_core=CLIENT_CORE)
    mode = "ports" if case.flood else "addresses"
    with served(folder, case.server, zone_file, case.way, mode) as bed:
        flood = _start_flood(bed, case.flood) if case.flood else None
        bed.read("before")
        argvs = tool.run(bed)
        bed.read("after")
        if flood:
            flood.stop(signal.SIGINT)
            argvs.append([*flood.argv])
        argvs += command_lines(bed)
        bed.stop_measured()
    session.note(
        folder,
        row=case.row,
        tool=case.way.name,
        repeat=repeat,
        argv=argvs,
        server=case.server,
        rate=case.rate,
        size=case.size,
        flood=case.flood,
    )


def _start_flood(bed: ServedBed, rate: int) -> Process:
    """SYNs from addresses whose way back leads to the client's host, which drops the SYN/ACKs."""
    bed.ip(network.SERVER, "route", "add", "default", "via", _CLIENT)
    for thread in bed.threads.values():  # as the softirq of a network card, before all processes
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    mac = (bed.sysfs(network.SERVER) / "class/net" / SERVER_IF / "address").read_text(encoding="ascii")
    argv = [programs.own("reprise-flood"), CLIENT_IF, SERVER, "--mac", mac.strip(), "--rate", str(rate)]
    return bed.start(CLIENT, argv, "flood", CLIENT_CORE).until("event=sending")
