"""What is played, when, and as whom: every mode's effect as a capture at the server shows it."""

import ipaddress
import json
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cli import linux, programs
from cli.plan import network
from tests import command, packets
from tests.bed import Bed, MakeBed, accounted, synth
from tests.packets import Packet
from tests.streams import Capture

pytestmark = pytest.mark.netns

SECOND = 10**9
BASE = 1_475_762_151 * SECOND  # of the traces made here: 2016-10-06T13:55:51Z


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.2 s of 500 q/s from 100 clients, some by TCP and IPv6."""
    options = ("--rate", "500", "--duration", "1.2", "--clients", "100", "--tcp-share", "0.05", "--seed", "7")
    return synth(tmp_path_factory.mktemp("trace") / "trace.pcap", *options)


@pytest.fixture
def ticks(tmp_path: Path) -> Path:
    """A query every 10 ms for a second from ten sources; the n-th asks with id n for n.com."""
    return packets.write(
        tmp_path / "ticks.pcap",
        (
            (BASE + n * SECOND // 100, f"203.0.113.{n % 10}", 2000 + n, packets.query(n, f"{n}.com"))
            for n in range(100)
        ),
    )


class Played:
    """One replay, with a capture at the server unless told."""

    def __init__(self, bed: Bed, *, captured: bool = True) -> None:
        self.bed = bed
        self.capture = Capture(bed) if captured else None

    def run(
        self, trace: Path | None, *options: str, queriers: int = 2, distribute: tuple[str, ...] = ()
    ) -> dict[str, int]:
        """Plays to a clean end; the account of the queries."""
        clients = tuple(range(1, self.bed.clients + 1))
        for index in clients:
            self.bed.start_distributor(index, queriers=queriers, extra=distribute)
        controller = self.bed.start_controller(trace, clients, extra=options)
        assert controller.wait() == 0, controller.text()
        queries: dict[str, int] = self.bed.account()["queries"]
        assert accounted(queries) == queries["read"]
        return queries

    def packets(self) -> list[Packet]:
        """What the server's host saw."""
        assert self.capture is not None
        return self.capture.packets()

    def queries(self) -> list[Packet]:
        return [one for one in self.packets() if one.is_query]


def start(bed: Bed) -> Played:
    bed.start_server()
    return Played(bed)


def span(queries: list[Packet]) -> float:
    """Seconds from the first to the last."""
    times = [one.time for one in queries]
    return (max(times) - min(times)) / SECOND


def are_on_time(queries: list[Packet], due: list[int]) -> bool:
    """Most of them, to 0.1 s: some may be late on a busy machine."""
    late = sorted(
        one - planned for one, planned in zip(sorted(one.time for one in queries), due, strict=True)
    )
    return late[len(late) // 2] - late[0] < SECOND // 10


def idents(queries: list[Packet]) -> list[int]:
    return [one.ident for one in sorted(queries, key=lambda one: one.time)]


def dues(bed: Bed) -> list[int]:
    """Due times in ns after the first, in the order of sequence numbers."""
    parts = [np.asarray(file.records) for file in bed.records()]
    records = np.sort(np.concatenate(parts), order="seq")
    return [int(due) for due in records["due_ns"] - records["due_ns"].min()]


# --- when -------------------------------------------------------------------------------------------------


def test_speed_divides_the_gaps(make_bed: MakeBed, ticks: Path) -> None:
    played = start(make_bed())
    assert played.run(ticks, "--speed", "2")["answered"] == 100
    queries = played.queries()
    assert len(queries) == 100
    due = [n * SECOND // 200 for n in range(100)]
    assert dues(played.bed) == due
    assert are_on_time(queries, due)


def test_rate_spaces_queries_evenly(make_bed: MakeBed, trace: Path) -> None:
    played = start(make_bed())
    read = played.run(trace, "--rate", "400")["read"]
    due = dues(played.bed)
    assert due == [n * SECOND // 400 for n in range(read)]
    assert 0.25 < span(played.queries()) / ((read - 1) / 400) < 4  # the first may be late on a busy machine


def test_fast_takes_no_notice_of_time(make_bed: MakeBed, tmp_path: Path) -> None:
    """It is 100 s in the trace."""
    sources = ((n, f"203.0.113.{n % 10}") for n in range(200))
    queries = ((BASE + n * SECOND // 2, source, 2000 + n, packets.query(n, "com")) for n, source in sources)
    played = start(make_bed())
    assert played.run(packets.write(tmp_path / "slow.pcap", queries), "--fast")["answered"] == 200
    seen = played.queries()
    assert len(seen) == 200
    assert span(seen) < 20


def test_loop_plays_again_one_mean_gap_later(make_bed: MakeBed, ticks: Path) -> None:
    played = start(make_bed())
    assert played.run(ticks, "--loop", "2")["read"] == 200
    seen = idents(played.queries())
    for source in range(10):  # a late source may be seen after the others
        once = [*range(source, 100, 10)]
        assert [ident for ident in seen if ident % 10 == source] == [*once, *once]
    assert dues(played.bed) == [n * SECOND // 100 for n in range(200)]


def test_a_loop_opens_its_tcp_connections_anew(make_bed: MakeBed, trace: Path) -> None:
    """Sources and connections of the trace stay apart from lap to lap; nothing is lost at the seam."""
    played = start(make_bed())
    once = len({(one.source, one.source_port) for one in packets.read(trace) if one.protocol == packets.TCP})
    queries = played.run(trace, "--loop", "2", "--speed", "2")
    assert queries["answered"] == queries["read"]
    tcp = [one for one in played.packets() if one.protocol == packets.TCP and one.destination_port == 53]
    assert len({(one.source, one.source_port) for one in tcp}) > 1.5 * once  # some get the same port again


# --- what -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "want", "skipped"),
    [
        (("--from", "0.2", "--until", "0.5"), range(20, 50), {"from": 20}),
        (("--from", "2016-10-06T13:55:51.9Z"), range(90, 100), {"from": 90}),
        (("--until", "1475762151.1"), range(10), {}),
        (("--limit", "7"), range(7), {}),
        (("--duration-s", "0.3"), range(30), {}),
        (("--skip-sources", "203.0.113.8/31"), [n for n in range(100) if n % 10 < 8], {"source_prefix": 20}),
    ],
)
def test_a_part_of_the_trace(
    make_bed: MakeBed,
    ticks: Path,
    options: tuple[str, ...],
    want: range | list[int],
    skipped: dict[str, int],
) -> None:
    played = start(make_bed())
    queries = played.run(ticks, *options)
    # sources of one moment share a batch, in which their order is not kept
    assert sorted(idents(played.queries())) == list(want)
    assert played.bed.account()["skipped"] == skipped
    assert queries["answered"] == len(want)


def test_a_sample_has_whole_sources(make_bed: MakeBed, trace: Path) -> None:
    played = start(make_bed("addresses"))
    queries = played.run(trace, "--sample-sources", "40%", "--source-mode", "addresses")
    sent = Counter(one.source for one in packets.read(trace) if one.is_query)
    seen = Counter(one.source for one in played.queries())
    assert 0 < len(seen) < len(sent)
    assert all(seen[source] == sent[source] for source in seen)
    assert played.bed.account()["skipped"] == {"sample": queries["read"] - queries["answered"]}


def test_retransmits_are_collapsed(make_bed: MakeBed, tmp_path: Path) -> None:
    one = ("203.0.113.1", 2000, packets.query(1, "com"))
    other = ("203.0.113.1", 2000, packets.query(2, "com"))
    doubled = packets.write(
        tmp_path / "doubled.pcap",
        [(BASE + n * SECOND // 20, *what) for n, what in enumerate((one, other, one, one, other))],
    )
    played = start(make_bed())
    queries = played.run(doubled, "--collapse-retransmits")
    assert (queries["read"], queries["answered"]) == (5, 2)
    assert played.bed.account()["skipped"] == {"retransmit": 3}
    assert idents(played.queries()) == [1, 2]


def test_the_generator_asks_one_question(make_bed: MakeBed) -> None:
    played = start(make_bed("addresses"))
    options = ("--generate", "www.com/AAAA", "--generate-sources", "3", "--source-mode", "addresses")
    assert played.run(None, *options, "--rate", "500", "--limit", "300")["answered"] == 300
    queries = played.queries()
    assert {one.payload[2:] for one in queries} == {
        packets.query(0, "www.com", 28)[2:3].replace(b"\1", b"\0") + packets.query(0, "www.com", 28)[3:]
    }
    by_source = {
        source: [one.ident for one in queries if one.source == source]
        for source in ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    }
    assert all(found == list(range(100)) for found in by_source.values())
    assert are_on_time(queries, [n * SECOND // 500 for n in range(300)])


def test_a_fast_generator_ends_with_its_time(make_bed: MakeBed) -> None:
    bed = make_bed()
    bed.start_server()
    played = Played(bed, captured=False)  # tcpdump would lose a part of so many
    options = ("--generate", "com/NS", "--fast", "--duration-s", "2", "--generate-sources", "50")
    queries = played.run(None, *options, "--in-flight", "100")
    assert set(bed.account()["skipped"]) <= {"duration"}
    assert queries["answered"] == queries["sent"] > 100
    assert queries["answered"] + queries["skipped"] == queries["read"]
    assert queries["sent"] <= arrived(bed) <= queries["sent"] + 100  # ARP and neighbor discovery count too


def arrived(bed: Bed) -> int:
    """Packets that came to the server's host."""
    argv = [programs.packaged("ip"), "-j", "-s", "link", "show", "data1"]
    with linux.inside(bed.hosts.of(network.SERVER)):
        text = subprocess.run(argv, check=True, capture_output=True).stdout
    return int(json.loads(text)[0]["stats64"]["rx"]["packets"])


# --- as whom ----------------------------------------------------------------------------------------------


def udp_keys(found: list[Packet]) -> Counter[tuple[str, bytes]]:
    return Counter((one.source, one.payload) for one in found if one.is_query)


def tcp_sources(found: list[Packet]) -> set[str]:
    return {one.source for one in found if one.protocol == packets.TCP and one.destination_port == 53}


def test_addresses_are_the_traces(make_bed: MakeBed, trace: Path) -> None:
    played = start(make_bed("addresses"))
    queries = played.run(trace, "--source-mode", "addresses")
    assert queries["answered"] == queries["read"]
    sent = packets.read(trace)
    seen = played.packets()
    assert udp_keys(seen) == udp_keys(sent)
    assert tcp_sources(seen) == tcp_sources(sent)
    assert {ipaddress.ip_address(source).version for source, _ in udp_keys(seen)} == {4, 6}


def test_sources_that_cannot_be_answered_are_skipped(make_bed: MakeBed, tmp_path: Path) -> None:
    sources = ("127.0.0.1", "203.0.113.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", network.SERVICE_V4)
    odd = packets.write(
        tmp_path / "odd.pcap",
        [(BASE + n, source, 2000, packets.query(n, "com")) for n, source in enumerate(sources)],
    )
    played = start(make_bed("addresses"))
    assert played.run(odd, "--source-mode", "addresses")["answered"] == 1
    assert played.bed.account()["skipped"] == {"source_unusable": 5}
    assert [one.source for one in played.queries()] == ["203.0.113.1"]


def test_mapped_sources_are_distinct_addresses_of_their_host(make_bed: MakeBed, trace: Path) -> None:
    played = start(make_bed("mapped"))
    prefixes = network.source_prefixes(1, 1)
    distribute = tuple(word for prefix in prefixes for word in ("--source-prefix", prefix))
    queries = played.run(trace, "--source-mode", "mapped", distribute=distribute)
    assert queries["answered"] == queries["read"]
    sent = packets.read(trace)
    seen = played.packets()
    assert sorted(udp_keys(seen).values()) == sorted(udp_keys(sent).values())
    assert _sizes(seen) == _sizes(sent)
    nets = [ipaddress.ip_network(prefix) for prefix in prefixes]
    assert all(any(ipaddress.ip_address(one) in net for net in nets) for one, _ in udp_keys(seen))


def _sizes(found: list[Packet]) -> list[int]:
    """Queries of each source address, sorted."""
    return sorted(Counter(one.source for one in found if one.is_query).values())


def test_mapped_hosts_have_their_own_prefixes(make_bed: MakeBed, trace: Path) -> None:
    bed = make_bed("mapped", clients=2)
    bed.start_server()
    for index in (1, 2):
        prefixes = network.source_prefixes(index, 2)
        words = tuple(word for prefix in prefixes for word in ("--source-prefix", prefix))
        bed.start_distributor(index, extra=words)
    controller = bed.start_controller(trace, (1, 2), extra=("--source-mode", "mapped"))
    assert controller.wait() == 0, controller.text()
    queries = bed.account()["queries"]
    assert queries["answered"] == queries["read"]


def test_packets_have_the_traces_addresses_and_ports(make_bed: MakeBed, tmp_path: Path) -> None:
    options = ("--rate", "500", "--duration", "1.2", "--clients", "100", "--tcp-share", "0", "--seed", "7")
    udp_only = synth(tmp_path / "udp.pcap", *options)
    played = start(make_bed("packet"))
    queries = played.run(udp_only, "--source-mode", "packet", queriers=1)
    assert queries["answered"] == queries["read"]
    sent = [one for one in packets.read(udp_only) if one.is_query]
    seen = played.queries()
    key = [(one.source, one.source_port, one.payload) for one in seen]
    assert Counter(key) == Counter((one.source, one.source_port, one.payload) for one in sent)


# --- how --------------------------------------------------------------------------------------------------


def most_open(found: list[Packet]) -> int:
    """The most queries that waited for an answer at one moment."""
    now = most = 0
    for one in sorted((one for one in found if one.protocol == packets.UDP), key=lambda one: one.time):
        now += 1 if one.is_query else -1
        most = max(most, now)
    return most


@pytest.mark.parametrize("dependent", [False, True])
def test_dependent_queries_wait_for_the_answer_before(
    make_bed: MakeBed, tmp_path: Path, dependent: bool
) -> None:
    burst = packets.write(
        tmp_path / "burst.pcap",
        [(BASE + n, "203.0.113.1", 2000, packets.query(n, "com")) for n in range(10)],
    )
    bed = make_bed()
    bed.start_dns_server(network.SERVER, f"{network.SERVICE_V4}:53", "delay=20")
    played = Played(bed)
    assert played.run(burst, *(("--dependent",) if dependent else ()))["answered"] == 10
    seen = played.packets()
    assert (most_open(seen) == 1) == dependent
    assert idents([one for one in seen if one.is_query]) == list(range(10))


def test_a_hedged_query_goes_to_a_peer_as_well(make_bed: MakeBed, ticks: Path) -> None:
    peer = "198.19.255.54"
    bed = make_bed(peers=(peer,))
    bed.start_dns_server(network.SERVER, f"{network.SERVICE_V4}:53", "mute", f"{peer}:53", "delay=0")
    played = Played(bed)
    assert played.run(ticks, "--hedge-ms", "50", "--peers", peer, "--timeout-s", "2")["answered"] == 100
    seen = played.queries()
    by_server = {
        address: {one.ident: one.time for one in seen if one.destination == address}
        for address in (network.SERVICE_V4, peer)
    }
    first, second = by_server[network.SERVICE_V4], by_server[peer]
    assert sorted(first) == sorted(second) == list(range(100))
    assert all(second[ident] - first[ident] > 0.04 * SECOND for ident in first)


def test_a_query_answered_in_time_is_not_hedged(make_bed: MakeBed, ticks: Path) -> None:
    peer = "198.19.255.54"
    bed = make_bed(peers=(peer,))
    bed.start_dns_server(network.SERVER, f"{network.SERVICE_V4}:53", "delay=0", f"{peer}:53", "delay=0")
    played = Played(bed)
    assert played.run(ticks, "--hedge-ms", "2000", "--peers", peer)["answered"] == 100
    assert {one.destination for one in played.queries()} == {network.SERVICE_V4}


# --- through the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["addresses", "packet"])
def test_a_run_shows_the_server_the_traces_addresses(tmp_path: Path, mode: str) -> None:
    settings = (
        "replay.source_mode=" + mode,
        "sample.capture=true",
        "synth.tcp_share=0",
        "synth.duration=2",
        "replay.late_ms=1000",
    )
    words = ["run", str(programs.ROOT / "experiments/quickstart.toml")]
    for one in (*settings, "synth.client_prefix=203.0.113.0/24", "synth.clients=100"):
        words += ["--set", one]
    done = command.run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    sent = udp_keys(packets.read(folder / "trace.pcap"))
    assert udp_keys(packets.read(folder / "capture.pcap")) == sent
    assert len({source for source, _ in sent}) > 20
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["queries"]["answered"] == summary["queries"]["read"]
    assert summary["leaked_packets"] == 0
