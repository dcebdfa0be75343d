"""A minute at a root server under each fault, through the whole command: every query that was read has its
end, the records say the same as the table, and `reprise report` finds the same again.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli import programs
from report.rqfile import Status, read_rq
from tests.desk import ENDS, Ended, Running, reprise, started
from tests.fault_matrix_test import filler, records_begin
from tests.memory_group import memory_group
from tests.small_disk import small_disk
from tests.udp_faults_test import pause

pytestmark = [pytest.mark.netns, pytest.mark.slow]

BEFORE_S = 15.0  # of replay, before the fault
EXPERIMENT = """schema = 1
name = "minute"
trace = "minute.pcap"
[server]
kind = "nsd"
zone = "root.zone"
edns_size = 4096
[replay]
timeout_s = 1
[topology]
clients = 2
queriers = 1
"""
SERVER, CONTROLLER, SAMPLER = "/nsd -d", "reprise-controller", "reprise-sampler"
DISTRIBUTOR, QUERIER = "reprise-querier distribute", "reprise-querier query"
Fault = Callable[[Running], None]
Disk = Callable[[Path], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Case:
    """A fault, the error line's words ("" where the run is clean), and what may be lost."""

    fault: Fault
    words: str
    lost: bool = False
    disk: Disk = nullcontext


# --- faults -----------------------------------------------------------------------------------------------


def kill(victim: str, running: Running) -> None:
    os.kill(running.offspring(victim)[0], signal.SIGKILL)


def interrupt(running: Running) -> None:
    os.kill(running.pid, signal.SIGINT)


def stop(victim: str, seconds: float, running: Running) -> None:
    """All processes of that part stand still."""
    stopped = running.offspring(victim)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    pause(seconds)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def ip(running: Running, *words: str) -> str:
    inside = [programs.packaged("nsenter"), "-t", str(running.offspring(DISTRIBUTOR)[0]), "-n"]
    argv = [*inside, programs.packaged("ip"), *words]
    return subprocess.run(argv, stdout=subprocess.PIPE, encoding="ascii", check=True).stdout


def interrupt_link(running: Running) -> None:
    """Routes of IPv4 come back with it; IPv6 addresses are gone for good."""
    data = ("dev", "data")
    routes = ip(running, "route", "show", *data).splitlines()
    ip(running, "link", "set", *data, "down")
    pause(2)
    ip(running, "link", "set", *data, "up")
    for line in routes:
        ip(running, "route", "replace", *line.split(), *data)


def cut_control(running: Running) -> None:
    ip(running, "link", "set", "dev", "control", "down")


def take_memory(running: Running) -> None:
    """A querier gets no more memory than it has: the kernel kills it."""
    with memory_group(limit=1 << 20) as group:
        group.take(running.offspring(QUERIER)[0])
        group.wait_until_empty()


def remove_trace(running: Running) -> None:
    (running.folder / "minute.pcap").unlink()


def fill_disk(running: Running) -> None:
    with filler(running.folder / "results"):
        running.end()


CASES = {
    "nothing": Case(lambda _running: None, ""),
    "server killed": Case(partial(kill, SERVER), "server died during the run (signal SIGKILL)"),
    "controller killed": Case(partial(kill, CONTROLLER), "controller ended with signal SIGKILL"),
    "distributor killed": Case(partial(kill, DISTRIBUTOR), "host client1", lost=True),
    "querier killed": Case(partial(kill, QUERIER), "killed by signal 9", lost=True),
    "sampler killed": Case(partial(kill, SAMPLER), "sampler ended early (signal SIGKILL)"),
    "interrupted": Case(interrupt, "the run was interrupted"),
    "server stopped for 3 s": Case(partial(stop, SERVER, 3), ""),
    "controller stopped for 3 s": Case(partial(stop, CONTROLLER, 3), "the controller stood still for"),
    "distributor stopped for 3 s": Case(partial(stop, DISTRIBUTOR, 3), "silent for", lost=True),
    "queriers stopped for 0.8 s": Case(partial(stop, QUERIER, 0.8), ""),
    "link down for 2 s": Case(interrupt_link, "link data of client1 was down for a while"),
    "control link down": Case(cut_control, "link control of client1 was taken", lost=True),
    "out of memory": Case(take_memory, "killed by signal 9", lost=True),
    "disk filled": Case(fill_disk, "space left", disk=lambda path: small_disk(path, "150m")),
    "trace removed": Case(remove_trace, ""),
}


# --- judging ----------------------------------------------------------------------------------------------


@pytest.fixture
def minute(tmp_path: Path, real: tuple[Path, Path]) -> Iterator[Path]:
    """A folder with the experiment, the trace and the root zone."""
    for one in real:
        shutil.copy(one, tmp_path / one.name)
    (tmp_path / "minute.toml").write_text(EXPERIMENT, encoding="ascii")
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@contextmanager
def faulty(folder: Path, case: Case) -> Iterator[Ended]:
    """The run, with the fault in its middle."""
    with case.disk(folder / "results"):
        with started(folder, "run", "minute.toml") as running:
            begun = records_begin(folder)
            pause(max(0.0, begun + BEFORE_S - time.monotonic()))
            case.fault(running)
            ended = running.end()
        yield ended


def on_record(folder: Path) -> Counter[Status]:
    """Queries by their end; each is there once."""
    found = [read_rq(path).records for path in sorted(folder.glob("queries-*.rq"))]
    sequences = np.concatenate([np.asarray(one["seq"]) for one in found])
    assert len(np.unique(sequences)) == len(sequences)
    return Counter(Status(int(one)) for records in found for one in records["status"])


def summary_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def check_sums(folder: Path, lost: bool) -> dict[str, int]:
    """What was read, what is on record and what the table says agree; so does a second report."""
    desk = folder.parent.parent
    if not (folder / "summary.json").exists():  # there was no room for it
        reprise(desk, "report", str(folder))
    summary = summary_of(folder)
    queries: dict[str, int] = summary["queries"]
    assert sum(queries[end] for end in ENDS) == queries["read"]
    assert lost or queries["lost"] == 0
    held = on_record(folder)
    for end in (Status.ANSWERED, Status.TIMED_OUT, Status.SEND_FAILED, Status.CONNECTION_FAILED):
        assert held[end] == queries[end.name.lower()], end
    assert reprise(desk, "report", str(folder)).status == (0 if summary["clean"] else 1)
    again = summary_of(folder)
    assert again["queries"] == queries
    assert again["unclean_because"] == summary["unclean_because"]
    return queries


@pytest.mark.parametrize("name", CASES)
def test_the_sums_of_a_real_minute_are_exact(
    minute: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    case = CASES[name]
    with faulty(minute, case) as ended:
        assert ended.status == (1 if case.words else 0), ended.errors
        assert not case.words or case.words in ended.line()
        (folder,) = (one for one in ended.results if one.is_dir())
        queries = check_sums(folder, case.lost)
        assert queries["answered"] > queries["read"] / 10
    record_property("queries", {end: queries[end] for end in ("read", *ENDS)})
