"""`reprise bench tcp` and `tls`: what a query over a connection costs the client, and connections held.

Of those that are held is read once a second, and kept as the kernel gave it: TCP sockets by state in both
namespaces, descriptors and memory of every querier, the kernel's slab memory before the first connection and
while all stand.
"""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from bench import traces
from bench.bed import CLIENT, Bed
from bench.session import Options, Session, Step, chosen, run_all
from bench.tools import NAME, TLS_PORT, Program, Reprise, TcpSink, Tool, dnsperf, floor, write_identity
from cli.plan import network
from cli.process import Process
from report.hosts import snmp

_IN_FLIGHT = 100
_TLS_IN_FLIGHT = 50
_SINGLE = ("--queries-per-connection", "1")
_STAYING = ("--idle-timeout-s", "600")
_PATIENCE = ("--max-lateness-s", "20", "--late-ms", "0")
_RESUMING_SOURCES = 100  # each begins with a full handshake, so they are few
_PERIOD_S = 1.0
_MEMORY = ("machine", "meminfo", Path("/proc/meminfo"))  # sockets live in the kernel's slabs
_PROOF = "proof.pcap"
_PROOF_SOURCES = 2
_PROOF_GAP_US = 5000  # so each source asks every 10 ms
_PROOF_DELAY_MS = 120  # so it has a dozen queries on their way


@dataclass(frozen=True)
class Size:
    """How much is sent. Quick: enough to see that everything works."""

    sources: int
    hold_s: int
    queriers: int  # 20,000 descriptors each
    persistent: int  # queries over connections that stay
    single: int = 200_000  # connections with one query each
    names: int = 100_000
    dnsperf_single: int = 20_000  # from one address, whose ports must last
    clients: int = 10_000  # dnsperf's connections where ours are as many as sources
    full: int = 10_000  # TLS: connections with one query each
    resumed: int = 20_000
    opens: int = 5000  # connections a second until they are held


def size(options: Options) -> Size:
    persistent = 500_000 if options.bench == "tls" else 1_000_000  # a query over TLS costs twice as much
    if options.quick:
        few, hold_s = min(options.sources, 2000), options.seconds or 2
        return Size(few, hold_s, 2, persistent // 100, 2000, 1000, 1000, 100, 500, 1000, 2000)
    queriers = 1 + options.sources * 5 // 4 // 19_000
    return Size(options.sources, options.seconds or 60, queriers, persistent)


def closed_loop(transport: str, in_flight: int, *more: str) -> tuple[str, ...]:
    return ("--transport", transport, "--fast", "--in-flight", str(in_flight), *more)


# --- connections held --------------------------------------------------------------------------------------


class Hold(Reprise):
    """A replay whose connections stand until its last query, and the readings taken meanwhile."""

    def run(self, bed: Bed) -> list[list[str]]:
        bed.log.file("before", *_MEMORY)
        return super().run(bed)

    def watch(self, bed: Bed, distributor: Process, controller: Process) -> None:
        due = time.monotonic() + _PERIOD_S
        while not controller.has_ended(max(0.0, due - time.monotonic())):
            due += _PERIOD_S
            read_sockets(bed)  # first: the queriers' memory is compared with their number
            read_queriers(bed, distributor)
            bed.log.file("during", *_MEMORY)


def read_sockets(bed: Bed) -> None:
    """Established TCP sockets of client and server; the client's hold the one to its controller too."""
    for side, host in (("client", CLIENT), ("server", network.SERVER)):
        begin = time.monotonic_ns()
        with bed.inside(host):
            count = snmp(Path("/proc/self/net/snmp").read_text(encoding="ascii"))["TcpCurrEstab"]
        bed.log.add("during", side, "sockets", established=count, begin_ns=begin)


def read_queriers(bed: Bed, distributor: Process) -> None:
    """Descriptors and memory of the distributor's children."""
    for child in bed.queriers(distributor):
        folder = Path(f"/proc/{child}")
        try:
            descriptors = sum(1 for _ in (folder / "fd").iterdir())
            text = (folder / "smaps_rollup").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        bed.log.add("during", f"querier-{child}", "process", descriptors=descriptors, smaps=text)


# --- the runs ---------------------------------------------------------------------------------------------


def tcp(session: Session, how: Size) -> list[Step]:
    """All of ours use the addresses of the trace."""
    folder = session.traces
    single = closed_loop("tcp", _IN_FLIGHT, *_SINGLE)
    staying = closed_loop("tcp", _IN_FLIGHT, *_STAYING)
    shared = closed_loop("tcp", _IN_FLIGHT // how.queriers, *_STAYING)
    theirs = dnsperf(how.clients, _IN_FLIGHT, folder / "names.txt", how.persistent // how.names, "tcp")
    few = dnsperf(_IN_FLIGHT, _IN_FLIGHT, folder / "few-names.txt", 1, "tcp", a_connection=1)
    found: list[tuple[str, str, Tool]] = [
        ("one-query", "floor", floor(how.single, _IN_FLIGHT, how.sources)),
        ("one-query", "reprise", Reprise(folder / "single.pcap", single)),
        ("one-query", "dnsperf", few),
        # As many connections as dnsperf's, and one for each of many addresses.
        ("persistent", "dnsperf", theirs),
        ("persistent", "reprise", Reprise(folder / "clients.pcap", staying)),
        ("persistent", "reprise-many", Reprise(folder / "many.pcap", shared, queriers=how.queriers)),
    ]
    # All connections at once; the client does not close them.
    words = ("--transport", "tcp", "--closer", "server", *_PATIENCE)
    hold = Hold(folder / "hold.pcap", words, queriers=how.queriers)
    return [
        *(Step(*one, "addresses", sink=TcpSink()) for one in found),
        Step("hold", "reprise", hold, "addresses", sink=TcpSink(), once=True, plain=True),
        *proofs(session, "tcp", (), None),
    ]


def tls(session: Session, how: Size, identity: Path) -> list[Step]:
    """TLS 1.3 with the server's certificate verified."""
    folder, authority = session.traces, str(identity / "ca.pem")
    trust = ("--tls-version", "1.3", "--tls-ca", authority, "--tls-name", NAME)
    single = closed_loop("tls", _TLS_IN_FLIGHT, *_SINGLE, *trust)
    staying = closed_loop("tls", _IN_FLIGHT, *_STAYING, *trust)
    loops = how.persistent // how.names
    few = dnsperf(_TLS_IN_FLIGHT, _TLS_IN_FLIGHT, folder / "few-names.txt", 1, "dot", a_connection=1)

    def openssl(connections: int, sources: int, *more: str) -> Program:
        words = ("--port", str(TLS_PORT), "--ca", authority, "--name", NAME, *more)
        return floor(connections, _TLS_IN_FLIGHT, sources, words, name="openssl")

    def resuming(*more: str) -> Reprise:
        return Reprise(folder / "resumed.pcap", (*single, "--tls-resume", *more))

    found: list[tuple[str, str, Tool]] = [
        ("full", "openssl", openssl(how.full, min(how.sources, how.full))),
        ("full", "reprise", Reprise(folder / "full.pcap", single)),
        ("full", "dnsperf", few),
        # A resumed handshake for each query but the first of a source.
        ("resumed", "openssl", openssl(how.resumed, _RESUMING_SOURCES, "--resume")),
        ("resumed", "reprise", resuming()),
        # The same with the query sent along with the handshake.
        ("early-data", "openssl", openssl(how.resumed, _RESUMING_SOURCES, "--resume", "--early-data")),
        ("early-data", "reprise", resuming("--tls-early-data")),
        ("persistent", "dnsperf", dnsperf(_IN_FLIGHT, _IN_FLIGHT, folder / "names.txt", loops, "dot")),
        ("persistent", "reprise", Reprise(folder / "clients.pcap", staying)),
    ]
    # Only where early data is measured does the sink take it: its tickets then say so.
    early, plain = TcpSink(identity, early_data=True), TcpSink(identity)
    return [
        *(Step(*one, "addresses", sink=early if one[0] == "early-data" else plain) for one in found),
        *proofs(session, "tls", trust, identity),
    ]


def proofs(session: Session, transport: str, more: tuple[str, ...], identity: Path | None) -> list[Step]:
    """A connection for each query, and connections that stay; the answers come late.

    With Nagle's algorithm a query would wait for the acknowledgement of the one before, which the server
    delays by 40 ms while it has no answer to carry it, and share its segment with those that come meanwhile.
    """
    sink = TcpSink(identity, delay_ms=_PROOF_DELAY_MS)
    words = ("--transport", transport, *_PATIENCE, *more)  # how late they are is judged by the captures
    trace = session.traces / _PROOF
    return [
        Step("segments", name, Reprise(trace, options), "addresses", capture=True, sink=sink, once=True)
        for name, options in (("one-query", (*words, *_SINGLE)), ("persistent", words))
    ]


def prepare(session: Session, how: Size) -> None:
    """Data files for dnsperf and captures with the same questions."""
    folder, over_tls = session.traces, session.options.bench == "tls"
    traces.write_dnsperf(folder / "names.txt", how.names)
    traces.write_dnsperf(folder / "few-names.txt", how.full if over_tls else how.dnsperf_single)
    captures = {
        "single": (how.single, how.sources),
        "many": (how.persistent, how.sources),
        "clients": (how.persistent, how.clients),
    }
    if over_tls:
        captures = {
            "full": (how.full, min(how.sources, how.full)),
            "resumed": (how.resumed, _RESUMING_SOURCES),
            "clients": (how.persistent, _IN_FLIGHT),
        }
    else:
        traces.write_hold(folder / "hold.pcap", how.sources, how.opens, how.hold_s + 6)
    for name, (queries, sources) in captures.items():
        traces.write_pcap(folder / f"{name}.pcap", queries, sources, how.names)
    # At the pace of the proof a connection always has queries on their way.
    queries = 200 if session.options.quick else 2000
    traces.write_pcap(folder / _PROOF, queries, _PROOF_SOURCES, queries, _PROOF_GAP_US)


def measure(session: Session) -> None:
    how, identity = size(session.options), session.folder / "identity"
    over_tls = session.options.bench == "tls"
    steps = tls(session, how, identity) if over_tls else tcp(session, how)
    todo = chosen(steps, session.options.only)
    prepare(session, how)
    if over_tls:
        write_identity(identity, session.options.key)
    run_all(session, todo)
    for file in session.traces.iterdir():  # large, and made again in seconds
        if file.name != _PROOF:  # whose due times are wanted
            file.unlink()
    shutil.rmtree(identity, ignore_errors=True)
