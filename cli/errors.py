"""Errors that end a command with one line that says what is wrong and how to fix it."""

import contextlib
import difflib
import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec

from report.errors import ReportError, printable

EXIT_FAILED = 1
EXIT_USAGE = 2
_LONGEST = 400  # of a message's characters
_P = ParamSpec("_P")


class RepriseError(Exception):
    """A failure the user can fix; printed as `reprise: error: WHAT; HINT`, never as a traceback."""

    def __init__(self, what: str, hint: str = "", status: int = EXIT_FAILED) -> None:
        super().__init__(what)
        self.what = one_line(what)
        self.hint = one_line(hint)
        self.status = status

    def line(self) -> str:
        """The whole message, always one line."""
        return f"reprise: error: {self.what}" + (f"; {self.hint}" if self.hint else "")


class UsageError(RepriseError):
    """The command line or the experiment is wrong; nothing was started."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint, EXIT_USAGE)


def tell(error: RepriseError) -> None:
    """Writes an error's line to standard error. Where the environment has REPRISE_ERRORS=json, a line of
    JSON for whoever started us follows.
    """
    complain(error.line())
    if os.environ.get("REPRISE_ERRORS") == "json":
        complain(json.dumps({"error": error.what, "hint": error.hint}))


def telling(main: Callable[_P, int]) -> Callable[_P, int]:
    """A program's main function, which signals end in order: an error is told and becomes its exit status, as
    does an interruption.
    """

    @functools.wraps(main)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> int:
        try:
            interrupt_in_order()
            try:
                return main(*args, **kwargs)
            except (RepriseError, ReportError) as error:
                tell(RepriseError(error.what, error.hint))
                return error.status
        except KeyboardInterrupt:
            complain("reprise: error: interrupted; run it again")
            return EXIT_FAILED

    return run


def read_told(text: str) -> tuple[str, str] | None:
    """What happened and how to fix it, as the last line of JSON among a program's last lines says it."""
    for line in reversed(text.splitlines()):
        if line.startswith('{"error":'):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                told = json.loads(line)
                return str(told["error"]), str(told["hint"])
    return None


def want(good: bool, what: str, hint: str) -> None:
    """A usage error unless `good`."""
    if not good:
        raise UsageError(what, hint)


def exclude(*given: object, hint: str = "leave one of them out") -> None:
    """A usage error where more than one of these words for what is given is there (not None, False or "")."""
    there = [str(one) for one in given if one]
    want(len(there) <= 1, f"{' and '.join(there)} exclude each other", hint)


def want_choice(key: str, value: str, choices: Sequence[str]) -> None:
    """A usage error, with the nearest word, unless `value` is one of `choices`."""
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    hint = f"use {'one of ' if len(choices) > 1 else ''}{', '.join(choices)}"
    hint = f"did you mean {near[0]}? {hint}" if near else hint
    want(value in choices, f"{key} = {value!r} is unknown", hint)


class Interrupted(Exception):  # noqa: N818  (it is a request, not an error)
    """The user or the system asked for the end (one of SIGNALS, or the command itself died)."""


class _Interruption(KeyboardInterrupt):
    """Not KeyboardInterrupt itself: once that has passed an exec(), Python dies of it whatever we return."""


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def interrupt_in_order() -> None:
    """SIGTERM, SIGHUP and SIGQUIT end a command as ctrl-C does; ignored signals stay ignored.

    A ctrl-C that came while Python was starting (see `hold_interrupts`) is raised here.
    """

    def interrupt(_number: int, _frame: object) -> None:
        raise _Interruption

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def hold_interrupts() -> None:
    """Signals wait until somebody is ready for them, also beyond an exec(): while Python starts and imports,
    ctrl-C would end in a traceback.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


@contextlib.contextmanager
def interrupts_held() -> Iterator[set[signal.Signals | int]]:
    """Signals that come meanwhile interrupt at the end of the body; gives the mask that stood before, which a
    new process sets again. Python loses a signal that comes while it forks: the exception is raised in one of
    the functions that run at every fork, whose exceptions are printed and forgotten.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def complain(line: str) -> None:
    """Writes a line to standard error, as a terminal may show it; where nobody reads that any more, later
    output goes nowhere.
    """
    try:
        sys.stderr.write("\n".join(map(printable, line.split("\n"))) + "\n")
        sys.stderr.flush()
    except OSError:
        discard(2)


def discard(descriptor: int) -> None:
    """Sends what is written to a standard stream from now on nowhere, so that the exit is not disturbed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def last_line(text: str | bytes) -> str:
    """The last line with any text, fit for a message; "" where there is none."""
    whole = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return next((one_line(line) for line in reversed(whole.split("\n")) if line.strip()), "")


def one_line(text: str) -> str:
    """Text from elsewhere (a log, a tool) made fit for a one-line message."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 3] + "..."
