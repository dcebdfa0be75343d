#!/usr/bin/env python3
"""Computes every figure and check of a bench from its raw files, sharing no code with Reprise or the bench.

Usage: recompute.py RESULT-FOLDER

recompute_runs.py, recompute_connections.py and recompute_stateless.py turn the raw files of each run into
figures by name; recompute_tables.py says which of them are shown, divided and checked. Prints one JSON
object: table, ratios, checks. A check is met where `value` is at least `want`, or at most `want`, as its name
says. A quick bench makes no claims on speed and timing: it has only the checks on counts. Exit status 1 where
a check falls short.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import sys
from typing import Any

# Run alone, the script finds its other parts beside it.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from bench import recompute_runs as runs
from bench import recompute_stateless as stateless
from bench.recompute_runs import Bench, Run, Values
from bench.recompute_tables import CHECKS, FIGURES, MEASURES, RATIOS, Check, median

Groups = dict[tuple[str, str], list[Values]]  # of each row and tool, the runs in order


def fits(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def measured(bench: Bench) -> Groups:
    """The figures of all runs, as many at a time as there are processors: tshark takes longest."""
    name = bench.info["bench"]

    def measure(run: Run) -> Values:
        work = next(work for benches, row, work in MEASURES if fits(benches, name) and fits(row, run["row"]))
        return work(bench, bench.top / run["folder"], run)

    found: Groups = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if name == "timing":  # each trace once, though many runs have it
            list(pool.map(runs.queries, {runs.trace_of(bench, run) for run in bench.info["runs"]}))
        for run, values in zip(bench.info["runs"], pool.map(measure, bench.info["runs"]), strict=True):
            found[run["row"], run["tool"]].append({**values, "row": run["row"], "tool": run["tool"]})
    return found


def entry(row: str, tool: str, unit: str, values: list[float]) -> dict[str, Any]:
    return {"row": row, "tool": tool, "unit": unit, "values": [round(value, 4) for value in values]}


def figures(bench: str, found: Groups) -> list[dict[str, Any]]:
    """What is shown."""
    return [
        entry(row, tool, unit, [value[key] for value in values if value[key] is not None])
        for (row, tool), values in found.items()
        for benches, rows, tools, unit, key in FIGURES
        if fits(benches, bench) and fits(rows, row) and fits(tools, tool) and key in values[0]
    ]


def ratios(bench: str, found: Groups) -> dict[tuple[str, str, str], list[float]]:
    """By row, name and unit."""
    made = {}
    for (row, tool), values in found.items():
        for one in RATIOS:
            if not fits(one.bench, bench) or not fits(one.ours, tool) or one.key not in values[0]:
                continue
            if not one.other:
                made[row, tool, one.name] = [value[one.key] for value in values]
            elif others := found.get((one.other_row or row, one.other)):
                pairs = [
                    (mine[one.key], theirs[one.other_key or one.key])
                    for mine, theirs in zip(values, others, strict=False)
                ]
                name = one.name.format(tool)
                made[row, name, one.unit] = [a / b if one.is_over else b / a for a, b in pairs]
    return made


def judged(check: Check, values: list[Values], *divided: list[float]) -> dict[str, Any] | None:
    """A check on runs, or on what their ratios are."""
    if isinstance(check.fold, str):
        value = statistics.median(divided[0]) if divided else None
    else:
        value = check.fold(values)
    if value is None:
        return None
    want = values[0][check.want] if isinstance(check.want, str) else check.want
    value = round(value, 6)
    count = sum(len(one.get("rates", ())) for one in values)
    name = check.name.format(row=values[0]["row"], tool=values[0]["tool"], count=count)
    words, met = ("at least", value >= want) if check.least else ("at most", value <= want)
    made = {"name": f"{name}, {words}", "value": value, "want": want, "ok": met}
    key, unit = check.absolute
    return {**made, "absolute": round(median(key)(values), 4), "unit": unit} if key else made


def checks(
    bench: Bench, found: Groups, divided: dict[tuple[str, str, str], list[float]]
) -> list[dict[str, Any]]:
    """All that are made of this bench, the claims first."""
    name, order, made = bench.info["bench"], list(found), []
    for one in CHECKS:
        if not fits(one.bench, name) or (one.claim and bench.info["quick"]):
            continue
        groups: Groups = collections.defaultdict(list)
        for (row, tool), values in found.items():
            if fits(one.row, row) and fits(one.tool, tool):
                groups[row if "row" in one.by else "", tool if "tool" in one.by else ""] += values
        for (row, _), values in groups.items():
            wanted = one.fold.format(values[0]["tool"]) if isinstance(one.fold, str) else ""
            parts = [many for (place, what, _), many in divided.items() if (place, what) == (row, wanted)]
            place = order.index((values[0]["row"], values[0]["tool"]))
            made.append((not one.claim, place, judged(one, values, *parts)))
    return [check for *_, check in sorted(made, key=lambda entry: entry[:2]) if check is not None]


def recompute(top: pathlib.Path) -> dict[str, Any]:
    """Everything of a result folder."""
    info = json.loads((top / "bench.json").read_text())
    if info["schema"] != 1:
        raise SystemExit(f"bench.json has schema {info['schema']}, this script knows 1")
    lines = (top / "watch.txt").read_text().splitlines()
    lost, spans = runs.steal_spans(lines)
    seconds, stolen = runs.whole_seconds(lines, spans)
    bench = Bench(top, info, spans)
    found = measured(bench)
    divided = ratios(info["bench"], found)
    return {
        "bench": info["bench"],
        "note": f"server's key {info['key']}" if info["bench"] == "tls" else "",
        "steal_s": round(lost, 2),
        "seconds": seconds,
        "seconds_with_steal": stolen,
        "table": figures(info["bench"], found),
        "ratios": [entry(*key, values) for key, values in divided.items()],
        "tables": stateless.tables(found) if info["bench"] == "stateless" else [],
        "checks": checks(bench, found, divided),
    }


def main() -> int:
    """Prints the JSON object."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: recompute.py RESULT-FOLDER\n")
        return 2
    result = recompute(pathlib.Path(sys.argv[1]))
    print(json.dumps(result))
    return 0 if all(check["ok"] for check in result["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
