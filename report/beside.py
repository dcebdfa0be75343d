"""Runs beside each other: short labels made of what differs between them, and the tables of their page."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from report.rows import figures
from report.run import RENAMED, Json, Run, leaves
from report.series import KEY_FIGURES, conditions_that_differ, labels

_NAMES = ("name", "title", "schema")  # which say nothing of what is done
_MOST_LABEL = 40
_MOST_TOLD = 3  # keys of a table


def settings_that_differ(runs: Sequence[Run]) -> list[Json]:
    """Of each run, the keys of experiments whose values are not the same in all. A table that only some runs
    have is one key: its value is what differs in it, or else the first that they give.
    """
    told = [{k: v for k, v in run.used.items() if k not in _NAMES} for run in runs]
    tables = [set(_tables(one)) for one in told]
    whole = set.intersection(*tables)
    flat = [
        {RENAMED.get(key, key): value for key, value in _flat(one, whole, run.given)}
        for one, run in zip(told, runs, strict=True)
    ]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    differing = [key for key in keys if any(one.get(key) != flat[0].get(key) for one in flat)]
    columns = {key: _in_words([one.get(key) for one in flat]) for key in differing}
    return [{key: column[at] for key, column in columns.items()} for at in range(len(flat))]


def _tables(table: Json, prefix: str = "") -> Iterator[str]:
    """The dotted keys of the tables in it."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield f"{prefix}{name}"
            yield from _tables(value, f"{prefix}{name}.")


def _flat(table: Json, whole: set[str], given: set[str], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted keys and values; tables that are not among `whole` are values, with what is given in them."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if not isinstance(value, dict):
            yield key, None if value == [] else value
        elif key in whole:
            yield from _flat(value, whole, given, f"{key}.")
        else:
            yield key, {name: one for name, one in leaves(value) if not given or f"{key}.{name}" in given}


def _in_words(values: Sequence[object]) -> list[object]:
    """Tables as text, in short."""
    tables = [one for one in values if isinstance(one, dict)]
    differing = {name for one in tables for name in one if any(one[name] != two.get(name) for two in tables)}
    return [_in_short(one, differing) if isinstance(one, dict) else one for one in values]


def _in_short(table: Json, differing: set[str]) -> str:
    told = [f"{name} {value}" for name, value in table.items() if name in differing or not differing]
    most = len(told) if differing else _MOST_TOLD
    return ", ".join([*told[:most], *(["…"] if told[most:] else [])]) or "defaults"


def labels_of(runs: Sequence[Run]) -> list[str]:
    """A label for each run: what differs, where that is short and tells all apart, else its name."""
    differing = settings_that_differ(runs)
    found = labels(differing) if 0 < len(differing[0]) <= 2 else []
    found = found if max(map(len, found), default=0) <= _MOST_LABEL else []
    twice, seen = Counter(found), Counter[str]()
    labeled = zip(runs, found or [""] * len(runs), strict=True)
    names = [label if twice[label] == 1 else run.name for run, label in labeled]
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
    columns = [_texts([one[key] for one in differing]) for key in differing[0]]
    return [["", *differing[0]], *map(list, zip(names, *columns, strict=True))]


def _texts(values: Sequence[object]) -> list[str]:
    """In words, of paths only the names where these tell them apart."""
    whole = ["–" if value is None else str(value) for value in values]
    names = [Path(one).name if re.fullmatch(r"/\S+", one) else one for one in whole]
    return names if len(set(names)) == len(set(whole)) else whole


def main_figures(summaries: Sequence[Json], names: Sequence[str]) -> list[list[str]]:
    """A row for each run, a heading first: the figures that answer most questions, against the first run."""
    held = [figures(one) for one in summaries]
    keys = [key for key in KEY_FIGURES if any(key in one for one in held)]
    titles = [next(one[key].title for one in held if key in one) for key in keys]
    rows = zip(names, held, strict=True)
    return [["", *titles], *([name, *(_cell(one, held[0], key) for key in keys)] for name, one in rows)]


def _cell(own: Mapping[str, Any], first: Mapping[str, Any], key: str) -> str:
    if key not in own:
        return "–"
    text = own[key].text(own[key].value)
    base = first[key].value if key in first else 0
    return text if own is first or not base else f"{text} (x {own[key].value / base:.3g})"
