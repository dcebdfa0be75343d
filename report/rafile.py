"""Reads `.ra` files: queries and their replies by sequence number, see docs/formats.md.

Where the records of a file are, and the numbers by which answers are known to be equal or of one kind, says a
table on the disk with a row for each (`reprise-mutator digests`, see report.sources). Files and tables are
mapped and read in windows of sequence numbers.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from report.container import Frame, open_frame, release
from report.rqfile import Piece, Records, pieces_of, spans
from report.run import Run

HEADER_MAGIC = b"RPRAHDR1"
FOOTER_MAGIC = b"RPRAEND1"
RECORD = struct.Struct("<QqIIII")
_STEP = 8  # a record has a whole number of so many bytes
_WINDOW = 1 << 18  # records of all sets, about
TABLE_HEADER = struct.Struct("<8s32x")
TABLE_MAGIC = b"RPRDIG2\0"
ROW = np.dtype(
    [
        *((name, np.uint64) for name in ("seq", "at", "query", "reply", "content", "place")),
        *((name, np.uint16) for name in ("flags", "answers", "authority", "size")),
    ]
)
_NONE = memoryview(b"")
Chosen = NDArray[np.intp] | NDArray[np.bool_] | slice


class Answer(NamedTuple):
    """One query and its reply as on the wire; `reply` is empty where there was none."""

    seq: int
    time_ns: int
    source: int
    query: bytes
    reply: bytes


@dataclass(frozen=True)
class RaFile(Frame):
    """A mapped file, and the rows of its records, mapped too; none before its table is made."""

    table: memoryview = _NONE

    def __len__(self) -> int:
        return len(self.table) // ROW.itemsize

    @property
    def rows(self) -> Records:
        return np.frombuffer(self.table, ROW)

    def with_table(self, table: memoryview) -> RaFile:
        """With what the mutator wrote of it, up to its end: it may have grown since."""
        file = replace(self, table=table[TABLE_HEADER.size :])
        places = file.rows["at"]
        held, end = bisect.bisect(places, self.end - RECORD.size), self.start
        if held:
            at = int(places[held - 1])
            *_, query_size, reply_size, _ = RECORD.unpack_from(self.data, at)
            end = at + -(-(RECORD.size + query_size + reply_size) // _STEP) * _STEP
            held -= end > self.end
        whole = end == self.end or self.cut_off
        damaged = None if whole else "a record in it is damaged; what follows is left out"
        problem = self.problem or damaged or self.miscounted(held)
        return replace(file, table=file.table[: held * ROW.itemsize], problem=problem)


@dataclass(frozen=True)
class Places:
    """Records of a set, by ascending sequence number, each number once: the number of the file that each is
    in, and its row. Of this `query` and `reply` are numbers of the bytes without the id, and `content` is one
    of what the reply says, 0 without a reply: replies with the same number differ at most in the order and
    case of their records and in what was asked. Names of the same `place` have the same cut() and top() in
    the zone. `size` is the reply's; `flags`, `answers` and `authority` are of its header.
    """

    files: tuple[RaFile, ...]
    file: NDArray[np.intp]
    rows: Records

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Chosen) -> Places:
        return Places(self.files, self.file[chosen], self.rows[chosen])

    @property
    def seqs(self) -> NDArray[np.uint64]:
        return self.rows["seq"]

    def __iter__(self) -> Iterator[Answer]:
        for file, at in zip(self.file.tolist(), self.rows["at"].tolist(), strict=True):
            data = self.files[file].data
            seq, time_ns, source, query_size, reply_size, _ = RECORD.unpack_from(data, at)
            query_at, reply_at = at + RECORD.size, at + RECORD.size + query_size
            query, reply = bytes(data[query_at:reply_at]), bytes(data[reply_at : reply_at + reply_size])
            yield Answer(seq, time_ns, source, query, reply)


@dataclass(frozen=True)
class AnswerSet:
    """Several files (one a querier) as one sequence, in order of seq. A seq seen twice keeps its first
    record. `run`: whose they are, None of a trace or a file. `trouble`: why what they were made of could not
    be read whole.
    """

    name: str
    kind: str
    files: tuple[RaFile, ...]
    run: Run | None = None
    trouble: str = ""

    def __len__(self) -> int:
        """How many records there are."""
        return sum(map(len, self.files))

    @property
    def recorded(self) -> bool:
        return self.kind == "trace"

    @property
    def problems(self) -> list[str]:
        told = [f"{file.path.name}: {file.problem}" for file in self.files if file.problem]
        return [*([self.trouble] if self.trouble else []), *told]

    @cached_property
    def pieces(self) -> list[Piece]:
        return [one for at, file in enumerate(self.files) for one in pieces_of(at, file.rows, file.table)]

    def between(self, low: int, high: int) -> Places:
        """The records with sequence numbers from `low` to before `high`."""
        held = [(piece.file, part) for piece in self.pieces if len(part := piece.between(low, high))]
        rows = np.concatenate([np.zeros(0, ROW), *(part for _, part in held)])
        files = [np.full(len(part), number) for number, part in held]
        first = np.unique(rows["seq"], return_index=True)[1]
        return Places(self.files, np.concatenate([np.zeros(0, np.intp), *files])[first], rows[first])


def windows(sets: Sequence[AnswerSet]) -> Iterator[tuple[Places, ...]]:
    """All records of some sets, in windows of the same sequence numbers, ascending. The windows before need
    no memory.
    """
    for low, high in spans([piece for one in sets for piece in one.pieces], _WINDOW):
        yield tuple(one.between(low, high) for one in sets)
        for file in (file for one in sets for file in one.files):
            release(file.data)
            release(file.table)


def join(name: str, paths: Iterable[Path], run: Run | None = None) -> AnswerSet:
    """Several files as one set; they must be of one kind, the first file's is taken. Raises ReportError for
    what is not an `.ra` file of a known schema.
    """
    files = tuple(RaFile(**vars(open_frame(path, HEADER_MAGIC, FOOTER_MAGIC))) for path in sorted(paths))
    kinds = [str(file.header.get("kind", "replay")) for file in files]
    return AnswerSet(name, kinds[0] if kinds else "replay", files, run)
