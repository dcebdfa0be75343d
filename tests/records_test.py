"""Records outlive whatever ends a run: a kill of any of its processes at any moment, impatient users, and
disks that fill.

A querier writes its records at least once a second, so that a kill costs no more than that; what is on the
disk is read by `reprise report`, and every query read has its end there. A disk that fills costs nothing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli import linux
from report.rqfile import read_rq
from tests.bed import ZONE, has_ended, wait_for
from tests.desk import ANSWERED, ENDS, EXPERIMENT, Ended, Running, below, reprise, run, started
from tests.small_disk import fill, small_disk
from tests.udp_faults_test import steady

pytestmark = pytest.mark.netns

RATE = 1_500  # evenly: there is never a quiet millisecond, and a buffer of records lasts for two seconds
SECONDS = 3
SECOND = 10**9
UNWRITTEN_S = 1.0
LATE_S = 0.5  # by which a busy machine may hold up a query and its answer
FILL_RATE = 200_000_000  # bytes a second
SEED = 20261122
VICTIMS = {
    "server": "/nsd -d",
    "controller": "reprise-controller",
    "distributor": "reprise-querier distribute",
    "querier": "reprise-querier query",
    "sampler": "reprise-sampler",
}


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return steady(tmp_path_factory.mktemp("even") / "trace.pcap", 20, RATE, SECONDS)


@pytest.fixture
def place(tmp_path: Path, even: Path) -> Path:
    """A folder with a good experiment, trace and zone."""
    shutil.copy(even, tmp_path / "trace.pcap")
    (tmp_path / "zone").write_text(ZONE, encoding="ascii")
    (tmp_path / "good.toml").write_text(EXPERIMENT, encoding="ascii")
    return tmp_path


def find(running: Running, victim: str) -> int | None:
    """The oldest process of that part. The command's only child is the keeper, and init is the keeper's."""
    if victim == "command":
        return running.process.pid
    if victim in ("keeper", "init"):
        found = below(running.process.pid)[:2]
        at = 0 if victim == "keeper" else 1
        return found[at] if len(found) > at else None
    return next(iter(running.offspring(VICTIMS[victim])), None)


def kill(running: Running, victim: str, after_s: float) -> float | None:
    """SIGKILL so long after the process was there; the moment, or None where it had ended already."""
    wait_for(lambda: find(running, victim) is not None or running.process.poll() is not None, victim)
    time.sleep(after_s)
    pid = find(running, victim)
    if pid is None or running.process.poll() is not None:
        return None
    moment = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return moment


def records(folder: Path) -> tuple[set[int], int]:
    """Sequence numbers on record, and the announced start."""
    files = [read_rq(path) for path in sorted(folder.glob("queries-*.rq"))]
    found = [int(seq) for file in files for seq in np.asarray(file.records["seq"])]
    assert len(found) == len(set(found))
    return set(found), max((file.start_mono_ns for file in files), default=0)


def check_report(desk: Path, folder: Path) -> dict[str, Any]:
    """`reprise report` reads what is left; every query that was read has its end, lost ones have a reason."""
    reported = reprise(desk, "report", str(folder))
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert reported.status == (0 if summary["clean"] else 1), reported.errors
    queries, held = summary["queries"], records(folder)[0]
    assert sum(queries[end] for end in ENDS) == queries["read"]
    told = read(folder / "controller.json")
    unsent = sum(told.get("skipped", {}).values())
    assert queries["lost"] == max(0, told.get("queries", {}).get("read", 0) - unsent - len(held))
    reasons = "; ".join(summary["unclean_because"])
    assert queries["lost"] == 0 or f"{queries['lost']} queries were lost" in reasons
    assert summary["clean"] is (not reasons)
    return summary


def read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return value


def check_records(folder: Path, moment: float) -> None:
    """All that was due more than a second before the moment is on record."""
    held, start = records(folder)
    sure_s = moment - start / SECOND - UNWRITTEN_S - LATE_S
    sure = set(range(max(0, min(RATE * SECONDS, int(sure_s * RATE))))) if start else set()
    assert sure <= held, f"{len(sure - held)} of {len(sure)} are missing"


def check_kill(desk: Path, victim: str, after_s: float) -> None:
    with started(desk, "run", "good.toml") as running:
        moment = kill(running, victim, after_s)
        others = below(running.process.pid)
        ended = running.end()
        wait_for(lambda: all(map(has_ended, others)), "the end of all")
    if moment is None:
        return
    judge(desk, victim, moment, ended)


def judge(desk: Path, victim: str, moment: float, ended: Ended) -> None:
    """What a user sees and what is left after a kill at a moment."""
    if victim == "command":
        assert ended.status == -signal.SIGKILL
    elif ended.status != 0:  # nothing was left to do
        line = ended.line()
        assert victim not in ("keeper", "init") or "the run was killed (signal SIGKILL)" in line
    for folder in ended.results:
        if not list(folder.glob("queries-*.rq")):
            continue
        check_records(folder, moment)
        summary = check_report(desk, folder)
        assert folder.name.endswith(".partial") or summary["clean"] is (ended.status == 0)


@pytest.mark.parametrize("victim", ["command", "keeper", "init", "querier"])
def test_a_kill_costs_the_last_second_at_most(place: Path, victim: str) -> None:
    with started(place, "run", "good.toml") as running:
        running.reaches("sent ")  # the first records are waited for below
        begun = find(running, victim) is not None and records_begin(place)
        moment = kill(running, victim, max(0.0, begun + 2.0 - time.monotonic()))
        assert moment is not None
        ended = running.end()
    judge(place, victim, moment, ended)
    (folder,) = ended.results
    assert len(records(folder)[0]) > RATE / 3
    if victim in ("keeper", "init"):
        assert f"its records are kept, use `reprise report results/{folder.name}`" in ended.line()


def records_begin(place: Path) -> float:
    """The start of the replay on our clock."""
    wait_for(lambda: bool(list(place.glob("results/*/queries-*.rq"))), "records")
    path = next(place.glob("results/*/queries-*.rq"))
    wait_for(lambda: read_rq(path).start_mono_ns > 0, "the header of records")
    return read_rq(path).start_mono_ns / SECOND


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["command", "keeper", "init", *VICTIMS])
def test_kills_at_random_moments(place: Path, victim: str) -> None:
    chance = random.Random(f"{SEED} {victim}")
    for turn in range(10):
        after_s = chance.uniform(0, 0.4 if turn % 5 == 0 else SECONDS + 1)
        try:
            check_kill(place, victim, after_s)
        except AssertionError as error:
            raise AssertionError(f"{victim} killed after {after_s:.3f} s") from error
        shutil.rmtree(place / "results", ignore_errors=True)


# --- impatient users --------------------------------------------------------------------------------------


def test_three_ctrl_c_at_once_leave_the_records(place: Path) -> None:
    with started(place, "run", "good.toml") as running:
        running.reaches("sent ")
        wait_for(lambda: time.monotonic() > records_begin(place) + 1.0, "the first second")
        moment = time.monotonic()
        for _ in range(3):
            os.kill(running.process.pid, signal.SIGINT)
            time.sleep(0.01)
        ended = running.end()
    assert "the run was" in ended.line()  # killed or interrupted
    (folder,) = ended.results
    check_records(folder, moment)
    assert 0 < check_report(place, folder)["queries"]["answered"] < RATE * SECONDS


def test_three_ctrl_c_before_the_replay_leave_nothing(place: Path) -> None:
    with started(place, "run", "good.toml") as running:
        running.reaches("making the network")
        for _ in range(3):
            os.kill(running.process.pid, signal.SIGINT)
            time.sleep(0.01)
        ended = running.end()
    assert "nothing had been replayed, run it again" in ended.line()
    assert not ended.results


# --- disks that fill --------------------------------------------------------------------------------------


@contextmanager
def filler(folder: Path) -> Iterator[None]:
    """Another program fills a disk, and takes at once what is given back; its file goes at the end."""
    child = os.fork()
    if child == 0:
        linux.die_with_parent(signal.SIGKILL)
        try:
            write_for_ever(folder / "filler")
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        (folder / "filler").unlink()


def write_for_ever(path: Path) -> None:
    piece = bytes(FILL_RATE // 100)
    due = time.monotonic()
    with path.open("wb", buffering=0) as file:
        while True:
            with suppress(OSError):
                file.write(piece)  # of which a part may fit
            due += 0.01
            time.sleep(max(0.0, due - time.monotonic()))


@pytest.mark.parametrize("answers", [False, True])
def test_a_disk_filled_by_another_program_costs_no_record(place: Path, answers: bool) -> None:
    with small_disk(place / "results", "150m") as disk:
        with started(place, "run", "good.toml", "--set", f"replay.answers={str(answers).lower()}") as running:
            running.reaches(ANSWERED)
            with filler(disk):
                ended = running.end()
        assert "space left" in ended.line()
        (folder,) = [one for one in ended.results if one.name != "filler"]
        assert (folder / "manifest.json").stat().st_size > 1_000
        assert (folder / "controller.json").stat().st_size > 1_000
        queries = check_report(place, folder)["queries"]
        assert queries["lost"] == 0
        assert 0 < queries["answered"] < queries["read"]


def test_a_run_that_fills_its_disk_keeps_its_records(place: Path) -> None:
    steady(place / "long.pcap", 20, 12_000, 4)
    settings = ("trace=long.pcap", "replay.answers=true", "replay.speed=8")
    with small_disk(place / "results", "10m"):
        ended = run(place, *settings)
        assert "space left" in ended.line()
        (folder,) = ended.results
        queries = check_report(place, folder)["queries"]
        assert queries["lost"] == 0
        assert queries["answered"] > 0


def test_a_full_disk_is_said_at_once(place: Path) -> None:
    with small_disk(place / "results", "1m") as disk:
        file = fill(disk)
        ended = run(place)
        assert "no space left for results" in ended.line()
        assert ended.results == (file,)
