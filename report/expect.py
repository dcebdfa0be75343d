"""`reprise check` and [expect]: limits for figures of summary.json, absolute or against a baseline.

A limit is text such as `<= 10 ms`, `>= 99.9 %` or `<= 110 % of baseline`. It is met or missed where all
values that the spread of the runs allows lie on one side of it, and open otherwise, or where a busy machine
spoils its figure.
"""

import difflib
import math
import operator
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from report import statistics
from report.busy import spoils
from report.errors import ReportError
from report.rows import figures
from report.run import Json, as_number, leaves, value_at
from report.tables import number

MET, MISSED, USAGE, NO_VERDICT = 0, 1, 2, 125  # exit statuses; 125 makes `git bisect run` skip a commit
SHORT = {
    "answered": "answered_share",
    "median": "latency_us.median",
    "p90": "latency_us.p90",
    "p99": "latency_us.p99",
    "p999": "latency_us.p999",
}
_UNITS: dict[str, dict[str, float]] = {
    "us": {"us": 1, "µs": 1, "ms": 1e3, "s": 1e6},
    "s": {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1},
    "bytes": {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9},
    "share": {"%": 0.01},
}
_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_LIMIT = re.compile(r"\s*(<=|>=|<|>)\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-zµ%]*)\s*(of\s+baseline)?\s*")


@dataclass(frozen=True)
class Limit:
    """A figure by its path, and the value that it is held against; a share where it is of the baseline's."""

    path: str
    text: str
    sign: str
    value: float
    unit: str
    scale: float  # of the unit
    of_baseline: bool

    def shown(self, value: float) -> str:
        return f"{number(round(value / self.scale, 6))} {self.unit}".rstrip()


@dataclass(frozen=True)
class Verdict:
    """`state` is met, missed or open. `words` is the whole line."""

    state: str
    words: str


def limits(given: Mapping[str, Any]) -> Iterator[Limit]:
    """Those of a table [expect], whose keys may stand in tables below it. Raises ReportError."""
    for path, text in leaves(given):
        for one in text if isinstance(text, list) else [text]:
            yield limit(path, str(one))


def limit(name: str, text: str) -> Limit:
    """One of them, such as `p99` and `<= 10 ms`."""
    path = SHORT.get(name, name)
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ReportError(
            f"expect.{name} = {text!r} is no limit",
            "write one such as '<= 10 ms' or '<= 110 % of baseline'",
            USAGE,
        )
    sign, digits, unit, of = found.groups()
    units = {"%": 0.01} if of else _units_of(path)
    if unit and unit not in units:
        known = f"its units: {', '.join(units)}" if units else ""
        hint = known or f"leave it out, or name a figure that has units, such as {', '.join(SHORT)}"
        raise ReportError(f"expect.{name} = {text!r}: {unit} is no unit of it", hint, USAGE)
    scale = units.get(unit, 1)
    value = float(Decimal(digits) * Decimal(str(scale)))  # so that 99.9 % is the same as 999 of 1,000
    return Limit(path, text.strip(), sign, value, unit, scale, bool(of))


def _units_of(path: str) -> dict[str, float]:
    """By the words in the names of a path's keys."""
    words = {word for part in path.split(".") for word in part.split("_")}
    return next((units for word, units in _UNITS.items() if word in words), {})


def judge(one: Limit, runs: Sequence[Json], baseline: Sequence[Json] = (), busy: bool = True) -> Verdict:
    """A limit over runs with the same settings; `busy`: also where a busy machine spoils its figure. Raises
    ReportError where the figure is in none of them.
    """
    values, of = _values(one, runs), ""
    if not one.of_baseline:
        found = statistics.spread(values)
        middle, low, high = found.median, found.low, found.high
    elif baseline:
        middle, low, high = _ratio(values, _values(one, baseline))
        of = " of the baseline's"
    else:
        raise ReportError(f"{one.path} {one.text}: there is no baseline", "give --baseline RUN", USAGE)
    spread = "" if low == high else f" ({one.shown(low)} to {one.shown(high)})"
    told = f"{one.path} is {one.shown(middle)}{of}{spread}, wanted {one.text}"
    spoiled = [run for run in (*runs, *(baseline if of else ())) if spoils(run, one.path) and not busy]
    state = "open" if spoiled else _state(one, low, high)
    if spoiled:
        why = f"a busy machine affects it ({spoiled[0]['run']}: {spoiled[0]['busy'][0]})"
        told += f"; {why}: repeat it on an idle one, or give --busy to judge it all the same"
    elif state == "open":
        told += "; the runs spread over the limit: repeat more often"
    return Verdict(state, f"{'no verdict' if state == 'open' else state}: {told}")


def _values(one: Limit, runs: Sequence[Json]) -> list[float]:
    found = [value for run in runs if (value := as_number(value_at(run, one.path))) is not None]
    if not found:
        known = sorted(path for run in runs[:1] for path in figures(run))
        near = difflib.get_close_matches(one.path, known, 4, 0.4) or known[:4]
        hint = f"name a figure of summary.json, such as {', '.join(near)}"
        raise ReportError(f"expect.{one.path}: the run has no such figure", hint, USAGE)
    return found


def _ratio(values: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Of the medians, with the interval that the spread of both leaves; what is more than nothing is
    infinitely more.
    """
    found = statistics.difference(values, base)
    if found is not None and found.real is not None:
        return found.ratio, found.low, found.high
    ours, theirs = statistics.spread(values), statistics.spread(base)
    if theirs.median <= 0:
        ratio = 1.0 if ours.median == theirs.median else math.inf
        return ratio, ratio, ratio
    ratio = ours.median / theirs.median
    return ratio, ours.low / theirs.high, ours.high / theirs.low if theirs.low else math.inf


def _state(one: Limit, low: float, high: float) -> str:
    far, near = (high, low) if one.sign.startswith("<") else (low, high)
    holds = _SIGNS[one.sign]
    return "met" if holds(far, one.value) else "open" if holds(near, one.value) else "missed"


@dataclass(frozen=True)
class Checked:
    """Verdicts on limits for runs with one name; none where they are `unsound`, with the reasons."""

    name: str
    wanted: tuple[Limit, ...]
    found: tuple[Verdict, ...]
    unsound: tuple[str, ...]


def status(checked: Sequence[Checked]) -> int:
    """The exit status of all sides together."""
    states = {one.state for side in checked for one in side.found}
    if "missed" in states:
        return MISSED
    return NO_VERDICT if "open" in states or any(side.unsound for side in checked) else MET


def as_junit(name: str, checked: Sequence[Checked]) -> str:
    """A test case for each limit of each side, as CI systems read them; without a verdict it is skipped."""
    suite = ET.Element("testsuite", name=name, tests=str(sum(len(side.wanted) for side in checked)))
    for side in checked:
        for at, one in enumerate(side.wanted):
            case = ET.SubElement(suite, "testcase", classname=side.name, name=f"{one.path} {one.text}")
            if side.unsound or side.found[at].state == "open":
                told = "; ".join(side.unsound) or side.found[at].words
                ET.SubElement(case, "skipped", message=told)
            elif side.found[at].state == "missed":
                ET.SubElement(case, "failure", message=side.found[at].words)
    suite.set("failures", str(sum(1 for one in suite if one.find("failure") is not None)))
    suite.set("skipped", str(sum(1 for one in suite if one.find("skipped") is not None)))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
