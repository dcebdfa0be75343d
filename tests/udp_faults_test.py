"""What breaks around a replay over UDP: in every case each query has its end, and what went wrong is counted.

Both ways to send over sockets are tried: a socket for each source (ports) and one for all (addresses).
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.plan import network
from cli.process import Process
from report.rqfile import Records, Status, read_rq
from tests import packets
from tests.bed import Bed, MakeBed, accounted, below, wait_for, wait_for_answers
from tests.slow import slow
from tests.small_disk import small_disk

pytestmark = pytest.mark.netns

SECOND = 10**9
BASE = 1_475_762_151 * SECOND
MARK_CLOCK_STEP = 8
MARGIN = 0.3  # seconds about a fault in which nobody knows what it touched
SETTLED = 1.5  # seconds after which a link that is up is used: the kernel asks for a neighbor once a second
MODES = pytest.mark.parametrize("mode", ["ports", "addresses"])


def steady(path: Path, sources: int, rate: int, seconds: float, below: tuple[str, ...] = ("",)) -> Path:
    """A trace of evenly spaced queries whose sources take turns; ids count up. `below` is added to the names
    in turn.
    """
    return packets.write(
        path,
        (
            (
                BASE + n * SECOND // rate,
                f"203.{n % sources >> 16}.{n % sources >> 8 & 255}.{n % sources & 255}",
                2000,
                packets.query(n & 0xFFFF, f"{n}.com{below[n % len(below)]}"),
            )
            for n in range(int(rate * seconds))
        ),
    )


class Replay:
    """A replay that is under way."""

    def __init__(self, bed: Bed, trace: Path, mode: str, *options: str, **distributor: Any) -> None:
        self.bed = bed
        bed.start_distributor(1, queriers=1, **distributor)
        options = ("--source-mode", mode, "--timeout-s", "1", *options)
        self.controller = bed.start_controller(trace, extra=options)

    def in_its_middle(self) -> float:
        """Waits until answers come; the time, to be compared with due times."""
        wait_for_answers(self.controller)
        assert not self.controller.has_ended(), self.controller.text()
        return time.monotonic()

    def ends(self) -> dict[str, int]:
        """The account of a replay that ended clean."""
        assert self.controller.wait() == 0, self.controller.text()
        queries: dict[str, int] = self.bed.account()["queries"]
        assert accounted(queries) == queries["read"]
        return queries

    def cut(self) -> tuple[float, dict[str, int]]:
        """Ends the replay, whose trace is longer than any test lasts; when it was told, and the account."""
        told = time.monotonic()
        assert not self.controller.has_ended(), self.controller.text()
        self.controller.send(signal.SIGINT)
        assert self.controller.wait() == 1, self.controller.text()
        account = self.bed.account()
        assert all("interrupted" in reason for reason in account["because"]), account
        queries: dict[str, int] = account["queries"]
        assert accounted(queries) == queries["read"]
        return told, queries

    def records(self) -> Records:
        (file,) = self.bed.records()
        return file.records

    def statistics(self) -> dict[str, Any]:
        (file,) = self.bed.records()
        return file.statistics

    def status_between(self, begin: float, end: float) -> set[int]:
        """How the queries ended that were due, and sent if at all, between two times."""
        records = self.records()
        due, sent = records["due_ns"] / SECOND, records["send_ns"] / SECOND
        return set(records["status"][(due >= begin) & (due < end) & (sent < end)].tolist())


def pause(seconds: float) -> float:
    """How long a fault lasts is part of the fault; its end."""
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= end, "the end of the pause")
    return time.monotonic()


def signal_all(program: Process, number: signal.Signals) -> None:
    for pid in (program.pid, *below(program.pid)):
        os.kill(pid, number)


# --- descriptors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("descriptors", "sources"),
    [(2_000, 3_000), slow(20_000, 30_000)],
)
def test_more_sources_than_descriptors(
    make_bed: MakeBed, tmp_path: Path, descriptors: int, sources: int
) -> None:
    bed = make_bed("ports")
    bed.start_server()
    trace = steady(tmp_path / "trace.pcap", sources, sources, 2)
    wrap = ("prlimit", f"--nofile={descriptors}:{descriptors}")
    replay = Replay(bed, trace, "ports", "--max-lateness-s", "60", "--late-ms", "0", wrap=wrap)
    queries = replay.ends()
    assert queries["answered"] + queries["timed_out"] == 2 * sources  # a busy machine's server is too slow
    assert queries["answered"] > sources
    evicted = replay.statistics()["sockets_evicted"]
    assert evicted >= 2 * sources - 2 * descriptors
    assert len(set(replay.records()["source"].tolist())) == sources


# --- the server -------------------------------------------------------------------------------------------


@MODES
def test_a_server_stopped_for_three_seconds(make_bed: MakeBed, tmp_path: Path, mode: str) -> None:
    bed = make_bed(mode)
    server = bed.start_server()
    replay = Replay(bed, steady(tmp_path / "trace.pcap", 20, 100, 60), mode)
    stopped = replay.in_its_middle()
    signal_all(server, signal.SIGSTOP)
    pause(3)
    signal_all(server, signal.SIGCONT)
    continued = time.monotonic()
    pause(1)
    told, queries = replay.cut()
    assert queries["timed_out"] > 150
    records = replay.records()  # what was asked just before the end may have timed out by it
    timed_out = (records["status"] == Status.TIMED_OUT) & (records["due_ns"] / SECOND < continued)
    assert queries["late"] == timed_out.sum()
    assert queries["unmatched"] == queries["duplicate_answers"] == 0
    assert replay.status_between(0, stopped - MARGIN) <= {Status.ANSWERED}
    assert replay.status_between(stopped + MARGIN, continued - 1 - MARGIN) == {Status.TIMED_OUT}
    assert replay.status_between(continued, told - MARGIN) == {Status.ANSWERED}


@MODES
def test_a_server_killed_in_the_middle(make_bed: MakeBed, tmp_path: Path, mode: str) -> None:
    bed = make_bed(mode)
    server = bed.start_server()
    replay = Replay(bed, steady(tmp_path / "trace.pcap", 50, 200, 60), mode)
    killed = replay.in_its_middle()
    signal_all(server, signal.SIGKILL)
    pause(2)
    told, queries = replay.cut()
    assert queries["timed_out"] > 100
    assert replay.statistics()["unreachable"] > 0  # kernels send a few a second
    assert replay.status_between(0, killed - MARGIN) <= {Status.ANSWERED}
    assert replay.status_between(killed + MARGIN, told - 1 - MARGIN) == {Status.TIMED_OUT}


def test_a_server_that_is_started_again(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed("ports")
    server = bed.start_server()
    replay = Replay(bed, steady(tmp_path / "trace.pcap", 50, 200, 60), "ports")
    killed = replay.in_its_middle()
    signal_all(server, signal.SIGKILL)
    server.wait()
    bed.start_server()
    again = time.monotonic()
    pause(1)
    told, queries = replay.cut()
    assert queries["answered"] + queries["timed_out"] == queries["read"] - queries["skipped"]
    assert replay.status_between(0, killed - MARGIN) <= {Status.ANSWERED}
    assert replay.status_between(again, told - MARGIN) == {Status.ANSWERED}


@pytest.mark.parametrize("mode", ["ports", "addresses", "packet"])
def test_a_server_that_says_too_much(make_bed: MakeBed, tmp_path: Path, mode: str) -> None:
    bed = make_bed(mode)
    bed.start_dns_server(network.SERVER, f"{network.SERVICE_V4}:53", "lie")
    trace = steady(tmp_path / "trace.pcap", 40, 200, 1, below=("", "." + "x" * 60 + ".net"))
    replay = Replay(bed, trace, mode)
    queries = replay.ends()
    assert queries["answered"] == queries["read"] == 200
    assert set(replay.records()["rcode"].tolist()) == {0}
    assert queries["duplicate_answers"] >= 199  # the last may come after the end
    assert queries["malformed"] == 400
    strangers = 200 if mode == "addresses" else 0  # others never hear a stranger
    assert strangers + 399 <= queries["unmatched"] <= strangers + 400


# --- the network ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "end"),
    [
        ("ports", "client1"),
        ("addresses", "server"),
        slow("ports", "server"),
        slow("addresses", "client1"),
    ],
)
def test_the_link_down_for_two_seconds(make_bed: MakeBed, tmp_path: Path, mode: str, end: str) -> None:
    """The far end down: packets are lost. The near end down: there is no way to the server any more."""
    bed = make_bed(mode)
    bed.start_server()
    for table in (
        "arp_cache",
        "ndisc_cache",
    ):  # or the kernel keeps a second's packets for when the link is up
        bed.ip("client1", "ntable", "change", "name", table, "dev", "data", "queue", "3")
    replay = Replay(bed, steady(tmp_path / "trace.pcap", 50, 200, 60), mode, "--max-lateness-s", "30")
    device, way, via = (
        ("data1", "default", "198.19.1.1") if end == "server" else ("data", network.SERVICE_V4, "198.19.1.2")
    )
    down = replay.in_its_middle()
    bed.ip(end, "link", "set", device, "down")
    pause(2)
    bed.ip(end, "link", "set", device, "up")
    bed.ip(end, "route", "replace", way, "via", via)
    up = time.monotonic()
    pause(SETTLED + 1)
    told, queries = replay.cut()
    assert 100 < queries["timed_out"] + queries["send_failed"] < 200 * (up - down + 1 + SETTLED)
    # Where every address is the client's own (AnyIP), a lost way ends at the client, which says unreachable.
    assert (queries["send_failed"] > 0) == ((mode, end) == ("ports", "client1"))
    assert replay.status_between(0, down - MARGIN) <= {Status.ANSWERED}
    assert Status.ANSWERED not in replay.status_between(down + MARGIN, up - MARGIN)
    assert replay.status_between(up + SETTLED, told - MARGIN) == {Status.ANSWERED}


# --- the host ---------------------------------------------------------------------------------------------


def step_clock(seconds: float) -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds)


@MODES
@pytest.mark.slow  # other programs on this machine see the step as well
def test_a_step_of_the_clock(make_bed: MakeBed, tmp_path: Path, mode: str) -> None:
    bed = make_bed(mode)
    bed.start_server()
    replay = Replay(bed, steady(tmp_path / "trace.pcap", 200, 1000, 4), mode)
    replay.in_its_middle()
    try:
        step_clock(2)
    except PermissionError:
        pytest.skip("stepping the clock needs root")
    try:
        pause(1)
    finally:
        step_clock(-2)
    queries = replay.ends()
    assert queries["answered"] == queries["read"] == 4000
    assert replay.statistics()["clock_steps"] == 2
    records = replay.records()
    marked = (records["marks"] & MARK_CLOCK_STEP) != 0
    assert 0 < marked.sum() < 1000
    assert np.all(records["latency_ns"] >= 0)
    assert np.all(records["latency_ns"] < SECOND)
    assert np.all(records["latency_ns"][~marked] > 0)


def answered_on_record(folder: Path) -> int:
    """Of the only file, which is whole."""
    file = read_rq(next(folder.glob("*.rq")))
    assert not file.cut_off
    return int(np.count_nonzero(file.records["status"] == Status.ANSWERED))


@MODES
def test_a_disk_that_is_full_ends_the_run_in_order(make_bed: MakeBed, tmp_path: Path, mode: str) -> None:
    bed = make_bed(mode)
    bed.start_server()
    trace = steady(tmp_path / "trace.pcap", 50, 2000, 6)
    with small_disk(tmp_path / "small", "768k") as folder:
        replay = Replay(bed, trace, mode, results=folder)
        assert replay.controller.wait() == 1
        account = bed.account()
        assert "No space left on device; free space or choose another" in str(account), account
        queries = account["queries"]
        assert accounted(queries) == queries["read"]
        assert 2000 < queries["answered"] < 12_000
        assert queries["lost"] == 0
        assert answered_on_record(folder) == queries["answered"]
        for program in bed.started:
            if "distributor" in program.name:
                program.wait()
