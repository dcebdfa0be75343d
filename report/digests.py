"""Numbers by which answers are known to be equal or of one kind; `reprise-mutator digests` makes them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from report.errors import ReportError
from report.rafile import AnswerSet, Places
from report.zone import Zone

_ROW = np.dtype(
    [
        *((name, np.uint64) for name in ("query", "reply", "content", "place")),
        *((name, np.uint16) for name in ("flags", "answers", "authority", "size")),
    ]
)


@dataclass(frozen=True)
class Digested:
    """Answers with a row for each record of their files, on the disk. `query` and `reply` are numbers of the
    bytes without the id, and `content` is one of what the reply says, 0 without a reply: replies with the
    same number differ at most in the order and case of their records and in what was asked. Names of the
    same `place` have the same cut() and top() in the zone.
    """

    answers: AnswerSet
    tables: tuple[NDArray[np.void], ...]

    def rows(self, places: Places) -> NDArray[np.void]:
        return places.rows(self.tables or (np.zeros(0, _ROW),))


def digested(answers: AnswerSet, zone: Zone | None, program: Callable[[], Path], scratch: Path) -> Digested:
    """`program` is the mutator; raises ReportError where it fails. Names count as far as the zone cuts."""
    words = ["--origin", zone.origin, "--labels", str(zone.reach)] if zone else []
    tables = []
    for file in answers.files:
        target = scratch / f"{len(list(scratch.iterdir()))}.digests"
        argv = [str(program()), "digests", str(file.path), "-o", str(target), *words]
        done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        if done.returncode:
            what = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ReportError(f"cannot read {file.path}: {what}", f"see whether {scratch} has room")
        rows = np.memmap(target, _ROW, "r") if target.stat().st_size else np.zeros(0, _ROW)
        if len(rows) < len(file):
            raise ReportError(f"{file.path} changes while it is read", "compare when its run is done")
        tables.append(rows)
    return Digested(answers, tuple(tables))
