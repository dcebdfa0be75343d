"""What plots of one run and of several have in common: axes, curves over time, and those of latencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from report.distribution import Distribution, Percentiles
from report.figures import NORMAL, WIDE, Drawn, Size, Words, cdf_points, drawing, plain_axis, whole_axis
from report.server import Floats, Series
from report.tally import Rate, Tally

BINS_S = (0.1, 1, 10, 60, 600, 3600)
MAX_BINS = 400
MEGA = 1e6
SLOWEST_POINTS = 600
MOST_PARTS = 600
LEVEL, RATE = "steps-post", "steps-pre"  # a sample holds until the next one, or for the time since the last
_STEPS: dict[str, Literal["pre", "post"]] = {LEVEL: "post", RATE: "pre"}
T = TypeVar("T")
Group = tuple[str, Sequence[tuple[str, Percentiles]]]  # boxes by the names of their places, under a name


def paint(axes: Axes, label: str, series: Series, **style: Any) -> None:
    """A curve. Values with a row for each repeat are drawn as their median and range, where all have one (no
    NaN).
    """
    held = np.atleast_2d(series.values)
    middle, drawstyle = np.median(held, axis=0), style.get("drawstyle", "")
    at = telling(middle)
    before = drawstyle == RATE and len(at) > 1
    places = np.insert(at, 0, 0) if before else at
    x, middle, low, high = (one[places] for one in (series.times, middle, held.min(axis=0), held.max(axis=0)))
    if before:  # the first value of a rate holds from there on
        x[0] = 2 * x[1] - x[2]
    (line,) = axes.plot(x, middle, label=label, **style)
    if np.any(low < high):
        band = axes.fill_between(x, low, high, step=_STEPS.get(drawstyle), color=line.get_color(), alpha=0.2)
        band.set(linewidth=0, label=f"_{label}")


def in_turn(axes: Axes, values: Mapping[str, T | None]) -> Iterator[tuple[str, T]]:
    """Names and values, each to be drawn as one curve; the colors of those without a value stay theirs."""
    for name, value in values.items():
        if value is None:
            axes.plot([], [])
        else:
            yield name, value


def bin_size(span_ns: int) -> float:
    """Seconds a bin: the finest that gives no more bins than can be told apart; short runs in tenths."""
    span = span_ns / 1e9
    sizes = BINS_S[1:] if span > 15 else BINS_S
    return next((size for size in sizes if span / size <= MAX_BINS), BINS_S[-1])


def per_second(rate: Rate, size: float, span_ns: int) -> Series:
    """Rate in each bin of `size` seconds that ends within the span; a bin that is cut by the end would show a
    fall that is none.
    """
    size_ns = int(size * 1e9)
    counts = rate.per(size_ns, max(1, span_ns // size_ns))
    return Series("", (np.arange(len(counts)) + 0.5) * size, counts / size)


def telling(values: Floats) -> NDArray[np.intp]:
    """The places of values that give the same picture as all of them: the least and the largest of each of
    many parts.
    """
    every = np.arange(len(values))
    if len(values) <= 2 * MOST_PARTS:
        return every
    parts = np.array_split(every, MOST_PARTS)
    ends = [part[choose(values[part])] for part in parts for choose in (np.argmin, np.argmax)]
    return np.unique([0, *ends, len(values) - 1])


def mark(axes: Axes, at_s: float) -> None:
    """Something that happened then."""
    axes.axvline(at_s, color="#888888", linestyle=":", linewidth=1)


def over_time(
    words: Words,
    label: str,
    held: Mapping[str, Series | None],
    style: str = "default",
    size: Size = NORMAL,
    counts: bool = False,
    log: bool = False,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    end_s: float | None = None,
) -> Drawn:
    """Curves by their names, some with styles of their own. `counts`: the values are whole numbers; `end_s`:
    when the last query was sent.
    """
    empty = not any(len(one.times) for one in held.values() if one)
    with drawing(words, size, empty, legend=2 if end_s is None else 1) as (drawn, axes):
        for name, one in in_turn(axes, held):
            paint(axes, name, one, **{"drawstyle": style, **(styles or {}).get(name, {})})
        if end_s is not None:
            mark(axes, end_s)
        axes.set_yscale("log" if log else "linear")
        time_axis(axes, label, counts)
    return drawn


def time_axis(axes: Axes, label: str, counts: bool = False, signed: bool = False) -> None:
    """`counts`: the values are whole numbers; `signed`: also those below 0 are shown."""
    axes.set_xlabel("time since the start [s]")
    axes.set_ylabel(label)
    if axes.get_yscale() == "linear" and not signed:
        axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    plain_axis(axes, "xy")
    if counts:
        whole_axis(axes.yaxis)


def share_axis(axes: Axes, label: str, of: str = "queries") -> None:
    axes.set_xlabel(label)
    axes.set_ylabel(f"share of {of}")
    axes.set_ylim(0, 1.02)
    plain_axis(axes, "xy")


def cdf(
    words: Words,
    label: str,
    curves: Mapping[str, tuple[Floats, Floats] | None],
    of: str = "queries",
    least: int = 2,
    style: str = "default",
    scale: str = "log",
    size: Size = NORMAL,
) -> Drawn:
    """Curves of shares by their names; a legend from `least` of them on."""
    with drawing(words, size, not any(curves.values()), least) as (drawn, axes):
        for name, (x, y) in in_turn(axes, curves):
            axes.plot(x, y, label=name, drawstyle=style)
        axes.set_xscale(scale)
        share_axis(axes, label, of)
    return drawn


def error_cdf(errors: Mapping[str, Distribution]) -> Drawn:
    held = {name: _points(one.absolute(), 100, 1000) for name, one in errors.items()}
    caption = "Share of the queries that were sent at most this long before or after they were due."
    words = Words("timing-cdf", "Timing error", caption, "no query was sent after the warm-up")
    return cdf(words, "timing error, |sent - due| [µs]", held)


def _points(one: Distribution, least: float, by: float, of: int = 0) -> tuple[Floats, Floats] | None:
    """Of its CDF: times from `least` on, divided by `by`, and shares of so many or of its own."""
    if not one.count:
        return None
    x, y = cdf_points(one)
    return np.maximum(x, least) / by, y * (one.count / (of or one.count))


@dataclass(frozen=True)
class Answers:
    """Times from send, or from when they were due, to the answers, and how many queries were not skipped:
    those whose connection failed were never sent, and have no answer either.
    """

    latency: Distribution
    response: Distribution
    asked: int

    @classmethod
    def of(cls, *tallies: Tally) -> Answers:
        latency = Distribution.of(one for tally in tallies for one in tally.latency.values())
        response = Distribution.of(one for tally in tallies for one in tally.response.values())
        asked = sum(sum(tally.asked_over.values()) for tally in tallies)
        return cls(latency, response if response.count else latency, asked)

    @classmethod
    def within(cls, tally: Tally, begin_ns: int, end_ns: int) -> Answers:
        """Of the queries due in a time, from the bins of time slices."""
        response = tally.response_slices.within(begin_ns, end_ns)
        steps, counts = tally.due.steps()
        held = (steps * tally.due.STEP_NS >= begin_ns) & (steps * tally.due.STEP_NS < end_ns)
        return cls(response, response, max(int(counts[held].sum()), response.count))

    def slowest(self, shares: Floats) -> Floats:
        """What the slowest of the queries sent, these shares of them, waited at least [ms]; NaN where these
        include one that is answered, and the rest had no answer.
        """
        values, so_far = self.response.ascending()
        places = self.asked - np.ceil(shares * self.asked - 1e-6).astype(np.int64)
        found = np.searchsorted(so_far, places, side="right")
        waited = np.append(np.maximum(values, 1) / MEGA, np.nan)
        return np.asarray(waited[np.minimum(found, len(values))])


def latency_cdf(answers: Mapping[str, Answers]) -> Drawn:
    held = {
        f"{name} ({one.latency.count:,})": _points(one.latency, 1, MEGA, one.asked)
        for name, one in answers.items()
    }
    caption = (
        "Share of the queries sent that had an answer within this time, from the SYN of a fresh connection."
    )
    words = Words("latency", "Latency", caption, "no answer was received")
    return cdf(words, "latency [ms]", held, least=1)


def sources_cdf(means: Mapping[str, Distribution]) -> list[Drawn]:
    """None where there is one source."""
    held = {name: _points(one, 1, MEGA) if one.count > 1 else None for name, one in means.items()}
    caption = (
        "Share of the sources whose answers took at most this long on average, from when a query was due by "
        "the trace."
    )
    words = Words("source-response", "Sources", caption, "")
    label = "mean response time [ms]"
    return [cdf(words, label, held, "sources", style="steps-post")] if any(held.values()) else []


def cold_parts(tally: Tally, cold_s: float) -> list[tuple[str, Answers]]:
    """The answers while a cold cache filled, and the rest; none where the replay was not longer."""
    cold_ns = int(cold_s * 1e9)
    if not 0 < cold_ns < tally.span_ns or not tally.response_slices:
        return []
    return [
        (f"first {cold_s:g} s", Answers.within(tally, 0, cold_ns)),
        (f"after {cold_s:g} s", Answers.within(tally, cold_ns, tally.span_ns + 1)),
    ]


def slowest(answers: Mapping[str, Sequence[Answers]], part: str = "") -> Drawn:
    """The field's picture of the tail: what the slowest part of the queries waited at least. Of several
    repeats the median and the range. `part`: of the replay.
    """
    held = {name: [one for one in repeats if one.response.count] for name, repeats in answers.items()}
    tails = {name: _tail(repeats) if repeats else None for name, repeats in held.items()}
    ends = [float(one.times[0]) for one in tails.values() if one]
    caption = (
        "What the slowest part of the queries sent waited at least, from when they were due by the trace; a "
        f"curve begins at the share that had no answer.{range_of(answers.values())}"
    )
    name = "-".join(["slowest", *part.split()[:1]])
    title = f"Slowest answers, {part}" if part else "Slowest answers"
    with drawing(Words(name, title, caption, "no answer was received"), empty=not ends) as (drawn, axes):
        for label, one in in_turn(axes, tails):
            paint(axes, label, one)
        if ends:
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(100, min(ends) / 1.2)
        axes.set_xlabel("slowest queries [%]")
        axes.set_ylabel("response time [ms]")
        plain_axis(axes, "xy")
    return drawn


def range_of(repeats: Iterable[Sequence[object]]) -> str:
    """What a caption says of bands, where there are any."""
    several = any(len(one) > 1 for one in repeats)
    return " Of repeated runs: the median, and the range in a lighter shade." if several else ""


def _tail(repeats: Sequence[Answers]) -> Series:
    """Over shares of the queries, in place of times [%]."""
    fewest = min(one.asked for one in repeats)
    shares = np.unique(np.geomspace(1, fewest, SLOWEST_POINTS).astype(np.int64)) / fewest
    return Series("", shares * 100, np.array([one.slowest(shares) for one in repeats]))


def boxes(
    words: Words,
    label: str,
    groups: Sequence[Group],
    value: str = "latency [ms]",
    scale: float = 1e-3,
) -> Drawn:
    """Percentiles, times `scale`, as quartiles with whiskers at the percentiles 5 and 95; the groups' boxes
    of one place stand beside each other, under its name.
    """
    places = list(dict.fromkeys(place for _, held in groups for place, _ in held))
    width = 0.8 / max(len(groups), 1)
    empty = not any(one.get("count") for _, held in groups for _, one in held)
    with drawing(words, WIDE, empty) as (plot, axes):
        ends = []
        for number, (name, held) in enumerate(groups):
            known = [(places.index(place), one) for place, one in held if one.get("count")]
            stats = [_box(spread, scale) for _, spread in known]
            ends += [one[end] for one in stats for end in ("whislo", "whishi")]
            drawn = axes.bxp(
                stats,
                positions=[at + (number + 0.5) * width - 0.4 for at, _ in known],
                widths=width * 0.8,
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": f"C{number}", "alpha": 0.35},
                medianprops={"color": f"C{number}", "linewidth": 2, "linestyle": "-"},
                whiskerprops={"linestyle": "-"},
            )
            title = name or value.partition(" [")[0]
            for artist in (one for part in drawn.values() for one in part):
                artist.set_label(f"_{title}")
            for box in drawn["boxes"][:1]:
                box.set_label(title)
        low, high = min(ends, default=0), max(ends, default=0)
        if low > 0 and high > 20 * low:
            axes.set_yscale("log")
        elif low >= 0:
            axes.set_ylim(bottom=0)
        axes.set_xticks(range(len(places)), places)
        if sum(map(len, places)) > 10 * WIDE[0]:
            axes.tick_params(axis="x", labelrotation=20)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(label)
        axes.set_ylabel(value)
        plain_axis(axes, "y")
    return plot


def _box(spread: Percentiles, scale: float) -> dict[str, float]:
    names = {"whislo": "p5", "q1": "q1", "med": "median", "q3": "q3", "whishi": "p95"}
    return {name: float(spread[key] or 0) * scale for name, key in names.items()}
