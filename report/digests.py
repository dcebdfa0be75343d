"""Numbers by which answers are known to be equal or of one kind; `reprise-mutator digests` makes them."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from report.container import mapped, release
from report.errors import ReportError
from report.rafile import AnswerSet, Places
from report.sources import error_line
from report.zone import Zone

_ROW = np.dtype(
    [
        *((name, np.uint64) for name in ("query", "reply", "content", "place")),
        *((name, np.uint16) for name in ("flags", "answers", "authority", "size")),
    ]
)


_HEADER = struct.Struct("<8sQ24x")
_LOOK_S = 0.5


@dataclass(frozen=True)
class Digested:
    """Answers with a row for each record of their files, on the disk. `query` and `reply` are numbers of the
    bytes without the id, and `content` is one of what the reply says, 0 without a reply: replies with the
    same number differ at most in the order and case of their records and in what was asked. Names of the
    same `place` have the same cut() and top() in the zone.
    """

    answers: AnswerSet
    tables: tuple[memoryview, ...]

    def rows(self, places: Places) -> NDArray[np.void]:
        """A row for each; those that stand in the files need no memory afterward."""
        found = places.rows([np.frombuffer(one[_HEADER.size :], _ROW) for one in self.tables or (b"",)])
        for one in self.tables:
            release(one)
        return found


def digested(
    answers: AnswerSet,
    zone: Zone | None,
    program: Callable[[], Path],
    scratch: Path,
    seed: int,
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> Digested:
    """`program` is the mutator; raises ReportError where it fails. Names count as far as the zone cuts.
    `seed`: the same for all that is compared, and known to no server before, so that it cannot write another
    answer with the numbers of one. `told`: how many records there have been, of how many.
    """
    words = ["--origin", zone.origin, "--labels", str(zone.reach)] if zone else []
    tables: list[memoryview] = []
    done = 0
    for file in answers.files:
        if not len(file):  # it may be cut off in its header
            tables.append(memoryview(b""))
            continue
        target = scratch / f"{len(list(scratch.iterdir()))}.digests"
        argv = [str(program()), "digests", str(file.path), "-o", str(target), "--seed", str(seed), *words]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, errors="replace") as child:
            while (complaint := _said(child)) is None:
                told(done + _rows(target.with_name(f"{target.name}.partial")), len(answers))
        if child.returncode:
            what, _, hint = error_line(complaint).partition("; ")
            if hint == "see --help":
                raise ReportError(f"{argv[0]} is older than this report", "build it with ./reprise")
            if not hint or str(target) in what:
                hint = f"see whether {scratch.parent} has room, or set TMPDIR"
            raise ReportError(f"cannot read {file.path}: {what}", hint)
        rows = mapped(target)
        if len(rows) < _HEADER.size + len(file) * _ROW.itemsize or _HEADER.unpack_from(rows)[1] != seed:
            raise ReportError(f"{file.path} changes while it is read", "compare when its run is done")
        tables.append(rows)
        done += len(file)
        told(done, len(answers))
    return Digested(answers, tuple(tables))


def _said(child: subprocess.Popen[str]) -> str | None:
    """What a program that has ended said; None after a moment in which it has not."""
    try:
        return child.communicate(timeout=_LOOK_S)[1]
    except subprocess.TimeoutExpired:
        return None


def _rows(path: Path) -> int:
    """How many a file has so far."""
    try:
        return max(0, path.stat().st_size - _HEADER.size) // _ROW.itemsize
    except OSError:
        return 0
