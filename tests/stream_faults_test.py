"""What breaks around a replay over TCP: each query has its end, and what went wrong is counted."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cli import linux
from cli.plan import network
from report.rqfile import Records, Status
from tests import packets
from tests.bed import Bed, MakeBed, progress, wait_for
from tests.slow import slow
from tests.streams import (
    BASE,
    SECOND,
    Capture,
    Play,
    certify,
    established,
    misbehave,
    rounds,
    start_nsd,
)
from tests.udp_faults_test import pause, signal_all, steady

pytestmark = pytest.mark.netns

TCP = ("--transport", "tcp")
IN_TURN = (*TCP, "--dependent")  # no two queries of a source share a connection, however slow the machine
CLOSED = "closed by the server with queries unanswered"
RESET = "Connection reset by peer"
REFUSED = "Connection refused"


def in_flight(play: Play) -> int:
    now = progress(play.controller)
    return now["sent"] - now["answered"] - now["timed_out"]


def ended(records: Records, status: Status) -> int:
    return int((records["status"] == status).sum())


# --- the server dies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", slow("tls")])
def test_a_server_killed_with_connections_open(make_bed: MakeBed, tmp_path: Path, transport: str) -> None:
    sources, gap_s = (1_000, 8) if transport == "tcp" else (300, 15)
    bed = make_bed()
    certified = certify(tmp_path / "service")
    server = start_nsd(bed, certified)
    # The second round comes long after the first, so that the server stands still before it.
    trace = rounds(tmp_path / "t.pcap", sources, 2, gap_s, 0.6 / sources)
    options = ("--transport", transport, "--tls-ca", str(certified.authority), "--timeout-s", "20")
    play = Play(bed, trace, *options)
    wait_for(lambda: progress(play.controller)["answered"] >= sources, "the first round's answers")
    assert established(bed) >= sources
    signal_all(server, signal.SIGSTOP)  # what is asked from here on stays in flight
    wait_for(lambda: in_flight(play) >= sources // 2, "queries in flight")
    signal_all(server, signal.SIGKILL)
    queries = play.ends()
    assert queries["answered"] + queries["connection_failed"] == queries["read"] == 2 * sources
    assert queries["connection_failed"] >= sources // 2
    assert queries["retried"] >= sources // 2
    connections, failures = play.connections(), play.failures()
    assert connections["peak_open"] >= sources
    assert connections["closed_by_server"] >= sources
    assert failures[REFUSED] > 0
    assert set(failures) <= {REFUSED, RESET, CLOSED, "Broken pipe"}  # its processes die one by one
    assert sum("event=connection_failed" in line for line in play.log().splitlines()) == 1
    retried = play.records()["retries"][play.records()["status"] == Status.CONNECTION_FAILED]
    assert set(retried.tolist()) <= {0, 1}


# --- the server has no room -------------------------------------------------------------------------------


def test_a_backlog_that_overflows(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    misbehave(bed, "full=1")
    play = Play(bed, rounds(tmp_path / "t.pcap", 50, 1, 1, 0.005), *TCP, "--timeout-s", "0.5")
    queries = play.ends()
    assert queries["connection_failed"] + queries["timed_out"] == queries["read"] == 50
    assert 1 <= queries["timed_out"] <= 5  # they are in the backlog, which takes one more than told
    assert play.failures() == {"Connection timed out": queries["connection_failed"]}


def test_more_connections_than_the_server_counts(make_bed: MakeBed, tmp_path: Path) -> None:
    """NSD leaves them in its backlog until others are idle; half full it closes them after 200 ms."""
    bed = make_bed()
    start_nsd(bed, tcp_count=10, tcp_idle_timeout_s=1)
    play = Play(bed, rounds(tmp_path / "t.pcap", 40, 1, 1, 0.002), *TCP, "--closer", "server")
    play.answers_all()
    assert play.connections()["peak_open"] > 10
    assert play.connections()["closed_by_server"] >= 20
    records = play.records()
    assert np.all(records["latency_ns"] >= records["connect_ns"])


# --- the server closes ------------------------------------------------------------------------------------


def test_a_server_that_closes_between_queries(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    misbehave(bed, "close-after=2")
    capture = Capture(bed)
    play = Play(bed, rounds(tmp_path / "t.pcap", 10, 6, 0.1), *TCP)
    assert play.answers_all()["retried"] == 0
    assert [len(one.queries()) for one in capture.flows()] == [2] * 30
    assert play.connections()["opened"] == 30
    assert play.connections()["closed_by_server"] >= 20  # the last ones may come after the end
    assert play.failures() == {}


@pytest.mark.parametrize(("behavior", "reason"), [("drop-at=2", CLOSED), ("reset-at=2", RESET)])
def test_a_server_that_closes_during_queries(
    make_bed: MakeBed, tmp_path: Path, behavior: str, reason: str
) -> None:
    """Each connection answers one query; the second is tried again, as the first of the next connection."""
    bed = make_bed()
    misbehave(bed, behavior)
    capture = Capture(bed)
    play = Play(bed, rounds(tmp_path / "t.pcap", 10, 4, 0.1), *IN_TURN)
    assert play.answers_all()["retried"] == 30
    flows = capture.flows()
    assert [len(one.queries()) for one in flows].count(2) == 30
    assert play.failures() == {reason: 30}
    assert sorted(set(play.records()["retries"].tolist())) == [0, 1]


@pytest.mark.parametrize(
    ("behavior", "reason", "bad"),
    [
        ("drop-at=1", CLOSED, 0),
        slow("reset-at=1", RESET, 0),
        ("garbage", "a length below 12, or no DNS", 2),
    ],
)
def test_one_retry_and_no_more(
    make_bed: MakeBed, tmp_path: Path, behavior: str, reason: str, bad: int
) -> None:
    bed = make_bed()
    misbehave(bed, behavior)
    play = Play(bed, rounds(tmp_path / "t.pcap", 10, 2, 0.2), *IN_TURN)
    queries = play.ends()
    assert queries["connection_failed"] == queries["read"] == queries["retried"] == 20
    assert play.connections()["opened"] == 40
    assert play.connections()["bad_streams"] == 20 * bad
    assert play.failures() == {reason: 40}
    assert set(play.records()["retries"].tolist()) == {1}


def test_a_server_that_resets_as_soon_as_it_accepts(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    misbehave(bed, "reset-at=0")
    play = Play(bed, rounds(tmp_path / "t.pcap", 20, 2, 0.2), *IN_TURN)
    queries = play.ends()
    assert queries["connection_failed"] == queries["read"] == 40
    assert set(play.failures()) <= {RESET, "Broken pipe"}
    assert sum(play.failures().values()) == play.connections()["opened"]
    assert play.connections()["opened"] == 40 + queries["retried"]


# --- the server says nothing ------------------------------------------------------------------------------


def test_half_open_connections_are_given_up(make_bed: MakeBed, tmp_path: Path) -> None:
    """The server's address is away: nothing is acknowledged. Later queries open new connections."""
    bed = make_bed()
    start_nsd(bed)
    play = Play(bed, steady(tmp_path / "t.pcap", 5, 100, 5.3), *TCP, "--timeout-s", "0.5")
    wait_for(lambda: established(bed) == 5, "all connections")
    address = f"{network.SERVICE_V4}/32"
    bed.ip(network.SERVER, "addr", "del", address, "dev", "lo")
    pause(3.5)
    bed.ip(network.SERVER, "addr", "add", address, "dev", "lo")
    back = pause(0)
    queries = play.ends()
    assert queries["answered"] + queries["timed_out"] + queries["connection_failed"] == queries["read"]
    assert queries["timed_out"] > 100
    assert play.connections()["half_open"] == 5
    assert play.failures()["no acknowledgement from the server"] <= 5
    records = play.records()
    later = records[records["due_ns"] > (back + 0.7) * SECOND]
    assert len(later) > 20
    assert ended(later, Status.ANSWERED) == len(later)


def test_a_server_that_does_not_read(make_bed: MakeBed, tmp_path: Path) -> None:
    """Its window closes; what does not fit waits here, and every query times out."""
    bed = make_bed()
    misbehave(bed, "deaf")
    capture = Capture(bed)
    name = ".".join(["x" * 60] * 3)
    frames = ((BASE + n * SECOND // 5000, "203.0.113.1", 2000, packets.query(n, name)) for n in range(5000))
    play = Play(bed, packets.write(tmp_path / "t.pcap", frames), *TCP, "--timeout-s", "0.5")
    queries = play.ends()
    assert queries["timed_out"] == queries["read"] == 5000
    assert queries["sent"] < 5000
    assert play.connections()["half_open"] == 0
    assert capture.tshark("tcp.window_size_value == 0 && tcp.flags.reset == 0", "frame.number")
    (flow,) = capture.flows()
    stream = b"".join(one.payload for one in flow.sent())
    assert stream.startswith(b"\0\xc8\0\0\1\0")
    assert all(query[12:-4] == packets.query(0, name)[12:-4] for query in flow.queries())


@pytest.mark.parametrize("transport", [slow("tcp"), "tls"])
def test_a_server_that_pauses(make_bed: MakeBed, tmp_path: Path, transport: str) -> None:
    """What it does not read for a second waits here, and is answered afterward, in order."""
    bed = make_bed()
    certified = certify(tmp_path / "service")
    start_nsd(bed, certified, tls_port=8853)
    if transport == "tls":
        misbehave(bed, "pause=8853", 853)
    port = 853 if transport == "tls" else 1053
    if transport == "tcp":
        misbehave(bed, "pause=53", port)
    name = ".".join(["x" * 60] * 3)
    frames = ((BASE + n * SECOND // 8000, "203.0.113.1", 2000, packets.query(n, name)) for n in range(4000))
    options = ("--transport", transport, "--tls-ca", str(certified.authority), "--server-port", "1053")
    play = Play(bed, packets.write(tmp_path / "t.pcap", frames), *options)
    assert play.answers_all()["retried"] == 0
    assert play.connections()["opened"] == 1
    assert np.all(np.diff(play.records()["recv_ns"]) >= 0)
    assert play.failures() == {}


def test_a_server_that_never_answers(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    misbehave(bed, "silent")
    play = Play(bed, rounds(tmp_path / "t.pcap", 20, 3, 0.1), *TCP, "--timeout-s", "0.5")
    assert play.ends()["timed_out"] == 60
    assert play.connections()["opened"] == 20
    assert play.connections()["half_open"] == 0
    assert play.failures() == {}


# --- our own limits ---------------------------------------------------------------------------------------


def test_no_free_port(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    start_nsd(bed)
    with linux.inside(bed.hosts.of(network.client(1))):
        Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40009", encoding="ascii")
    play = Play(bed, rounds(tmp_path / "t.pcap", 25, 1, 1, 0.005), *TCP)
    queries = play.ends()
    assert (queries["answered"], queries["connection_failed"]) == (10, 15)
    assert play.failures() == {"no free port": 15}
    assert play.connections()["failed"] == 15
    warnings = [line for line in play.log().splitlines() if "event=no_free_port" in line]
    assert len(warnings) == 1
    assert "net.ipv4.ip_local_port_range" in warnings[0]


SHORT = ("prlimit", "--nofile=300:300")


def test_idle_connections_make_room(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    start_nsd(bed)
    play = Play(bed, rounds(tmp_path / "t.pcap", 600, 2, 0.5, 0.0005), *TCP, wrap=SHORT)
    play.answers_all()
    connections = play.connections()
    assert connections["evicted"] >= 1_200 - 300
    assert connections["peak_open"] <= 300
    assert connections["opened"] == 1_200


@pytest.mark.parametrize("idle_s", [1, 100])
def test_connections_that_the_server_is_to_close_are_not_evicted(
    make_bed: MakeBed, tmp_path: Path, idle_s: int
) -> None:
    """A query waits until the server closes one of them; where that takes too long, the replay ends."""
    bed = make_bed()
    start_nsd(bed, tcp_idle_timeout_s=idle_s, tcp_count=5_000)
    trace = rounds(tmp_path / "t.pcap", 400, 1, 1, 0.001)
    limit = ("--late-ms", "0", "--max-lateness-s", "8" if idle_s == 1 else "0.5")
    play = Play(bed, trace, *TCP, "--closer", "server", *limit, wrap=SHORT)
    if idle_s == 1:
        play.answers_all()
        assert play.statistic("behind_schedule") > 50
    else:
        queries = play.ends(status=1)
        assert queries["skipped"] > 100
        assert "behind schedule by" in play.controller.text()
    assert play.connections()["evicted"] == 0


def rss(pid: int) -> int:
    """Bytes of memory that a process has to itself."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return 1024 * sum(int(size) for size in re.findall(r"^Private_\w+: +(\d+) kB$", text, re.MULTILINE))


FEW = 100


def holding(sources: int, rate: int) -> Iterator[bytes]:
    """A query from each of a few sources, after 1 s one from each of the others, and at last one more."""
    for n in range(sources):
        time = BASE + n * SECOND // rate + (SECOND if n >= FEW else 0)
        yield packets.udp(
            time, f"203.{n >> 16}.{n >> 8 & 255}.{n & 255}", 7, packets.query(n & 0xFFFF, "com")
        )
    last = time + max(3 * SECOND, sources * SECOND // 30_000)
    yield packets.udp(last, "203.0.0.0", 7, packets.query(0, "com"))


def held(bed: Bed, play: Play, connections: int) -> int:
    """The queriers' memory once so many connections are open."""

    def all_open() -> bool:
        assert not play.controller.has_ended(), play.controller.text()
        return established(bed) == connections

    wait_for(all_open, f"{connections} connections", 120)
    return sum(rss(pid) for pid in bed.queriers(play.distributor))


@pytest.mark.parametrize(
    ("transport", "connections", "queriers", "bound"),
    [
        ("tcp", 2_000, 1, 2_048),
        slow("tls", 500, 1, 65_536),
        slow("tcp", 100_000, 6, 2_048),
        slow("tls", 3_000, 1, 32_768),
    ],
)
def test_memory_of_idle_connections(
    make_bed: MakeBed, tmp_path: Path, transport: str, connections: int, queriers: int, bound: int
) -> None:
    """The bound is in bytes of a connection, beside what the querier needs for its queries."""
    bed = make_bed("mapped")
    certified = certify(tmp_path / "service")
    # above half of tcp-count NSD closes idle connections after 200 ms; its processes do not share evenly
    start_nsd(
        bed,
        certified if transport == "tls" else None,
        processes=1 if queriers == 1 else 8,
        tcp_count=60_000,
        tcp_idle_timeout_s=300,
    )
    trace = packets.write_frames(
        tmp_path / "t.pcap", holding(connections, 5_000 if transport == "tcp" else 250)
    )
    prefixes = tuple(word for one in network.source_prefixes(1, 1) for word in ("--source-prefix", one))
    options = ("--transport", transport, "--tls-ca", str(certified.authority), "--source-mode", "mapped")
    play = Play(
        bed,
        trace,
        *options,
        "--idle-timeout-s",
        "300",
        "--max-lateness-s",
        "60",
        "--late-ms",
        "0",
        "--timeout-s",
        "60",  # a busy machine's server lets SYNs wait
        queriers=queriers,
        distributor=prefixes,
    )
    before = held(bed, play, FEW)
    after = held(bed, play, connections)
    play.answers_all()
    assert play.connections()["opened"] == connections
    assert (after - before) / (connections - FEW) < bound
