"""What a run's connections came to: the queriers' counts, times to connect, sockets seen at both ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from report import counters, percentiles, server
from report.clean import failures
from report.records import Totals
from report.rqfile import TRANSPORTS, RqFile
from report.run import Json, Run, ServerSample


def summarize(run: Run, files: Sequence[RqFile], totals: Totals) -> Json:
    """The keys of the summary that are about connections.

    `peak_open` adds the queriers' peaks, which need not be at one instant: an upper bound.
    """
    counts = counters.summed(files, "connections")
    counts["opened"] = counts["opened"] or totals.opened  # a querier that was cut off counted nothing
    counts["reused_queries"] = counts["reused_queries"] or totals.reused
    return {
        "connections": {**counts, "failures": failures(files)},
        "connect_us_by_transport": _connect_times(totals),
        "latency_us_by_connection": {
            "fresh": percentiles.spread(totals.on_connections.fresh),
            "reused": percentiles.spread(totals.on_connections.reused),
        },
        "sockets": sockets(run),
    }


def sockets(run: Run) -> Json:
    """Peaks of TCP sockets at both ends; null where nobody sampled. Those of several clients are added."""
    clients = [_peaks(samples) for samples in run.client_samples.values() if samples]
    drops = server.growth(run, "listen_drops")
    return {
        "server": {**_peaks(run.samples), "listen_drops": int(drops or 0)} if run.samples else None,
        "clients": {name: sum(one[name] for one in clients) for name in clients[0]} if clients else None,
    }


def _peaks(samples: Sequence[ServerSample]) -> dict[str, int]:
    return {
        f"peak_{state}": int(max((sample.values.get(f"tcp_{state}", 0.0) for sample in samples), default=0))
        for state in ("established", "time_wait")
    }


def _connect_times(totals: Totals) -> Json:
    held = totals.on_connections
    return {
        name: percentiles.spread(held.connect[held.transport == number])
        for number, name in enumerate(TRANSPORTS)
        if np.any(held.transport == number)
    }
