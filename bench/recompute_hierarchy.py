"""Figures and checks of the hierarchy bench, out of its raw files."""

import collections
import json
import pathlib
import re
import statistics
import subprocess
from typing import Any

from bench.recompute_base import NS, Table, check, nanoseconds, one, quantile, readings

_FIELDS = ("frame.time_epoch", "udp.srcport", "dns.id")
_COMPLETED = re.compile(r"Queries completed:\s+(\d+)")
_SENT = re.compile(r"Queries sent:\s+(\d+)")
_RATE = re.compile(r"Queries per second:\s+([\d.]+)")
_LARGE = 10_000  # zones of the size that the promises are about


def hierarchy(top: pathlib.Path, bench: dict[str, Any]) -> dict[str, Any]:
    """Table, ratios and checks."""
    table: Table = collections.defaultdict(list)
    ratios: Table = collections.defaultdict(list)
    counts: list[dict[str, Any]] = []
    parts = {"plan": _plan, "server": _server, "path": _path, "delay": _delay}
    for run in bench["runs"]:
        folder = top / run["folder"]
        counts += parts[run["row"]](folder, run, table, ratios)
    claims = [] if bench["quick"] else _claims(table, ratios)
    return {"table": dict(table), "ratios": dict(ratios), "checks": claims + _summed(counts)}


def _summed(counts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Checks of one name, which every repeat makes, as one: nothing may be missing in any of them."""
    sums: dict[str, dict[str, Any]] = {}
    for one_check in counts:
        known = sums.setdefault(one_check["name"], {**one_check, "value": 0})
        known["value"] += one_check["value"]
        known["ok"] = known["value"] <= known["want"]
    return list(sums.values())


def _plan(folder: pathlib.Path, run: dict[str, Any], table: Table, _: Table) -> list[dict[str, Any]]:
    spent = one(readings(folder), who="plan", kind="rusage", when="end")
    report = json.loads((folder / "plan" / "plan.json").read_text())
    table["plan", run["tool"], "s CPU"].append(spent["user_s"] + spent["system_s"])
    table["plan", run["tool"], "colours"].append(report["colours"])
    served = {zone for group in report["groups"] for zone in group["zones"]}
    missing = report["zones"] - len(served)
    return [check(f"{run['tool']}: zones in no group", missing, 0, least=False)]


def _server(folder: pathlib.Path, run: dict[str, Any], table: Table, ratios: Table) -> list[dict[str, Any]]:
    rows, tool = readings(folder), run["tool"]
    begin, end = (one(rows, who="named", kind="start", when=when) for when in ("before", "after"))
    table["server", tool, "s to start"].append((end["mono_ns"] - begin["mono_ns"]) / NS)
    resident = re.search(r"VmRSS:\s+(\d+) kB", (folder / "status.txt").read_text())
    assert resident is not None
    table["server", tool, "MB"].append(int(resident[1]) * 1_024 / 10**6)
    cost = {}
    for place in ("first", "last"):
        done = int(_first(_COMPLETED, folder / f"dnsperf-{place}.out"))
        used = _gain(rows, "named", f"before-{place}", f"after-{place}")
        cost[place] = used / max(done, 1) / 1_000
        table["server", tool, f"us in the {place} view"].append(cost[place])
    ratios["server", tool, "last / first"].append(cost["last"] / cost["first"])
    lost = sum(
        int(_first(_SENT, folder / f"dnsperf-{place}.out"))
        - int(_first(_COMPLETED, folder / f"dnsperf-{place}.out"))
        for place in ("first", "last")
    )
    return [check(f"{tool}: queries without an answer", lost, 0, least=False)]


def _path(folder: pathlib.Path, run: dict[str, Any], table: Table, _: Table) -> list[dict[str, Any]]:
    rows, tool = readings(folder), run["tool"]
    before, after = (
        json.loads(one(rows, who="link", kind="ip", when=when)["text"]) for when in ("before", "after")
    )
    moved = {
        way: after[0]["stats64"][way]["packets"] - before[0]["stats64"][way]["packets"]
        for way in ("rx", "tx")
    }
    million = (moved["rx"] + moved["tx"]) / 10**6
    done = int(_first(_COMPLETED, folder / "dnsperf.out"))
    table["path", tool, "queries/s"].append(float(_first(_RATE, folder / "dnsperf.out")))
    parts = {"named": _gain(rows, "meta1", "before", "after"), "dnsperf": _used(rows, "dnsperf")}
    if tool == "tun":
        sides = [_gain(rows, name, "before", "after") for name in ("proxy-server", "proxy-meta1")]
        table["path", tool, "s/M packets, proxy"].append(sum(sides) / NS / million)
        parts["proxies"] = sum(sides)
    table["path", tool, "us a query, all"].append(sum(parts.values()) / max(done, 1) / 1_000)
    few = 2 * done - moved["rx"] - moved["tx"]
    return [check(f"path {tool}: packets that did not pass the link", max(few, 0), 0, least=False)]


def _delay(folder: pathlib.Path, run: dict[str, Any], table: Table, _: Table) -> list[dict[str, Any]]:
    taken = _packets(folder / "before.pcap.zst")
    errors, lost = [], 0
    waiting: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for key, time in _packets(folder / "after.pcap.zst"):
        waiting[key].append(time)
    for key, time in taken:
        late = waiting[key].pop(0) if waiting[key] else None
        if late is None:
            lost += 1
        else:
            errors.append(late - time - int(run["delay_ms"] * 10**6))
    errors.sort()
    seconds = (taken[-1][1] - taken[0][1]) / NS if len(taken) > 1 else 1
    table["delay", run["tool"], "packets/s"].append(len(taken) / seconds)
    absolute = sorted(abs(error) for error in errors)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        table["delay", run["tool"], f"us error, {name}"].append(quantile(absolute, share) / 1_000)
    return [check("delay: packets lost", lost, 0, least=False)]


def _packets(path: pathlib.Path) -> list[tuple[tuple[str, str], int]]:
    """(port, id) and time of every query."""
    fields = [word for field in _FIELDS for word in ("-e", field)]
    argv = ["tshark", "-r", str(path), "-T", "fields", *fields]
    found = []
    for line in subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines():
        time, port, ident = line.split("\t")
        found.append(((port, ident), nanoseconds(time)))
    return found


def _gain(rows: list[dict[str, Any]], who: str, before: str, after: str) -> int:
    """Nanoseconds of all of a process's threads between two readings."""
    both = [one(rows, who=who, kind="threads", when=when)["texts"] for when in (before, after)]
    sums = [sum(int(text.split()[0]) for text in texts.values()) for texts in both]
    return sums[1] - sums[0]


def _used(rows: list[dict[str, Any]], who: str) -> int:
    row = one(rows, who=who, kind="rusage", when="end")
    return int((row["user_s"] + row["system_s"]) * NS)


def _first(pattern: re.Pattern[str], path: pathlib.Path) -> str:
    found = pattern.search(path.read_text())
    if found is None:
        raise SystemExit(f"{path}: nothing matches {pattern.pattern}")
    return found[1]


def _claims(table: Table, ratios: Table) -> list[dict[str, Any]]:
    """What was promised on speed and memory."""
    large = f"coloured-{_LARGE}"
    wants = (
        ("plan", large, "s CPU", f"planning {_LARGE} zones, seconds", 10.0),
        ("server", large, "s to start", f"BIND with {_LARGE} zones, seconds to start", 5.0),
        ("server", large, "MB", f"BIND with {_LARGE} zones, MB", 200.0),
        ("path", "tun", "s/M packets, proxy", "TUN path, seconds of the proxies a million packets", 3.0),
        ("delay", "tun", "us error, p50", "delay's error in us, p50", 100.0),
        ("delay", "tun", "us error, p99", "delay's error in us, p99", 500.0),
    )
    found = [
        check(name, statistics.median(table[row, tool, unit]), want, least=False)
        for row, tool, unit, name, want in wants
        if table.get((row, tool, unit))
    ]
    last = ratios.get(("server", large, "last / first"))
    if last:
        name = f"BIND with {_LARGE} zones, a query in the last view over one in the first"
        found.append(check(name, statistics.median(last), 1.2, least=False))
    return found
