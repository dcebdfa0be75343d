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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import ClassVar

from cli.errors import SIGNALS
from cli.progress import Progress, seconds_in_words
from report.printable import printable

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
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._reader = Path(f"/proc/self/fd/{self._log.fileno()}").open(encoding="utf-8", errors="replace")  # noqa: SIM115
        self._title, self._last, self._begin_s = job.title, "", time.monotonic()
        self._patience_s = job.patience_s
        self._only_itself = job.only_itself
        with _starting() as interruptions:
            self._process = subprocess.Popen(
                list(job.argv),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **job.env},
                cwd=job.cwd,
                process_group=0,
                pass_fds=job.held,
            )
            self._all.add(self)
        if interruptions:
            self.stop()
            signal.raise_signal(interruptions[0])

    def watch(self, progress: Progress | None = None) -> Done:
        """Shows how far it is until it ends; an interruption ends it first and then goes on."""
        try:
            while not self._ended():
                if progress:
                    progress.show(f"{self._title}: {self._last}" if self._last else self._title)
        except BaseException:
            if progress:
                progress.finish()
            self.stop()
            raise
        self._all.discard(self)
        if progress and self._process.returncode == 0:
            passed = seconds_in_words(time.monotonic() - self._begin_s)
            progress.end(f"{self._title}: done in {passed}")
        elif progress:
            progress.finish()
        return Done(self._process.args, self._process.returncode, self._output())

    def _ended(self) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TICK_S)
        ended = self._process.returncode is not None
        lines = reversed(self._reader.read().splitlines())  # clang counts the warnings it does not show
        self._last = next((one for one in lines if one and not one.endswith(" generated.")), self._last)
        return ended

    def _output(self) -> str:
        self._reader.seek(0)
        text = self._reader.read()
        self._reader.close()
        self._log.close()
        return text.removesuffix("\n")

    def stop(self) -> None:
        """Asks it to end as ctrl-C does, and waits: an installation that is cut off would need repair."""
        if self._process.poll() is not None:
            return
        with _undisturbed(), contextlib.suppress(ProcessLookupError):
            interrupt = os.kill if self._only_itself else os.killpg
            interrupt(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(self._patience_s)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)

    @classmethod
    def stop_all(cls) -> None:
        """Ends what other threads have started, and lets them start nothing more."""
        cls._stopped.set()
        for one in list(cls._all):
            one.stop()


def _undisturbed() -> contextlib.AbstractContextManager[None]:
    """A second ctrl-C does not cut off what the first one began."""
    return _handling(SIGNALS, signal.SIG_IGN)


@contextlib.contextmanager
def _starting() -> Iterator[list[int]]:
    """An interruption waits until what is being started is known; those that came are listed. What starts
    can be interrupted, even where we ignore that as a shell's background job.
    """
    came: list[int] = []
    heeded = [number for number in SIGNALS if callable(signal.getsignal(number))]
    ignored = (signal.SIGINT,) if signal.getsignal(signal.SIGINT) == signal.SIG_IGN else ()
    with _handling(heeded, lambda number, _: came.append(number)), _handling(ignored, lambda _, __: None):
        yield came


@contextlib.contextmanager
def _handling(
    numbers: Sequence[signal.Signals], handler: signal.Handlers | Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Signals are the main thread's matter; in others nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        numbers = ()
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, earlier in zip(numbers, before, strict=True):
            signal.signal(number, earlier)


def run(job: Job, progress: Progress | None = None) -> Done:
    """Runs a program to its end, as a step where its progress is to be shown."""
    try:
        running = Running(job)
    except OSError as error:
        return Done(job.argv, 127, f"cannot start {job.argv[0]}: {error.strerror}")
    return running.watch(progress)


def show_tail(output: str) -> None:
    """The last lines of what a program printed before it failed."""
    sys.stderr.writelines(f"{printable(line)}\n" for line in output.splitlines()[-TAIL_LINES:])
    sys.stderr.flush()
