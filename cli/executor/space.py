"""Room on the disk of a results folder, measured against how fast the run fills it."""

import contextlib
import math
import shutil
import time
from pathlib import Path

_ALWAYS = 4 * 1024 * 1024  # bytes that the ends of files, logs, the manifest and the report take
_AHEAD_S = 2.0  # a look at the disk and an end in order take no longer
_EVERY_S = 0.5  # between two measurements of the rate


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


class Space:
    """Says in time when a run has to stop, while there is still room for the ends of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = (-math.inf, 0)  # when its files were measured, and their bytes
        self._rate = 0.0  # bytes a second, the latest

    def trouble(self) -> tuple[str, str] | None:
        """WHAT and MEND where the run has to stop: less is free than what is always needed and what it writes
        until it has stopped.
        """
        mend = "make room or choose another folder with -o"
        try:
            now = time.monotonic()
            if (passed := now - self._last[0]) >= _EVERY_S:
                held = written(self._folder)
                self._rate = max(0, held - self._last[1]) / passed
                self._last = (now, held)
            short = shutil.disk_usage(self._folder).free < _ALWAYS + _AHEAD_S * self._rate
        except OSError as error:
            return f"cannot look at results in {self._folder.parent}: {error.strerror}", mend
        return (f"no space left for results in {self._folder.parent}", mend) if short else None


def written(folder: Path) -> int:
    """Bytes in the files of a folder itself (records, answers); one that goes meanwhile counts nothing."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total
