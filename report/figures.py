"""Figures as SVG, PNG and PDF in one style, which matplotlib has from the import of this module on:
changing it and back for each plot took a sixth of the time that a report takes before plots are rendered.
"""

import html
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from report import whole_file
from report.distribution import Distribution

mpl.rcParams.update(
    mpl.rc_params_from_file(Path(__file__).with_name("reprise.mplstyle"), use_default_template=False)
)
INK = "#1f2933"
CDF_POINTS = 600
_LONGEST = 50  # label in a legend
_MOST_ROWS = 12  # of a legend
Size = tuple[float, float]
NORMAL: Size = (6.0, 3.2)  # inches; two of them side by side are as wide as one WIDE
WIDE: Size = (12.4, 3.4)
_HOW: dict[str, Callable[[str], dict[str, Any]]] = {
    "svg": lambda title: {"metadata": {"Date": None, "Creator": "Reprise", "Title": title}},
    "png": lambda _: {"facecolor": "white", "metadata": {"Software": "Reprise"}},
    "pdf": lambda title: {"metadata": {"CreationDate": None, "Creator": "Reprise", "Title": title}},
}
_POINTS = 72  # an inch; the unit of matplotlib's SVG
REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')


@dataclass
class Words:
    """What is written about a plot: file name, heading, how to read it, and what it says without data."""

    name: str
    title: str
    caption: str
    nothing: str = ""


@dataclass
class Drawn(Words):
    """A painted plot, rendered when it is asked for; `empty`: there was nothing to show."""

    figure: Figure = field(default_factory=Figure)
    empty: bool = False

    def rendered(self, form: str) -> bytes:
        """As `svg`, `png` or `pdf`; the same plot gives the same bytes."""
        out = io.BytesIO()
        if engine := self.figure.get_layout_engine():  # laid out once: savefig() would for each form
            engine.execute(self.figure)
            self.figure.set_layout_engine(None)
        mpl.rcParams["svg.hashsalt"] = self.name
        self.figure.savefig(out, format=form, **_HOW[form](self.title))
        return out.getvalue()

    @cached_property
    def svg(self) -> str:
        """With what a page's script has to know of the axes (templates/page.js), as `data-plot`."""
        text = self.rendered("svg").decode("utf-8")
        (axes,) = self.figure.axes
        _, names = _curves(axes)
        if not names:
            return text
        ends = np.array(axes.get_position().get_points()) * self.figure.get_size_inches() * _POINTS
        ends[:, 1] = self.figure.get_size_inches()[1] * _POINTS - ends[:, 1]
        known = {"x": _scale(axes.xaxis, ends[:, 0]), "y": _scale(axes.yaxis, ends[:, 1]), "names": names}
        return text.replace("<svg ", f'<svg data-plot="{html.escape(json.dumps(known))}" ', 1)

    @property
    def inline(self) -> str:
        """The SVG element for a page: ids made unique, size left to the page, text in the page's color."""
        body = self.svg[self.svg.index("<svg") :]
        body = REFERENCE.sub(lambda found: found.group(1) + self.name + "-", body)
        head, rest = body.split(">", 1)
        head = re.sub(r'\s(width|height)="[^"]*"', "", head)
        label = html.escape(self.title)
        return f'{head} role="img" aria-label="{label}">{rest}'.replace(INK, "currentColor")


@contextmanager
def drawing(
    words: Words, size: Size = NORMAL, empty: bool = False, legend: int = 2
) -> Iterator[tuple[Drawn, Axes]]:
    """A plot to paint, with a legend from so many curves on. One that is `empty` says `nothing`, so that a
    gap is not taken for a fault.
    """
    drawn = Drawn(**vars(words), figure=Figure(figsize=size, layout="constrained"), empty=empty)
    axes = drawn.figure.add_subplot()
    yield drawn, axes
    if empty:
        axes.clear()
        axes.set_axis_off()
        middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, words.nothing, fontsize=11, **middle)
    else:
        _legend_above(axes, legend)
        _mark_curves(axes)


def _curves(axes: Axes) -> tuple[list[tuple[int, Artist]], list[str]]:
    """What is drawn of each curve by the curve's number, and the names of the curves. An artist is part of
    the curve whose name its label is, with or without `_` before it, which keeps it out of the legend.
    """
    _, labels = axes.get_legend_handles_labels()
    names = [str(one) for one in dict.fromkeys(labels)]
    drawn = [(str(one.get_label()), one) for one in (*axes.lines, *axes.patches, *axes.collections)]
    numbers = {form: number for number, name in enumerate(names) for form in (name, f"_{name}")}
    return [(numbers[label], one) for label, one in drawn if label in numbers], names


def _mark_curves(axes: Axes) -> None:
    """Gives curves and their keys in the legend the ids by which a page's script finds them."""
    for place, (number, artist) in enumerate(_curves(axes)[0]):
        artist.set_gid(f"{'band' if isinstance(artist, Collection) else 'curve'}-{number}.{place}")
    if legend := axes.get_legend():
        for number, (key, text) in enumerate(zip(legend.legend_handles, legend.get_texts(), strict=True)):
            if key is not None:
                key.set_gid(f"key-{number}")
            text.set_gid(f"name-{number}")


def _scale(axis: Axis, ends: NDArray[np.float64]) -> dict[str, Any]:
    """The places of an axis's ends in the picture, and what they stand for."""
    low, high = axis.get_view_interval()
    form = axis.get_major_formatter()
    return {
        "label": axis.get_label_text(),
        "scale": axis.get_scale(),
        **dict(zip(("first", "last"), ends.round(3).tolist(), strict=True)),
        "low": float(low),
        "high": float(high),
        **({"places": list(form.seq)} if isinstance(form, FixedFormatter) else {}),
    }


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
    """To be called when the data and the scale are there; a logarithmic axis of less than two decades has
    more ticks, one of less than a factor of 5 those of a linear axis.
    """
    for letter in which:
        axis = axes.xaxis if letter == "x" else axes.yaxis
        axis.set_major_formatter(FuncFormatter(plain))
        if axis.get_scale() == "log":
            low, high = sorted(axis.get_view_interval())
            if high < 5 * low:
                axis.set_major_locator(MaxNLocator(6))
            elif high < 100 * low:
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_minor_formatter(NullFormatter())


def whole_axis(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(integer=True))


def _legend_above(axes: Axes, at_least: int) -> None:
    """Above the data, where it hides nothing; in one line where the labels are short, and cut off where they
    are very long. None below `at_least` lines, and none where it would leave the data no room.
    """
    handles, names = axes.get_legend_handles_labels()
    labels = [f"{name[:_LONGEST]}…" if len(name) > _LONGEST + 1 else name for name in map(str, names)]
    columns = max(1, min(len(labels), 70 // (max(map(len, labels), default=0) + 6)))
    if at_least <= len(labels) <= _MOST_ROWS * columns:
        axes.legend(
            handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2
        )


def write(folder: Path, drawn: Sequence[Drawn], pdf: bool = False) -> None:
    """NAME.svg and NAME.png of each plot, and NAME.pdf where it is asked for."""
    folder.mkdir(exist_ok=True)
    for plot in drawn:
        whole_file.write(folder / f"{plot.name}.svg", plot.svg, durable=False)
        for form in ("png", "pdf") if pdf else ("png",):
            whole_file.write(folder / f"{plot.name}.{form}", plot.rendered(form), durable=False)
