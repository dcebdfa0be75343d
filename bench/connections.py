"""`reprise bench tcp` and `tls`: what a query over a connection costs the client, and connections held.

Of those that are held is read once a second, and kept as the kernel gave it: TCP sockets by state in both
namespaces, descriptors and memory of every querier, the kernel's slab memory before the first connection and
while all stand.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench import traces
from bench.bed import CLIENT, Bed
from bench.session import Options, Session, Step, chosen, run_all
from bench.tools import NAME, TLS_PORT, Identity, Reprise, TcpSink, Tool, Tree, dnsperf, floor
from cli.plan import network
from report.hosts import snmp

_IN_FLIGHT = 100
_TLS_IN_FLIGHT = 50
_SINGLE = ("--queries-per-connection", "1")
_STAYING = ("--idle-timeout-s", "600")
_RESUMING_SOURCES = 100  # each begins with a full handshake, so they are few
_PERIOD_S = 1.0
_MEMORY = ("machine", "meminfo", Path("/proc/meminfo"))  # sockets live in the kernel's slabs


@dataclass(frozen=True)
class Size:
    """How much is sent. Quick: enough to see that everything works."""

    sources: int
    single: int  # connections with one query each
    persistent: int  # queries over connections that stay
    names: int
    dnsperf_single: int  # from one address, whose ports must last
    clients: int  # dnsperf's connections where ours are as many as sources
    full: int  # TLS: connections with one query each
    resumed: int
    hold_s: int
    opens: int  # connections a second until they are held
    queriers: int  # 20,000 descriptors each


def size(options: Options) -> Size:
    if options.quick:
        few = min(options.sources, 2000)
        return Size(few, 2000, 10_000, 1000, 1000, 100, 500, 1000, options.seconds or 2, 2000, 2)
    queriers = 1 + options.sources * 5 // 4 // 19_000
    return Size(
        sources=options.sources,
        single=200_000,
        persistent=1_000_000,
        names=100_000,
        dnsperf_single=20_000,
        clients=10_000,
        full=10_000,
        resumed=20_000,
        hold_s=options.seconds or 60,
        opens=5000,
        queriers=queriers,
    )


def closed_loop(transport: str, in_flight: int, *more: str) -> tuple[str, ...]:
    return ("--transport", transport, "--fast", "--in-flight", str(in_flight), *more)


# --- tcp --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tcp:
    session: Session
    how: Size
    plain: TcpSink = field(default_factory=TcpSink)

    def steps(self) -> list[Step]:
        return [*self.one_query(), *self.persistent(), self.hold(), *self.proofs()]

    def prepare(self) -> None:
        """Data files for dnsperf and captures with the same questions."""
        folder, how = self.session.traces, self.how
        traces.write_dnsperf(folder / "names.txt", how.names)
        traces.write_dnsperf(folder / "few-names.txt", how.dnsperf_single)
        traces.write_pcap(folder / "single.pcap", how.single, how.sources, how.names)
        traces.write_pcap(folder / "many.pcap", how.persistent, how.sources, how.names)
        traces.write_pcap(folder / "clients.pcap", how.persistent, how.clients, how.names)
        traces.write_hold(folder / "hold.pcap", how.sources, how.opens, how.hold_s + 6)
        write_proof(self.session)

    def one_query(self) -> list[Step]:
        how, folder = self.how, self.session.traces
        ours = Reprise(folder / "single.pcap", closed_loop("tcp", _IN_FLIGHT, *_SINGLE))
        bare = floor(how.single, _IN_FLIGHT, how.sources)
        theirs = dnsperf(_IN_FLIGHT, _IN_FLIGHT, folder / "few-names.txt", 1, "tcp", a_connection=1)
        row = "one-query"
        return [
            self.step(row, "floor", bare),
            self.step(row, "reprise", ours),
            self.step(row, "dnsperf", theirs),
        ]

    def persistent(self) -> list[Step]:
        """Connections that stay: as many as dnsperf's, and one for each of many addresses."""
        how, folder = self.how, self.session.traces
        options = closed_loop("tcp", _IN_FLIGHT, *_STAYING)
        loops = how.persistent // how.names
        theirs = dnsperf(how.clients, _IN_FLIGHT, folder / "names.txt", loops, "tcp")
        shared = closed_loop("tcp", _IN_FLIGHT // how.queriers, *_STAYING)
        many = Reprise(folder / "many.pcap", shared, queriers=how.queriers)
        row = "persistent"
        return [
            self.step(row, "dnsperf", theirs),
            self.step(row, "reprise", Reprise(folder / "clients.pcap", options)),
            self.step(row, "reprise-many", many),
        ]

    def hold(self) -> Step:
        """All connections at once; the client does not close them."""
        words = ("--transport", "tcp", "--closer", "server", "--max-lateness-s", "20", "--late-ms", "0")
        ours = Reprise(self.session.traces / "hold.pcap", words, queriers=self.how.queriers)
        return Step("hold", "reprise", Hold(ours), "addresses", sink=self.plain, once=True, plain=True)

    def proofs(self) -> list[Step]:
        return proof_steps(self.session, "tcp", (), None)

    def step(self, row: str, name: str, tool: Tool) -> Step:
        """All of ours use the addresses of the trace."""
        return Step(row, name, tool, "addresses", sink=self.plain)


# --- connections held --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hold:
    """A replay whose connections stand until its last query, and the readings taken meanwhile."""

    reprise: Reprise

    def run(self, bed: Bed) -> list[list[str]]:
        bed.log.file("before", *_MEMORY)
        tree = self.reprise.start(bed)
        due = time.monotonic() + _PERIOD_S
        while not tree.controller.has_ended(max(0.0, due - time.monotonic())):
            due += _PERIOD_S
            read_sockets(bed)  # first: the queriers' memory is compared with their number
            read_queriers(bed, tree)
            bed.log.file("during", *_MEMORY)
        return tree.finish()


def read_sockets(bed: Bed) -> None:
    """Established TCP sockets of client and server; the client's hold the one to its controller too."""
    for side, host in (("client", CLIENT), ("server", network.SERVER)):
        begin = time.monotonic_ns()
        with bed.inside(host):
            count = snmp(Path("/proc/self/net/snmp").read_text(encoding="ascii"))["TcpCurrEstab"]
        bed.log.add("during", side, "sockets", established=count, begin_ns=begin)


def read_queriers(bed: Bed, tree: Tree) -> None:
    """Descriptors and memory of the distributor's children."""
    for child in bed.queriers(tree.distributor):
        folder = Path(f"/proc/{child}")
        try:
            descriptors = sum(1 for _ in (folder / "fd").iterdir())
            text = (folder / "smaps_rollup").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        bed.log.add("during", f"querier-{child}", "process", descriptors=descriptors, smaps=text)


# --- tls --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tls:
    """Rows of `bench tls`; TLS 1.3 with the server's certificate verified."""

    session: Session
    how: Size
    identity: Identity

    def steps(self) -> list[Step]:
        return [*self.full(), *self.resumed(), *self.early(), *self.persistent(), *self.proofs()]

    def prepare(self) -> None:
        """Data file for dnsperf and captures with the same questions."""
        folder, how = self.session.traces, self.how
        traces.write_dnsperf(folder / "names.txt", how.names)
        traces.write_dnsperf(folder / "few-names.txt", how.full)
        traces.write_pcap(folder / "full.pcap", how.full, min(how.sources, how.full), how.names)
        traces.write_pcap(folder / "resumed.pcap", how.resumed, _RESUMING_SOURCES, how.names)
        traces.write_pcap(folder / "clients.pcap", _tls_persistent(how), _IN_FLIGHT, how.names)
        write_proof(self.session)

    def full(self) -> list[Step]:
        how, folder = self.how, self.session.traces
        theirs = dnsperf(_TLS_IN_FLIGHT, _TLS_IN_FLIGHT, folder / "few-names.txt", 1, "dot", a_connection=1)
        return [
            self.floor("full", how.full, min(how.sources, how.full)),
            self.step("full", "reprise", Reprise(folder / "full.pcap", self.single())),
            self.step("full", "dnsperf", theirs),
        ]

    def resumed(self) -> list[Step]:
        """A resumed handshake for each query but the first of a source."""
        ours = Reprise(self.session.traces / "resumed.pcap", self.single("--tls-resume"))
        return [
            self.floor("resumed", self.how.resumed, _RESUMING_SOURCES, "--resume"),
            self.step("resumed", "reprise", ours),
        ]

    def early(self) -> list[Step]:
        """The same with the query sent along with the handshake."""
        words = self.single("--tls-resume", "--tls-early-data")
        ours = Reprise(self.session.traces / "resumed.pcap", words)
        return [
            self.floor("early-data", self.how.resumed, _RESUMING_SOURCES, "--resume", "--early-data"),
            self.step("early-data", "reprise", ours),
        ]

    def persistent(self) -> list[Step]:
        """As many connections as dnsperf's, which stay."""
        folder, loops = self.session.traces, _tls_persistent(self.how) // self.how.names
        options = closed_loop("tls", _IN_FLIGHT, *_STAYING, *self.trust())
        theirs = dnsperf(_IN_FLIGHT, _IN_FLIGHT, folder / "names.txt", loops, "dot")
        return [
            self.step("persistent", "dnsperf", theirs),
            self.step("persistent", "reprise", Reprise(folder / "clients.pcap", options)),
        ]

    def proofs(self) -> list[Step]:
        return proof_steps(self.session, "tls", self.trust(), self.identity)

    def floor(self, row: str, connections: int, sources: int, *more: str) -> Step:
        words = ("--port", str(TLS_PORT), "--ca", str(self.identity.authority), "--name", NAME, *more)
        return self.step(row, "openssl", floor(connections, _TLS_IN_FLIGHT, sources, words, name="openssl"))

    def single(self, *more: str) -> tuple[str, ...]:
        """The controller's options for a connection for each query."""
        return closed_loop("tls", _TLS_IN_FLIGHT, *_SINGLE, *self.trust(), *more)

    def trust(self) -> tuple[str, ...]:
        return ("--tls-version", "1.3", "--tls-ca", str(self.identity.authority), "--tls-name", NAME)

    def step(self, row: str, name: str, tool: Tool) -> Step:
        """Only where early data is measured does the sink take it: its tickets then say so."""
        sink = TcpSink(self.identity, early_data=row == "early-data")
        return Step(row, name, tool, "addresses", sink=sink)


def _tls_persistent(how: Size) -> int:
    """A query costs twice that of plain TCP."""
    return how.persistent // 2


# --- proofs -----------------------------------------------------------------------------------------------

_PROOF = "proof.pcap"
_PROOF_SOURCES = 2
_PROOF_GAP_US = 5000  # so each source asks every 10 ms
_PROOF_DELAY_MS = 120  # so it has a dozen queries on their way


def write_proof(session: Session) -> None:
    """A trace at whose pace a connection always has queries on their way."""
    queries = 200 if session.options.quick else 2000
    traces.write_pcap(session.traces / _PROOF, queries, _PROOF_SOURCES, queries, _PROOF_GAP_US)


def proof_steps(
    session: Session, transport: str, more: tuple[str, ...], identity: Identity | None
) -> list[Step]:
    """A connection for each query, and connections that stay; the answers come late.

    With Nagle's algorithm a query would wait for the acknowledgement of the one before, which the server
    delays by 40 ms while it has no answer to carry it, and share its segment with those that come meanwhile.
    """
    sink = TcpSink(identity, delay_ms=_PROOF_DELAY_MS)
    # How late they are is judged by the captures.
    words = ("--transport", transport, "--max-lateness-s", "20", "--late-ms", "0", *more)
    trace = session.traces / _PROOF
    return [
        Step("segments", name, Reprise(trace, options), "addresses", capture=True, sink=sink, once=True)
        for name, options in (("one-query", (*words, *_SINGLE)), ("persistent", words))
    ]


def measure(session: Session) -> None:
    how, identity = size(session.options), Identity(session.folder / "identity")
    over_tls = session.options.bench == "tls"
    bench = Tls(session, how, identity) if over_tls else Tcp(session, how)
    todo = chosen(bench.steps(), session.options.only)
    bench.prepare()
    if over_tls:
        identity.make(session.options.key)
    run_all(session, todo)
    for file in session.traces.iterdir():  # large, and made again in seconds
        if file.name != _PROOF:  # whose due times are wanted
            file.unlink()
    shutil.rmtree(identity.folder, ignore_errors=True)
