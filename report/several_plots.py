"""The plots of several runs: runs beside each other, or the variants of a series with their repeats. Values
in, finished plots out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter

from report import curves, server
from report.curves import LEVEL, MEGA, RATE, Answers, over_time
from report.distribution import Distribution
from report.figures import Drawn, Words, drawing, plain, plain_axis, whole_axis
from report.server import Floats, Series
from report.tally import Measured, Tally

_P99 = "The 99th percentile of response time, from when a query was due by the trace, in bins of {}."
_UNANSWERED = "Share of the queries due in each bin of {} that had no answer."
_CONNECTIONS = "connections"
_SAMPLED = (  # name, title and axis, and for how long a value holds
    ("cpu", "CPU of the server", "CPU [% of one core]", RATE),
    ("memory", "Memory of the server", "memory [MB]", LEVEL),
    ("tcp-established", "Established connections at the server", _CONNECTIONS, LEVEL),
    ("tcp-time-wait", "Connections in TIME-WAIT at the server", _CONNECTIONS, LEVEL),
)


@dataclass(frozen=True)
class Seen:
    """What plots of several runs need of one; `samples` of the server by their plots' names."""

    tally: Tally
    cold_s: float  # of Run
    samples: Mapping[str, Series]

    @classmethod
    def of(cls, measured: Measured) -> Seen:
        run = measured.run
        used = server.summed(server.process_series(run, "cpu_s"))
        samples = {
            "cpu": server.rate_of(used).scaled(100),
            "memory": server.summed(server.memory_series(run)).scaled(1 / MEGA),
            "tcp-established": server.host_series(run, "tcp_established"),
            "tcp-time-wait": server.host_series(run, "tcp_time_wait"),
        }
        return cls(measured.tally, run.cold_s, samples)


Variants = Mapping[str, Sequence[Seen]]  # by their labels the clean runs of each, at least one


def side_by_side(variants: Variants) -> list[Drawn]:
    """All in one plot each, with the same color in all, where any has something to show. Repeats are drawn as
    their median and range.
    """
    tallies = {name: [one.tally for one in repeats] for name, repeats in variants.items()}
    answers = {name: [Answers.of(one) for one in repeats] for name, repeats in tallies.items()}
    drawn = [
        curves.latency_cdf({name: Answers.of(*repeats) for name, repeats in tallies.items()}),
        curves.slowest(answers),
        *curves.sources_cdf(_together(tallies, lambda one: one.source_response.all())),
        *_cold(variants),
        _binned(
            {name: [one for one in repeats if one.response_slices] for name, repeats in tallies.items()},
            Words("response-p99", "Response time, p99", _P99, ""),
            "response time [ms]",
            lambda one: one.response_slices,
            _p99,
            log=True,
        ),
        _binned(
            tallies,
            Words("unanswered", "Queries without an answer", _UNANSWERED, ""),
            "without an answer [%]",
            lambda one: one.unanswered.end_ns,
            lambda one, size_ns, bins: one.unanswered_share(size_ns, bins) * 100,
        ),
        *(_sampled(variants, *one) for one in _SAMPLED),
        _binned(
            tallies,
            Words("rates", "Rate of the replays", "Queries sent, in bins of {}.", ""),
            "rate [1/s]",
            lambda one: one.sent,
            lambda one, size_ns, bins: one.sends.per(size_ns, bins) / (size_ns / 1e9),
        ),
        curves.error_cdf(_together(tallies, Tally.errors_of)),
    ]
    return [one for one in drawn if not one.empty]


def _together(
    tallies: Mapping[str, Sequence[Tally]], part: Callable[[Tally], Distribution]
) -> dict[str, Distribution]:
    return {name: Distribution.of(map(part, repeats)) for name, repeats in tallies.items()}


def _cold(variants: Variants) -> list[Drawn]:
    """The slowest answers while the caches of resolvers filled, and after that; of those that began cold."""
    parts: dict[str, dict[str, list[Answers]]] = {}
    for name, repeats in variants.items():
        for one in repeats:
            for part, answers in curves.cold_parts(one.tally, one.cold_s):
                parts.setdefault(part, {one: [] for one in variants})[name].append(answers)
    return [curves.slowest(answers, part) for part, answers in parts.items()]


def _sampled(variants: Variants, name: str, title: str, label: str, style: str) -> Drawn:
    """Of connections empty where no run had one."""
    found = {variant: [one.samples[name] for one in repeats] for variant, repeats in variants.items()}
    held = {variant: [one for one in repeats if len(one.times)] for variant, repeats in found.items()}
    counts = label == _CONNECTIONS
    shown = not counts or any(one.values.any() for repeats in held.values() for one in repeats)
    bands = {key: _in_step(repeats, style) if shown and repeats else None for key, repeats in held.items()}
    caption = f"Sampled at the server's host.{curves.range_of(held.values())}"
    return over_time(Words(name, title, caption), label, bands, style, counts=counts)


def _in_step(repeats: Sequence[Series], style: str) -> Series:
    """At the times of the first one's samples, as far as all have some."""
    begin, end = (choose(one.times[at] for one in repeats) for choose, at in ((max, 0), (min, -1)))
    grid = repeats[0].times[(repeats[0].times >= begin) & (repeats[0].times <= end)]
    side, back = ("right", 1) if style == LEVEL else ("left", 0)
    places = [np.searchsorted(one.times, grid, side=side) - back for one in repeats]  # type: ignore[call-overload]
    return Series("", grid, np.array([one.values[at] for one, at in zip(repeats, places, strict=True)]))


def _p99(one: Tally, size_ns: int, bins: int) -> Floats:
    numbers, bands = one.response_slices.bands(size_ns, (990,))
    found, within = np.full(bins, np.nan), numbers < bins
    found[numbers[within]] = np.maximum(bands[0][within], 1) / MEGA
    return found


def _binned(
    tallies: Mapping[str, Sequence[Tally]],
    words: Words,
    label: str,
    shown: Callable[[Tally], object],
    values: Callable[[Tally, int, int], Floats],
    log: bool = False,
) -> Drawn:
    """Values in bins of so many ns that end within the shortest of the repeats, for variants with a repeat
    that has something to show. The caption has a place for the bins' size.
    """
    size = curves.bin_size(max((one.span_ns for repeats in tallies.values() for one in repeats), default=0))
    bands: dict[str, Series | None] = dict.fromkeys(tallies)
    for variant, repeats in tallies.items():
        if any(map(shown, repeats)):
            count = max(1, int(min(one.span_ns for one in repeats) / 1e9 / size))
            found = np.array([values(one, int(size * 1e9), count) for one in repeats])
            bands[variant] = Series("", (np.arange(count) + 0.5) * size, found)
    caption = words.caption.format(f"{size:g} s") + curves.range_of(tallies.values())
    return over_time(replace(words, caption=caption), label, bands, log=log)


# --- swept keys -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """A swept key with numbers. `lines`: for each combination of the other keys' values its label, and the
    variants by their value of the key, ascending.
    """

    key: str
    lines: tuple[tuple[str, tuple[tuple[float, int], ...]], ...]


def over_key(
    axis: Axis, name: str, title: str, values: Sequence[Sequence[float]], text: Callable[[Any], str]
) -> Drawn:
    """A figure, by variant, over the swept key; `text` writes a value."""
    places = [place for _, line in axis.lines for place, _ in line]
    held = [one for part in values for one in part]
    caption = "Each clean run is a dot; lines join the medians."
    with drawing(Words(name, title, caption, "no run was clean"), empty=not held) as (plot, axes):
        for label, line in axis.lines:
            known = [(place, float(np.median(values[at]))) for place, at in line if values[at]]
            (drawn,) = axes.plot(*zip(*known, strict=True), label=label) if known else axes.plot([], [])
            for place, at in line:
                (dots,) = axes.plot([place] * len(values[at]), values[at], "o", color=drawn.get_color())
                dots.set(alpha=0.5, markersize=4, label=f"_{label}")
        if min(places) > 0 and max(places) / min(places) > 20:
            axes.set_xscale("log")
        elif all(place == int(place) for place in places):
            whole_axis(axes.xaxis)
        if held and min(held) > 0 and max(held) / min(held) > 100:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
            if all(isinstance(one, int) for one in held):
                whole_axis(axes.yaxis)
        axes.set_xlabel(axis.key)
        axes.set_ylabel(title)
        plain_axis(axes, "x")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    return plot


def boxes_of(axis: Axis | None, variants: Sequence[tuple[str, Sequence[Seen]]]) -> list[Drawn]:
    """Latencies by the value of the swept key or, where it has no numbers, by variant; none of one variant.
    Repeats are taken together.
    """
    if len(variants) < 2:
        return []
    held = [
        (name, Answers.of(*(one.tally for one in repeats)).latency.spread()) for name, repeats in variants
    ]
    groups: list[curves.Group] = [("", held)]
    if axis is not None:
        groups = [(label, [(plain(place), held[at][1]) for place, at in line]) for label, line in axis.lines]
    caption = (
        "Latency from the send, on a fresh connection from its SYN: boxes are quartiles with the median, "
        "whiskers the percentiles 5 and 95."
    )
    words = Words("latency-boxes", "Latency by variant", caption, "no answer was received")
    return [curves.boxes(words, axis.key if axis else "", groups)]
