"""What a run's connections came to: the queriers' counts, times to connect, sockets seen at both ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from report import server
from report.clean import failures
from report.rqfile import TRANSPORTS, RqFile, sums_of
from report.run import Json, Run, ServerSample
from report.tally import Tally


def summarize(run: Run, files: Sequence[RqFile], tally: Tally) -> Json:
    """The keys of the summary that are about connections.

    `peak_open` adds the queriers' peaks, which need not be at one instant: an upper bound.
    """
    counts = sums_of(files, "connections")
    counts["opened"] = counts["opened"] or tally.opened  # a querier that was cut off counted nothing
    counts["reused_queries"] = counts["reused_queries"] or tally.reused_queries
    connect = {name: tally.connect[name].spread() for name in TRANSPORTS if name in tally.connect}
    return {
        "connections": {**counts, "failures": failures(files)},
        "connect_us_by_transport": connect,
        "latency_us_by_connection": {
            "fresh": tally.fresh.spread(),
            "reused": tally.reused.spread(),
        },
        "sockets": sockets(run, tally.sends.end_ns),
    }


def sockets(run: Run, end_ns: int) -> Json:
    """Peaks of TCP sockets at both ends; null where nobody sampled. Those of several hosts are added. After
    `end_ns`, when the last query has been sent, the replay closes its connections: what then waits in
    TIME-WAIT is no trait of the trace.
    """
    servers = _added(run, server.of_servers(run), end_ns)
    drops = server.total_growth(run, "listen_drops")
    return {
        "server": servers and {**servers, "listen_drops": None if drops is None else int(drops)},
        "clients": _added(run, run.client_samples.values(), end_ns),
    }


def _added(run: Run, hosts: Iterable[Sequence[ServerSample]], end_ns: int) -> Json | None:
    peaks = [_peaks(run, samples, end_ns) for samples in hosts if samples]
    return {name: sum(one[name] for one in peaks) for name in peaks[0]} if peaks else None


def _peaks(run: Run, samples: Sequence[ServerSample], end_ns: int) -> dict[str, int]:
    clock = server.clock_of(run)
    during = samples if clock is None else [one for one in samples if clock(one) <= end_ns]
    return {
        "peak_established": _peak(samples, "tcp_established"),
        "peak_time_wait": _peak(during, "tcp_time_wait"),
    }


def _peak(samples: Sequence[ServerSample], column: str) -> int:
    return int(max((one.values.get(column, 0.0) for one in samples), default=0))
