"""How well the replay kept the trace's rate, and whether figures stayed as they are while it went on."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from report import server, statistics
from report.run import Json, Run
from report.server import Series
from report.tally import Tally

_PARTS = 10


def rate_error(tally: Tally, warmup_ns: int, steal_ns: list[tuple[int, int]] | None) -> Json:
    """Shares of whole seconds (and of 100 ms windows) whose sent count is near the trace's count.

    `steal_ns` lists the spans in which the machine lost time to its hypervisor; None where nobody looked.
    Windows that touch one are counted and left out of the shares, as are windows in which the trace has no
    query.
    """

    def windows(name: str, size: int) -> Json:
        bins = min(tally.span_ns, tally.due.end_ns) // size
        due, sent = (rate.per(size, bins) for rate in (tally.due, tally.sends))
        considered = (np.arange(bins) * size >= warmup_ns) & (due > 0)
        stolen = touched(bins, size, steal_ns or [])
        counted = considered & ~stolen
        off = np.abs(sent[counted] - due[counted]) / due[counted]
        return {
            name: int(np.count_nonzero(counted)),
            "within_0_1_percent": _share(off <= 0.001),
            "within_0_02_percent": _share(off <= 0.0002),
            f"steal_{name}": None if steal_ns is None else int(np.count_nonzero(considered & stolen)),
        }

    return {**windows("seconds", 1_000_000_000), "windows_100ms": windows("windows", 100_000_000)}


def _share(hits: NDArray[np.bool_]) -> float | None:
    return float(np.mean(hits)) if len(hits) else None


def touched(bins: int, size: int, spans: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Of each bin, whether one of the spans lies in it, in part."""
    found = np.zeros(bins, np.bool_)
    for begin, end in spans:
        found[max(0, begin // size) : max(0, -(-end // size))] = True
    return found


def steady(run: Run, tally: Tally, warmup_ns: int) -> Json:
    """The part `steady` of summary.json: figures that have a value in each of ten equal parts of the time
    after the warm-up, tested for a slope. One that is not steady had not settled when it was measured, or the
    load changed.
    """
    slice_ns = tally.response_slices.SLICE_NS
    begin_ns = -(-warmup_ns // slice_ns) * slice_ns
    size_ns = (min(tally.span_ns, tally.due.end_ns) - begin_ns) // _PARTS // slice_ns * slice_ns
    if size_ns <= 0:
        return {}
    found = ((name, statistics.trend(values)) for name, values in _figures(run, tally, begin_ns, size_ns))
    return {name: {"change": round(one.change, 4), "steady": one.steady} for name, one in found if one}


def _figures(run: Run, tally: Tally, begin_ns: int, size_ns: int) -> Iterator[tuple[str, list[float]]]:
    slice_ns = tally.response_slices.SLICE_NS
    sent = tally.sends.per(slice_ns, (begin_ns + _PARTS * size_ns) // slice_ns)
    yield "sent", sent[begin_ns // slice_ns :].reshape(_PARTS, -1).sum(axis=1).tolist()
    numbers, bands = tally.response_slices.bands(size_ns, (500, 990), begin_ns)
    for name, values in zip(("response_median", "response_p99"), bands, strict=True):
        yield name, values[numbers < _PARTS].tolist() if set(range(_PARTS)) <= set(numbers.tolist()) else []
    for name, series in (
        ("server_cpu", [server.rate_of(one) for one in server.process_series(run, "cpu_s")]),
        ("server_memory", server.process_series(run, "rss_bytes")),
        ("established", [server.host_series(run, "tcp_established")]),
        ("time_wait", [server.host_series(run, "tcp_time_wait")]),
    ):
        yield name, _parts(series, begin_ns / 1e9, size_ns / 1e9)


def _parts(series: Sequence[Series], begin_s: float, size_s: float) -> list[float]:
    """The sum of all series' means in each part; nothing where one lacks a sample."""
    sums = np.zeros(_PARTS)
    for one in series:
        places = np.floor((one.times - begin_s) / size_s)
        held = [one.values[places == part] for part in range(_PARTS)]
        sums += np.array([part.mean() if len(part) else np.nan for part in held])
    return sums.tolist() if len(series) and not np.any(np.isnan(sums)) else []
