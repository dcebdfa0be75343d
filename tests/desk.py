"""A folder with an experiment, and the `reprise` command in it: what faults are tried on."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from cli import progress
from cli.process import Process
from tests import command
from tests.bed import ZONE, below, wait_for

LIMIT_S = 60.0
ANSWERED = r"sent \d+, answered [1-9]"  # the progress of a replay, which may begin with no answer at all
SLOWLY = ("--set", "replay.speed=0.2")  # so that there is a middle, and some are left, on a busy machine too
QUERIES = 400
EXPERIMENT = """schema = 1
name = "fault"
trace = "trace.pcap"
[server]
kind = "nsd"
zone = "zone"
[replay]
timeout_s = 1
late_ms = 1000
max_lateness_s = 20
[topology]
queriers = 1
"""
TEXT_EXPERIMENT = EXPERIMENT.replace("trace.pcap", "trace.txt")
ENDS = ("answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")


@dataclass(frozen=True)
class Ended:
    """A command's end: its status, its standard output and error, and its results folders by name."""

    status: int
    output: str
    errors: str
    results: tuple[Path, ...]

    def line(self) -> str:
        """The one error line; anything else than exactly one fails."""
        assert "Traceback" not in self.errors, self.errors
        found = [line for line in self.errors.splitlines() if ": error: " in line]
        assert len(found) == 1, self.errors
        assert self.status in (1, 2), self.errors
        assert re.fullmatch(r"reprise: error: [^;].*; \S.*", found[0]), found[0]
        return found[0]

    def summary(self) -> dict[str, Any]:
        """summary.json of the only run, every query of which has its end."""
        (folder,) = self.results
        summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        assert sum(summary["queries"][end] for end in ENDS) == summary["queries"]["read"]
        assert not folder.name.endswith(".partial")
        return summary


@dataclass(frozen=True)
class Running:
    """A command that has been started in a process group of its own."""

    folder: Path
    process: Process

    @property
    def pid(self) -> int:
        return self.process.pid

    def errors(self) -> str:
        return self.process.log.read_text(encoding="utf-8", errors="replace")

    def reaches(self, pattern: str) -> None:
        """Waits until its standard error matches the pattern."""
        said = re.compile(pattern)
        wait_for(lambda: bool(said.search(self.errors())) or self.process.has_ended(), pattern)
        assert said.search(self.errors()), self.errors()

    def end(self, limit_s: float = LIMIT_S) -> Ended:
        status = self.process.wait(limit_s)
        output = (self.folder / "stdout").read_text(encoding="utf-8")
        folder = self.folder / "results"
        results = tuple(sorted(folder.iterdir())) if folder.is_dir() else ()
        return Ended(status, output, self.errors(), results)

    def offspring(self, word: str) -> list[int]:
        """Processes below the command whose command line has the word, the oldest first."""
        return [pid for pid in below(self.pid) if word in words_of(pid)]


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


@contextmanager
def started(folder: Path, *arguments: str, **more: Any) -> Iterator[Running]:
    """Every line of the progress is seen: the first may say that nothing was answered yet."""
    often = mock.patch.object(progress, "Progress", partial(progress.Progress, quiet_s=0))
    files = {"output": folder / "stdout", "log": folder / "stderr"}
    for one in files.values():
        one.write_bytes(b"")
    with often:
        process = command.start(*arguments, cwd=folder, **{**files, **more})
    try:
        yield Running(folder, process)
    finally:
        process.kill()


def reprise(folder: Path, *arguments: str, **more: Any) -> Ended:
    with started(folder, *arguments, **more) as running:
        return running.end()


def furnish(folder: Path, trace: Path) -> Path:
    """Puts a good experiment, a trace and a zone into a folder."""
    shutil.copy(trace, folder / "trace.pcap")
    (folder / "zone").write_text(ZONE, encoding="ascii")
    (folder / "good.toml").write_text(EXPERIMENT, encoding="ascii")
    return folder


def run(folder: Path, *settings: str, experiment: str = "good.toml") -> Ended:
    return reprise(folder, "run", experiment, *(word for one in settings for word in ("--set", one)))
