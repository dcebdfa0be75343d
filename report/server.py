"""What the sampler saw at the server: series by process and for the host, relative to the start of the
schedule.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.run import COUNTED, UPSTREAM, Json, Run, ServerSample, as_dict, as_list

_GAP_S = 1.0  # over the usual time between samples
_OF_MACHINE = ("host_cpu_s", "host_steal_s", "tcp_mem_bytes", "udp_mem_bytes", "slab_bytes")
TCP_STATES = ("established", "syn_recv", "time_wait", "fin_wait", "close_wait", "other")
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Series:
    """Values under a name, with the seconds since the start at which they were seen."""

    name: str
    times: Floats
    values: Floats

    def scaled(self, factor: float) -> Series:
        return replace(self, values=self.values * factor)

    def between(self, begin_s: float, end_s: float) -> Floats:
        """The values after the begin, up to the end."""
        return self.values[(self.times > begin_s) & (self.times <= end_s)]


def clock_of(run: Run) -> Callable[[ServerSample], int] | None:
    """Nanoseconds of a sample since the start; None where the run has no start.

    The sampler's monotonic clock is the replay's where all hosts share one; over several machines only real
    time is common.
    """
    mono, real = (run.told("start").get(name) for name in ("mono_ns", "real_ns"))
    if not isinstance(mono, int) or not isinstance(real, int):
        return None
    alone = len(as_list(run.manifest.get("hosts"))) < 2  # a server's machine is no child of the controller
    if alone and run.children and all(child.get("same_clock") for child in run.children):
        return lambda sample: sample.time_mono_ns - mono
    return lambda sample: sample.time_real_ns - real


def of_servers(run: Run) -> list[list[ServerSample]]:
    """The samples of each server's host; there are several where several resolvers are under test."""
    others = (samples for name, samples in run.other_samples.items() if name.startswith("server"))
    return [run.samples, *others]


def server_processes(run: Run, roles: tuple[str, ...] = ("server",)) -> set[str]:
    """Ids of the sampled processes that are the server's; all of them where the manifest does not say."""
    ids = {str(one.get("id")) for one in run.processes(*roles)}
    sampled = {sample.process for samples in of_servers(run) for sample in samples}
    return ids & sampled or sampled


def steal_spans(run: Run) -> list[tuple[int, int]] | None:
    """Spans between samples in which the host's steal grew; None where there are no samples to tell."""
    clock = clock_of(run)
    rows = host_rows(run.samples)
    if clock is None or len(rows) < 2:
        return None
    return [
        (clock(before), clock(after))
        for before, after in itertools.pairwise(rows)
        if after.values.get("host_steal_s", 0) > before.values.get("host_steal_s", 0)
    ]


def gaps(run: Run) -> Iterator[str]:
    """Where a sampler stood still during the replay: its series do not show what happened then."""
    clock = clock_of(run)
    for name, samples in {"server": run.samples, **run.other_samples, **run.client_samples}.items():
        rows = host_rows(samples)
        steps = [
            (after.time_mono_ns - before.time_mono_ns) / 1e9 for before, after in itertools.pairwise(rows)
        ]
        usual = statistics.median(steps) if steps else 0.0
        found = [
            (step, clock(row) / 1e9 if clock else 0.0)
            for step, row in zip(steps, rows[1:], strict=True)
            if step > usual + max(_GAP_S, usual / 2) and (clock is None or clock(row) > 0)
        ]
        if found:
            longest, until = max(found)
            more = f", the longest of {len(found)}" if len(found) > 1 else ""
            yield f"{name}.csv has a gap of {longest:.1f} s up to second {until:.1f}{more}"


def host_rows(samples: Iterable[ServerSample]) -> list[ServerSample]:
    """One sample for each instant: every process's line repeats the host's counters."""
    rows: dict[int, ServerSample] = {}
    for sample in samples:
        rows.setdefault(sample.time_mono_ns, sample)
    return [rows[time] for time in sorted(rows)]


def _series(run: Run, name: str, samples: Iterable[ServerSample], column: str) -> Series:
    """A column over the time of the replay; no points where the run has no start."""
    clock = clock_of(run)
    points = [(clock(one) / 1e9, one.values.get(column, 0.0)) for one in samples] if clock else []
    return Series(name, *np.array(points, np.float64).reshape(-1, 2).T)


def host_series(run: Run, column: str) -> Series:
    """The sum over the servers' hosts; what hosts on one machine have in common is counted once."""
    hosts = of_servers(run)
    once = hosts[:1] if column in _OF_MACHINE and not run.manifest.get("hosts") else hosts
    return summed([_series(run, column, host_rows(samples), column) for samples in once])


def client_series(run: Run, column: str) -> list[Series]:
    """One series for each client host that was sampled."""
    return [_series(run, name, host_rows(samples), column) for name, samples in run.client_samples.items()]


def process_series(run: Run, column: str) -> list[Series]:
    """One series for each process of the servers and their fronts, sorted by its id."""
    samples = [one for samples in of_servers(run) for one in samples]
    return [
        _series(run, process, (one for one in samples if one.process == process), column)
        for process in sorted(server_processes(run, ("server", "front")))
    ]


def memory_series(run: Run) -> list[Series]:
    """Of each process of the server and its fronts, shared pages counted once (PSS; RSS where it is not
    given).
    """
    pss, rss = (process_series(run, name) for name in ("pss_bytes", "rss_bytes"))
    return pss if any(part.values.any() for part in pss) else rss


def resolver_series(run: Run, column: str) -> list[Series]:
    """What each resolver, or with a column of that its data path, has counted, by its host."""
    asked = column in ("udp_queries", "tcp_queries")
    return [
        _series(run, name, (one for one in samples if (one.process == UPSTREAM) is asked), column)
        for name, samples in run.resolver_samples.items()
    ]


def counts_series(run: Run, column: str) -> Series:
    return _series(run, column, run.server_counts, column)


def counts(run: Run, end_ns: int) -> Json:
    """The part `server_counts` of summary.json: since the last reading before the replay, which ended at
    `end_ns`. Nulls where the server did not say what it has counted before and after, or began to count anew.
    """
    found: Json = {}
    kind = run.setting("server.kind")
    faults = map(as_dict, as_list(run.experiment.get("fault")))
    anew = any(one.get("restart") or (one.get("reload") and kind == "nsd") for one in faults)
    for column in COUNTED:
        series = counts_series(run, column)
        before = series.values[series.times <= 0]
        known = len(before) and series.times[-1] * 1e9 >= end_ns and column in run.server_counts[-1].values
        grows = bool(np.all(np.diff(series.values) >= 0))
        found[column] = int(series.values[-1] - before[-1]) if known and grows and not anew else None
    return found


def summed(several: list[Series]) -> Series:
    """The sum of series at the times of the first one's points, each as it was last sampled by then. Times
    ascend also where a clock was set back in between.
    """
    orders = [(one, np.argsort(one.times, kind="stable")) for one in several if len(one.times)]
    held = [(one.times[order], one.values[order]) for one, order in orders]
    times = held[0][0] if held else np.zeros(0)
    parts = [values[np.maximum(np.searchsorted(own, times, side="right") - 1, 0)] for own, values in held]
    return Series("", times, np.sum(parts, axis=0) if parts else times)


def rate_of(series: Series) -> Series:
    """Growth a second of a cumulative counter; a counter that restarts contributes nothing for that step."""
    steps = np.diff(series.times)
    kept = steps > 0
    grown = np.maximum(np.diff(series.values)[kept], 0)
    return Series(series.name, series.times[1:][kept], grown / steps[kept])


def growth(samples: Iterable[ServerSample], column: str) -> float | None:
    """Of a host's counter between its first and last samples; None without two of them."""
    rows = host_rows(samples)
    if len(rows) < 2:
        return None
    return max(0.0, rows[-1].values.get(column, 0.0) - rows[0].values.get(column, 0.0))


def total_growth(run: Run, column: str) -> float | None:
    """The same of all servers' hosts; None where one of them lacks samples."""
    found = [growth(samples, column) for samples in of_servers(run)]
    known = [one for one in found if one is not None]
    return sum(known) if len(known) == len(found) else None


def used_cpu(run: Run, role: str) -> float | None:
    """CPU seconds of the role's process trees in the run, up to their last samples; None where nobody
    sampled.
    """
    found = [
        grown + (0.0 if ran_before(run) else first)
        for samples in _samples_of(run, role)
        for first, grown in sampled_cpu(samples).values()
    ]
    return sum(found) if found else None


def sampled_cpu(samples: Iterable[ServerSample]) -> dict[str, tuple[float, float]]:
    """CPU seconds of each process tree at its first sample, and those that it used up to its last one."""
    found: dict[str, list[float]] = {}
    for one in samples:
        found.setdefault(one.process, []).append(one.values.get("cpu_s", 0.0))
    return {process: (values[0], _grown(values)) for process, values in found.items()}


def _grown(values: Sequence[float]) -> float:
    """A counter that restarts contributes nothing for that step: CPU of a process that nobody waited for."""
    return sum(max(0.0, after - before) for before, after in itertools.pairwise(values))


def ran_before(run: Run) -> bool:
    """Whether the server is one that the user runs: what it used before is none of the run's."""
    return bool(run.setting("server.kind") == "address")


def ended(run: Run) -> Iterator[str]:
    """A server that the user runs may end or be started again, and nobody else would tell; what its parent
    has not collected has no memory either.
    """
    if ran_before(run) and any(one.values.get("rss_bytes") == 0 for one in run.samples):
        yield "the server's process ended during the run: what it used from then on is not known"


def spent_cpu(run: Run, end_ns: int, role: str, column: str = "cpu_s") -> float | None:
    """CPU seconds of the role's process trees during the replay, which ended at `end_ns` after its start, or
    what a column says of them; None where nobody sampled around it.

    From the last sample before the start to the first one after the end: what lies between these and the
    replay is an idle second at most, while a start may cost more than all queries.
    """
    clock = clock_of(run)
    if clock is None:
        return None
    found = []
    for samples in _samples_of(run, role):
        for process in {sample.process for sample in samples}:
            points = [
                (clock(one), one.values[column])
                for one in samples
                if one.process == process and column in one.values
            ]
            if begin := sum(time <= 0 for time, _ in points):
                end = sum(time < end_ns for time, _ in points)
                found.append(_grown([cpu for _, cpu in points[begin - 1 : end + 1]]))
    return sum(found) if found else None


def peak_memory(run: Run, role: str) -> int | None:
    """Largest sum over a host's processes of the role at one instant, shared pages counted once (PSS; RSS
    where it is not given); the sum over the hosts.
    """
    peaks = []
    for samples in _samples_of(run, role):
        sums: dict[int, float] = {}
        for sample in samples:
            memory = sample.values.get("pss_bytes") or sample.values.get("rss_bytes") or 0.0
            sums[sample.time_mono_ns] = sums.get(sample.time_mono_ns, 0.0) + memory
        peaks += [max(sums.values())] if sums else []
    return int(sum(peaks)) if peaks else None


def memory_in_use(run: Run, end_ns: int) -> dict[str, int | None]:
    """The part `server_memory` of summary.json: medians of the second half of a replay of so many ns."""
    found = {"process": _settled(summed(memory_series(run)), end_ns)}
    for name, columns in (
        ("socket_buffers", ("tcp_mem_bytes", "udp_mem_bytes")),
        ("kernel_objects", ("slab_bytes",)),
    ):
        series = summed([host_series(run, one) for one in columns])
        before = series.values[series.times <= 0][-1:]  # the last sample before the replay
        grown = np.maximum(_settled(series, end_ns) - before, 0)
        found[name] = float(grown[0]) if len(grown) else np.nan
    found["kernel"] = found["socket_buffers"] + found["kernel_objects"]
    found["all"] = found["process"] + found["kernel"]
    return {name: None if np.isnan(value) else int(value) for name, value in found.items()}


def _settled(series: Series, end_ns: int) -> float:
    """The median of the second half of the replay; NaN without samples."""
    held = series.values[(end_ns / 2 <= series.times * 1e9) & (series.times * 1e9 <= end_ns)]
    return float(np.median(held)) if len(held) else np.nan


def _samples_of(run: Run, role: str) -> list[list[ServerSample]]:
    """Samples of the role's processes, by host."""
    ids = {str(one.get("id")) for one in run.processes(role)}
    ids |= server_processes(run) if role == "server" else set()
    return [
        [one for one in samples if one.process in ids]
        for samples in (run.samples, *run.other_samples.values())
    ]


def sockets(run: Run, end_ns: int) -> Json:
    """Peaks of TCP sockets at both ends; null where nobody sampled. Those of several hosts are added. After
    `end_ns`, when the last query has been sent, the replay closes its connections: what then waits in
    TIME-WAIT is no trait of the trace.
    """
    servers = _peaks(run, of_servers(run), end_ns)
    drops = total_growth(run, "listen_drops")
    return {
        "server": servers and {**servers, "listen_drops": None if drops is None else int(drops)},
        "clients": _peaks(run, run.client_samples.values(), end_ns),
    }


def _peaks(run: Run, hosts: Iterable[Sequence[ServerSample]], end_ns: int) -> Json | None:
    clock = clock_of(run)
    held = [samples for samples in hosts if samples]
    during = [[one for one in samples if clock is None or clock(one) <= end_ns] for samples in held]

    def peak(several: Sequence[Sequence[ServerSample]], column: str) -> int:
        values = ([one.values.get(column, 0.0) for one in samples] for samples in several)
        return sum(int(max(one, default=0)) for one in values)

    established, waiting = peak(held, "tcp_established"), peak(during, "tcp_time_wait")
    return {"peak_established": established, "peak_time_wait": waiting} if held else None
