"""Runs beside each other: short labels made of what differs between them, and the tables of their page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from report.conditions import conditions_that_differ
from report.nested import RENAMED, leaves
from report.rows import figures
from report.run import Json, Run
from report.series import KEY_FIGURES, labels

_NAMES = ("name", "title", "schema")  # which say nothing of what is done


def settings_that_differ(runs: Sequence[Run]) -> list[Json]:
    """Of each run, the keys of experiments whose values are not the same in all."""
    told = [leaves({k: v for k, v in run.experiment.items() if k not in _NAMES}) for run in runs]
    flat = [{RENAMED.get(key, key): value for key, value in one} for one in told]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    differing = [key for key in keys if any(one.get(key) != flat[0].get(key) for one in flat)]
    return [{key: one.get(key) for key in differing} for one in flat]


def labels_of(runs: Sequence[Run]) -> list[str]:
    """A label for each run: what differs, where that is short and tells all apart, else its name."""
    differing = settings_that_differ(runs)
    short = [one for one in differing if 0 < len(one) <= 2]
    found = labels(differing) if len(short) == len(runs) else []
    twice, seen = Counter(found), Counter[str]()
    names = [
        label if twice[label] == 1 else run.name
        for run, label in zip(runs, found or [run.name for run in runs], strict=True)
    ]
    for at, name in enumerate(names):  # folders of the same name may lie in several places
        seen[name] += 1
        names[at] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


def differences(runs: Sequence[Run], names: Sequence[str]) -> list[list[str]]:
    """A row for each run, a heading first: the settings that differ, and what else their servers ran with
    that does. Empty where all are the same.
    """
    both = zip(settings_that_differ(runs), conditions_that_differ(runs), strict=True)
    differing = [settings | conditions for settings, conditions in both]
    if not differing or not differing[0]:
        return []
    rows = [["" if value is None else str(value) for value in one.values()] for one in differing]
    return [["", *differing[0]], *([name, *row] for name, row in zip(names, rows, strict=True))]


def main_figures(summaries: Sequence[Json], names: Sequence[str]) -> list[list[str]]:
    """A row for each run, a heading first: the figures that answer most questions, against the first run."""
    held = [figures(one) for one in summaries]
    keys = [key for key in KEY_FIGURES if any(key in one for one in held)]
    titles = [next(one[key].title for one in held if key in one) for key in keys]
    rows = []
    for name, one in zip(names, held, strict=True):
        rows.append([name, *(_cell(one, held[0], key) for key in keys)])
    return [["", *titles], *rows]


def _cell(own: Mapping[str, Any], first: Mapping[str, Any], key: str) -> str:
    if key not in own:
        return "–"
    text = own[key].text(own[key].value)
    base = first[key].value if key in first else 0
    return text if own is first or not base else f"{text} (x {own[key].value / base:.3g})"
