"""The plots of a run, and of several runs beside each other. Values in, finished plots out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from report import server, stalls
from report.distribution import Distribution, Slices
from report.figures import WIDE, Drawn, Words, cdf_points, draw, legend_above, plain_axis, write
from report.run import Json
from report.server import Series
from report.summary import Measured
from report.tally import Rate, Tally

__all__ = ["draw_all", "side_by_side", "write"]

BINS_S = (0.1, 1, 10, 60, 600, 3600)
MAX_BINS = 400
TIME_LABEL = "time since the start [s]"
MEGA = 1e6
SLOWEST_POINTS = 600
MOST_CURVES = 8


def draw_all(measured: Measured, summary: Json) -> list[Drawn]:
    """Every plot of the report, also where there is nothing to see: the plot then says so."""
    tally = measured.tally
    return [
        _rate(tally),
        _error_cdf({"": tally.errors_of()}),
        _error_over_time(tally),
        *_latencies(tally),
        *_response_over_time(measured, summary),
        _rcodes(summary["rcode"]),
        _server_cpu(measured),
        _server_memory(measured),
        *_kernel_memory(measured),
        *_connections(measured),
    ]


def side_by_side(runs: Mapping[str, Measured]) -> list[Drawn]:
    """Several runs, by their labels, in one plot each; a run has the same color in all."""
    errors = {name: one.tally.errors_of() for name, one in runs.items()}
    latencies = {name: _Answers.of(one.tally) for name, one in runs.items()}
    cpu = {name: server.summed(server.process_series(one.run, "cpu_s")) for name, one in runs.items()}
    return [
        _latency_cdf(latencies),
        _slowest(latencies),
        _over_time(
            "cpu",
            "CPU of the server",
            "CPU [% of one core]",
            {k: server.rate_of(v) for k, v in cpu.items()},
            100,
        ),
        _over_time(
            "memory",
            "Memory of the server",
            "memory [MB]",
            {k: server.summed(server.process_series(one.run, "rss_bytes")) for k, one in runs.items()},
            1 / MEGA,
        ),
        *_connections_of(runs),
        _rates_of(runs),
        _error_cdf(errors),
    ]


def _connections_of(runs: Mapping[str, Measured]) -> list[Drawn]:
    """By state, where any run had one."""
    titles = {"tcp_established": "Established connections", "tcp_time_wait": "Connections in TIME-WAIT"}
    found = []
    for column, title in titles.items():
        series = {name: server.host_series(one.run, column) for name, one in runs.items()}
        if any(value for one in series.values() for _, value in one.points):
            found.append(
                _over_time(column.replace("_", "-"), f"{title} at the server", "connections", series, 1)
            )
    return found


def _over_time(name: str, title: str, label: str, series: Mapping[str, Series], factor: float) -> Drawn:
    """A line for each run."""

    def paint(axes: Axes) -> bool:
        for run, one in series.items():
            _line(axes, _scaled(one, factor), run, drawstyle="steps-pre")
        _time_axis(axes, label)
        legend_above(axes)
        return any(one.points for one in series.values())

    return draw(Words(name, title, "Sampled at the server's host.", "the servers were not sampled"), paint)


def of_variants(variants: Mapping[str, Sequence[Tally]]) -> list[Drawn]:
    """Variants of a series in one plot each, all clean runs of a variant taken together. Of many, some."""
    names = list(variants)
    if len(names) > MOST_CURVES:
        names = [names[round(at)] for at in np.linspace(0, len(names) - 1, MOST_CURVES)]
    answers = {name: _Answers.of_all(variants[name]) for name in names}
    return [_latency_cdf(answers), _slowest(answers)]


@dataclass(frozen=True)
class Axis:
    """A swept key with numbers. `lines`: for each combination of the other keys' values its label, and the
    variants by their value of the key, ascending.
    """

    key: str
    lines: tuple[tuple[str, tuple[tuple[float, int], ...]], ...]


def over_key(axis: Axis | None, figures: Sequence[tuple[str, Sequence[Sequence[float]]]]) -> list[Drawn]:
    """Main figures (title, values by variant) over the swept key; none without one."""
    return [] if axis is None else [_over_key(axis, number, *one) for number, one in enumerate(figures)]


def _over_key(axis: Axis, number: int, title: str, values: Sequence[Sequence[float]]) -> Drawn:
    places = [place for _, line in axis.lines for place, _ in line]
    held = [one for part in values for one in part]

    def paint(axes: Axes) -> bool:
        for label, line in axis.lines:
            known = [(place, float(np.median(values[at]))) for place, at in line if values[at]]
            (drawn,) = axes.plot(*zip(*known, strict=True), label=label) if known else axes.plot([], [])
            for place, at in line:
                color = drawn.get_color()
                axes.plot([place] * len(values[at]), values[at], "o", color=color, alpha=0.5, markersize=4)
        if min(places) > 0 and max(places) / min(places) > 20:
            axes.set_xscale("log")
        if held and min(held) > 0 and max(held) / min(held) > 100:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(axis.key)
        axes.set_ylabel(title)
        plain_axis(axes, "xy")
        legend_above(axes)
        return bool(held)

    caption = "Each clean run is a dot; lines join the medians."
    return draw(Words(f"swept-{number}", title, caption, "no run was clean"), paint)


def bin_size(span_ns: int) -> float:
    """Seconds a bin: the finest that gives no more bins than can be told apart; short runs in tenths."""
    span = span_ns / 1e9
    if span > 15:
        return next((size for size in BINS_S[1:] if span / size <= MAX_BINS), BINS_S[-1])
    return next((size for size in BINS_S if span / size <= MAX_BINS), BINS_S[-1])


def per_second(rate: Rate, size: float, span_ns: int) -> Series:
    """Rate in each bin of `size` seconds that ends within the span; a bin that is cut by the end would show a
    fall that is none.
    """
    size_ns = int(size * 1e9)
    counts = rate.per(size_ns, max(1, span_ns // size_ns))
    return Series("", tuple(((at + 0.5) * size, count / size) for at, count in enumerate(counts)))


def _line(axes: Axes, series: Series, label: str, **style: object) -> None:
    x, y = zip(*series.points, strict=True) if series.points else ((), ())
    axes.plot(x, y, label=label, **style)  # type: ignore[arg-type]


def _time_axis(axes: Axes, label: str) -> None:
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    plain_axis(axes, "xy")


def _rate(tally: Tally) -> Drawn:
    span = tally.span_ns
    size = bin_size(span)

    def paint(axes: Axes) -> bool:
        if not tally.records:
            return False
        _line(axes, per_second(tally.due, size, span), "trace", linewidth=4, alpha=0.35)
        _line(axes, per_second(tally.sends, size, span), "replay, sent", linewidth=1.2)
        _line(axes, per_second(tally.answers, size, span), "answers", linewidth=1.2, linestyle=(0, (2, 2)))
        _time_axis(axes, "rate [1/s]")
        legend_above(axes)
        return True

    caption = f"Queries due by the trace, queries sent and answers received, in bins of {size:g} s."
    return draw(Words("rate", "Rate of trace and replay", caption, "no query reached a querier"), paint, WIDE)


def _rates_of(runs: Mapping[str, Measured]) -> Drawn:
    size = bin_size(max(one.tally.span_ns for one in runs.values()))

    def paint(axes: Axes) -> bool:
        for name, one in runs.items():
            _line(axes, per_second(one.tally.sends, size, one.tally.span_ns), name)
        _time_axis(axes, "rate [1/s]")
        legend_above(axes)
        return any(one.tally.records for one in runs.values())

    return draw(
        Words("rates", "Rate of the replays", f"Queries sent, in bins of {size:g} s.", "no query was sent"),
        paint,
    )


def _error_cdf(errors: dict[str, Distribution]) -> Drawn:
    def paint(axes: Axes) -> bool:
        held = {name: cdf_points(one.absolute()) for name, one in errors.items() if one.count}
        for name, (x, y) in held.items():
            axes.plot(np.maximum(x, 100) / 1000, y, label=name)
        axes.set_xscale("log")
        _share_axis(axes, "timing error, |sent - due| [µs]")
        legend_above(axes)
        return bool(held)

    caption = "Share of the queries that were sent at most this long before or after they were due."
    return draw(Words("timing-cdf", "Timing error", caption, "no query was sent after the warm-up"), paint)


def _share_axis(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.set_ylabel("share of queries")
    axes.set_ylim(0, 1.02)
    plain_axis(axes, "xy")


def _error_over_time(tally: Tally) -> Drawn:
    def paint(axes: Axes) -> bool:
        if not tally.error_slices:
            return False
        x, bands = bands_of(tally.error_slices, tally.span_ns)
        axes.fill_between(x, bands[0], bands[4], alpha=0.18, linewidth=0, label="1 % to 99 %")
        axes.fill_between(x, bands[1], bands[3], alpha=0.35, linewidth=0, label="25 % to 75 %", color="C0")
        axes.plot(x, bands[2], label="median", color="C1", linewidth=1.2)
        axes.set_xlabel(TIME_LABEL)
        axes.set_ylabel("timing error [µs]")
        axes.margins(x=0.01)
        plain_axis(axes, "xy")
        legend_above(axes)
        return True

    caption = "Timing error in each bin of the schedule: where the replay fell behind, and for how long."
    return draw(
        Words("timing-time", "Timing error over time", caption, "no query was sent after the warm-up"), paint
    )


def bands_of(slices: Slices, span_ns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middles of the bins [s] and the percentiles 1, 25, 50, 75, 99 [µs] in each; empty bins are left out."""
    size_ns = int(bin_size(span_ns) * 1e9)
    numbers, bands = slices.bands(size_ns, (10, 250, 500, 750, 990))
    return np.asarray((numbers + 0.5) * size_ns / 1e9), bands / 1000


@dataclass(frozen=True)
class _Answers:
    """Times from send, or from when they were due, to the answers, and how many queries were sent."""

    latency: Distribution
    response: Distribution
    sent: int

    @classmethod
    def of(cls, tally: Tally) -> _Answers:
        return cls.of_all([tally])

    @classmethod
    def of_all(cls, tallies: Sequence[Tally]) -> _Answers:
        latency = Distribution.of(one for tally in tallies for one in tally.latency.values())
        response = Distribution.of(one for tally in tallies for one in tally.response.values())
        return cls(latency, response if response.count else latency, sum(tally.sent for tally in tallies))


def _latencies(tally: Tally) -> list[Drawn]:
    found = {
        name.upper(): _Answers(one, tally.response.get(name, one), tally.sent_over[name])
        for name, one in tally.latency.items()
    }
    return [_latency_cdf(found), _slowest(found)]


def _latency_cdf(answers: dict[str, _Answers]) -> Drawn:
    def paint(axes: Axes) -> bool:
        held = {name: one for name, one in answers.items() if one.latency.count}
        for name, one in held.items():
            x, y = cdf_points(one.latency)
            answered = one.latency.count / max(one.sent, one.latency.count)
            axes.plot(np.maximum(x, 1) / MEGA, y * answered, label=f"{name} ({one.latency.count:,})")
        axes.set_xscale("log")
        _share_axis(axes, "latency [ms]")
        legend_above(axes, 1)
        return bool(held)

    caption = (
        "Share of the queries sent that had an answer within this time, from the SYN of a fresh connection."
    )
    return draw(Words("latency", "Latency", caption, "no answer was received"), paint)


def _slowest(answers: dict[str, _Answers]) -> Drawn:
    """The field's picture of the tail: what the slowest part of the queries waited at least."""

    def paint(axes: Axes) -> bool:
        held = {name: one for name, one in answers.items() if one.response.count}
        for name, one in held.items():
            values, so_far = one.response.ascending()
            sent = max(one.sent, one.response.count)
            slower = sent - so_far + 1  # queries that took as long, or longer, or for ever
            kept = np.unique(np.geomspace(1, len(values), SLOWEST_POINTS).astype(np.int64))
            axes.plot(slower[-kept] / sent * 100, np.maximum(values[-kept], 1) / MEGA, label=name)
        if held:
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(100, min(axes.get_xlim()))
        axes.set_xlabel("slowest queries [%]")
        axes.set_ylabel("response time [ms]")
        plain_axis(axes, "xy")
        legend_above(axes)
        return bool(held)

    caption = (
        "What the slowest part of the queries sent waited at least, from when they were due by the trace; a "
        "curve begins at the share that had no answer."
    )
    return draw(Words("slowest", "Slowest answers", caption, "no answer was received"), paint)


def _response_over_time(measured: Measured, summary: Json) -> list[Drawn]:
    """None for a replay without due times."""
    tally = measured.tally
    if not tally.response_slices:
        return []

    def paint(axes: Axes) -> bool:
        size_ns = int(bin_size(tally.span_ns) * 1e9)
        numbers, bands = tally.response_slices.bands(size_ns, (500, 990, 1000))
        x = (numbers + 0.5) * size_ns / 1e9
        gaps = np.flatnonzero(np.diff(numbers) > 1) + 1  # bins without an answer: no line over them
        for values, label in zip(bands, ("median", "p99", "slowest"), strict=True):
            y = np.maximum(values, 1) / MEGA
            axes.plot(np.insert(x, gaps, np.nan), np.insert(y, gaps, np.nan), label=label, linewidth=1.2)
        for one in summary["stalls"]["spans"]:
            axes.axvspan(one["at_s"], one["at_s"] + one["seconds"], color="#888888", alpha=0.25, linewidth=0)
        for event in stalls.events(measured.run):
            axes.axvline(event.at_s, color="#888888", linestyle=":", linewidth=1)
        axes.set_yscale("log")
        axes.set_xlabel(TIME_LABEL)
        axes.set_ylabel("response time [ms]")
        axes.set_xlim(0, max(tally.span_ns, 1) / 1e9)
        plain_axis(axes, "xy")
        legend_above(axes)
        return True

    caption = (
        "Response time, from when a query was due by the trace, in each bin of the schedule. Gray: no "
        "answer came for 50 ms or longer; dotted lines: a server read its zones again."
    )
    return [draw(Words("response-time", "Response time", caption, ""), paint, WIDE)]


def _rcodes(counts: dict[str, int]) -> Drawn:
    def paint(axes: Axes) -> bool:
        names = list(counts)[::-1]
        total = sum(counts.values())
        bars = axes.barh(names, [counts[name] for name in names], height=0.6)
        labels = [f"{counts[name]:,} ({counts[name] / total:.2%})" for name in names]
        axes.bar_label(bars, labels=labels, fontsize=9, padding=4)
        axes.set_xlabel("answers")
        axes.margins(x=0.22)
        axes.grid(visible=False, axis="y")
        plain_axis(axes, "x")
        return bool(counts)

    return draw(
        Words("rcodes", "Response codes", "Answers by response code.", "no answer was received"), paint
    )


def _server_cpu(measured: Measured) -> Drawn:
    series = [server.rate_of(one) for one in server.process_series(measured.run, "cpu_s")]
    host = server.rate_of(server.host_series(measured.run, "host_cpu_s"))

    def paint(axes: Axes) -> bool:
        for one in series:
            _line(axes, _scaled(one, 100), one.name, drawstyle="steps-pre")
        style = {"linestyle": (0, (2, 2)), "linewidth": 1.2, "color": "#888888", "drawstyle": "steps-pre"}
        _line(axes, _scaled(host, 100), "whole host", **style)
        _time_axis(axes, "CPU [% of one core]")
        legend_above(axes)
        return any(one.points for one in series)

    caption = "CPU time a second of each process tree of the server, and of the host it runs on."
    return draw(Words("server-cpu", "CPU of the server", caption, "the server was not sampled"), paint)


def _server_memory(measured: Measured) -> Drawn:
    pss, rss = (server.process_series(measured.run, name) for name in ("pss_bytes", "rss_bytes"))

    def paint(axes: Axes) -> bool:
        for one in pss if any(value for part in pss for _, value in part.points) else rss:
            _line(axes, _scaled(one, 1 / MEGA), one.name)
        _time_axis(axes, "memory [MB]")
        legend_above(axes)
        return any(one.points for one in (*pss, *rss))

    caption = "Memory of each process tree of the server (shared pages counted once)."
    return draw(Words("server-memory", "Memory of the server", caption, "the server was not sampled"), paint)


def _kernel_memory(measured: Measured) -> list[Drawn]:
    """No plot where the host's memory was not sampled."""
    names = ("tcp_mem_bytes", "udp_mem_bytes", "slab_bytes")
    kernel = [server.host_series(measured.run, name) for name in names]
    if not any(value for one in kernel for _, value in one.points):
        return []

    def paint(axes: Axes) -> bool:
        for one, label in zip(kernel, ("buffers, TCP", "buffers, UDP", "kernel objects"), strict=True):
            if any(value for _, value in one.points):
                _line(axes, _scaled(one, 1 / MEGA), label)
        _time_axis(axes, "memory [MB]")
        legend_above(axes)
        return True

    caption = "Socket buffers and kernel objects of the server's whole machine."
    return [draw(Words("kernel-memory", "Memory of the kernel", caption, ""), paint)]


def _connections(measured: Measured) -> list[Drawn]:
    """Only where the server had any connection: a run over UDP has no such plot."""
    run = measured.run
    series = {
        f"server, {state.replace('_', '-')}": server.host_series(run, f"tcp_{state}")
        for state in server.TCP_STATES
    }
    clients = {
        f"{one.name}, {state.replace('_', '-')}": one
        for state in ("established", "time_wait")
        for one in server.client_series(run, f"tcp_{state}")
    }
    held, dashed = (
        {name: one for name, one in part.items() if any(value for _, value in one.points)}
        for part in (series, clients)
    )
    if not held and not dashed:
        return []

    def paint(axes: Axes) -> bool:
        for name, one in held.items():
            _line(axes, one, name)
        for name, one in dashed.items():
            _line(axes, one, name, linestyle=(0, (2, 2)), linewidth=1.2)
        _time_axis(axes, "connections")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        legend_above(axes, 1)
        return True

    caption = (
        "TCP connections by state, sampled once a second at the server's host and, where asked, the clients'."
    )
    return [draw(Words("connections", "TCP connections", caption, ""), paint, WIDE)]


def _scaled(series: Series, factor: float) -> Series:
    return Series(series.name, tuple((time, value * factor) for time, value in series.points))
