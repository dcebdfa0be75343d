"""Reads `.ra` files: queries and their replies by sequence number, see docs/formats.md.

Files are mapped and read in windows of sequence numbers. The records' sizes, two bytes each, lie on the disk,
and so do the numbers by which answers are known to be equal or of one kind (`reprise-mutator digests`).
"""

from __future__ import annotations

import struct
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from report.container import Frame, mapped, open_frame, release, scratch
from report.rqfile import spans
from report.run import Run

HEADER_MAGIC = b"RPRAHDR1"
FOOTER_MAGIC = b"RPRAEND1"
RECORD = struct.Struct("<QqIIII")
_SIZES = struct.Struct("<III")  # the end of it
MAX_MESSAGE = 65535
_STEP = 8  # a record has a whole number of so many bytes
_PIECE = 1 << 14  # records: a window may need a piece of every file
_SAMPLE = 1 << 8  # one of so many sequence numbers is looked at to find the windows' ends
_WINDOW = 1 << 18  # records of all sets, about
_PLACE = np.dtype([("seq", np.uint64), ("file", np.int64), ("number", np.int64), ("offset", np.int64)])
DIGESTS_HEADER = struct.Struct("<8sQ24x")  # magic and seed
DIGEST = np.dtype(
    [
        *((name, np.uint64) for name in ("query", "reply", "content", "place")),
        *((name, np.uint16) for name in ("flags", "answers", "authority", "size")),
    ]
)
Chosen = NDArray[np.intp] | NDArray[np.bool_] | slice


class Answer(NamedTuple):
    """One query and its reply as on the wire; `reply` is empty where there was none."""

    seq: int
    time_ns: int
    source: int
    query: bytes
    reply: bytes


class _Piece(NamedTuple):
    """Records that stand together in a file: the number and the offset of the first, how many there are, and
    their least, largest and some of their sequence numbers.
    """

    first: int
    start: int
    records: int
    low: int
    high: int
    sample: NDArray[np.uint64]


@dataclass(frozen=True)
class RaFile(Frame):
    """A mapped file; `pieces` are its whole records, and `steps` their sizes, mapped too."""

    pieces: tuple[_Piece, ...]
    steps: memoryview

    def __len__(self) -> int:
        return sum(piece.records for piece in self.pieces)

    @property
    def mapped(self) -> mmap | bytes:
        """The whole file; its slices are bytes."""
        held = self.data.obj
        assert isinstance(held, mmap | bytes)
        return held

    def between(self, low: int, high: int) -> NDArray[np.void]:
        """Sequence numbers from `low` to before `high`, with the numbers and offsets of their records."""
        found = [np.zeros(0, _PLACE)]
        steps = np.frombuffer(self.steps, np.uint16)
        for piece in self.pieces:
            if low <= piece.high and piece.low < high:
                held = np.zeros(piece.records, _PLACE)
                held["number"] = np.arange(piece.first, piece.first + piece.records)
                held["offset"] = offsets = _offsets(piece.start, steps[held["number"]])
                held["seq"] = seq = _seqs(self, offsets)
                if piece.low < low or high <= piece.high:
                    held = held[(seq >= np.uint64(low)) & (seq <= np.uint64(high - 1))]
                found.append(held)
                release(self.data, piece.start, int(offsets[-1]))
        release(self.steps)
        return np.concatenate(found)


@dataclass(frozen=True)
class Places:
    """Records of a set, by ascending sequence number, each number once: which file they are in and where."""

    files: tuple[RaFile, ...]
    held: NDArray[np.void]

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, chosen: Chosen) -> Places:
        return Places(self.files, self.held[chosen])

    @property
    def seqs(self) -> NDArray[np.uint64]:
        return self.held["seq"]

    def __iter__(self) -> Iterator[Answer]:
        mapped = [file.mapped for file in self.files]
        for file, at in self.held[["file", "offset"]].tolist():
            data = mapped[file]
            seq, time_ns, source, query_size, reply_size, _ = RECORD.unpack_from(data, at)
            reply_at = at + RECORD.size + query_size
            yield Answer(
                seq,
                time_ns,
                source,
                data[at + RECORD.size : reply_at],
                data[reply_at : reply_at + reply_size],
            )


@dataclass(frozen=True)
class AnswerSet:
    """Several files (one a querier) as one sequence, in order of seq. A seq seen twice keeps its first
    record. `run`: whose they are, None of a trace or a file. `trouble`: why what they were made of could not
    be read whole. `digests`: of each file those of its records, on the disk; empty before they are made.
    """

    name: str
    kind: str
    files: tuple[RaFile, ...]
    run: Run | None = None
    trouble: str = ""
    digests: tuple[memoryview, ...] = ()

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

    def between(self, low: int, high: int) -> Places:
        """The records with sequence numbers from `low` to before `high`."""
        held = [np.zeros(0, _PLACE), *(file.between(low, high) for file in self.files)]
        for number, one in enumerate(held[1:]):
            one["file"] = number
        whole = np.concatenate(held)
        return Places(self.files, whole[np.unique(whole["seq"], return_index=True)[1]])

    def rows(self, places: Places) -> NDArray[np.void]:
        """The digest of each: `query` and `reply` are numbers of the bytes without the id, and `content` is
        one of what the reply says, 0 without a reply: replies with the same number differ at most in the
        order and case of their records and in what was asked. Names of the same `place` have the same cut()
        and top() in the zone.
        """
        found = np.zeros(len(places), DIGEST)
        for number, digests in enumerate(self.digests):
            inside = places.held["file"] == number
            rows = np.frombuffer(digests[DIGESTS_HEADER.size :], DIGEST)
            found[inside] = rows[places.held["number"][inside]]
            release(digests)
        return found


def windows(sets: Sequence[AnswerSet]) -> Iterator[tuple[Places, ...]]:
    """All records of some sets, in windows of the same sequence numbers, ascending. The windows before need
    no memory.
    """
    pieces = [piece for one in sets for file in one.files for piece in file.pieces]
    for low, high in spans(pieces, _WINDOW // _SAMPLE):
        yield tuple(one.between(low, high) for one in sets)
        for one in sets:
            for file in one.files:
                release(file.data)


def read_ra(path: Path) -> RaFile:
    """Maps and walks one file. Raises ReportError for what is not an `.ra` file of a known schema."""
    frame = open_frame(path, HEADER_MAGIC, FOOTER_MAGIC)
    with tempfile.NamedTemporaryFile(dir=scratch()) as index:
        pieces, whole = _walk(frame, index)
        index.flush()
        steps = mapped(Path(index.name))
    held = sum(piece.records for piece in pieces)
    problem = frame.problem
    if problem is None and not whole:
        problem = "a record in it is damaged; what follows is left out"
    return RaFile(**{**vars(frame), "problem": problem or frame.miscounted(held)}, pieces=pieces, steps=steps)


def join(name: str, paths: Iterable[Path], run: Run | None = None) -> AnswerSet:
    """Reads several files as one set; they must be of one kind, the first file's is taken."""
    files = tuple(read_ra(path) for path in sorted(paths))
    kinds = [str(file.header.get("kind", "replay")) for file in files]
    return AnswerSet(name, kinds[0] if kinds else "replay", files, run)


def _walk(frame: Frame, index: IO[bytes]) -> tuple[tuple[_Piece, ...], bool]:
    """The records, up to the first that does not fit, which in a file without footer is its end. One that is
    cut by a crash of the host may end in zeros. Their sizes go to the index.
    """
    pieces: list[_Piece] = []
    data, end = frame.data, frame.end
    at, fixed, sizes = frame.start, RECORD.size, RECORD.size - _SIZES.size
    good, count = True, 0
    while good:
        start, steps = at, array("H")
        while len(steps) < _PIECE and at + fixed <= end:
            query_size, reply_size, zero = _SIZES.unpack_from(data, at + sizes)
            step = fixed + query_size + reply_size + 7 >> 3
            known = 0 < query_size <= MAX_MESSAGE and reply_size <= MAX_MESSAGE
            if zero or not known or at + step * _STEP > end:
                break
            steps.append(step)
            at += step * _STEP
        good = len(steps) == _PIECE
        if steps:
            steps.tofile(index)
            seqs = _seqs(frame, _offsets(start, np.frombuffer(steps, np.uint16)))
            low, high = int(seqs.min()), int(seqs.max())
            pieces.append(_Piece(count, start, len(steps), low, high, seqs[::_SAMPLE].copy()))
            count += len(steps)
            release(data, start, at)
    return tuple(pieces), at == end or frame.cut_off


def _offsets(start: int, steps: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Where records of these sizes begin."""
    after = np.cumsum(steps, dtype=np.int64)
    return start + (after - steps) * _STEP


def _seqs(frame: Frame, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    return np.frombuffer(frame.data, np.uint64, len(frame.data) // 8)[offsets // 8]
