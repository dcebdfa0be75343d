"""Plots of figures as the papers have them. Those of any series (latency boxes, memory and so on) are that
page's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from report import curves, series
from report.figures import WIDE, Drawn, Words, draw, legend_above, plain_axis
from report.papers.found import Found, points, value_at
from report.percentiles import Percentiles

_MIDDLE = "Boxes show quartiles and median, whiskers the 5th and 95th percentiles of the first clean trial."


@dataclass(frozen=True)
class _Boxes:
    """Boxes by variant; `label` of the axis, values times `scale`."""

    title: str
    measure: str
    label: str
    scale: float
    caption: str


_BOXES = {
    "arrival-error": _Boxes(
        "Arrival less due time",
        "arrival.error_us",
        "arrival error [ms]",
        1e-3,
        f"By the capture at the server. {_MIDDLE} The extremes are in the table.",
    ),
    "response-bandwidth": _Boxes(
        "Bandwidth of the responses",
        "load.response_mbps",
        "responses [Mb/s]",
        1,
        f"Of each second, at the server's interface. {_MIDDLE}",
    ),
    "server-cpu": _Boxes(
        "CPU of the server",
        "load.server_cpu_share",
        "CPU [% of all cores]",
        100,
        f"Of each second, of the server's processes. {_MIDDLE}",
    ),
}


_LINES = {  # title and measure
    "cpu-kernel": ("CPU of the kernel for packets", "cpu.kernel_s"),
    "cpu-server": ("CPU of the server's process", "cpu.server_s"),
    "cpu-total": ("CPU in all", "cpu.total_s"),
}
_RATE = "synth.rate"


def of(found: Found) -> dict[str, Drawn]:
    """By their names those that the figures of a study show."""
    names = {name for figure in found.study.figures for name in figure.plots}
    first = {label: runs[0] for label, runs in found.runs.items() if runs}
    if not first or found.folder is None:
        return {}

    def values(path: str) -> dict[str, Any]:
        return {label: value_at(one, path) for label, one in first.items()}

    own = {
        name: _boxes(name, words, values(words.measure)) for name, words in _BOXES.items() if name in names
    }
    own |= {name: _lines(name, found) for name in _LINES if name in names}
    if "arrival-gaps" in names:
        own["arrival-gaps"] = _gaps(values("arrival.curves"))
    if "arrival-rate" in names:
        own["arrival-rate"] = _rates(values("arrival.rate.differences"))
    others = series.plots(found.folder) if names - own.keys() else []
    return {**own, **{one.name: one for one in others if one.name in names}}


def _boxes(name: str, words: _Boxes, spreads: Mapping[str, Percentiles | None]) -> Drawn:
    held = [(label, one) for label, one in spreads.items() if one]
    said = Words(name, words.title, words.caption, "nothing was measured")
    return curves.boxes(said, "", [("", held)], WIDE, words.label, words.scale)


def _lines(name: str, found: Found) -> Drawn:
    """By the rate, with a straight line for each way of asking; a variant's label begins with its way."""
    title, measure = _LINES[name]
    ways = {label.partition(",")[0]: label for label in found.runs if found.runs[label]}

    def paint(axes: Axes) -> bool:
        for number, (way, label) in enumerate(ways.items()):
            x, y = points(found, label, _RATE, measure)
            if len(set(x)) > 1:
                axes.plot(x, y, "o", color=f"C{number}", markersize=3)
                ends = np.array([min(x), max(x)])
                axes.plot(ends, np.polyval(np.polyfit(x, y, 1), ends), color=f"C{number}", label=way)
        axes.set_xlabel("queries a second")
        axes.set_ylabel("CPU in 10 s [s]")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        plain_axis(axes, "xy")
        legend_above(axes)
        return any(ways)

    caption = "Each dot is an interval of 10 s; the lines are fitted to them."
    return draw(Words(name, title, caption, "nothing was measured"), paint, WIDE)


def _gaps(held: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]] | None]) -> Drawn:
    def paint(axes: Axes) -> bool:
        for number, (label, curve) in enumerate((label, one) for label, one in held.items() if one):
            for side, style in (("trace", "--"), ("arrivals", "-")):
                x, y = (np.array(curve[side][key]) for key in ("x", "y"))
                name = label if side == "arrivals" else f"_{label}"
                axes.plot(np.maximum(x, 1e-4), y, style, color=f"C{number}", label=name)
        axes.set_xscale("log")
        curves.share_axis(axes, "gap between queries [ms]")
        legend_above(axes)
        return any(held.values())

    caption = "Share of the gaps up to each length: in the trace (dashed), and in the server's capture."
    return draw(Words("arrival-gaps", "Gaps between queries", caption, "nothing was captured"), paint, WIDE)


def _rates(held: Mapping[str, Sequence[float] | None]) -> Drawn:
    def paint(axes: Axes) -> bool:
        for label, off in held.items():
            if off:
                axes.plot(
                    np.array(off) * 100,
                    np.arange(1, len(off) + 1) / len(off),
                    label=label,
                    drawstyle="steps-post",
                )
        curves.share_axis(axes, "rate at the server less the trace's [%]", "seconds")
        legend_above(axes)
        return any(held.values())

    caption = (
        "How far the number of queries in each second is from the trace's, by the capture at the server."
    )
    return draw(Words("arrival-rate", "Rate of each second", caption, "nothing was captured"), paint, WIDE)
