"""Reads `.ra` files: queries and their replies by sequence number, see docs/formats.md."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from report.container import Frame, open_frame, release

HEADER_MAGIC = b"RPRAHDR1"
FOOTER_MAGIC = b"RPRAEND1"
RECORD = struct.Struct("<QqIIII")
_SIZES = struct.Struct("<III")  # the end of it
MAX_MESSAGE = 65535
_BLOCK = 1 << 16


class Answer(NamedTuple):
    """One query and its reply as on the wire; `reply` is empty where there was none."""

    seq: int
    time_ns: int
    source: int
    query: bytes
    reply: bytes


@dataclass(frozen=True)
class RaFile:
    """A mapped file with an index; `seqs` is in file order, `offsets` are their first bytes."""

    path: Path
    kind: str
    seqs: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    cut_off: bool
    problem: str | None
    frame: Frame

    def answer(self, offset: int) -> Answer:
        """The record that begins there."""
        data = self.frame.data
        seq, time_ns, source, query_size, reply_size, _ = RECORD.unpack_from(data, offset)
        query_at = offset + RECORD.size
        reply_at = query_at + query_size
        both = bytes(data[query_at : reply_at + reply_size])
        return Answer(seq, time_ns, source, both[:query_size], both[query_size:])


@dataclass(frozen=True)
class AnswerSet:
    """Several files (one a querier) as one sequence, in order of seq. A seq seen twice keeps its first
    record. `offsets` and `file_of`: where the records are.
    """

    name: str
    kind: str
    files: tuple[RaFile, ...]
    seqs: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    file_of: NDArray[np.int32]
    duplicates: int

    @property
    def problems(self) -> list[str]:
        return [f"{file.path.name}: {file.problem}" for file in self.files if file.problem]

    def at(self, position: int) -> Answer:
        return self.files[int(self.file_of[position])].answer(int(self.offsets[position]))

    def __iter__(self) -> Iterator[Answer]:
        return self.chosen(np.arange(len(self.seqs)))

    def chosen(self, positions: NDArray[np.int64]) -> Iterator[Answer]:
        """Those at some positions, a block at a time: numbers of numpy are slow one by one. The blocks before
        need no memory.
        """
        read = [file.answer for file in self.files]
        for begin in range(0, len(positions), _BLOCK):
            block = positions[begin : begin + _BLOCK]
            for file, offset in zip(self.file_of[block].tolist(), self.offsets[block].tolist(), strict=True):
                yield read[file](offset)
            for one in self.files:
                release(one.frame.data)


def read_ra(path: Path) -> RaFile:
    """Maps and indexes one file. Raises ReportError for what is not an `.ra` file of a known schema."""
    frame = open_frame(path, HEADER_MAGIC, FOOTER_MAGIC)
    seqs, offsets, whole = _index(frame)
    problem = frame.problem
    if problem is None and not whole:
        problem = "a record in it is damaged; what follows is left out"
    if problem is None and frame.count is not None and frame.count != len(seqs):
        problem = f"its footer counts {frame.count} records and it holds {len(seqs)}"
    return RaFile(path, str(frame.header.get("kind", "replay")), seqs, offsets, frame.cut_off, problem, frame)


def join(name: str, paths: list[Path]) -> AnswerSet:
    """Reads several files as one set; they must be of one kind, the first file's is taken."""
    files = tuple(read_ra(path) for path in sorted(paths))
    seqs = np.concatenate([file.seqs for file in files]) if files else np.zeros(0, np.uint64)
    file_of = [np.full(len(file.seqs), number, np.int32) for number, file in enumerate(files)]
    unique, first = np.unique(seqs, return_index=True)
    return AnswerSet(
        name=name,
        kind=files[0].kind if files else "replay",
        files=files,
        seqs=unique,
        offsets=np.concatenate([file.offsets for file in files])[first] if files else np.zeros(0, np.int64),
        file_of=np.concatenate(file_of)[first] if files else np.zeros(0, np.int32),
        duplicates=len(seqs) - len(unique),
    )


def _index(frame: Frame) -> tuple[NDArray[np.uint64], NDArray[np.int64], bool]:
    """Walks the records; stops at the first that does not fit, which in a file without footer is its end."""
    found, data, end = array("q"), frame.data, frame.end
    at, fixed, sizes = frame.start, RECORD.size, RECORD.size - _SIZES.size
    while at + fixed <= end:
        query_size, reply_size, zero = _SIZES.unpack_from(data, at + sizes)
        after = at + (fixed + query_size + reply_size + 7 & ~7)
        if zero or query_size > MAX_MESSAGE or reply_size > MAX_MESSAGE or after > end:
            break
        found.append(at)
        at = after
    offsets = np.frombuffer(found, np.int64)
    seqs = np.frombuffer(data, np.uint64, len(data) // 8)[offsets // 8]
    release(data)
    return seqs, offsets, at == end or frame.cut_off
