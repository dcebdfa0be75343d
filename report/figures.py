"""Figures as SVG and PNG, all in one style. No global state of matplotlib is touched outside `styled`."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from report import whole_file
from report.distribution import Distribution

STYLE = Path(__file__).with_name("reprise.mplstyle")
INK = "#1f2933"
CDF_POINTS = 600
Size = tuple[float, float]
NORMAL: Size = (6.0, 3.2)  # inches; two of them side by side are as wide as one WIDE
WIDE: Size = (12.4, 3.4)
REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')


@dataclass(frozen=True)
class Words:
    """What is written about a plot: file name, heading, how to read it, and what it says without data."""

    name: str
    title: str
    caption: str
    nothing: str


@dataclass(frozen=True)
class Drawn:
    """A finished plot. `caption` says in words how it is to be read."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes

    @property
    def inline(self) -> str:
        """The SVG element for a page: ids made unique, size left to the page, text in the page's color."""
        body = self.svg[self.svg.index("<svg") :]
        body = REFERENCE.sub(lambda found: found.group(1) + self.name + "-", body)
        head, rest = body.split(">", 1)
        head = re.sub(r'\s(width|height)="[^"]*"', "", head)
        label = self.title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        return f'{head} role="img" aria-label="{label}">{rest}'.replace(INK, "currentColor")


def styled() -> AbstractContextManager[None]:
    return matplotlib.style.context(STYLE)


def draw(words: Words, paint: Callable[[Axes], bool], size: Size = NORMAL) -> Drawn:
    """`paint` returns False where it had no data; the plot then says `nothing`, so that a gap is not taken
    for a fault.
    """
    with styled(), mpl.rc_context({"svg.hashsalt": words.name}):
        figure = Figure(figsize=size)
        axes = figure.add_subplot()
        if not paint(axes):
            _say(axes, words.nothing)
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "Reprise", "Title": words.title})
        figure.savefig(png, format="png", facecolor="white", metadata={"Software": "Reprise"})
    return Drawn(words.name, words.title, words.caption, svg.getvalue(), png.getvalue())


def _say(axes: Axes, text: str) -> None:
    axes.clear()
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, fontsize=11)


def cdf_points(samples: Distribution) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """At most 600 points of the distribution function, both ends among them."""
    values, so_far = samples.ascending()
    ranks = np.unique(np.linspace(0, samples.count - 1, min(CDF_POINTS, samples.count)).astype(np.int64))
    return values[np.searchsorted(so_far, ranks, side="right")], (ranks + 1) / samples.count


def plain(axis_value: float, _: int | None = None) -> str:
    """Tick labels with separators and without exponents."""
    if axis_value and abs(axis_value) < 0.01:
        return f"{axis_value:g}"
    return f"{axis_value:,.2f}".rstrip("0").rstrip(".")


def plain_axis(axes: Axes, which: str) -> None:
    for letter in which:
        axis = axes.xaxis if letter == "x" else axes.yaxis
        axis.set_major_formatter(FuncFormatter(plain))


def legend_above(axes: Axes, at_least: int = 2) -> None:
    """Above the data, where it hides nothing; in one line where the labels are short. None below `at_least`
    lines.
    """
    labels = [str(label) for label in axes.get_legend_handles_labels()[1]]
    if len(labels) >= at_least:
        columns = max(1, min(len(labels), 70 // (max(map(len, labels)) + 6)))
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)


def write(folder: Path, drawn: Sequence[Drawn]) -> None:
    """plots/NAME.svg and plots/NAME.png."""
    folder.mkdir(exist_ok=True)
    for plot in drawn:
        whole_file.write(folder / f"{plot.name}.svg", plot.svg, durable=False)
        whole_file.write(folder / f"{plot.name}.png", plot.png, durable=False)
