"""What goes on, on standard error: phases, then one live line, rewritten in place on a terminal.

Elsewhere the live line is printed anew from time to time.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TextIO

from cli.errors import discard
from report.errors import printable

_QUIET_S = 10.0  # seconds between lines where standard error is no terminal


class Progress:
    """Writes phases and the live line; never more than one unfinished line at a time."""

    def __init__(
        self,
        stream: TextIO | None = None,
        quiet_s: float = _QUIET_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet_s = quiet_s
        self._clock = clock
        self._width = 0
        self._next_s = 0.0
        self._begun = ("", 0.0)

    def begin(self, text: str) -> None:
        """A phase whose time is told when it is over, if that is a second or more."""
        self.over()
        self.phase(text)
        self._begun = (text, self._clock())

    def over(self) -> None:
        """Ends the phase that has begun, and the live line."""
        self.finish()
        text, since = self._begun
        self._begun = ("", 0.0)
        if text and (passed := self._clock() - since) >= 1:
            self.phase(f"{text}: took {seconds_in_words(passed)}")

    def phase(self, text: str) -> None:
        """One line for what begins now."""
        self.finish()
        self._write(f"reprise: {printable(text)}\n")

    def show(self, text: str) -> None:
        """The live line as it is now."""
        text = f"reprise: {printable(text)}"
        if self._live:
            text = text[: self._columns() - 1]  # a wrapped line could not be redrawn
            self._write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif (now := self._clock()) >= self._next_s:
            self._next_s = now + self._quiet_s
            self._write(text + "\n")

    def end(self, text: str) -> None:
        """Ends the live line with its last words, which stay."""
        self._write(("\r" if self._width else "") + f"reprise: {printable(text)}".ljust(self._width) + "\n")
        self._width = 0
        self._next_s = 0.0

    def finish(self) -> None:
        """Ends the live line, if there is one."""
        self._next_s = 0.0
        if self._width:
            self._width = 0
            self._write("\n")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        """A run goes on when nobody reads its progress any more."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            discard(2)


def seconds_in_words(seconds: float) -> str:
    """A duration, to the second, or to the minute above an hour."""
    whole = round(seconds)
    if whole >= 3_600:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def parse(line: str) -> tuple[str, dict[str, str]]:
    """A line of the controller: its first word and its key=value fields (`because` takes the rest)."""
    word, _, rest = line.strip().partition(" ")
    head, mark, because = rest.partition("because=")
    fields = dict(part.split("=", 1) for part in head.split() if "=" in part)
    if mark:
        fields["because"] = because.strip()
    return word, fields


def describe(fields: Mapping[str, str]) -> str:
    """The live line: sent, answered, rate, lag, time since the start."""

    lost = (fields[name] for name in ("timed_out", "failed") if fields.get(name, "").isdigit())
    return (
        "sent {sent}, answered {answered}, not answered {lost}, {rate} q/s, lag {lag_us} us, "
        "after {elapsed_s} s"
    ).format_map(defaultdict(lambda: "?", fields, lost=str(sum(map(int, lost)))))
