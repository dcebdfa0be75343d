"""What ends a run, by role and fault: its status and line, how its queries are accounted, what is on record.

A querier writes its records at least once a second, so that a kill costs no more than that; what is on the
disk is read by `reprise report`, and every query read has its end there. A disk that fills costs nothing.
"""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli import linux
from cli.executor import sandbox
from report.rqfile import read_rq
from tests.bed import below, has_ended, wait_for
from tests.desk import ANSWERED, ENDS, Ended, Running, furnish, reprise, run, started, words_of
from tests.slow import slow
from tests.small_disk import fill, small_disk
from tests.udp_faults_test import steady

pytestmark = pytest.mark.netns

RATE = 1_500  # evenly: there is never a quiet millisecond, and a buffer of records lasts for two seconds
SECONDS = 3
MOMENT_S = 2.0  # of a fault: some of what came before has to be on record then
SECOND = 10**9
UNWRITTEN_S = 1.0
LATE_S = 0.5  # by which a busy machine may hold up a query and its answer
FILL_RATE = 200_000_000  # bytes a second
SEED = 20261122
LONG = ("trace=long.pcap", "replay.answers=true", "replay.speed=8")
Fault = Callable[[Running], AbstractContextManager[None]]
VICTIMS = {
    "server": "/nsd -d",
    "controller": "reprise-controller",
    "distributor": "reprise-querier distribute",
    "querier": "reprise-querier query",
    "sampler": "reprise-sampler",
}
BIND = "/named -g"


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return steady(tmp_path_factory.mktemp("even") / "trace.pcap", 20, RATE, SECONDS)


@pytest.fixture
def place(tmp_path: Path, even: Path) -> Path:
    """A folder with a good experiment, trace and zone."""
    return furnish(tmp_path, even)


def find(running: Running, victim: str) -> int | None:
    """The oldest process of that part. The command forks the keeper and that init; the programs that are
    checked before have command lines of their own.
    """
    if victim == "command":
        return running.pid
    if victim in ("keeper", "init"):
        found = [pid for pid in below(running.pid) if words_of(pid) == words_of(running.pid)]
        at = 0 if victim == "keeper" else 1
        return found[at] if len(found) > at else None
    return next(iter(running.offspring(VICTIMS.get(victim, BIND))), None)


def kill(running: Running, victim: str, after_s: float) -> float | None:
    """SIGKILL so long after the process was there; the moment, or None where it had ended already."""
    wait_for(lambda: find(running, victim) is not None or running.process.has_ended(), victim)
    time.sleep(after_s)
    pid = find(running, victim)
    if pid is None or running.process.has_ended():
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


def check_kill(desk: Path, victim: str, after_s: float) -> bool:
    """False where there was nothing to kill any more."""
    with started(desk, "run", "good.toml") as running:
        moment = kill(running, victim, after_s)
        others = below(running.pid)
        ended = running.end()
        wait_for(lambda: all(map(has_ended, others)), "the end of all")
    if moment is not None:
        judge(desk, victim, moment, ended)
    return moment is not None


def judge(desk: Path, victim: str, moment: float, ended: Ended) -> None:
    """What a user sees and what is left after a kill at a moment."""
    if victim == "command":
        assert ended.status == -signal.SIGKILL
    elif ended.status != 0:
        line = ended.line()
        assert victim not in ("keeper", "init") or "the run was killed (signal SIGKILL)" in line
    else:  # nothing was left to do
        (folder,) = ended.results
        assert len(records(folder)[0]) == RATE * SECONDS
    for folder in ended.results:
        if not list(folder.glob("queries-*.rq")):
            continue
        check_records(folder, moment)
        summary = check_report(desk, folder)
        assert folder.name.endswith(".partial") or summary["clean"] is (ended.status == 0)


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
    judged = 0
    for turn in range(10):
        after_s = chance.uniform(0, 0.4 if turn % 5 == 0 else SECONDS + 1)
        try:
            judged += check_kill(place, victim, after_s)
        except AssertionError as error:
            raise AssertionError(f"{victim} killed after {after_s:.3f} s") from error
        shutil.rmtree(place / "results", ignore_errors=True)
    assert judged > 0


# --- impatient users --------------------------------------------------------------------------------------


def test_three_ctrl_c_before_the_replay_leave_nothing(place: Path) -> None:
    with started(place, "run", "good.toml") as running:
        running.reaches("making the network")
        for _ in range(3):
            os.kill(running.pid, signal.SIGINT)
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


def test_a_full_disk_is_said_at_once(place: Path) -> None:
    with small_disk(place / "results", "1m") as disk:
        file = fill(disk)
        ended = run(place)
        assert "no space left for results" in ended.line()
        assert ended.results == (file,)


# --- the matrix -------------------------------------------------------------------------------------------


@contextmanager
def no_fault(running: Running) -> Iterator[None]:
    """The run is the fault."""
    running.reaches("replaying")
    yield


def signals(victim: str, *numbers: int) -> Fault:
    """In the replay, 10 ms apart."""

    @contextmanager
    def fault(running: Running) -> Iterator[None]:
        begun = records_begin(running.folder)
        wait_for(lambda: time.monotonic() > begun + MOMENT_S, "the moment")
        pid = find(running, victim)
        assert pid is not None
        for number in numbers:
            os.kill(pid, number)
            time.sleep(0.01)
        yield

    return fault


@contextmanager
def filled(running: Running) -> Iterator[None]:
    """Another program takes what is left of the disk."""
    running.reaches(ANSWERED)
    with filler(running.folder / "results"):
        yield


@dataclass(frozen=True)
class Cell:
    """`line`: the error's, "…" for what differs. `ends`: what queries have beside `answered` and, those that
    were under way, `timed_out`. `disk`: the size of that of the results.
    """

    fault: Fault
    line: str
    ends: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    disk: str = ""


KEPT = "; its records are kept, use `reprise report results/fault-….partial`"
KILLED = f"the run was killed (signal SIGKILL){KEPT}"
INTERRUPTED = "the run was interrupted; results up to here are kept and marked unclean"
SERVER_DIED = "server died during the run (signal SIGKILL): …; see results/fault-…/logs/server.log"
SKIPPED, LOST = ("skipped",), ("lost",)
CELLS = {
    "server killed": Cell(signals("server", signal.SIGKILL), SERVER_DIED, SKIPPED),
    "bind killed": Cell(signals("bind", signal.SIGKILL), SERVER_DIED, SKIPPED, ("server.kind=bind",)),
    "controller killed": Cell(
        signals("controller", signal.SIGKILL),
        "controller ended with signal SIGKILL; see results/fault-…/logs/controller.log",
        SKIPPED,
    ),
    "distributor killed": Cell(
        signals("distributor", signal.SIGKILL),
        "host client1 (198.18.1.2:8053) lost: …; see results/fault-…/logs/controller.log",
        SKIPPED,  # its queriers have written what they had
    ),
    "querier killed": Cell(
        signals("querier", signal.SIGKILL),
        "querier client1/0: lost: querier process killed by signal 9; see results/…/logs/controller.log",
        LOST,
    ),
    "sampler killed": Cell(
        signals("sampler", signal.SIGKILL),
        "sampler ended early (signal SIGKILL): sampling; see results/fault-…/logs/sampler.log",
    ),
    "command killed": Cell(signals("command", signal.SIGKILL), ""),
    "keeper killed": Cell(signals("keeper", signal.SIGKILL), KILLED),
    "init killed": Cell(signals("init", signal.SIGKILL), KILLED),
    "interrupted": Cell(signals("command", signal.SIGINT), INTERRUPTED, SKIPPED),
    "told to end": Cell(signals("command", signal.SIGTERM), INTERRUPTED, SKIPPED),
    "told to quit": Cell(signals("command", signal.SIGQUIT), INTERRUPTED, SKIPPED),
    "interrupted three times": Cell(signals("command", *[signal.SIGINT] * 3), "the run was …", SKIPPED),
    # While the other one goes on there may be no room for the report either.
    "disk filled by another": Cell(filled, "…o space left …; …", SKIPPED, disk="150m"),
    "answers' disk filled by another": Cell(
        filled, "…o space left …; …", SKIPPED, ("replay.answers=true",), "150m"
    ),
    "disk filled by the run": Cell(no_fault, "…o space left …; …", SKIPPED, LONG, "13m"),
}


# As others are, of which the quick suite has one.
ALIKE = {
    "bind killed", "distributor killed", "sampler killed", "told to end", "told to quit",
    "disk filled by another", "answers' disk filled by another",
}  # fmt: skip


@pytest.mark.parametrize("name", [slow(one) if one in ALIKE else one for one in CELLS])
def test_a_fault_has_its_line_and_costs_no_more(place: Path, name: str) -> None:
    cell = CELLS[name]
    if cell.settings == LONG:
        steady(place / "long.pcap", 20, 12_000, 4)
    settings = [word for one in cell.settings for word in ("--set", one)]
    with small_disk(place / "results", cell.disk) if cell.disk else nullcontext():
        with started(place, "run", "good.toml", *settings) as running:
            running.reaches("replaying")
            others = below(running.pid)
            with cell.fault(running):
                moment = time.monotonic()
                ended = running.end()
            wait_for(lambda: all(map(has_ended, others)), "the end of all")
        if cell.line:
            assert ended.status == 1
            line = ended.line().removeprefix("reprise: error: ")
            assert re.fullmatch(".*".join(map(re.escape, cell.line.split("…"))), line), line
        else:
            assert ended.status == -signal.SIGKILL
        (folder,) = [one for one in ended.results if one.is_dir()]
        assert folder.name.endswith(".partial") is (not (folder / "summary.json").exists())
        check_records(folder, moment if not cell.disk else 0.0)
        queries = check_report(place, folder)["queries"]
    assert queries["answered"] > 0
    if not cell.disk:
        assert queries["answered"] > RATE / 3
        assert queries["timed_out"] < RATE / 2  # what was under way
    assert tuple(end for end in ENDS[2:] if queries[end]) == cell.ends
    assert {path.name for path in sandbox.runtime_folder().iterdir()} <= {"locks"}
