"""Long steps with a program's output kept aside and one line that shows the last of it.

The output is shown when the program fails. Uses Python's own library alone: the bootstrap runs it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cli.errors import RepriseError, interrupts_held
from cli.process import Process
from cli.progress import Progress, seconds_in_words
from report.errors import printable

LINE_EVERY_S = 15.0  # where standard error is no terminal
_TICK_S = 0.2
TAIL_LINES = 60
NINJA_ENVIRONMENT = {"NINJA_STATUS": "%f of %t: "}


@dataclass(frozen=True)
class Job:
    """A program to be run as a step; `env` is added to the environment. It has `patience_s` to end when it is
    stopped; None is without limit, for what must not be cut off. `only_itself` is interrupted then, and not
    what it has started: apt-get waits for dpkg, which would leave packages half configured. `held`: locks
    that it keeps as long as it lives, also when we are killed.
    """

    title: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    patience_s: float | None = None
    only_itself: bool = False
    held: tuple[int, ...] = ()


Done = subprocess.CompletedProcess[str]


class Running:
    """A started job. It has a process group of its own, so that its end is ours to ask for."""

    _all: ClassVar[set[Running]] = set()
    _stopped = threading.Event()

    def __init__(self, job: Job) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._job, self._begin_s = job, time.monotonic()
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        argv = (*(("env", "-C", str(job.cwd)) if job.cwd else ()), *job.argv)
        log, env = Path(f"/proc/self/fd/{self._said.fileno()}"), {**os.environ, **job.env}
        try:
            with interrupts_held():  # until it is known
                self._process = Process.started(argv, log, env=env, held=job.held)
                self._all.add(self)
        except KeyboardInterrupt:
            if self in self._all:
                self.stop()
            raise

    def watch(self, progress: Progress | None = None) -> Done:
        """Shows how far it is until it ends; an interruption ends it first and then goes on."""
        last = ""
        try:
            while not self._process.has_ended(_TICK_S):
                if progress:
                    lines = reversed(self._said.read().splitlines())  # clang counts warnings it does not show
                    last = next((one for one in lines if one and not one.endswith(" generated.")), last)
                    progress.show(f"{self._job.title}: {last}" if last else self._job.title)
        except BaseException:
            if progress:
                progress.finish()
            self.stop()
            raise
        self._all.discard(self)
        status = self._process.reap()
        if progress and status == 0:
            passed = seconds_in_words(time.monotonic() - self._begin_s)
            progress.end(f"{self._job.title}: done in {passed}")
        elif progress:
            progress.finish()
        with self._said:
            self._said.seek(0)
            return Done(self._job.argv, status, self._said.read().removesuffix("\n"))

    def stop(self) -> None:
        """Asks it to end as ctrl-C does, and waits: an installation that is cut off would need repair. A
        second ctrl-C does not cut off what the first one began.
        """
        pid = self._process.pid
        with interrupts_held(), contextlib.suppress(ProcessLookupError):
            if not self._process.has_ended():
                (os.kill if self._job.only_itself else os.killpg)(pid, signal.SIGINT)
            if not self._process.has_ended(self._job.patience_s):
                os.killpg(pid, signal.SIGKILL)

    @classmethod
    def stop_all(cls) -> None:
        """Ends what other threads have started, and lets them start nothing more."""
        cls._stopped.set()
        for one in list(cls._all):
            one.stop()


def run(job: Job, progress: Progress | None = None) -> Done:
    """Runs a program to its end, as a step where its progress is to be shown."""
    try:
        running = Running(job)
    except RepriseError as error:
        return Done(job.argv, 127, error.what)
    return running.watch(progress)


def carry_out(job: Job, complaint: str, hint: str = "see above") -> None:
    """Runs a program as a step, see `want_done`."""
    want_done(run(job, Progress(quiet_s=LINE_EVERY_S)), complaint, hint)


def want_done(done: Done, complaint: str, hint: str) -> None:
    """An error where a program failed, after the last lines of what it printed."""
    if done.returncode != 0:
        sys.stderr.writelines(f"{printable(line)}\n" for line in done.stdout.splitlines()[-TAIL_LINES:])
        sys.stderr.flush()
        raise RepriseError(complaint, hint)
