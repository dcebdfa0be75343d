"""Whether figures stay as they are while the replay goes on: each in ten equal parts of it after the
warm-up, tested for a slope. One that is not steady had not settled when it was measured, or the load changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from report import server, statistics
from report.run import Json, Run
from report.server import Series
from report.tally import Tally

_PARTS = 10


def summarize(run: Run, tally: Tally, warmup_ns: int) -> Json:
    """The part `steady` of summary.json: figures that have a value in each part of the time."""
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
        times, values = np.array(one.points or [(0.0, 0.0)], np.float64).T
        places = np.floor((times - begin_s) / size_s)
        held = [values[places == part] for part in range(_PARTS)]
        sums += np.array([part.mean() if len(part) else np.nan for part in held])
    return sums.tolist() if len(series) and not np.any(np.isnan(sums)) else []
