"""A series of runs (cli/tools/series.py makes it): its figures by variant, as CSV, as text and on a page."""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from report import figures as drawing
from report import html, several_plots, statistics, whole_file
from report.errors import ReportError
from report.figures import Drawn
from report.rows import Figure, figures
from report.run import Json, Run, as_dict, as_list, as_number
from report.several_plots import Seen
from report.statistics import Difference
from report.tables import fitted, table
from report.tally import measure

T = TypeVar("T")
_FEWEST_PLACES = 3
MOST_CURVES = 8
_MOST_TOLD = 3  # variants of which the terminal tells the differences; the page has all
FILE, CSV, PAGE = "series.json", "series.csv", "report.html"
_SUMMARY = "summary.json"
# Of these a table in the terminal is made; the page has all.
KEY_FIGURES = (
    "answered_share",
    "latency_us.median",
    "latency_us.p99",
    "response_us.p99",
    "cpu_us_per_query.server",
    "peak_rss_bytes.server",
    "connections.peak_open",
)


@dataclass(frozen=True)
class Variant:
    """Runs with the same settings, `label` in short; those that are not clean have no figures."""

    label: str
    settings: Json
    runs: tuple[Json, ...]
    lacking: int = 0  # runs that have not been

    @property
    def clean(self) -> list[Json]:
        return [one for one in self.runs if one["clean"]]

    def unsound(self) -> list[str]:
        """Why they allow no verdict."""
        if self.lacking or not self.runs:
            count = f"lacks {self.lacking} of {self.lacking + len(self.runs)} runs"
            return [f"it {count if self.runs else 'has no run yet'}: go on with the series by --resume"]
        return [
            f"{one['run']} is not clean: {one['unclean_because'][0]}" for one in self.runs if not one["clean"]
        ]


@dataclass(frozen=True)
class Line:
    """A figure over all variants, by its path in summary.json; `text` writes a value."""

    path: str
    title: str
    values: Sequence[Sequence[float]]
    text: Callable[[Any], str]

    def cells(self) -> list[str]:
        return [self._cell(held) for held in self.values]

    def _cell(self, held: Sequence[float]) -> str:
        if not held:
            return "–"
        found = statistics.spread(held)
        if len(held) == 1 or found.low == found.high:
            return self.text(found.median)
        mark = f", {len(found.outliers)} far off" if found.outliers else ""
        drift = statistics.trend(held)
        mark += f", {drift.change:+.0%} over the rounds" if drift and drift.steady is False else ""
        return f"{self.text(found.median)} ({self.text(found.low)} – {self.text(found.high)}{mark})"

    def against_first(self) -> list[str]:
        first, *others = self.values
        return [verdict(statistics.difference(one, first) if one and first else None) for one in others]


def verdict(found: Difference | None) -> str:
    if found is None:
        return "–"
    if found.real is None:
        return f"x {found.ratio:.3g}, too few runs to tell"
    interval = f"x {found.ratio:.3g} ({found.low:.3g} – {found.high:.3g})"
    return interval if found.real else f"no difference: {interval}"


def read(folder: Path, partly: bool = False) -> list[Variant]:
    """The variants in the order of the experiment. Raises ReportError where it is no series or a run has no
    summary; `partly`: such runs are left out.
    """
    try:
        told = json.loads((folder / FILE).read_text(encoding="utf-8"))
        made, runs = told["variants"], told["runs"]
        held: list[list[Json]] = [[] for _ in made]
        for one in runs:
            if one["folder"] and not (partly and not (folder / one["folder"] / _SUMMARY).is_file()):
                held[one["variant"]].append(summary_of(folder / one["folder"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ReportError(f"{folder} holds no whole series: {error}", "run it again with --resume") from None
    names = told.get("labels") or labels(made)
    lacking = Counter(one["variant"] for one in runs if not one["folder"])
    return [Variant(names[at], made[at], tuple(held[at]), lacking[at]) for at in range(len(made))]


def summary_of(folder: Path) -> Json:
    """Of a run. Raises ReportError where it has none."""
    try:
        found: Json = json.loads((folder / _SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ReportError(f"{folder} has no summary.json", f"make it: reprise report {folder}", 2) from None
    return found


def labels(made: Sequence[Json]) -> list[str]:
    """Settings in short: keys by their last word, paths by their last part, where that tells them apart. What
    is None is told where there is nothing else.
    """
    keys = list(dict.fromkeys(key for one in made for key in one))
    last = Counter(key.rpartition(".")[2] for key in keys)
    short = {key: name if last[name := key.rpartition(".")[2]] == 1 else key for key in keys}
    for value_of in (_value, str):
        found = [
            ", ".join(f"{short[key]} {value_of(value)}" for key, value in one.items() if value is not None)
            or ", ".join(f"no {short[key]}" for key in one)
            or "all"
            for one in made
        ]
        if len(set(found)) == len({json.dumps(one, sort_keys=True) for one in made}):
            break
    return found


def _value(value: object) -> str:
    return Path(value).name if isinstance(value, str) else json.dumps(value)


def sides_of(folder: Path) -> list[Variant]:
    """A run, or each variant of a series, to be held against limits. Raises ReportError where the folder is
    none of both, or has no report.
    """
    if not (folder / FILE).is_file():
        return [Variant(Run(folder).name, {}, (summary_of(folder),))]
    found = read(folder)
    return found if len(found) > 1 else [replace(found[0], label=folder.resolve().name)]


def side_of(folder: Path) -> Variant:
    """A run, or a series with one variant."""
    found = sides_of(folder)
    if len(found) > 1:
        raise ReportError(f"{folder} has {len(found)} variants", "give a series with one, or a run of it", 2)
    return found[0]


def expected(folder: Path, side: Variant) -> Json:
    """The table [expect] of a run, or of the first one of a variant of a series."""
    if (folder / FILE).is_file():
        told = Run(folder / side.runs[0]["run"]).experiment if side.runs else {}
    else:
        told = Run(folder).experiment
    return as_dict(told.get("expect"))


def lines(variants: Sequence[Variant]) -> list[Line]:
    """Every figure that a clean run has, in the order of the tables of runs."""
    found = [[figures(summary) for summary in one.clean] for one in variants]
    known: dict[str, Figure] = {}
    for runs in found:
        for run in runs:
            known.update({path: figure for path, figure in run.items() if path not in known})
    return [
        Line(path, one.title, [[run[path].value for run in runs if path in run] for runs in found], one.text)
        for path, one in known.items()
    ]


def write(folder: Path, pdf: bool = False) -> bool:
    """Writes the CSV, the plots and the page, and prints the main figures; whether all runs are clean."""
    variants = read(folder)
    found = lines(variants)
    told = as_dict(json.loads((folder / FILE).read_text(encoding="utf-8")))
    whole_file.write(folder / CSV, as_csv(variants))
    main, name = _main(found), folder.resolve().name
    drawn = _drawn(folder, variants, main)
    drawing.write(folder / "plots", drawn, pdf)
    page = html.page(
        "series",
        name=name,
        title=told.get("title") or name,
        found=as_list(told.get("found")),
        variants=variants,
        busy=_busy(variants),
        main=_table(variants, main),
        conditions=_conditions(folder, variants),
        curves=[one.label for one in _shown([one for one in variants if one.clean])],
        drawn=drawn,
        against=[[line.title, *line.against_first()] for line in found],
        figures=[[line.title, *line.cells()] for line in found if any(map(any, line.values))],
    )
    html.write(folder / PAGE, page)
    sys.stdout.write(f"{as_text(variants, found)}\nreport: {folder / PAGE}\n")
    return all(len(one.clean) == len(one.runs) for one in variants)


def as_csv(variants: Sequence[Variant]) -> str:
    """A row for each run: its variant's settings and all its figures by their paths in summary.json."""
    keys = list(dict.fromkeys(key for one in variants for key in one.settings))
    rows = [
        {
            "run": summary["run"],
            **{key: _cell(one.settings.get(key)) for key in keys},
            "clean": summary["clean"],
            **{path: figure.value for path, figure in figures(summary).items()},
        }
        for one in variants
        for summary in one.runs
    ]
    out = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(out, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list | dict) else value


def as_text(variants: Sequence[Variant], found: Sequence[Line]) -> str:
    """One line a variant with the main figures, and what differs from the first one."""
    main = _main(found)
    parts = [fitted(_table(variants, main))]
    for at, one in enumerate(variants[1:] if len(variants) <= _MOST_TOLD else ()):
        told = [[f"  {line.title}", said] for line in main if (said := line.against_first()[at]) != "–"]
        parts += [f"{one.label} against {variants[0].label}:\n{table(told, frozenset())}"] if told else []
    busy = _busy(variants)
    parts += [f"the machine was busy in {busy}, which may have affected some figures"] if busy else []
    return "\n\n".join(parts)


def _busy(variants: Sequence[Variant]) -> str:
    """In how many of the runs the machine was busy; "" for none."""
    runs = [summary for one in variants for summary in one.runs]
    busy = sum(bool(summary.get("busy")) for summary in runs)
    return f"{busy} of {len(runs)} runs" if busy else ""


def _main(found: Sequence[Line]) -> list[Line]:
    return [line for line in found if line.path in KEY_FIGURES and any(line.values)]


def _table(variants: Sequence[Variant], main: Sequence[Line]) -> list[list[str]]:
    """A row for each variant, a heading first."""
    cells = [line.cells() for line in main]
    rows = [[one.label, _runs(one), *(held[at] for held in cells)] for at, one in enumerate(variants)]
    return [["variant", "runs", *(line.title for line in main)], *rows]


def _runs(one: Variant) -> str:
    count = len(one.runs)
    text = f"{count} of {count + one.lacking}" if one.lacking else str(count)
    return text if len(one.clean) == count else f"{text}, {count - len(one.clean)} not clean"


def plots(folder: Path, names: Sequence[str]) -> list[Drawn]:
    """Those of its page with these names of the variants, of the runs that have a summary. Raises ReportError
    where it is no series.
    """
    held = zip(read(folder, partly=True), names, strict=True)
    variants = [replace(one, label=name) for one, name in held]
    return _drawn(folder, variants, _main(lines(variants)))


def _drawn(folder: Path, variants: Sequence[Variant], main: Sequence[Line]) -> list[Drawn]:
    seen = [
        (one.label, [Seen.of(measure(Run(folder / summary["run"]))) for summary in one.clean])
        for one in variants
    ]
    axis = _axis(variants)
    drawn = several_plots.side_by_side(dict(_shown([one for one in seen if one[1]])))
    drawn += several_plots.boxes_of(axis, seen)
    for number, one in enumerate(main):
        if axis is not None:
            drawn.append(several_plots.over_key(axis, f"swept-{number}", one.title, one.values, one.text))
    return drawn


def _shown(variants: Sequence[T]) -> list[T]:
    """Those that plots have curves of: all, or of many some, among them the first and the last."""
    last, most = len(variants) - 1, MOST_CURVES
    places = range(len(variants)) if len(variants) <= most else np.linspace(0, last, most).round().astype(int)
    return [variants[at] for at in places]


def _conditions(folder: Path, variants: Sequence[Variant]) -> list[list[str]]:
    """A row for each variant, a heading first: what its first clean run's servers ran with, where it differs.
    Empty where nothing does.
    """
    clean = [(one.label, Run(folder / one.clean[0]["run"])) for one in variants if one.clean]
    differing = conditions_that_differ([run for _, run in clean]) if clean else [{}]
    if not differing[0]:
        return []
    rows = [[label, *map(str, one.values())] for (label, _), one in zip(clean, differing, strict=True)]
    return [["", *differing[0]], *rows]


def conditions_that_differ(runs: Sequence[Run]) -> list[Json]:
    """Of each run, what its servers ran with, as far as it is not the same in all that say anything of it.
    What one of them does not say is "not said".
    """
    several = any(len(run.conditions) > 1 for run in runs)  # then titles begin with the server's name
    flat = [
        {
            f"{name}: {title}" if several else title: value
            for name, own in run.conditions.items()
            for title, value in own.items()
        }
        for run in runs
    ]
    held = [one for one in flat if one]
    titles = dict.fromkeys(title for one in held for title in one)
    differing = [title for title in titles if len({str(one.get(title)) for one in held}) > 1]
    return [{title: one.get(title, "not said") for title in differing} for one in flat]


def _axis(variants: Sequence[Variant]) -> several_plots.Axis | None:
    """The last key that is swept over three numbers or more, with the other keys the same at two at least."""
    keys = list(dict.fromkeys(key for one in variants for key in one.settings))
    for key in reversed(keys):
        values = {as_number(one.settings.get(key)) for one in variants}
        if len(values) < _FEWEST_PLACES or None in values:
            continue
        others = [{name: value for name, value in one.settings.items() if name != key} for one in variants]
        lines: dict[str, list[tuple[float, int]]] = {}
        for at, label in enumerate(labels(others)):
            lines.setdefault(label, []).append((float(variants[at].settings[key]), at))
        if len(lines) <= MOST_CURVES and any(len(line) > 1 for line in lines.values()):
            return several_plots.Axis(
                key, tuple((label, tuple(sorted(line))) for label, line in lines.items())
            )
    return None
