"""How well the replay kept the trace's rate. Counts in, values out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.tally import Tally

SECOND_NS = 1_000_000_000
TENTH_NS = 100_000_000


def rate_error(tally: Tally, warmup_ns: int, steal_ns: list[tuple[int, int]] | None) -> dict[str, Any]:
    """Shares of whole seconds (and of 100 ms windows) whose sent count is near the trace's count.

    `steal_ns` lists the spans in which the machine lost time to its hypervisor; None where nobody looked.
    Windows that touch one are counted and left out of the shares, as are windows in which the trace has no
    query.
    """
    seconds = _windows(tally, SECOND_NS, warmup_ns, steal_ns)
    return {
        "seconds": seconds["windows"],
        "within_0_1_percent": seconds["within_0_1_percent"],
        "within_0_02_percent": seconds["within_0_02_percent"],
        "steal_seconds": seconds["steal_windows"],
        "windows_100ms": _windows(tally, TENTH_NS, warmup_ns, steal_ns),
    }


def _windows(
    tally: Tally, size: int, warmup_ns: int, steal_ns: list[tuple[int, int]] | None
) -> dict[str, Any]:
    bins = min(tally.span_ns, tally.due.end_ns) // size
    due, sent = (rate.per(size, bins) for rate in (tally.due, tally.sends))
    considered = (np.arange(bins) * size >= warmup_ns) & (due > 0)
    stolen = touched(bins, size, steal_ns or [])
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


def touched(bins: int, size: int, spans: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Of each bin, whether one of the spans lies in it, in part."""
    found = np.zeros(bins, np.bool_)
    for begin, end in spans:
        found[max(0, begin // size) : max(0, -(-end // size))] = True
    return found
