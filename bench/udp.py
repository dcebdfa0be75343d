"""`reprise bench udp`: what a query with its answer costs the client, in processor time."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from bench import traces
from bench.session import Options, Session, Step, chosen, run_all
from bench.tools import Program, Reprise, dnsperf, kxdpgun


@dataclass(frozen=True)
class Size:
    queries: int
    names: int
    sources: int
    dnsperf_clients: int
    gun_rate: int
    gun_seconds: int


def size(options: Options) -> Size:
    """A quick run proves only that everything works."""
    if options.quick:
        return Size(10_000, 1000, min(options.sources, 1000), 100, 20_000, 1)
    return Size(1_500_000, 100_000, options.sources, 10_000, 800_000, 2)


def few_sockets(data: Path, runs: int) -> Program:
    """What the cost of other things is compared with, so that its check is the same on every machine."""
    return dnsperf(clients=10, outstanding=100, data=data, runs=runs)


def steps(session: Session) -> list[Step]:
    """The runs of one repeat; a pair's two runs follow each other."""
    how = size(session.options)
    names, few, many = (session.traces / name for name in ("names.txt", "few.pcap", "many.pcap"))
    loops = how.queries // how.names
    closed = ("--fast", "--in-flight")
    ten = few_sockets(names, loops)
    return [
        Step("few-sockets", "dnsperf", ten, reference_of=("many-sources", "fast-mode")),
        Step("few-sockets", "reprise", Reprise(few, (*closed, "100"))),
        Step("many-sources", "dnsperf", dnsperf(how.dnsperf_clients, 100, names, loops)),
        Step("many-sources", "reprise", Reprise(many, (*closed, "100")), "addresses"),
        Step("fast-mode", "dnsperf", ten),
        Step("fast-mode", "reprise-xdp", Reprise(many, (*closed, "200")), "packet"),
        Step("fast-mode", "kxdpgun", kxdpgun(how.gun_rate, how.gun_seconds, names)),
    ]


def measure(session: Session) -> None:
    todo, how, folder = chosen(steps(session), session.options.only), size(session.options), session.traces
    # Data file and captures with the same questions.
    traces.write_dnsperf(folder / "names.txt", how.names)
    traces.write_pcap(folder / "few.pcap", how.queries, 10, how.names)
    traces.write_pcap(folder / "many.pcap", how.queries, how.sources, how.names)
    run_all(session, todo)
    shutil.rmtree(folder)  # large, and made again in seconds; the counts do not need them
