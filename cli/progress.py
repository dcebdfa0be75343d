"""What goes on, on standard error: phases, then one live line (redrawn on a terminal, else every 10 s)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from cli.errors import discard

_QUIET_S = 10.0  # seconds between lines where standard error is no terminal


class Progress:
    """Writes phases and the live line; never more than one unfinished line at a time."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._width = 0
        self._last_s = 0.0

    def phase(self, text: str) -> None:
        """One line for what begins now."""
        self.finish()
        self._write(f"reprise: {text}\n")

    def update(self, fields: Mapping[str, str]) -> None:
        """Shows the controller's latest figures."""
        text = "reprise: " + describe(fields)
        if self._live:
            text = text[: self._columns() - 1]  # a wrapped line could not be redrawn
            self._write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif time.monotonic() - self._last_s >= _QUIET_S:
            self._last_s = time.monotonic()
            self._write(text + "\n")

    def finish(self) -> None:
        """Ends the live line, if there is one."""
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


def parse(line: str) -> tuple[str, dict[str, str]]:
    """A line of the controller: its first word and its key=value fields (`because` takes the rest)."""
    word, _, rest = line.strip().partition(" ")
    head, mark, because = rest.partition("because=")
    fields = dict(part.split("=", 1) for part in head.split() if "=" in part)
    if mark:
        fields["because"] = because.strip()
    return word, fields


def describe(fields: Mapping[str, str]) -> str:
    """The live line: sent, answered, rate, lag, time left."""

    def get(name: str) -> str:
        return fields.get(name, "?")

    left = get("left_s")
    lost = sum(
        int(fields.get(name, "0")) for name in ("timed_out", "failed") if fields.get(name, "0").isdigit()
    )
    return (
        f"sent {get('sent')}, answered {get('answered')}, not answered {lost}, {get('rate')} q/s, "
        f"lag {get('lag_us')} us, " + ("time left unknown" if left in ("unknown", "?") else f"{left} s left")
    )
