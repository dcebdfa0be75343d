"""Queries over TCP: which connection takes them, who closes it, and what a capture at the server shows."""

import ipaddress
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from cli.plan import network
from report.rqfile import TRANSPORTS
from tests import packets
from tests.bed import Bed, MakeBed, synth
from tests.packets import Client
from tests.slow import slow
from tests.streams import (
    BASE,
    MARK_FALLBACK,
    MARK_OPENED,
    MARK_REUSED,
    MARK_REWRITTEN,
    SECOND,
    Capture,
    Flow,
    Play,
    marked,
    misbehave,
    only_headers_fail,
    rounds,
    start_nsd,
)

pytestmark = pytest.mark.netns

TCP = ("--transport", "tcp")
SOURCES = 10


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten sources, each asking ten times in a third of a second."""
    return rounds(tmp_path / "trace.pcap", SOURCES, 10, 0.03)


def enders(flows: list[Flow]) -> Counter[str]:
    return Counter(one.ended_by() for one in flows)


def shared_sources(play: Play, flows: list[Flow]) -> set[int]:
    """How many sources of the trace each connection served; by the ids of its queries."""
    records = play.records()
    source_of = {int(one["seq"]) & 0xFFFF: int(one["source"]) for one in records}
    return {len({source_of[int.from_bytes(query[:2], "big")] for query in one.queries()}) for one in flows}


# --- reuse and its limits ---------------------------------------------------------------------------------


def test_a_source_keeps_its_connection(make_bed: MakeBed, trace: Path) -> None:
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, trace, *TCP)
    play.answers_all()
    flows = capture.flows()
    assert [len(one.queries()) for one in flows] == [10] * SOURCES
    assert shared_sources(play, flows) == {1}
    assert all(one.one_query_a_segment() for one in flows)
    connections = play.connections()
    assert (connections["opened"], connections["reused_queries"]) == (SOURCES, 90)
    assert connections["peak_open"] == SOURCES
    records = play.records()
    assert marked(records, MARK_OPENED) == SOURCES
    assert marked(records, MARK_REUSED) == 90
    opened = (records["marks"] & MARK_OPENED) != 0
    assert np.all(records["connect_ns"][opened] > 0)
    assert set(records["transport"].tolist()) == {TRANSPORTS.index("tcp")}
    assert len(set(records["connection"].tolist())) == SOURCES
    assert not any(one.protocol == packets.UDP and one.destination_port == 53 for one in capture.packets())


@pytest.mark.parametrize("limit", [1, 3])
def test_a_connection_that_is_used_up_is_closed(make_bed: MakeBed, trace: Path, limit: int) -> None:
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, trace, *TCP, "--queries-per-connection", str(limit))
    play.answers_all()
    flows = capture.flows()
    a_source = -(-10 // limit)
    assert len(flows) == play.connections()["opened"] == SOURCES * a_source
    carried = Counter(len(one.queries()) for one in flows)
    assert carried == Counter({limit: SOURCES * (10 // limit)} | ({10 % limit: SOURCES} if limit > 1 else {}))
    assert enders(flows) == {"client": len(flows)}
    assert not any(one.is_reset() for one in flows)
    assert play.connections()["closed_used_up"] == SOURCES * (10 // limit)
    assert marked(play.records(), MARK_OPENED) == len(flows)


def test_a_stateless_client_opens_a_connection_for_every_query(make_bed: MakeBed, trace: Path) -> None:
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, trace, "--transport", "stateless-tcp")
    play.answers_all()
    flows = capture.flows()
    assert [len(one.queries()) for one in flows] == [1] * 10 * SOURCES
    assert enders(flows) == {"client": len(flows)}
    assert not any(one.is_reset() for one in flows)
    assert play.connections()["reused_queries"] == 0
    assert set(play.records()["transport"].tolist()) == {TRANSPORTS.index("stateless-tcp")}


def test_an_idle_connection_is_closed_by_the_client(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, rounds(tmp_path / "t.pcap", SOURCES, 2, 0.8), *TCP, "--idle-timeout-s", "0.2")
    play.answers_all()
    flows = capture.flows()
    assert [len(one.queries()) for one in flows] == [1] * 2 * SOURCES
    assert enders(flows[:SOURCES]) == {"client": SOURCES}
    for one in flows[:SOURCES]:
        end = one.end()
        assert end is not None
        assert end.time - one.received()[-1].time >= 0.19 * SECOND
    assert play.connections()["closed_idle"] >= SOURCES
    assert play.connections()["closed_by_server"] == 0


@pytest.mark.parametrize("limits", [(), slow(("--queries-per-connection", "1"))])
def test_the_server_closes_where_it_is_told_to(
    make_bed: MakeBed, tmp_path: Path, limits: tuple[str, ...]
) -> None:
    bed = make_bed()
    start_nsd(bed, tcp_idle_timeout_s=1)
    capture = Capture(bed)
    trace = rounds(tmp_path / "t.pcap", SOURCES, 2, 2.5)
    play = Play(bed, trace, *TCP, "--closer", "server", "--idle-timeout-s", "0.2", *limits)
    play.answers_all()
    flows = capture.flows()
    assert len(flows) == 2 * SOURCES
    assert enders(flows[:SOURCES]) == {"server": SOURCES}
    assert play.connections()["closed_by_server"] >= SOURCES
    assert play.connections()["closed_idle"] == play.connections()["closed_used_up"] == 0
    # the end of the replay is the end of the others
    last = play.records()["recv_ns"].max() - play.records()["recv_ns"].min()
    begin = min(one.packets[0].time for one in flows)
    early = [one for one in flows if (end := one.end()) and end.time < begin + last]
    assert enders(early) == {"server": SOURCES}


# --- the trace's own connections --------------------------------------------------------------------------


def at(seconds: float) -> int:
    """A time of the trace; everything passes twice as fast as it is written."""
    return BASE + round(seconds * SECOND / 2)


def trace_with_connections(path: Path) -> Path:
    """One source: two connections at once, one of whose ports is used again, and two datagrams."""
    a, b, again = (Client("203.0.113.1", port) for port in (2000, 2001, 2000))
    again.sequence = 900_000
    frames = [
        packets.udp(at(0), "203.0.113.1", 2000, packets.query(1, "u1.com")),
        a.open(at(0.1)) + a.ask(at(0.11), packets.query(10, "a1.com")),
        b.open(at(0.2)) + b.ask(at(0.21), packets.query(20, "b1.com")),
        a.ask(at(0.4), packets.query(11, "a2.com")),
        b.ask(at(0.5), packets.query(21, "b2.com")),
        a.fin(at(0.8)),
        packets.udp(at(1.1), "203.0.113.1", 2000, packets.query(2, "u2.com")),
        b.ask(at(1.2), packets.query(22, "b3.com")),
        b.rst(at(1.5)),
        again.open(at(1.8)) + again.ask(at(1.81), packets.query(30, "c1.com")),
        packets.udp(at(2.1), "203.0.113.1", 2000, packets.query(3, "u3.com")),
    ]
    return packets.write_frames(path, frames)


def test_the_traces_connections_are_followed(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, trace_with_connections(tmp_path / "t.pcap"))
    assert play.answers_all()["read"] == 9
    flows = capture.flows()
    asked = [[int.from_bytes(query[:2], "big") for query in one.queries()] for one in flows]
    assert asked == [[10, 11], [20, 21, 22], [30]]
    udp = {one.ident: one.time for one in capture.packets() if one.is_query}
    assert sorted(udp) == [1, 2, 3]
    assert enders(flows) == {"client": 3}
    ends = [end.time for one in flows if (end := one.end())]
    # each is closed between what the trace has before and after
    assert flows[1].sent()[1].time < ends[0] < udp[2]
    assert flows[1].sent()[2].time < ends[1] < flows[2].packets[0].time
    assert play.connections()["closed_by_trace"] == 2
    assert play.connections()["opened"] == 3


def test_a_close_waits_for_the_answer(make_bed: MakeBed, tmp_path: Path) -> None:
    """The trace's client closed before our server has answered: the query is not given up."""
    bed = make_bed()
    misbehave(bed, "reverse=2")
    capture = Capture(bed)
    one = Client("203.0.113.1", 2000)
    frames = [
        one.open(at(0)) + one.ask(at(0.1), packets.query(1, "a.com")),
        one.ask(at(0.3), packets.query(2, "b.com")),
        one.fin(at(0.3001)),
        packets.udp(at(0.6), "203.0.113.1", 7, packets.query(3, "c.com")),
    ]
    play = Play(bed, packets.write_frames(tmp_path / "t.pcap", frames), "--timeout-s", "0.5")
    queries = play.ends()
    assert (queries["answered"], queries["timed_out"]) == (2, 1)  # the datagram has no server
    (flow,) = capture.flows()
    assert flow.ended_by() == "client"
    assert len(flow.answers()) == 2
    assert play.connections()["closed_by_trace"] == 1


@pytest.mark.slow
def test_the_server_closes_the_traces_connections_where_told(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    start_nsd(bed, tcp_idle_timeout_s=20)
    capture = Capture(bed)
    play = Play(bed, trace_with_connections(tmp_path / "t.pcap"), "--closer", "server")
    play.answers_all()
    flows = capture.flows()
    last = max(one.time for one in capture.packets() if one.is_query)
    assert all((end := one.end()) is None or end.time > last for one in flows)
    assert play.connections()["closed_by_trace"] == 0


def test_a_connection_of_the_trace_is_kept_over_another_transport(make_bed: MakeBed, tmp_path: Path) -> None:
    """All over TCP: the datagrams of the source share a connection of their own."""
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, trace_with_connections(tmp_path / "t.pcap"), *TCP)
    play.answers_all()
    asked = [[int.from_bytes(query[:2], "big") for query in one.queries()] for one in capture.flows()]
    assert asked == [[1, 2, 3], [10, 11], [20, 21, 22], [30]]


# --- pipelining -------------------------------------------------------------------------------------------


def test_answers_out_of_order(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    misbehave(bed, "reverse=5")
    capture = Capture(bed)
    play = Play(bed, rounds(tmp_path / "t.pcap", 4, 10, 0.02), *TCP)
    play.answers_all()
    flows = capture.flows()
    assert len(flows) == 4
    for one in flows:
        asked = [query[:2] for query in one.queries()]
        answered = [answer[:2] for answer in one.answers()]
        assert answered == asked[4::-1] + asked[:4:-1]
        assert one.sent()[4].time < one.received()[0].time  # pipelined
        assert one.one_query_a_segment()
    records = play.records()
    assert np.all(records["latency_ns"] > 0)


def test_equal_ids_on_one_connection_are_told_apart(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    misbehave(bed, "reverse=5")
    capture = Capture(bed)
    queries = ((BASE + n * SECOND // 100, "203.0.113.1", 2000, packets.query(7, "com")) for n in range(5))
    play = Play(bed, packets.write(tmp_path / "t.pcap", queries), *TCP)
    play.answers_all()
    (flow,) = capture.flows()
    assert len({query[:2] for query in flow.queries()}) == 5
    records = play.records()
    assert marked(records, MARK_REWRITTEN) == 4
    assert np.all(np.diff(records["recv_ns"]) <= 0)  # the last was answered first


# --- a real trace -----------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(
    "options",
    [
        ("--until", "2"),
        slow(("--until", "2", "--queries-per-connection", "1")),
        slow(()),
        slow(("--queries-per-connection", "1")),
    ],
)
def test_the_real_minute_over_tcp(
    make_bed: MakeBed, real: tuple[Path, Path], options: tuple[str, ...]
) -> None:
    trace, zone = real
    bed = make_bed()
    start_nsd(bed, zone=str(zone))
    capture = Capture(bed)
    play = Play(bed, trace, *TCP, *options)
    only_headers_fail(play)
    flows = capture.flows()
    assert len(flows) == play.connections()["opened"]
    queries = play.ends()
    assert sum(len(one.queries()) for one in flows) == queries["sent"] + queries["retried"]
    assert all(one.one_query_a_segment() for one in flows)
    assert sum(one.stalls() for one in flows) == 0
    assert sum(one.stalls(of_client=False) for one in flows) == 0


def test_no_query_waits_for_a_delayed_acknowledgement(make_bed: MakeBed, tmp_path: Path) -> None:
    """Queries every 25 ms that the server answers by threes: with Nagle's algorithm the second would wait. On
    a busy machine some wait for the processor, but never a third of them.
    """
    bed = make_bed()
    misbehave(bed, "reverse=3")
    capture = Capture(bed)
    trace = rounds(tmp_path / "t.pcap", 20, 30, 0.025, 0.0001)
    play = Play(bed, trace, *TCP)
    play.answers_all()
    flows = capture.flows()
    assert len(flows) == 20
    assert all(len(one.queries()) == 30 for one in flows)
    assert sum(len(one.sent()) for one in flows) > 0.9 * 600
    assert sum(one.stalls() for one in flows) < 0.05 * 600


# --- truncated answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fallback", [True, False])
def test_truncated_answers_are_asked_for_again(make_bed: MakeBed, trace: Path, fallback: bool) -> None:
    bed = make_bed()
    misbehave(bed, "truncate=3")
    capture = Capture(bed)
    play = Play(bed, trace, *(("--tcp-fallback",) if fallback else ()))
    play.answers_all()
    records = play.records()
    again = sum(len(one.queries()) for one in capture.flows())
    assert again == play.statistic("tcp_fallbacks") == marked(records, MARK_FALLBACK) == (30 * fallback)
    assert sum(one.is_query for one in capture.packets()) == 100
    assert set(records["transport"].tolist()) == {0}  # what it traveled by first
    truncated = (records["flags"] & 0x0200) != 0
    assert truncated.sum() == (0 if fallback else 30)


def test_a_truncated_answer_is_none_where_tcp_is_refused(make_bed: MakeBed, trace: Path) -> None:
    bed = make_bed()
    misbehave(bed, "truncate-only=3")
    play = Play(bed, trace, "--tcp-fallback")
    queries = play.ends()
    assert queries["answered"] + queries["connection_failed"] == queries["read"] == 100
    assert queries["connection_failed"] == play.statistic("tcp_fallbacks") == 30
    failures = play.failures()  # of connections: slow ones may carry two queries
    assert set(failures) == {"Connection refused"}
    assert failures["Connection refused"] <= 30


# --- other ways to play -----------------------------------------------------------------------------------


def test_dependent_queries_are_not_pipelined(make_bed: MakeBed, tmp_path: Path) -> None:
    """Their answers come byte by byte."""
    bed = make_bed()
    misbehave(bed, "dribble")
    capture = Capture(bed)
    play = Play(bed, rounds(tmp_path / "t.pcap", 5, 10, 0, 0), *TCP, "--dependent")
    play.answers_all()
    for one in capture.flows():
        sides = [one.from_client(packet) for packet in one.packets if packet.payload]
        turns = sum(now and not before for before, now in zip([False, *sides], sides, strict=False))
        assert turns == len(one.queries()) == 10


@pytest.mark.parametrize("limits", [slow(()), ("--queries-per-connection", "1")])
def test_as_fast_as_possible(make_bed: MakeBed, tmp_path: Path, limits: tuple[str, ...]) -> None:
    bed = make_bed()
    start_nsd(bed)
    trace = rounds(tmp_path / "t.pcap", 50, 100, 0.5)
    play = Play(bed, trace, *TCP, "--fast", "--in-flight", "100", *limits)
    assert play.answers_all()["read"] == 5_000
    assert play.connections()["opened"] == (5_000 if limits else 50)
    assert not limits or play.connections()["peak_open"] <= 100


# --- source modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["addresses", "mapped", "packet"])
def test_connections_leave_from_the_sources_address(make_bed: MakeBed, tmp_path: Path, mode: str) -> None:
    bed = make_bed(mode)
    start_nsd(bed)
    capture = Capture(bed)
    options = ("--rate", "300", "--duration", "0.7", "--clients", "40", "--ipv6-share", "0.3", "--seed", "3")
    trace = synth(tmp_path / "t.pcap", *options)
    prefixes = network.source_prefixes(1, 1)
    words = tuple(word for prefix in prefixes for word in ("--source-prefix", prefix))
    play = Play(bed, trace, *TCP, "--source-mode", mode, distributor=words if mode == "mapped" else ())
    queries = play.answers_all()
    flows = capture.flows()
    assert sum(len(one.queries()) for one in flows) == queries["read"]
    seen = {one.client[0] for one in flows}
    wanted = {one.source for one in packets.read(trace) if one.destination_port == 53}  # of every transport
    assert {ipaddress.ip_address(one).version for one in seen} == {4, 6}
    if mode == "mapped":
        nets = [ipaddress.ip_network(prefix) for prefix in prefixes]
        assert len(seen) == len(wanted)
        assert all(any(ipaddress.ip_address(one) in net for net in nets) for one in seen)
    else:
        assert seen == wanted


@pytest.mark.slow
def test_two_clients_and_four_queriers(tmp_path: Path) -> None:
    bed = Bed(tmp_path, clients=2)
    try:
        start_nsd(bed)
        options = (
            "--rate",
            "500",
            "--duration",
            "0.7",
            "--clients",
            "100",
            "--tcp-share",
            "0.3",
            "--seed",
            "5",
        )
        trace = synth(tmp_path / "t.pcap", *options)
        for index in (1, 2):
            bed.start_distributor(index, queriers=2)
        controller = bed.start_controller(trace, (1, 2), extra=TCP)
        assert controller.wait() == 0, controller.text()
        queries = bed.account()["queries"]
        assert queries["answered"] == queries["read"]
        opened: dict[str, int] = defaultdict(int)
        for file in bed.records():
            opened[file.host] += file.statistics["connections"]["opened"]
        assert set(opened) == {"client1", "client2"}
        assert all(opened.values())
    finally:
        bed.close()
