#!/usr/bin/env python3
"""Computes every figure and check of a bench from its raw files, sharing no code with Reprise or the bench.

Usage: recompute.py RESULT-FOLDER

recompute_formulas.py has the formulas, recompute_raw.py what they read. Prints one JSON object: table,
ratios, checks. A check is met where `value` is at least `want`, or at most `want`, as its name says. A quick
bench makes no claims on speed and timing: it has only the checks on counts. Exit status 1 where a check falls
short.
"""

import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Run alone, the script finds its other parts beside it.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from bench import recompute_raw as raw
from bench.recompute_formulas import CLAIMS, COUNTS, DEFINED, MEASURED, RATIOS, SHOWN


class Run(dict[str, Any]):
    """What is known of a run by name: its entries in bench.json, and what formulas make of its raw files."""

    def is_for(self, where: str) -> bool:
        """Whether a line of the formulas is for this run."""
        return re.match(rf"(?:{where or '.*'})(?!\S)", f"{self.bench} {self.row} {self.tool}") is not None

    def __missing__(self, name: str) -> Any:
        for where, defined, formula in DEFINED:
            if defined == name and self.is_for(where):
                self[name] = self.value(formula)
                return self[name]
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def value(self, formula: str) -> Any:
        return eval(formula, vars(raw), self)


Groups = dict[tuple[str, str], list[Run]]  # of each row and tool, the runs in order
Shown = list[dict[str, Any]]
Divided = dict[tuple[str, str], list[float]]  # ratios by row and name


def runs_of(top: pathlib.Path, info: dict[str, Any], spans: raw.Spans) -> Groups:
    """By row and tool; what is shown of them is computed, as many runs at a time as there are processors."""
    groups: Groups = collections.defaultdict(list)
    for one in info["runs"]:
        run = Run({**info, **one, "top": top, "folder": top / one["folder"], "spans": spans})
        groups[run.row, run.tool].append(run)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # tshark takes longest
        list(pool.map(show, itertools.chain(*groups.values())))
    return groups


def show(run: Run) -> None:
    """Makes `shown`: values by their units."""
    run["shown"] = {unit: run.value(formula) for where, unit, formula in SHOWN if run.is_for(where)}


def entry(row: str, tool: str, unit: str, values: list[float]) -> dict[str, Any]:
    return {"row": row, "tool": tool, "unit": unit, "values": [round(value, 4) for value in values]}


def figures(groups: Groups) -> Shown:
    return [
        entry(*key, unit, [value for run in runs if (value := run.shown[unit]) is not None])
        for key, runs in groups.items()
        for unit in runs[0].shown
    ]


def ratios(groups: Groups) -> tuple[Shown, Divided]:
    """As they are shown, and by row and name."""
    made, divided = [], {}
    for (row, tool), runs in groups.items():
        for where, other, name, unit, formula in RATIOS:
            place, _, who = other.format(row, tool).partition(" ")
            if runs[0].is_for(where) and (others := groups.get((place, who))):
                pairs = ({"a": a, "b": b} for a, b in zip(runs, others, strict=False))
                values = [float(eval(formula, {}, pair)) for pair in pairs]
                divided[row, name.format(tool)] = values
                made.append(entry(row, name.format(tool), unit, values))
    return made, divided


# --- checks -----------------------------------------------------------------------------------------------

# Of the values of all runs together; where a run has a list of them they are in order of size.
FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "median": statistics.median,
    "kinds": lambda values: len(set(values)),
    "p50": lambda errors: raw.quantile(errors, 0.5, 1000),  # us
    "p99": lambda errors: raw.quantile(errors, 0.99, 1000),
    "steady": lambda rates: sum(rate <= 0.0002 for rate in rates) / len(rates),  # seconds, as a share
}


def judged(runs: list[Run], divided: Divided, name: str, formula: str, *absolute: str) -> Shown:
    """A promise on runs, or on what their ratios are; nothing where there is none to be judged."""
    row, tool = runs[0].row, runs[0].tool
    left, comparison, wanted = re.split(" (>=|<=) ", formula)
    fold, _, expression = left.partition(" ")
    values: list[Any]
    if fold == "ratio":
        fold, values = "median", divided.get((row, expression.format(tool)), [])
    else:
        values = [run.value(expression) for run in runs]
    if values and isinstance(values[0], list):
        values = sorted(itertools.chain(*values))
    if not values:
        return []
    value, want = round(FOLDS[fold](values), 6), runs[0].value(wanted)
    words, met = ("at least", value >= want) if comparison == ">=" else ("at most", value <= want)
    title = name.format(row=row, tool=tool, count=len(values))
    made = {"name": f"{title}, {words}", "value": value, "want": want, "ok": met}
    for key, unit in map(str.split, absolute):
        made |= {"absolute": round(statistics.median(run[key] for run in runs), 4), "unit": unit}
    return [made]


def checks(groups: Groups, divided: Divided, promises: Iterable[tuple[str, ...]]) -> Shown:
    """In the order of the runs; those that a name does not tell apart are judged together."""
    order, made = list(groups), []
    for where, text, *rest in promises:
        name = f"{{row}}: {{tool}}{text}" if text.startswith(":") else text
        parts: dict[str, list[Run]] = collections.defaultdict(list)
        for (row, tool), runs in groups.items():
            if runs[0].is_for(where):
                parts[name.format(row=row, tool=tool, count="")] += runs
        for runs in parts.values():
            place = order.index((runs[0].row, runs[0].tool))
            made += [(place, one) for one in judged(runs, divided, name, *rest)]
    return [check for _, check in sorted(made, key=lambda one: one[0])]


# --- who spends what a query costs the server --------------------------------------------------------------

COLUMNS = (  # of the table: title, formula, format
    ("us/query", "cost", "{:.1f}"),
    ("server", "serving / million", "{:.1f}"),
    ("front", "front / million if counted else None", "{:.1f}"),
    ("receive", "received / million", "{:.1f}"),
    ("kernel", "kernel / million", "{:.1f}"),
    ("server user", "user / million", "{:.1f}"),
    ("core busy", "rows.busy() / million", "{:.1f}"),
    ("lost", "100 * lost", "{:.2f} %"),
    ("promoted", "100 * promoted / max(done, 1) if counted else None", "{:.2f} %"),
)


def cell(runs: Sequence[Run], formula: str, form: str) -> str:
    known = [value for run in runs if (value := run.value(formula)) is not None]
    return form.format(statistics.median(known)) if known else "-"


def tables(groups: Groups) -> Shown:
    """Medians of all ways by who spent the time."""
    rows = [
        [*key, *(cell(runs, formula, form) for _, formula, form in COLUMNS)]
        for key, runs in groups.items()
        if runs[0].is_for(MEASURED)
    ]
    head = ["row", "way", *(title for title, _, _ in COLUMNS)]
    title = "Medians in us a query (kernel: receive, and system time of server and front)"
    return [{"title": title, "texts": 2, "rows": [head, *rows]}] if rows else []


def recompute(top: pathlib.Path) -> dict[str, Any]:
    info = json.loads((top / "bench.json").read_text())
    if info["schema"] != 1:
        raise SystemExit(f"bench.json has schema {info['schema']}, this script knows 1")
    spans, watched = raw.watched((top / "watch.txt").read_text().splitlines())
    groups = runs_of(top, info, spans)
    shared, divided = ratios(groups)
    claims = [] if info["quick"] else checks(groups, divided, CLAIMS)
    return {
        "bench": info["bench"],
        "note": f"server's key {info['key']}" if info["bench"] == "tls" else "",
        **watched,
        "table": figures(groups),
        "ratios": shared,
        "tables": tables(groups),
        "checks": [*claims, *checks(groups, divided, COUNTS)],
    }


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: recompute.py RESULT-FOLDER\n")
        return 2
    result = recompute(pathlib.Path(sys.argv[1]))
    print(json.dumps(result))
    return 0 if all(check["ok"] for check in result["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
