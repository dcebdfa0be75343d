"""What recompute.py reads of runs against servers with and without statelessTCP fronts, and the tables that
set the ways side by side, with those of the published report.
"""

import pathlib
import re
import statistics
from collections.abc import Sequence
from typing import Any

from bench.recompute_runs import (
    NS,
    TICK_S,
    Bench,
    Rows,
    Run,
    Values,
    loaded,
    one,
    readings,
    softirq,
    threads_gain,
)

Groups = dict[tuple[str, str], list[Values]]

SERVER_CORE = "cpu1"
# Slab caches of a connection and its socket. The kernel may have put one together with others of its size.
CACHES = ("TCP", "request_sock_TCP", "sock_inode_cache", "filp", "dentry")
UTIME, STIME = 11, 12  # of /proc/PID/stat behind the name: user and system time in ticks
IDLE, IOWAIT, STEAL = 3, 4, 7  # of a line of /proc/stat behind the name

# --- a run with queries -----------------------------------------------------------------------------------


def cost(_: Bench, folder: pathlib.Path, __: Run) -> Values:
    """Microseconds of processor time a query with its answer, by who spent them; counts."""
    rows, queries = readings(folder), loaded(folder / "controller.json")["queries"]
    counted = statistics_of(folder)
    done, lost = queries["answered"], queries["handed"] - queries["answered"]
    million = max(done, 1) / 10**6
    server, front = threads_gain(rows, "server"), threads_gain(rows, "front") if counted else 0.0
    received = softirq(rows, "server") + thread_gain(rows, "ksoftirqd")
    user = user_share(rows, "server")
    in_front = front * (1 - user_share(rows, "front")) if counted else 0.0
    promoted = sum(counted["promoted"].values()) if counted else 0
    opened = counter_gain(rows, "server", "snmp", "Tcp", "PassiveOpens")
    return {
        "cost": (server + front + received) / million,
        "server": server / million,
        "front": front / million if counted else None,
        "receive": received / million,
        "kernel": (received + in_front + server * (1 - user)) / million,
        "user": server * user / million,
        "busy": busy(rows) / million,
        "share": done / max(queries["handed"], 1),
        "lost": lost / max(queries["handed"], 1),
        "promoted": promoted / max(done, 1) if counted else None,
        "answers": done,
        "opened": opened,
        "unseen": max(done - counted["replies"] - promoted, 0) if counted else None,
        "kernel's": max(opened - promoted, 0) if counted else None,
    }


def statistics_of(folder: pathlib.Path) -> dict[str, Any] | None:
    """What the front counted; None without a front."""
    path = folder / "front.json"
    return loaded(path) if path.exists() else None


def thread_gain(rows: Rows, who: str) -> float:
    """Seconds of a kernel thread between the readings."""
    both = [one(rows, who=who, kind="schedstat", when=when)["text"] for when in ("before", "after")]
    return (int(both[1].split()[0]) - int(both[0].split()[0])) / NS


def user_share(rows: Rows, who: str) -> float:
    """Share of user time in what the processes spent, by the kernel's ticks; 0 where there was none."""
    sums = []
    for when in ("before", "after"):
        texts = one(rows, who=who, kind="stats", when=when)["texts"].values()
        fields = [text.rpartition(")")[2].split() for text in texts]
        sums.append([sum(int(each[place]) for each in fields) for place in (UTIME, STIME)])
    user, system = (after - before for before, after in zip(*sums, strict=True))
    return user / (user + system) if user + system else 0.0


def busy(rows: Rows) -> float:
    """Seconds that the server's core was neither idle nor taken away, whoever used it."""
    both = [one(rows, who="machine", kind="cpu", when=when) for when in ("before", "after")]
    free = [core_ticks(row["text"]) for row in both]
    return float((both[1]["mono_ns"] - both[0]["mono_ns"]) / NS - (free[1] - free[0]) * TICK_S)


def core_ticks(text: str) -> int:
    """Ticks of the server's core that nobody used."""
    (fields,) = [line.split()[1:] for line in text.splitlines() if line.split()[0] == SERVER_CORE]
    return sum(int(fields[place]) for place in (IDLE, IOWAIT, STEAL))


def counter_gain(rows: Rows, who: str, kind: str, group: str, name: str) -> int:
    """By how much a counter of /proc/net/snmp or netstat grew."""
    both = [one(rows, who=who, kind=kind, when=when)["text"] for when in ("before", "after")]
    return counter(both[1], group, name) - counter(both[0], group, name)


def counter(text: str, group: str, name: str) -> int:
    """A group has a line of names and one of values."""
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith(f"{group}:"))
    return int(values[names.index(name)])


# --- flood ------------------------------------------------------------------------------------------------


def flood(_: Bench, folder: pathlib.Path, __: Run) -> Values:
    """What became of queries beside a flood of SYNs, and how large the flood was at the server."""
    rows, queries = readings(folder), loaded(folder / "controller.json")["queries"]
    sent = loaded(folder / "flood.out")
    both = [one(rows, who="server", kind="interface", when=when) for when in ("before", "after")]
    seconds = (both[1]["mono_ns"] - both[0]["mono_ns"]) / NS
    came = interface_gain(rows, "server", "rx_packets")
    # What finds the ring of a veth full is counted at its other end, as not sent.
    dropped = interface_gain(rows, "server", "rx_dropped") + interface_gain(rows, "client", "tx_dropped")
    counted = statistics_of(folder)
    again = counter_gain(rows, "client", "snmp", "Tcp", "RetransSegs")
    return {
        "lost": 1 - queries["answered"] / max(queries["handed"], 1),
        "sent": sent["sent"] / sent["seconds"] / 1000,
        "came": came / seconds / 1000,
        "dropped": dropped / max(came + dropped, 1),
        "cookies": counter_gain(rows, "server", "netstat", "TcpExt", "SyncookiesSent") / seconds / 1000,
        "syn": counted["syn"] / sent["seconds"] / 1000 if counted else None,
        "again": again / max(queries["handed"], 1),
        "used": busy(rows) / seconds,
    }


def interface_gain(rows: Rows, who: str, name: str) -> int:
    """By how much a counter of a side's interface grew."""
    both = [one(rows, who=who, kind="interface", when=when)["values"] for when in ("before", "after")]
    return int(both[1][name]) - int(both[0][name])


# --- memory -----------------------------------------------------------------------------------------------


def memory(_: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Bytes for a query in flight: in the kernel's caches or in the front's map."""
    rows, waiting = readings(folder), run["waiting"]
    both = [
        {row["kind"]: row["text"] for row in rows if row["when"] == when} for when in ("before", "during")
    ]
    slab = (kilobytes(both[1]["meminfo"], "Slab") - kilobytes(both[0]["meminfo"], "Slab")) * 1024
    if run["tool"] == "tcp":
        caches = cached(both[1]["slabinfo"]) - cached(both[0]["slabinfo"])
        return {"bytes": caches / waiting, "slab": slab / waiting, "missing": 0}
    counted = loaded(folder / "front-during.json")
    return {
        "bytes": counted["bytes_per_entry"],
        "place": place_bytes(rows),
        "whole": counted["memory_bytes"] / 10**6,
        "missing": max(waiting - counted["entries"], 0),
    }


def place_bytes(rows: Rows) -> float | None:
    """Bytes that the kernel took for each place of the front's largest BPF map, its table included."""
    maps = [dict(re.findall(r"(\w+):\s+(\d+)", row["text"])) for row in rows if row["kind"] == "map"]
    largest = max(maps, key=lambda one: int(one["memlock"]), default=None)
    return int(largest["memlock"]) / int(largest["max_entries"]) if largest else None


def kilobytes(text: str, name: str) -> int:
    """A line `NAME:  N kB`."""
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def cached(slabinfo: str) -> int:
    """Bytes of the objects in use in the caches of connections."""
    fields = [line.split() for line in slabinfo.splitlines()]
    return sum(int(each[1]) * int(each[3]) for each in fields if each and each[0] in CACHES)


# --- tables -----------------------------------------------------------------------------------------------

PARTS = (  # figure, its name in the table, digits behind the point
    ("cost", "us/query", 1),
    ("server", "server", 1),
    ("front", "front", 1),
    ("receive", "receive", 1),
    ("kernel", "kernel", 1),
    ("user", "server user", 1),
    ("busy", "core busy", 1),
)
SHARES = (("lost", "lost"), ("promoted", "promoted"))

# CAIA Technical Report 101022A, 500 queries/s: seconds of processor time in 10 s, so 5,000 queries. Figure 5
# is the difference of the others.
PUBLISHED = (
    ("kernel (fig. 4)", (0.09, 0.36, 0.55)),
    ("server user (fig. 5)", (0.49, 0.50, 1.58)),
    ("total (fig. 6)", (0.58, 0.86, 2.13)),
)
PUBLISHED_QUERIES = 5_000
PUBLISHED_MEMORY = (0, 88, 648)  # bytes a connection
OURS = (("kernel", "kernel"), ("server user", "user"), ("total", "cost"))
FRONTS = ("reference", "bpf")
SLIP = (
    "The report's table I prints +367 % for TCP; by its figures TCP costs 3.67 times as much as UDP, +267 %."
)


def tables(found: Groups) -> list[dict[str, Any]]:
    """Medians of all ways by who spent the time, then the report's figures beside ours."""
    runs = {key: values for key, values in found.items() if "busy" in values[0]}
    head = ["row", "way", *(name for _, name, _ in PARTS), *(name for _, name in SHARES)]
    rows = [head, *([*key, *part_cells(values)] for key, values in runs.items())]
    parts = {"title": "Medians in us a query (kernel: receive, and system time of server and front)"}
    parts_table = [{**parts, "texts": 2, "rows": rows}] if runs else []
    ours = [*beside(runs), *memory_beside(found)]
    return [*parts_table, published(ours)] if ours else parts_table


def middle(values: Sequence[Values], key: str) -> float | None:
    """The median of a figure."""
    known = [value[key] for value in values if value.get(key) is not None]
    return statistics.median(known) if known else None


def part_cells(values: list[Values]) -> list[str]:
    """A line of the first table."""
    times = [(middle(values, key), digits) for key, _, digits in PARTS]
    cells = ["-" if value is None else f"{value:.{digits}f}" for value, digits in times]
    shares = [middle(values, key) for key, _ in SHARES]
    return [*cells, *("-" if value is None else f"{100 * value:.2f} %" for value in shares)]


def published(ours: list[list[str]]) -> dict[str, Any]:
    """The report's figures above ours."""
    rows = [["", "", "UDP", "stateless", "TCP", "stateless/UDP", "TCP/UDP"]]
    for name, seconds in PUBLISHED:
        rows.append(["report", name, *side_by_side([1e6 * one / PUBLISHED_QUERIES for one in seconds])])
    rows.append(["report", "bytes a connection", *(str(size) for size in PUBLISHED_MEMORY), "", ""])
    title = f"The report (500 queries/s) and this machine, us a query. {SLIP}"
    return {"title": title, "texts": 2, "rows": [*rows, *ours]}


def beside(runs: Groups) -> list[list[str]]:
    """UDP, each front and TCP at each rate, where all three were measured."""
    lines = []
    for row in dict.fromkeys(row for row, _ in runs if row.startswith("rates")):
        for front in FRONTS:
            three = [runs[row, way] for way in ("udp", front, "tcp") if (row, way) in runs]
            if len(three) == 3:
                for name, key in OURS:
                    figures = [middle(values, key) or 0.0 for values in three]
                    lines.append([f"{row}, {front}", name, *side_by_side(figures)])
    return lines


def memory_beside(found: Groups) -> list[list[str]]:
    """The fronts' and the kernel's bytes for a query in flight."""
    tcp = middle(found.get(("memory", "tcp"), []), "bytes")
    lines = []
    for front in FRONTS:
        size = middle(found.get(("memory", front), []), "bytes")
        if size is not None and tcp is not None:
            cells = ["0", f"{size:.0f}", f"{tcp:.0f}", "", ""]
            lines.append([f"memory, {front}", "bytes a query in flight", *cells])
    return lines


def side_by_side(figures: Sequence[float]) -> list[str]:
    """Three figures, and how much more than the first the others are."""
    first, *others = figures
    more = [f"{100 * (figure / first - 1):+.0f} %" if first else "-" for figure in others]
    return [*(f"{figure:.1f}" for figure in figures), *more]
