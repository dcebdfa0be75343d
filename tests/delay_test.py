"""[rtt]: what clients see of the delay line between them and a real server, and what it counts."""

import dataclasses
import json
import os
import signal
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli import linux, programs
from cli.executor import processes
from cli.experiment.schema import Experiment, Replay, Rtt, Server
from cli.plan import delay, network
from cli.plan.planned import RUN
from report.rqfile import TRANSPORTS, Records, Status, read_rq
from tests import packets
from tests.bed import ZONE, Bed, MakeBed, wait_for
from tests.desk import TEXT_EXPERIMENT, Ended, run, started
from tests.slow import slow

pytestmark = pytest.mark.netns

MS = 1_000_000
NEAR_MS = 2.0  # how late at least a tenth of the packets is at most, on a busy machine too
BUSY_MS = 10.0  # and half of them, beside half of what they should take
SOURCES = ("203.0.113.1", "203.0.113.2", "2001:db8::3", "2001:db8::4")
BIG = "big. 300 IN TXT " + " ".join(f'"{number:0250}"' for number in range(15)) + "\n"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a zone and a trace of 200 queries in 1 s from two addresses of each family."""
    (tmp_path / "zone").write_text(ZONE + BIG, encoding="ascii")
    (tmp_path / "good.toml").write_text(TEXT_EXPERIMENT, encoding="ascii")
    write_trace(tmp_path / "trace.txt", dict.fromkeys(SOURCES, "-"))
    return tmp_path


def write_trace(path: Path, rtts: dict[str, str], count: int = 200, asked: str = "com.\tA\t-") -> None:
    """Queries every 5 ms, the sources in turn; `asked` is the cells name, type, edns."""
    sources = list(rtts.items())
    rows = ["#reprise-text 1", "time\tsource\tport\tid\tname\ttype\tedns\trtt"]
    for number in range(count):
        source, rtt = sources[number % len(sources)]
        rows.append(f"{number / 200:.3f}\t{source}\t{2_000 + number}\t{number}\t{asked}\t{rtt}")
    path.write_text("\n".join(rows) + "\n", encoding="ascii")


def records(ended: Ended, host: str = "*") -> Records:
    """What the queriers of a host recorded."""
    (folder,) = ended.results
    found: Records = np.concatenate(
        [read_rq(path).records for path in sorted(folder.glob(f"queries-{host}-*.rq"))]
    )
    return found


def latencies_ms(found: Records) -> Any:
    return found["latency_ns"][found["status"] == Status.ANSWERED] / MS


def near(seen_ms: Any, want_ms: float) -> bool:
    """Nothing is early; on a busy machine many are late, but never all, and half of them by little."""
    some, half = np.percentile(seen_ms, 10), np.median(seen_ms)
    return bool(np.min(seen_ms) >= want_ms and some < want_ms + NEAR_MS and half < 1.5 * want_ms + BUSY_MS)


def counted(ended: Ended, turn: int = 0) -> dict[str, Any]:
    """What the delay line wrote at its end."""
    (folder,) = ended.results
    value: dict[str, Any] = json.loads((folder / f"delay-server-{turn}.json").read_text(encoding="utf-8"))
    return value


def clean(ended: Ended) -> Records:
    """The records of a run in which every query was answered."""
    assert ended.status == 0, ended.errors
    summary = ended.summary()
    assert summary["clean"] and summary["leaked_packets"] == 0
    found = records(ended)
    assert np.all(found["status"] == Status.ANSWERED)
    return found


def test_answers_over_udp_come_a_round_trip_later(desk: Path) -> None:
    ended = run(desk, "rtt.rtt_ms=40")
    found = clean(ended)
    for source in range(len(SOURCES)):  # both families
        assert near(latencies_ms(found[found["source"] == source]), 40)
    assert ended.summary()["latency_us"]["median"] == pytest.approx(
        1_000 * np.median(latencies_ms(found)), abs=1_000 * NEAR_MS
    )
    stats = counted(ended)
    assert (stats["packets"]["written"], stats["packets"]["lost"], stats["packets"]["overflow"]) == (
        200,
        0,
        0,
    )
    assert stats["delay_error_us"]["packets"] == 200
    assert 2 <= ended.summary()["packets_per_query"] < 3  # each on the link, none again on the device


@pytest.mark.parametrize(("transport", "to_connect", "trips"), [slow("tcp", 1, 2), ("tls", 2, 4)])
def test_handshakes_take_their_round_trips(desk: Path, transport: str, to_connect: int, trips: int) -> None:
    """The port of TLS is delayed too. TLS 1.3 has two for its handshake, one for the query, and one by
    Nagle's algorithm: NSD's answer stays behind until its session tickets are acknowledged.
    """
    settings = (f"replay.transport={transport}", "replay.queries_per_connection=1", "tls.version=1.3")
    ended = run(desk, "rtt.rtt_ms=40", *settings)
    found = clean(ended)
    work = 10 if transport == "tls" else 0  # ms that the signature takes on a busy machine
    for seen, count in ((latencies_ms(found), trips), (found["connect_ns"] / MS, to_connect)):
        assert count * 40 <= np.min(seen) < count * (40 + NEAR_MS) + work
    assert set(found["transport"].tolist()) == {TRANSPORTS.index(transport)}


def test_large_answers_come_in_delayed_fragments(desk: Path) -> None:
    write_trace(desk / "trace.txt", dict.fromkeys(SOURCES, "-"), asked="big.\tTXT\t4096")
    ended = run(desk, "rtt.rtt_ms=20")
    found = clean(ended)
    assert np.all(found["reply_size"] > 3_700)
    assert set(found["transport"].tolist()) == {TRANSPORTS.index("udp")}
    assert near(latencies_ms(found), 20)
    assert counted(ended)["packets"]["written"] >= 600  # three fragments each


def test_every_client_has_its_prefix(desk: Path) -> None:
    (desk / "rtts").write_text(
        "198.19.1.0/24 10\nfd00:198:19:1::/64 15\n198.19.2.0/24 30\nfd00:198:19:2::/64 35\n", encoding="ascii"
    )
    (desk / "with.toml").write_text(TEXT_EXPERIMENT + '[rtt]\ntable = "rtts"\n', encoding="ascii")
    ended = run(desk, "topology.clients=2", experiment="with.toml")
    clean(ended)
    for host, want in (("client1", (10, 15)), ("client2", (30, 35))):
        found = records(ended, host)
        families = (found[found["source"] < 2], found[found["source"] >= 2])
        for mine, rtt in zip(families, want, strict=True):
            assert len(mine) == 0 or near(latencies_ms(mine), rtt)
    assert len(records(ended, "client1")) and len(records(ended, "client2"))


@pytest.mark.parametrize("mode", ["addresses", slow("packet")])
def test_the_trace_says_each_sources_round_trip(desk: Path, mode: str) -> None:
    """By the capture at the server: each source's answers leave its class after its queries came. One class
    is of a rule.
    """
    classes = {"203.0.113.1": 5, "203.0.113.2": 60, "2001:db8::3": 25, "2001:db8::4": 0}
    told = {source: str(rtt or "-") for source, rtt in classes.items()}
    write_trace(desk / "trace.txt", {**told, "203.0.113.1": "-"})
    rule = "mutate.rule=[{kind='class',rtt=5,where={source='203.0.113.1'}}]"
    ended = run(desk, 'rtt.by="source"', f"replay.source_mode={mode}", "sample.capture=true", rule)
    clean(ended)
    (folder,) = ended.results
    seen = waits_ms(folder / "capture.pcap")
    assert set(seen) == set(classes)
    for source, waits in seen.items():
        assert len(waits) == 50
        assert near(waits, classes[source])


def waits_ms(capture: Path) -> dict[str, list[float]]:
    """Milliseconds from each query over UDP to its answer, by source."""
    asked: dict[tuple[str, int, int], int] = {}
    waits: dict[str, list[float]] = defaultdict(list)
    for one in packets.read(capture):
        if one.is_query:
            asked[one.source, one.source_port, one.ident] = one.time
        elif (key := (one.destination, one.destination_port, one.ident)) in asked:
            waits[one.destination].append((one.time - asked.pop(key)) / MS)
    return waits


def test_what_is_lost_times_out_and_jitter_spreads_the_rest(desk: Path) -> None:
    ended = run(desk, "rtt.rtt_ms=30", "rtt.jitter_ms=10", "rtt.loss_percent=20", "replay.timeout_s=0.5")
    queries = ended.summary()["queries"]
    assert ended.status == 0, ended.errors
    assert queries["read"] == queries["answered"] + queries["timed_out"] == 200
    assert queries["timed_out"] == counted(ended)["packets"]["lost"]
    assert 15 <= queries["timed_out"] <= 70
    seen = latencies_ms(records(ended))
    assert np.min(seen) >= 20
    assert np.percentile(seen, 10) < 26  # 22 without the lateness of a busy machine
    assert 22 <= np.percentile(seen, 25) < 30 < np.percentile(seen, 75) < 50


def test_addresses_draw_distances_that_stay(desk: Path) -> None:
    settings = ('rtt.distribution="uniform:10,60"', 'replay.source_mode="addresses"')
    first, again = (clean_tenths(run(desk, *settings, f"name=run{number}")) for number in range(2))
    assert first == pytest.approx(again, abs=NEAR_MS)
    assert max(first) - min(first) > 2
    assert all(10 <= one <= 61 for one in first)


def clean_tenths(ended: Ended) -> list[float]:
    """How long a tenth of every source's queries took at most; the newest of the results."""
    assert ended.status == 0, ended.errors
    newest = dataclasses.replace(ended, results=(max(ended.results, key=lambda path: path.name),))
    found = records(newest)
    spread = [latencies_ms(found[found["source"] == source]) for source in range(len(SOURCES))]
    assert all(np.percentile(one, 10) - np.min(one) < NEAR_MS for one in spread)
    return [float(np.percentile(one, 10)) for one in spread]


def test_a_delay_line_that_dies_is_started_again_and_the_run_says_so(desk: Path) -> None:
    write_trace(desk / "trace.txt", dict.fromkeys(SOURCES, "-"), count=500)
    with started(
        desk, "run", "good.toml", "--set", "rtt.rtt_ms=5", "--set", "replay.timeout_s=0.5"
    ) as running:
        running.reaches("replaying")
        wait_for(lambda: any(desk.glob("results/*/queries-*.rq")), "records")
        (victim,) = running.offspring("reprise-proxy delay")
        os.kill(victim, signal.SIGKILL)
        ended = running.end()
    assert ended.status == 1
    summary = ended.summary()
    assert any("delay-server died during the run" in one for one in summary["unclean_because"])
    assert summary["queries"]["answered"] > 300
    assert counted(ended, 1)["packets"]["written"] > 0


def test_a_trace_without_round_trips_is_named(desk: Path) -> None:
    """What takes reading the trace is known later than what is in refusals.txt, so the status is 1."""
    ended = run(desk, 'replay.source_mode="addresses"', 'rtt.by="source"')
    assert "carries a round trip; give a trace of the text or stream form with the column rtt" in ended.line()
    assert ended.status == 1


def test_the_set_up_may_be_repeated_and_undone(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed()
    tls = Replay(transport="tls")
    steps = [*delay.setup(Experiment("test", server=Server(zone="zone"), replay=tls, rtt=Rtt(rtt_ms=1)))]

    def carry(commands: tuple[tuple[str, ...], ...]) -> None:
        processes.carry_out(
            commands,
            bed.hosts.of(network.SERVER),
            lambda word: word.replace(RUN, str(tmp_path)),
            os.environ,
            tmp_path / "log",
        )

    before = state(bed)
    for step in (*steps, *steps):
        carry(step.apply)
    after = state(bed)
    assert after.count(f"lookup {delay.TABLE}") == 8  # two families, protocols, ports
    assert f"default dev {delay.TUN}" in after
    for step in (*reversed(steps), *reversed(steps)):
        carry(step.undo)
    assert state(bed) == before


def state(bed: Bed) -> str:
    """The server host's rules, routes, devices and settings."""
    ip = programs.packaged("ip")
    with linux.inside(bed.hosts.of(network.SERVER)):
        asked = [
            [ip, *words]
            for words in (("rule",), ("-6", "rule"), ("route", "show", "table", "all"), ("-brief", "address"))
        ]
        asked += [[ip, "-6", "route", "show", "table", "all"], ["sysctl", *SETTINGS]]
        return "".join(
            subprocess.run(one, check=True, capture_output=True, text=True).stdout for one in asked
        )


SETTINGS = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.ipv4.conf.all.rp_filter")
