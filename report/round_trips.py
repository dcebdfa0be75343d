"""Latencies by the distance of the clients, as the records show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from report.container import release
from report.distribution import Distribution
from report.rqfile import CHUNK, Records, RqFile
from report.tally import MOST_SOURCES

FEWEST = 3  # answers of a client: the least of them is taken for its round trip
# Lower ends of the classes, ms.
_STEPS = (1, 1.5, 2, 3, 4, 6, 8)
_ENDS = np.array([0.0, *(step * decade for decade in (1, 10, 100) for step in _STEPS), 1000.0])


def latencies(files: Sequence[RqFile]) -> tuple[list[tuple[str, Distribution]], int]:
    """Latencies by a class of round trips [ms], ascending, only those with values; and how many answers of
    clients with too few are left out. Reads the records twice, in bounded memory.
    """
    ids = np.zeros(0, np.uint32)
    least = np.full(0, np.inf)
    count = np.zeros(0, np.int64)
    for part in _answered(files):
        known, ids = ids, np.union1d(ids, part["source"])
        held, least, count_of = least, np.full(len(ids), np.inf), count
        count = np.zeros(len(ids), np.int64)
        at = np.searchsorted(ids, known)
        least[at], count[at] = held, count_of
        at = np.searchsorted(ids, part["source"])
        np.minimum.at(least, at, part["latency_ns"] - part["connect_ns"])
        np.add.at(count, at, 1)
    places = np.searchsorted(_ENDS, least / 1e6, side="right") - 1
    places[count < FEWEST] = -1
    latency = [Distribution() for _ in _ENDS]
    left = 0
    for part in _answered(files):
        classes = places[np.searchsorted(ids, part["source"])]
        left += int(np.count_nonzero(classes < 0))
        for place in np.unique(classes[classes >= 0]):
            latency[place].add(part["latency_ns"][classes == place])
    return [(_named(at), one) for at, one in enumerate(latency) if one.count], left


def _answered(files: Sequence[RqFile]) -> Iterator[Records]:
    """Records with an answer, part by part, without sources that only a damaged file can have."""
    for file in files:
        for at in range(0, len(file.records), CHUNK):
            part = file.records[at : at + CHUNK]
            found = part[(part["latency_ns"] >= 0) & (part["source"] < MOST_SOURCES)]
            if len(found):
                yield found
            release(file.data)


def _named(at: int) -> str:
    if at + 1 == len(_ENDS):
        return f"over {_ENDS[at]:g}"
    return f"{_ENDS[at]:g}–{_ENDS[at + 1]:g}"
