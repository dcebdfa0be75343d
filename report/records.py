"""Records of several queriers and hosts as columns, in the trace's order.

Every querier writes its own CLOCK_MONOTONIC, so times are kept relative to the start announced to that
querier: 0 is the start of the schedule on every host. Columns take 46 bytes a query, 8 to 17 more where it
went over a connection; nothing else grows with the number of queries, which is what lets a hundred million of
them fit on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from report.rqfile import (
    CHUNK,
    FLAG_TC,
    MARK_FALLBACK,
    MARK_OPENED,
    MARK_REUSED,
    TCP,
    Records,
    RqFile,
    Status,
)

NEVER = np.iinfo(np.int64).min  # the time of what did not happen


@dataclass(frozen=True)
class Columns:
    """One entry a record, ascending by seq. Times in ns since the announced start, or NEVER."""

    seq: NDArray[np.uint64]
    due: NDArray[np.int64]
    sent: NDArray[np.int64]
    received: NDArray[np.int64]
    latency: NDArray[np.int64]
    rcode: NDArray[np.uint16]
    status: NDArray[np.uint8]
    transport: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True)
class OnConnections:
    """Queries over TCP or TLS, by what their connection was to them. Times in ns.

    `connect` and its `transport` are of the queries that opened a connection, TCP for those that began over
    UDP; `fresh` and `reused` are the
    latencies of the answered ones.
    """

    connect: NDArray[np.int64]
    transport: NDArray[np.uint8]
    fresh: NDArray[np.int64]
    reused: NDArray[np.int64]


@dataclass(frozen=True)
class Totals:
    """Sums that need no column, and what only queries on connections have."""

    truncated: int
    reply_bytes: int
    retried: int
    sources: int
    duplicate_seqs: int
    reused: int
    opened: int
    skip_reasons: dict[int, int]
    fallbacks: int
    on_connections: OnConnections


def chunks(file: RqFile) -> Iterator[tuple[int, Records]]:
    """Pieces of a file with the index of their first record."""
    for at in range(0, len(file.records), CHUNK):
        yield at, file.records[at : at + CHUNK]


def load(files: list[RqFile]) -> tuple[Columns, Totals]:
    """One pass over all records. Duplicate sequence numbers stay in the columns and are counted."""
    columns = _sorted(_gather(files))
    return columns, _totals(files, columns)


def _gather(files: list[RqFile]) -> Columns:
    total = sum(len(file.records) for file in files)
    columns = Columns(
        seq=np.empty(total, np.uint64),
        due=np.empty(total, np.int64),
        sent=np.empty(total, np.int64),
        received=np.empty(total, np.int64),
        latency=np.empty(total, np.int64),
        rcode=np.empty(total, np.uint16),
        status=np.empty(total, np.uint8),
        transport=np.empty(total, np.uint8),
    )
    base = 0
    for file in files:
        for at, part in chunks(file):
            _fill(columns, base + at, part, file.start_mono_ns)
        base += len(file.records)
    return columns


def _fill(columns: Columns, at: int, part: Records, start: int) -> None:
    here = slice(at, at + len(part))
    columns.seq[here] = part["seq"]
    columns.due[here] = _since(part["due_ns"], start)
    columns.sent[here] = _since(part["send_ns"], start)
    columns.received[here] = _since(part["recv_ns"], start)
    columns.latency[here] = np.where(part["latency_ns"] >= 0, part["latency_ns"], NEVER)
    columns.rcode[here] = part["rcode"]
    columns.status[here] = part["status"]
    columns.transport[here] = part["transport"]


def _since(times: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    return np.where(times == 0, NEVER, times - start)


def _sorted(columns: Columns) -> Columns:
    """Records are written as queries end; the trace's order is that of seq."""
    if np.all(columns.seq[1:] > columns.seq[:-1]):
        return columns
    order = np.argsort(columns.seq, kind="stable")
    return Columns(**{name: column[order] for name, column in vars(columns).items()})


def _totals(files: list[RqFile], columns: Columns) -> Totals:
    truncated = reply_bytes = retried = reused = opened = fallbacks = 0
    held: list[OnConnections] = []
    sources = np.zeros(0, np.uint32)
    reasons: dict[int, int] = {}
    for file in files:
        for _, part in chunks(file):
            truncated += int(np.count_nonzero(part["flags"] & FLAG_TC))
            reply_bytes += int(part["reply_size"].sum(dtype=np.int64))
            retried += int(np.count_nonzero(part["retries"]))
            reused += int(np.count_nonzero(part["marks"] & MARK_REUSED))
            opened += int(np.count_nonzero(part["marks"] & MARK_OPENED))
            fallbacks += int(np.count_nonzero(part["marks"] & MARK_FALLBACK))
            held.append(_on_connections(part))
            sources = np.union1d(sources, part["source"])
            _add_reasons(reasons, part)
    duplicates = int(np.count_nonzero(columns.seq[1:] == columns.seq[:-1]))
    return Totals(
        truncated,
        reply_bytes,
        retried,
        len(sources),
        duplicates,
        reused,
        opened,
        reasons,
        fallbacks,
        _joined(held),
    )


def _on_connections(part: Records) -> OnConnections:
    bits = (MARK_OPENED, MARK_REUSED, MARK_FALLBACK)
    opened, reused, fallback = (part["marks"] & bit != 0 for bit in bits)
    connected = opened & (part["connect_ns"] > 0)
    answered = part["latency_ns"] >= 0
    return OnConnections(
        connect=part["connect_ns"][connected].astype(np.int64),
        transport=np.where(fallback, TCP, part["transport"])[connected].astype(np.uint8),
        fresh=part["latency_ns"][opened & answered].astype(np.int64),
        reused=part["latency_ns"][reused & ~opened & answered].astype(np.int64),
    )


def _joined(parts: list[OnConnections]) -> OnConnections:
    return OnConnections(
        connect=np.concatenate([np.zeros(0, np.int64), *(one.connect for one in parts)]),
        transport=np.concatenate([np.zeros(0, np.uint8), *(one.transport for one in parts)]),
        fresh=np.concatenate([np.zeros(0, np.int64), *(one.fresh for one in parts)]),
        reused=np.concatenate([np.zeros(0, np.int64), *(one.reused for one in parts)]),
    )


def _add_reasons(reasons: dict[int, int], part: Records) -> None:
    skipped = part["reason"][part["status"] == Status.SKIPPED]
    for reason, count in zip(*np.unique(skipped, return_counts=True), strict=True):
        reasons[int(reason)] = reasons.get(int(reason), 0) + int(count)
