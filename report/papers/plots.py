"""Plots of figures as the papers have them. Those of any series (latency boxes, memory and so on) are that
page's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from report import curves, series
from report.figures import WIDE, Drawn, Words, drawing, plain_axis, whole_axis
from report.papers.found import Found, points
from report.run import Json, value_at

_MIDDLE = "Boxes show quartiles and median, whiskers the 5th and 95th percentiles of the first clean trial."
_CAPTURED = f"By the capture at the server. {_MIDDLE} The extremes are in the table."
_OF_SECONDS = f"Of each second, at the server's interface. {_MIDDLE}"
_OF_PARTS = f"In intervals of 10 s, of the server's processes. {_MIDDLE}"
_BOXES: Mapping[str, tuple[str, str, str, str, float]] = {  # title, caption, measure, axis, scale
    "arrival-error": ("Arrival less due time", _CAPTURED, "arrival.error_us", "arrival error [ms]", 1e-3),
    "response-bandwidth": (
        "Bandwidth of the responses",
        _OF_SECONDS,
        "load.response_mbps",
        "responses [Mb/s]",
        1,
    ),
    "server-cpu": ("CPU of the server", _OF_PARTS, "load.server_cpu_share", "CPU [% of all cores]", 100),
}
_LINES = {  # title and measure
    "cpu-kernel": ("CPU of the kernel for packets", "cpu.kernel_s"),
    "cpu-server": ("CPU of the server's process", "cpu.server_s"),
    "cpu-total": ("CPU in all", "cpu.total_s"),
}
_RATE = "synth.rate"
_COOPERATIVE = "cooperative"  # label of the variant beside which the ratios of nodes are


def of(found: Found) -> dict[str, Drawn]:
    """By their names those that the figures of a study show."""
    names = {name for figure in found.study.figures for name in figure.plots}
    first = {label: runs[0] for label, runs in found.runs.items() if runs}
    if not first or found.folder is None:
        return {}

    def values(path: str) -> dict[str, Any]:
        return {label: value_at(one, path) for label, one in first.items()}

    own = {}
    for name, (title, caption, measure, label, scale) in _BOXES.items():
        if name in names:
            held = [(variant, one) for variant, one in values(measure).items() if one]
            words = Words(name, title, caption, "nothing was measured")
            own[name] = curves.boxes(words, "", [("", held)], label, scale)
    own |= {name: _lines(name, found) for name in _LINES if name in names}
    own |= {name: draw(values(path)) for name, (draw, path) in _OTHERS.items() if name in names}
    if "answered-over" in names:
        own["answered-over"] = _answered_over(first)
    others = series.plots(found.folder, found.labels) if names - own.keys() else []
    return {**own, **{one.name: one for one in others if one.name in names}}


def _lines(name: str, found: Found) -> Drawn:
    """By the rate, with a straight line for each way of asking; a variant's label begins with its way."""
    title, measure = _LINES[name]
    ways = {label.partition(",")[0]: label for label in found.runs if found.runs[label]}
    caption = "Each dot is an interval of 10 s; the lines are fitted to them."
    with drawing(Words(name, title, caption, "nothing was measured"), WIDE, not any(ways)) as (drawn, axes):
        for number, (way, label) in enumerate(ways.items()):
            x, y = np.array(points(found, label, _RATE, measure), np.float64).reshape(-1, 2).T
            if len(set(x)) > 1:
                axes.plot(x, y, "o", color=f"C{number}", markersize=3)
                ends = np.array([min(x), max(x)])
                axes.plot(ends, np.polyval(np.polyfit(x, y, 1), ends), color=f"C{number}", label=way)
        axes.set(xlabel="queries a second", ylabel="CPU in 10 s [s]", xlim=(0, None), ylim=(0, None))
        plain_axis(axes, "xy")
    return drawn


def _gaps(held: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]] | None]) -> Drawn:
    caption = "Share of the gaps up to each length: in the trace (dashed), and in the server's capture."
    words = Words("arrival-gaps", "Gaps between queries", caption, "nothing was captured")
    with drawing(words, WIDE, not any(held.values())) as (drawn, axes):
        for number, (label, curve) in enumerate((label, one) for label, one in held.items() if one):
            for side, style, name in (("trace", "--", f"_{label}"), ("arrivals", "-", label)):
                x, y = (np.array(curve[side][key]) for key in ("x", "y"))
                axes.plot(np.maximum(x, 1e-4), y, style, color=f"C{number}", label=name)
        axes.set_xscale("log")
        curves.share_axis(axes, "gap between queries [ms]")
    return drawn


def _rates(held: Mapping[str, Sequence[float] | None]) -> Drawn:
    caption = (
        "How far the number of queries in each second is from the trace's, by the capture at the server."
    )
    words = Words("arrival-rate", "Rate of each second", caption, "nothing was captured")
    return _shares(words, "rate at the server less the trace's [%]", held, "seconds", 100, "linear")


def _lookups(held: Mapping[str, Sequence[float] | None]) -> Drawn:
    caption = (
        "Share of the nodes whose lookups after the warm-up took at most this long on average; those without "
        "an answer count with the whole timeout."
    )
    words = Words("node-lookups", "Lookups by node", caption, "no node asked anything")
    return _shares(words, "mean time of lookups [ms]", held, "nodes", 1e-3, "log")


def _shares(
    words: Words, label: str, held: Mapping[str, Sequence[float] | None], of: str, by: float, scale: str
) -> Drawn:
    """Of values, times `by`, how many are up to each."""
    found = {
        name: (np.sort(values) * by, np.arange(1, len(values) + 1) / len(values)) if values else None
        for name, values in held.items()
    }
    return curves.cdf(words, label, found, of, style="steps-post", scale=scale, size=WIDE)


def _ratios(held: Mapping[str, Sequence[float] | None]) -> Drawn:
    """Beside the cooperative variant, the nodes in the order of their numbers."""
    base = held.get(_COOPERATIVE)
    others = {label: one for label, one in held.items() if one and base and len(one) == len(base)}
    caption = "Mean time of each node's lookups after the warm-up, over that of the cooperative ones."
    nothing = "no cooperative lookups were measured"
    words = Words("node-ratios", "Lookups beside cooperative ones", caption, nothing)
    with drawing(words, WIDE, not others) as (drawn, axes):
        for label, means in others.items():
            ratios = np.array(means) / np.array(base)
            axes.plot(np.arange(1, len(ratios) + 1), ratios, "o-", label=label, markersize=4, linewidth=0.8)
        axes.set(xlabel="node", ylabel="times as long as cooperative", ylim=(0, None))
        whole_axis(axes.xaxis)
        plain_axis(axes, "y")
    return drawn


def _answered_over(runs: Mapping[str, Json]) -> Drawn:
    """Of queries over UDP that clients may ask again over TCP: those are answered on connections."""
    labels = [label for label, one in runs.items() if one.get("answered_share") is not None]
    whole = np.array([runs[label]["answered_share"] for label in labels]) * 100
    over_tcp = np.array([_on_connections(runs[label]) for label in labels]) * 100
    caption = "How the queries were answered: over UDP, or asked again over TCP."
    words = Words("answered-over", "Answers by transport", caption, "nothing was measured")
    with drawing(words, WIDE, not labels) as (drawn, axes):
        parts = {"over UDP": whole - over_tcp, "over TCP": over_tcp, "no answer": 100 - whole}
        left = np.zeros(len(labels))
        for (name, width), color in zip(parts.items(), ("C0", "C1", "0.85"), strict=True):
            axes.barh(labels, width, left=left, color=color, label=name)
            left = left + width
        axes.set(xlabel="share of the queries [%]", xlim=(0, 100))
        axes.invert_yaxis()
    return drawn


_OTHERS: Mapping[str, tuple[Callable[[Mapping[str, Any]], Drawn], str]] = {  # with what they show
    "arrival-gaps": (_gaps, "arrival.curves"),
    "arrival-rate": (_rates, "arrival.rate.differences"),
    "node-lookups": (_lookups, "nodes.lookup_us"),
    "node-ratios": (_ratios, "nodes.lookup_us"),
}


def _on_connections(run: Json) -> float:
    """The share of the queries that were answered there."""
    counts = (value_at(run, f"latency_us_by_connection.{kind}.count") or 0 for kind in ("fresh", "reused"))
    return float(sum(counts) / max(1, value_at(run, "queries.sent") or 0))
