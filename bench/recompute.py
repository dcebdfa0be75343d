#!/usr/bin/env python3
"""Computes every figure and check of a bench from its raw files, sharing no code with Reprise or the bench.

Usage: recompute.py RESULT-FOLDER

Reads the kernel's own readings (schedstat, wait4's usage, interface counters, /proc/stat), what the tools
printed, and the captures through tshark. Prints one JSON object: table, ratios, checks. A check is met where
`value` is at least `want`, or at most `want`, as its name says. A quick bench makes no claims on speed and
timing: it has only the checks on counts. Exit status 1 where a check falls short.
"""

import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
from typing import Any

# Run alone, the script finds its other parts beside it.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from bench.recompute_base import (
    NS,
    TICK_S,
    Run,
    Table,
    answered,
    check,
    interface_gain,
    nanoseconds,
    quantile,
    readings,
    softirq,
    touched,
    used_alone,
    used_with_children,
)
from bench.recompute_hierarchy import hierarchy
from bench.recompute_mutate import mutate
from bench.recompute_stream import stream

FIELDS = ("frame.time_epoch", "dns.id", "dns.qry.name", "dns.qry.type")

Query = tuple[int, tuple[str, ...]]  # time in ns, (id, name, type)


# --- steal ------------------------------------------------------------------------------------------------


def steal_spans(lines: list[str]) -> tuple[float, list[tuple[int, int]]]:
    """Seconds of steal, and the spans (CLOCK_REALTIME ns) between two readings that differ in it."""
    rows = [line.split() for line in lines]
    total = [(int(row[1]), int(row[10])) for row in rows if len(row) > 10 and row[2] == "cpu"]
    spans = [(a[0], b[0]) for a, b in itertools.pairwise(total) if b[1] > a[1]]
    return (total[-1][1] - total[0][1]) * TICK_S if total else 0.0, spans


def whole_seconds(lines: list[str], spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Seconds watched, and how many of them had steal."""
    times = [int(line.split()[1]) for line in lines if len(line.split()) > 1]
    if not times:
        return 0, 0
    seconds = range(times[0], times[-1], NS)
    return len(seconds), sum(touched(spans, one, one + NS) for one in seconds)


# --- udp --------------------------------------------------------------------------------------------------


def udp_run(folder: pathlib.Path, run: Run) -> dict[str, float]:
    """Costs and counts of one run; s/M are seconds of processor time a million answers."""
    rows = readings(folder)
    sink = json.loads((folder / "sink.out").read_text())
    sent, done = answered(folder, run["tool"], sink)
    million = max(done, 1) / 10**6
    received = softirq(rows, "client")
    if run["tool"].startswith("reprise"):
        alone = used_alone(rows, "distributor")
        own = used_with_children(rows, "distributor") - alone
        tree = (used_with_children(rows, "controller") + alone) / million
    else:
        own, tree = used_with_children(rows, run["tool"]), 0.0
    return {
        "cost": (own + received) / million,
        "process": own / million,
        "softirq": received / million,
        "tree": tree,
        "share": done / max(sent, 1),
        "answers": done,
        "sink": sink["queries4"] + sink["queries6"],
        "arrived": interface_gain(rows, "client", "rx_packets"),
        "sources": sink["sources"],
        "ports": sink["ports"],
    }


def udp(top: pathlib.Path, bench: dict[str, Any]) -> dict[str, Any]:
    """Table, ratios and checks of the udp bench."""
    found: dict[tuple[str, str], list[dict[str, float]]] = collections.defaultdict(list)
    for run in bench["runs"]:
        found[run["row"], run["tool"]].append(udp_run(top / run["folder"], run))
    table: Table = {}
    for (row, tool), values in found.items():
        for key in ("cost", "process", "softirq", *(["tree"] if tool.startswith("reprise") else [])):
            unit = {"cost": "s/M"}.get(key, f"s/M {key}")
            table[row, tool, unit] = [value[key] for value in values]
    ratios = udp_ratios(table)
    checks = udp_counts(found, bench)
    if not bench["quick"]:
        checks = udp_claims(table, ratios) + checks
    return {"table": table, "ratios": ratios, "checks": checks}


def udp_ratios(table: Table) -> Table:
    """dnsperf's cost over ours, repeat by repeat."""
    ratios: Table = {}
    for row, tool, unit in table:
        if tool.startswith("reprise") and unit == "s/M" and (row, "dnsperf", unit) in table:
            pairs = zip(table[row, "dnsperf", unit], table[row, tool, unit], strict=False)
            ratios[row, f"dnsperf / {tool}", "times"] = [peer / ours for peer, ours in pairs]
    return ratios


def udp_claims(table: Table, ratios: Table) -> list[dict[str, Any]]:
    """Medians over the repeats against what was promised."""
    wants = {
        ("few-sockets", "reprise"): 1.25,
        ("many-sources", "reprise"): 1.2,
        ("fast-mode", "reprise-xdp"): 4.0,
        ("fast-mode", "reprise-ring"): 1.6,
    }
    checks = []
    for (row, tool), want in wants.items():
        values = ratios.get((row, f"dnsperf / {tool}", "times"))
        if values:
            name = f"{row}: dnsperf's processor time over {tool}'s"
            checks.append(check(name, statistics.median(values), want, least=True))
    trees = [statistics.median(values) for (_, _, unit), values in table.items() if unit == "s/M tree"]
    if trees:
        name = "controller and distributor, s/M of the dearest row"
        checks.append(check(name, max(trees), 0.6, least=False))
    return checks


def udp_counts(
    found: dict[tuple[str, str], list[dict[str, float]]], bench: dict[str, Any]
) -> list[dict[str, Any]]:
    """Answers counted by the tool, the sink and the client's interface must agree; sources must be there."""
    checks = []
    for (row, tool), values in found.items():
        if tool == "kxdpgun":
            continue
        share = min(value["share"] for value in values)
        checks.append(check(f"{row}: {tool}: share of queries answered", share, 0.999, least=True))
        excess = max(value["answers"] - min(value["sink"], value["arrived"]) for value in values)
        name = f"{row}: {tool}: answers beyond what the sink sent and the interface received"
        checks.append(check(name, excess, 0, least=False))
        if row == "many-sources" and tool == "reprise":
            seen = min(value["sources"] for value in values)
            wanted = min(bench["sources"], 1000) if bench["quick"] else bench["sources"]
            checks.append(check(f"{row}: {tool}: source addresses at the server", seen, wanted, least=True))
    return checks


# --- timing -----------------------------------------------------------------------------------------------


def queries(path: pathlib.Path) -> list[Query]:
    """(time in ns, key) of every packet of a capture, in file order."""
    argv = ["tshark", "-n", "-r", str(path), "-T", "fields"]
    for field in FIELDS:
        argv += ["-e", field]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = (line.split("\t") for line in out.splitlines())
    return [(nanoseconds(time), tuple(key)) for time, *key in rows]


def errors(asked: list[Query], came: list[Query], start: int) -> tuple[list[tuple[int, int]], int]:
    """(due offset, arrival - due), all in ns, of every query that came, and how many did not.

    The n-th query with a given id, name and type in the trace is the n-th one in the capture.
    """
    seen: dict[tuple[str, ...], collections.deque[int]] = collections.defaultdict(collections.deque)
    for time, key in came:
        seen[key].append(time)
    found = []
    for time, key in asked:
        if seen[key]:
            due = time - asked[0][0]
            found.append((due, seen[key].popleft() - start - due))
    return found, len(asked) - len(found)


def announced_start(folder: pathlib.Path, tool: str, asked: Any, came: Any) -> int:
    """When the first query was due. drool announces nothing: its errors are centred on their median."""
    if tool.startswith("reprise"):
        return int(json.loads((folder / "controller.json").read_text())["start"]["real_ns"])
    found, _ = errors(asked, came, 0)
    return statistics.median_low(error for _, error in found)


def rates(found: list[tuple[int, int]], clean: set[int], last: int) -> list[float]:
    """Of each whole second without steal: how far the number of arrivals is from the trace's, as a share."""
    due = collections.Counter(offset // NS for offset, _ in found)
    came = collections.Counter((offset + error) // NS for offset, error in found)
    return [abs(came[second] - due[second]) / due[second] for second in range(last) if second in clean]


def timing_run(
    folder: pathlib.Path, run: Run, asked: list[Query], spans: list[tuple[int, int]]
) -> dict[str, Any]:
    """Errors and rates of one run, in seconds without steal."""
    came = queries(folder / "capture.pcap.zst")
    start = announced_start(folder, run["tool"], asked, came)
    found, missing = errors(asked, came, start)
    length = asked[-1][0] - asked[0][0]
    seconds = range(length // NS + 1)
    clean = {s for s in seconds if not touched(spans, start + s * NS, start + (s + 1) * NS)}
    absolute = sorted(abs(error) for due, error in found if due // NS in clean)
    signed = sorted(error for due, error in found if due // NS in clean)
    dropped = re.findall(r"(\d+) packets? dropped by kernel", (folder / "tcpdump.err").read_text())
    return {
        "absolute": absolute,
        "median_us": quantile(signed, 0.5) / 1000 if signed else 0.0,
        "rates": rates(found, clean, length // NS),
        "rate": len(asked) / max(length / NS, 1e-9),
        "missing": missing,
        "dropped": int(dropped[-1]) if dropped else -1,
        "seconds": len(seconds),
        "stolen": len(seconds) - len(clean),
    }


def timing_runs(
    top: pathlib.Path, bench: dict[str, Any], spans: list[tuple[int, int]]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """All runs, two at a time: tshark takes longest."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    traces: dict[str, Any] = {}
    for run in bench["runs"]:
        name = run["row"] + ("-us" if run["tool"] == "drool" else "")
        run["trace"] = top / "traces" / f"{name}.pcap.zst"
        traces[str(run["trace"])] = None
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        traces = dict(zip(traces, pool.map(queries, map(pathlib.Path, traces)), strict=True))

        def work(run: Run) -> dict[str, Any]:
            return timing_run(top / run["folder"], run, traces[str(run["trace"])], spans)

        for run, result in zip(bench["runs"], pool.map(work, bench["runs"]), strict=True):
            found[run["row"], run["tool"]].append(result)
    return found


def timing(top: pathlib.Path, bench: dict[str, Any], spans: list[tuple[int, int]]) -> dict[str, Any]:
    """Table and checks of the timing bench."""
    found = timing_runs(top, bench, spans)
    table: Table = {}
    for (row, tool), values in found.items():
        for share in (50, 99):
            each = [quantile(value["absolute"], share / 100) / 1000 for value in values if value["absolute"]]
            table[row, tool, f"us abs p{share}"] = each
        table[row, tool, "us median"] = [value["median_us"] for value in values]
        table[row, tool, "s left out"] = [value["stolen"] for value in values]
    checks = timing_counts(found)
    if not bench["quick"]:
        checks = timing_claims(found) + checks
    return {"table": table, "ratios": {}, "checks": checks}


def timing_claims(found: dict[tuple[str, str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All repeats of a row together against what was promised."""
    checks = []
    wants = {"reprise": ((0.5, 30.0), (0.99, 100.0)), "reprise-spin": ((0.5, 5.0),)}
    for (row, tool), values in found.items():
        pooled = sorted(error for value in values for error in value["absolute"])
        for share, want in wants.get(tool, ()) if pooled else ():
            name = f"{row}: {tool}: p{share * 100:.0f} of the absolute error in us"
            checks.append(check(name, quantile(pooled, share) / 1000, want, least=False))
        seconds = [rate for value in values for rate in value["rates"]]
        if tool == "reprise" and seconds and values[0]["rate"] > 9_000:
            good = sum(rate <= 0.0002 for rate in seconds) / len(seconds)
            name = f"{row}: {tool}: share of {len(seconds)} seconds within 0.02 % of the trace's rate"
            checks.append(check(name, good, 0.99, least=True))
    return checks


def timing_counts(found: dict[tuple[str, str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Captures must be whole, and ours must have sent everything."""
    checks = []
    for (row, tool), values in found.items():
        dropped = max(abs(value["dropped"]) for value in values)
        checks.append(check(f"{row}: {tool}: packets that the capture dropped", dropped, 0, least=False))
        if tool.startswith("reprise"):
            missing = max(value["missing"] for value in values)
            checks.append(check(f"{row}: {tool}: queries not in the capture", missing, 0, least=False))
    return checks


# --- reader -----------------------------------------------------------------------------------------------


def packets_of(path: pathlib.Path) -> int:
    """Packets of a capture, which are its queries, as capinfos counts them."""
    argv = ["capinfos", "-M", "-T", "-r", "-c", str(path)]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return int(out.split("\t")[-1])


def count_of(folder: pathlib.Path, tool: str) -> int:
    """What a reader counted."""
    text = (folder / f"{tool}.out").read_text() + (folder / f"{tool}.err").read_text()
    if tool == "reprise":
        return int(json.loads((folder / "reprise.out").read_text())["queries"])
    pattern = r"(\d+) packets" if tool == "tcpdump" else r"Accepted Packets:\s+(\d+)"
    found = re.search(pattern, text)
    return int(found.group(1)) if found else -1


def reader(top: pathlib.Path, bench: dict[str, Any]) -> dict[str, Any]:
    """Table and checks of the reader bench."""
    table: Table = collections.defaultdict(list)
    wrong: dict[tuple[str, str], int] = collections.Counter()
    total = packets_of(top / "traces" / "root.pcap.zst")
    for run in bench["runs"]:
        folder = top / run["folder"]
        spent = used_with_children(readings(folder), run["tool"])
        table[run["row"], run["tool"], "M/s"].append(total / max(spent, 1e-6) / 10**6)
        wrong[run["row"], run["tool"]] += abs(count_of(folder, run["tool"]) - total)
    checks = []
    for (row, tool, _), values in table.items():
        if tool == "reprise" and not bench["quick"]:
            name = f"{row}: million queries a second of processor time"
            checks.append(check(name, statistics.median(values), 2.0, least=True))
    for (row, tool), count in wrong.items():
        checks.append(check(f"{row}: {tool}: queries miscounted", count, 0, least=False))
    return {"table": dict(table), "ratios": {}, "checks": checks}


# --- all --------------------------------------------------------------------------------------------------


def listed(table: Table) -> list[dict[str, Any]]:
    """A table for JSON."""
    return [
        {"row": row, "tool": tool, "unit": unit, "values": [round(value, 4) for value in values]}
        for (row, tool, unit), values in table.items()
    ]


def recompute(top: pathlib.Path) -> dict[str, Any]:
    """Everything of a result folder."""
    bench = json.loads((top / "bench.json").read_text())
    if bench["schema"] != 1:
        raise SystemExit(f"bench.json has schema {bench['schema']}, this script knows 1")
    lines = (top / "watch.txt").read_text().splitlines()
    lost, spans = steal_spans(lines)
    seconds, stolen = whole_seconds(lines, spans)
    if bench["bench"] in ("timing", "tcp", "tls"):
        found = (timing if bench["bench"] == "timing" else stream)(top, bench, spans)
    else:
        found = {"udp": udp, "reader": reader, "mutate": mutate, "hierarchy": hierarchy}[bench["bench"]](
            top, bench
        )
    return {
        "bench": bench["bench"],
        "note": note(bench),
        "steal_s": round(lost, 2),
        "seconds": seconds,
        "seconds_with_steal": stolen,
        "table": listed(found["table"]),
        "ratios": listed(found["ratios"]),
        "checks": found["checks"],
    }


def note(bench: dict[str, Any]) -> str:
    """What the figures hold for."""
    return f"server's key {bench['key']}" if bench["bench"] == "tls" else ""


def main() -> int:
    """Prints the JSON object."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: recompute.py RESULT-FOLDER\n")
        return 2
    result = recompute(pathlib.Path(sys.argv[1]))
    print(json.dumps(result))
    return 0 if all(entry["ok"] for entry in result["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
