"""Records of several queriers and hosts, in the trace's order.

Every querier writes its own CLOCK_MONOTONIC, so times are kept relative to the start announced to that
querier: 0 is the start of the schedule on every host. Records are read in windows of about a million, so that
memory does not grow with the number of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.container import release
from report.rqfile import CHUNK, Records, RqFile

NEVER = np.iinfo(np.int64).min  # the time of what did not happen
_WINDOW = 1 << 20  # records, about
_SAMPLE = 1 << 10  # one of so many sequence numbers is looked at to find the windows' ends
_TIMES = ("due_ns", "send_ns", "recv_ns")


@dataclass(frozen=True)
class Window:
    """Records whose sequence numbers lie between two, ascending. `file` is the number of the one that each is
    from. Times in ns since the announced start, or NEVER.
    """

    file: NDArray[np.intp]
    seq: NDArray[np.uint64]
    due: NDArray[np.int64]
    sent: NDArray[np.int64]
    received: NDArray[np.int64]
    latency: NDArray[np.int64]
    connect: NDArray[np.int64]
    source: NDArray[np.uint32]
    reply_size: NDArray[np.uint32]
    rcode: NDArray[np.uint16]
    flags: NDArray[np.uint16]
    marks: NDArray[np.uint16]
    status: NDArray[np.uint8]
    transport: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    retries: NDArray[np.uint8]
    extra: Mapping[str, NDArray[Any]]  # further fields as they are in the records

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True)
class _Piece:
    """Records that stand together in a file; their least and largest sequence number, and some of those in
    between.
    """

    file: int
    start_ns: int
    records: Records
    low: int
    high: int
    sample: NDArray[np.uint64]


def windows(
    files: Sequence[RqFile], seen: Callable[[int], None] = lambda _: None, extra: Sequence[str] = ()
) -> Iterator[Window]:
    """All records, each once. Records of one sequence number are in one window. `seen` is told how many
    records there have been so far; `extra` names fields of records that are wanted beside the usual ones.
    """
    pieces = []
    for at, file in enumerate(files):
        for part in _parts(file):
            pieces.append(_piece(at, file, part))
            release(file.data)
    if not pieces:
        return
    bounds = ends([piece.sample for piece in pieces], _WINDOW // _SAMPLE)
    count = 0
    for low, high in zip([0, *bounds], [*bounds, max(piece.high for piece in pieces) + 1], strict=True):
        near = [piece for piece in pieces if low <= piece.high and piece.low < high]
        held = [(piece, part) for piece in near if len(part := _between(piece, low, high))]
        if held:
            window = _window(held, extra)
            count += len(window)
            yield window
            seen(count)
        for file in files:
            release(file.data)


def _parts(file: RqFile) -> Iterator[Records]:
    for at in range(0, len(file.records), CHUNK):
        yield file.records[at : at + CHUNK]


def _piece(at: int, file: RqFile, part: Records) -> _Piece:
    seq = part["seq"]
    return _Piece(at, file.start_mono_ns, part, int(seq.min()), int(seq.max()), seq[::_SAMPLE].copy())


def ends(samples: list[NDArray[np.uint64]], size: int) -> list[int]:
    """Sequence numbers that divide records into windows of so many of the samples."""
    return [int(one) for one in np.unique(np.sort(np.concatenate(samples))[size::size])]


def _between(piece: _Piece, low: int, high: int) -> Records:
    if low <= piece.low and piece.high < high:
        return piece.records
    seq = piece.records["seq"]
    return piece.records[(seq >= np.uint64(low)) & (seq <= np.uint64(high - 1))]


def _window(held: list[tuple[_Piece, Records]], extra: Sequence[str]) -> Window:
    seq = np.concatenate([part["seq"] for _, part in held])
    order: slice | NDArray[np.intp] = slice(None)
    if np.any(seq[1:] < seq[:-1]):
        order = np.argsort(seq, kind="stable")

    def column(name: str) -> NDArray[np.int64]:
        if name in _TIMES:
            return np.concatenate([_since(part[name], piece.start_ns) for piece, part in held])[order]
        return np.concatenate([part[name] for _, part in held])[order]

    latency = column("latency_ns")
    return Window(
        file=np.concatenate([np.full(len(part), piece.file) for piece, part in held])[order],
        due=column("due_ns"),
        sent=column("send_ns"),
        received=column("recv_ns"),
        latency=np.where(latency >= 0, latency, NEVER),
        connect=column("connect_ns"),
        extra={name: column(name) for name in extra},
        **{
            name: column(name)
            for name in (
                *("seq", "source", "reply_size", "rcode", "flags", "marks"),
                *("status", "transport", "reason", "retries"),
            )
        },  # type: ignore[arg-type]
    )


def _since(times: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    return np.where(times == 0, NEVER, times - start)
