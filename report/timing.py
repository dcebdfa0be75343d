"""How well the replay kept the trace's time. Arrays in, values out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.records import NEVER, Columns

SECOND_NS = 1_000_000_000
WINDOW_NS = 100_000_000
MAX_BINS = 50_000_000  # a schedule of 16 years in seconds: beyond it a time is damaged, not long


@dataclass(frozen=True)
class Timing:
    """Signed send - due in the trace's order, of queries that were sent and due after the warm-up."""

    due: NDArray[np.int64]
    error: NDArray[np.int64]
    transport: NDArray[np.uint8]

    @property
    def interarrival_error(self) -> NDArray[np.int64]:
        """Gap between consecutive sends minus their gap in the trace, which is the change of the error."""
        return np.diff(self.error)


def measure(columns: Columns, warmup_ns: int) -> Timing:
    sent = (columns.sent != NEVER) & (columns.due != NEVER) & (columns.due >= warmup_ns)
    due = columns.due[sent]
    return Timing(due, columns.sent[sent] - due, columns.transport[sent])


def counts_per_bin(times: NDArray[np.int64], bin_ns: int, bins: int) -> NDArray[np.int64]:
    """How many times fall into each of the first `bins` bins from 0; times outside are left out."""
    numbers = times[(times >= 0) & (times < bins * bin_ns)] // bin_ns
    return np.bincount(numbers, minlength=bins)[:bins]


def span_ns(columns: Columns) -> int:
    """From the start to the last due time; 0 where nothing was scheduled."""
    return max(0, int(columns.due.max(initial=0)))


def rate_error(columns: Columns, warmup_ns: int, steal_ns: list[tuple[int, int]] | None) -> dict[str, Any]:
    """Shares of whole seconds (and of 100 ms windows) whose sent count is near the trace's count.

    `steal_ns` lists the spans in which the machine lost time to its hypervisor; None where nobody looked.
    Windows that touch one are counted and left out of the shares, as are windows in which the trace has no
    query.
    """
    seconds = _windows(columns, SECOND_NS, warmup_ns, steal_ns)
    fine = _windows(columns, WINDOW_NS, warmup_ns, steal_ns)
    return {
        "seconds": seconds["windows"],
        "within_0_1_percent": seconds["within_0_1_percent"],
        "within_0_02_percent": seconds["within_0_02_percent"],
        "steal_seconds": seconds["steal_windows"],
        "windows_100ms": fine,
    }


def _windows(
    columns: Columns, size: int, warmup_ns: int, steal_ns: list[tuple[int, int]] | None
) -> dict[str, Any]:
    bins = min(span_ns(columns) // size, MAX_BINS)
    due = counts_per_bin(columns.due[columns.due != NEVER], size, bins)
    sent = counts_per_bin(columns.sent[columns.sent != NEVER], size, bins)
    considered = (np.arange(bins) * size >= warmup_ns) & (due > 0)
    stolen = _touched(bins, size, steal_ns or [])
    counted = considered & ~stolen
    off = np.abs(sent[counted] - due[counted]) / due[counted]
    return {
        "windows": int(np.count_nonzero(counted)),
        "within_0_1_percent": _share(off <= 0.001),
        "within_0_02_percent": _share(off <= 0.0002),
        "steal_windows": None if steal_ns is None else int(np.count_nonzero(considered & stolen)),
    }


def _share(hits: NDArray[np.bool_]) -> float | None:
    return float(np.mean(hits)) if len(hits) else None


def _touched(bins: int, size: int, spans: list[tuple[int, int]]) -> NDArray[np.bool_]:
    touched = np.zeros(bins, np.bool_)
    for begin, end in spans:
        touched[max(0, begin // size) : max(0, -(-end // size))] = True
    return touched
