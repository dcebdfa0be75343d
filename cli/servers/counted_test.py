"""Counts that are read each second."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cli.servers import counted


def test_what_was_counted_while_it_was_read_is_read_at_the_end(tmp_path: Path) -> None:
    answered = [10]

    def read() -> list[object]:
        found = answered[0]
        if found == 10:  # the replay ends meanwhile
            answered[0] = 11
            os.kill(os.getpid(), signal.SIGTERM)
        return [0, 0, "server", found]

    handler = signal.getsignal(signal.SIGTERM)
    try:
        counted._each_second(tmp_path / "counts.csv", ("answers",), (read,))
    finally:
        signal.signal(signal.SIGTERM, handler)
    rows = (tmp_path / "counts.csv").read_text(encoding="ascii").splitlines()
    assert rows[1:] == ["0,0,server,10", "0,0,server,11"]
