"""`reprise bench timing`: how far from its due time each query arrives at the server."""

from dataclasses import dataclass, replace
from pathlib import Path

from bench.session import Options, Session, Step, chosen, make, pack, run_all
from bench.tools import Reprise, drool
from cli import programs


@dataclass(frozen=True)
class Shape:
    """A trace: its row in the table, the arrivals' kind and rate, the clients, seconds."""

    row: str
    arrival: str
    rate: int
    clients: int
    seconds: int


_SHAPES = (
    Shape("gap-10ms", "fixed", 100, 100, 3),
    Shape("gap-1ms", "fixed", 1000, 1000, 3),
    Shape("gap-0.1ms", "fixed", 10_000, 10_000, 8),
    Shape("poisson-38k", "poisson", 38_000, 100_000, 8),
)
_QUICK = (Shape("gap-10ms", "fixed", 100, 10, 1), Shape("poisson-1k", "poisson", 1000, 100, 1))

_DROOL_S = 3  # of each trace


def shapes(options: Options) -> tuple[Shape, ...]:
    found = _QUICK if options.quick else _SHAPES
    return tuple(replace(shape, seconds=options.seconds or shape.seconds) for shape in found)


def steps(session: Session) -> list[Step]:
    """Ours with and without spinning before each send, and drool, which replay a trace with its timing."""
    found = []
    for shape in shapes(session.options):
        trace, coarse = _traces(session, shape)
        spinning = Reprise(trace, ("--realtime", "--spin-us", "30"))
        found += [
            Step(shape.row, "reprise", Reprise(trace, ("--realtime",)), "addresses", capture=True),
            Step(shape.row, "reprise-spin", spinning, "addresses", capture=True),
            Step(shape.row, "drool", drool(coarse), capture=True),
        ]
    return found


def prepare(session: Session, shape: Shape) -> None:
    """A trace, and what of it goes to drool, which at 38,000 queries/s takes three times as long.

    That copy has microseconds: drool 2.0.0 takes nanoseconds for microseconds and ends.
    """
    trace, coarse = _traces(session, shape)
    argv = [programs.own("reprise-mutator"), "synth", "--arrival", shape.arrival, "--rate", str(shape.rate)]
    argv += ["--duration", str(shape.seconds), "--clients", str(shape.clients), "--tcp-share", "0"]
    argv += ["--client-prefix", "10.0.0.0/8", "--zipf", "0.8", "-o", str(trace)]
    make(argv)
    first = f"1-{shape.rate * min(shape.seconds, _DROOL_S)}"
    make([programs.packaged("editcap"), "-F", "pcap", "-r", str(trace), str(coarse), first])


def measure(session: Session) -> None:
    todo = chosen(steps(session), session.options.only)
    rows = {step.row for step in todo}
    for shape in shapes(session.options):
        if shape.row in rows:
            prepare(session, shape)
    run_all(session, todo)
    for file in session.traces.iterdir():
        pack(file)


def _traces(session: Session, shape: Shape) -> tuple[Path, Path]:
    return session.traces / f"{shape.row}.pcap", session.traces / f"{shape.row}-us.pcap"
