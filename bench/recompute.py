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
from bench.recompute_formulas import CLAIMS, COUNTS, DEFINED, RATIOS, SHOWN


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
        list(pool.map(shown, itertools.chain(*groups.values())))
    return groups


def shown(run: Run) -> dict[str, Any]:
    """The value in words, by its unit."""
    if "shown" not in run:
        run["shown"] = {unit: run.value(formula) for where, unit, formula in SHOWN if run.is_for(where)}
    found: dict[str, Any] = run["shown"]
    return found


def entry(row: str, tool: str, unit: str, values: list[float]) -> dict[str, Any]:
    return {"row": row, "tool": tool, "unit": unit, "values": [round(value, 4) for value in values]}


def figures(groups: Groups) -> Shown:
    return [
        entry(*key, unit, [value for run in runs if (value := shown(run)[unit]) is not None])
        for key, runs in groups.items()
        for unit in shown(runs[0])
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


def pooled(share: float) -> Callable[[list[list[int]]], float | None]:
    """A quantile of the errors of all repeats together, in us."""

    def fold(lists: list[list[int]]) -> float | None:
        errors = sorted(itertools.chain(*lists))
        return raw.quantile(errors, share) / 1000 if errors else None

    return fold


def steady(lists: list[list[float]]) -> float | None:
    """Share of the seconds with the trace's rate, where that is high."""
    seconds = list(itertools.chain(*lists))
    return sum(rate <= 0.0002 for rate in seconds) / len(seconds) if seconds else None


FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "median": statistics.median,
    "kinds": lambda values: len(set(values)),
    "p50": pooled(0.5),
    "p99": pooled(0.99),
    "steady": steady,
}


def judged(runs: list[Run], divided: Divided, name: str, formula: str, *absolute: str) -> Shown:
    """A promise on runs, or on what their ratios are; nothing where there is none to be judged."""
    row, tool = runs[0].row, runs[0].tool
    left, comparison, wanted = re.split(" (>=|<=) ", formula)
    fold, _, expression = left.partition(" ")
    values: list[Any]
    if fold == "ratio":
        values = divided.get((row, expression.format(tool)), [])
        value = statistics.median(values) if values else None
    else:
        values = [run.value(expression) for run in runs]
        value = FOLDS[fold](values)
    if value is None:
        return []
    value, want = round(value, 6), runs[0].value(wanted)
    words, met = ("at least", value >= want) if comparison == ">=" else ("at most", value <= want)
    count = sum(map(len, values)) if fold == "steady" else 0
    made = {"name": f"{name.format(row=row, tool=tool, count=count)}, {words}", "value": value, "want": want}
    made["ok"] = met
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

PARTS = (  # of the table: its column, the formula
    ("us/query", "cost"),
    ("server", "serving / million"),
    ("front", "front_cost"),
    ("receive", "received / million"),
    ("kernel", "kernel / million"),
    ("server user", "user / million"),
    ("core busy", "rows.busy() / million"),
)
SHARES = (("lost", "100 * lost"), ("promoted", "percent_promoted"))


def cell(runs: Sequence[Run], formula: str, form: str) -> str:
    known = [value for run in runs if (value := run.value(formula)) is not None]
    return form.format(statistics.median(known)) if known else "-"


def tables(groups: Groups) -> Shown:
    """Medians of all ways by who spent the time."""
    rows = [["row", "way", *(name for name, _ in PARTS + SHARES)]]
    for key, runs in groups.items():
        if key[0].startswith(("rates", "sizes")):
            cells = [cell(runs, formula, "{:.1f}") for _, formula in PARTS]
            rows.append([*key, *cells, *(cell(runs, formula, "{:.2f} %") for _, formula in SHARES)])
    title = "Medians in us a query (kernel: receive, and system time of server and front)"
    return [{"title": title, "texts": 2, "rows": rows}] if len(rows) > 1 else []


def recompute(top: pathlib.Path) -> dict[str, Any]:
    info = json.loads((top / "bench.json").read_text())
    if info["schema"] != 1:
        raise SystemExit(f"bench.json has schema {info['schema']}, this script knows 1")
    lines = (top / "watch.txt").read_text().splitlines()
    lost, spans = raw.steal_spans(lines)
    seconds, stolen = raw.whole_seconds(lines, spans)
    groups = runs_of(top, info, spans)
    shared, divided = ratios(groups)
    claims = [] if info["quick"] else checks(groups, divided, CLAIMS)
    return {
        "bench": info["bench"],
        "note": f"server's key {info['key']}" if info["bench"] == "tls" else "",
        "steal_s": round(lost, 2),
        "seconds": seconds,
        "seconds_with_steal": stolen,
        "table": figures(groups),
        "ratios": shared,
        "tables": tables(groups) if info["bench"] == "stateless" else [],
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
