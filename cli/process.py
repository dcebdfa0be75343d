"""A program that runs beside this one: what it says, its end, and what it used.

Uses Python's own library alone: the bootstrap runs it.
"""

import os
import re
import select
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import struct_rusage
from typing import Self

from cli import linux, programs
from cli.errors import RepriseError, interrupts_held, last_line

_TICK_S = 0.02
_END_S = 60.0


def ended(pid: int, limit_s: float | None) -> bool:
    """Waits for the end of any process up to the limit; None is without limit."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:  # it was reaped
        return True
    try:
        return bool(select.select([descriptor], [], [], limit_s)[0])
    finally:
        os.close(descriptor)


@dataclass
class Process:
    """A started program. Its errors are in the file `log`, its output there too or in a file of its own.
    `exit` is None until it has been reaped, and negative after a signal; `usage` is then what it and the
    children that it waited for have used.
    """

    name: str
    pid: int
    log: Path
    output: Path
    argv: Sequence[str] = ()
    begin: int = 0  # bytes of the log that earlier programs have written
    exit: int | None = None
    usage: struct_rusage | None = None

    @classmethod
    def started(
        cls,
        argv: Sequence[str],
        log: Path,
        *,
        name: str = "",
        output: Path | None = None,
        env: Mapping[str, str] | None = None,
        netns: int | None = None,
        held: Sequence[int] = (),
        bound: bool = False,
        core: int = -1,
    ) -> Self:
        """Starts a program without input in a process group of its own, so that the terminal's signals do not
        reach it. What it writes is added to the files. `env` is all of its environment, `netns` the network
        namespace that it is in, and `held` are descriptors that it gets under the same numbers. One that is
        `bound` is killed when this process ends in any way; `core` is the processor that it keeps to.
        """
        words = [*linux.bound(programs.packaged("setpriv"))] if bound else []
        words += [programs.packaged("taskset"), "-c", str(core)] if core >= 0 else []
        words += argv
        environment = dict(os.environ if env is None else env)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions: list[tuple[object, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output or log), flags, 0o644),
            (os.POSIX_SPAWN_OPEN, 2, str(log), flags, 0o644),
            *((os.POSIX_SPAWN_DUP2, one, one) for one in held),  # which keeps it open
        ]
        begin = log.stat().st_size if log.exists() else 0
        made = cls(name or Path(argv[0]).name, 0, log, output or log, argv, begin)
        try:
            with linux.inside(netns), interrupts_held():
                made.pid = os.posix_spawn(
                    shutil.which(words[0], path=environment.get("PATH")) or words[0],
                    words,
                    environment,
                    file_actions=actions,
                    setpgroup=0,
                    setsigmask=(),
                    setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
                )
        except OSError as error:
            what = f"cannot start {words[0]}: {error.strerror}"
            raise RepriseError(what, "run ./reprise, which installs and builds") from None
        except BaseException:  # an interruption that was held
            if made.pid:
                made.kill()
            raise
        return made

    def text(self) -> str:
        """What it has written so far, its errors last."""
        files = {self.output: 0, self.log: self.begin}
        return "".join(path.read_bytes()[begin:].decode("utf-8", "replace") for path, begin in files.items())

    def last_line(self) -> str:
        """The last line of that with any text, fit for a message."""
        return last_line(self.text()) or "no message"

    def until(self, text: str, limit_s: float = _END_S, reason: str = "") -> Self:
        """Waits for a text in what it writes; it is an error when it ends without it, or says it too late.
        The error has what matches `reason`, a regular expression, or the last line.
        """
        end = time.monotonic() + limit_s
        while text not in self.text():
            if time.monotonic() > end:
                what = f"{self.name} has not said {text.strip()} in {limit_s:g} s"
                raise RepriseError(what, f"see {self.log}")
            if self.has_ended(_TICK_S) and text not in (said := self.text()):
                found = re.search(reason, said) if reason else None
                why = found[0].strip() if found else self.last_line()
                raise RepriseError(f"{self.name} ended: {why}", f"see {self.log}")
        return self

    def has_ended(self, limit_s: float | None = 0.0) -> bool:
        """Waits for its end up to the limit; None is without limit. The process is not reaped."""
        return self.exit is not None or ended(self.pid, limit_s)

    def wait(self, limit_s: float = _END_S) -> int:
        """Its exit status; where it does not end in time it is killed, and that is an error."""
        if not self.has_ended(limit_s):
            self.kill()
            raise RepriseError(f"{self.name} did not end in {limit_s:g} s", f"see {self.log}")
        return self.reap()

    def reap(self) -> int:
        """The exit status, once it has ended."""
        if self.exit is None:
            _, status, self.usage = os.wait4(self.pid, 0)
            self.exit = os.waitstatus_to_exitcode(status)
        return self.exit

    def send(self, number: int) -> None:
        """Sends it a signal if it still runs."""
        if not self.has_ended():
            os.kill(self.pid, number)

    def stop(self, number: int = signal.SIGTERM, limit_s: float = _END_S) -> int:
        """Asks it to end; its exit status, or the error of `wait`."""
        self.send(number)
        return self.wait(limit_s)

    def kill(self) -> None:
        """Ends it and its group by force where it still runs."""
        if not self.has_ended():
            os.killpg(self.pid, signal.SIGKILL)
        self.reap()
