"""What recompute.py reads of one run: each function turns a run's raw files into figures by name.

They are the kernel's readings, what the tools printed, and captures through tshark.
"""

import bisect
import collections
import decimal
import functools
import itertools
import json
import pathlib
import re
import statistics
import subprocess
from dataclasses import dataclass
from typing import Any

TICK_S = 0.01  # of /proc/stat and /proc/PID/stat
NS = 10**9
FLOORS = ("floor", "openssl")

Run = dict[str, Any]
Rows = list[dict[str, Any]]
Spans = list[tuple[int, int]]
Values = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A result folder, what bench.json says, and when the hypervisor gave the processors to others."""

    top: pathlib.Path
    info: dict[str, Any]
    spans: Spans

    def sources(self, quick: int) -> int:
        """Source addresses wanted at the server; a quick bench has at most so many."""
        wanted = int(self.info["sources"])
        return min(wanted, quick) if self.info["quick"] else wanted


def nanoseconds(text: str) -> int:
    """Of seconds with a decimal point; exact."""
    return int(decimal.Decimal(text) * NS)


def quantile(ordered: list[int], share: float) -> float:
    """The smallest value that at least `share` of the sample does not exceed."""
    index = -(-int(len(ordered) * share * 10**6) // 10**6) - 1
    return float(ordered[max(0, min(index, len(ordered) - 1))])


def loaded(path: pathlib.Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text())


def number(pattern: str, path: pathlib.Path) -> float:
    """What the pattern finds in a tool's output."""
    found = re.search(pattern, path.read_text())
    if found is None:
        raise SystemExit(f"{path}: nothing matches {pattern}")
    return float(found[1])


def tshark(path: pathlib.Path, fields: tuple[str, ...], *options: str) -> list[list[str]]:
    """The fields of each packet."""
    argv = ["tshark", "-n", "-r", str(path), *options, "-T", "fields"]
    argv += [word for field in fields for word in ("-e", field)]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in out.splitlines()]


def packets_of(path: pathlib.Path) -> int:
    """Packets of a capture, as capinfos counts them."""
    argv = ["capinfos", "-M", "-T", "-r", "-c", str(path)]
    return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\t")[-1])


def dropped(folder: pathlib.Path) -> int:
    """Packets, as tcpdump says at its end; 1 where it says nothing."""
    found = re.findall(r"(\d+) packets? dropped by kernel", (folder / "tcpdump.err").read_text())
    return int(found[-1]) if found else 1


# --- steal ------------------------------------------------------------------------------------------------


def steal_spans(lines: list[str]) -> tuple[float, Spans]:
    """Seconds of steal, and the spans (CLOCK_REALTIME ns) between two readings that differ in it."""
    rows = [line.split() for line in lines]
    total = [(int(row[1]), int(row[10])) for row in rows if len(row) > 10 and row[2] == "cpu"]
    spans = [(a[0], b[0]) for a, b in itertools.pairwise(total) if b[1] > a[1]]
    return (total[-1][1] - total[0][1]) * TICK_S if total else 0.0, spans


def whole_seconds(lines: list[str], spans: Spans) -> tuple[int, int]:
    """Seconds watched, and how many of them had steal."""
    times = [int(line.split()[1]) for line in lines if len(line.split()) > 1]
    if not times:
        return 0, 0
    seconds = range(times[0], times[-1], NS)
    return len(seconds), sum(touched(spans, one, one + NS) for one in seconds)


def touched(spans: Spans, begin: int, end: int) -> bool:
    """Whether some steal lies between the two moments; spans are in order and apart."""
    after = bisect.bisect_left(spans, (begin, begin))
    near = spans[max(0, after - 1) : after + 1]
    return any(first < end and last > begin for first, last in near)


# --- processor time ---------------------------------------------------------------------------------------


def readings(folder: pathlib.Path) -> Rows:
    """The raw readings of one run."""
    return [json.loads(line) for line in (folder / "readings.jsonl").read_text().splitlines()]


def one(rows: Rows, **want: str) -> dict[str, Any]:
    """The only reading of that kind."""
    (found,) = [row for row in rows if all(row[key] == value for key, value in want.items())]
    return found


def used(rows: Rows, who: str) -> float:
    """Seconds of a process with all its threads and the children it waited for."""
    row = one(rows, who=who, kind="rusage")
    return float(row["user_s"] + row["system_s"])


def used_alone(rows: Rows, who: str) -> float:
    """Seconds of a process without its children.

    schedstat is exact but of the first thread only: where the ticks of the whole process tell of more, they
    are taken.
    """
    exact = int(one(rows, who=who, kind="schedstat", when="end")["text"].split()[0]) / NS
    fields = one(rows, who=who, kind="stat", when="end")["text"].rpartition(")")[2].split()
    ticks = (int(fields[11]) + int(fields[12])) * TICK_S
    return exact if abs(exact - ticks) < 5 * TICK_S else ticks


def softirq(rows: Rows, side: str) -> float:
    """Seconds of the side's NAPI thread during the run."""
    both = [one(rows, who=f"napi-{side}", kind="schedstat", when=when) for when in ("before", "after")]
    if both[0]["pid"] != both[1]["pid"]:
        raise SystemExit(f"napi-{side}: another thread at the end; its time is not known")
    before, after = (int(row["text"].split()[0]) for row in both)
    if before == after:
        raise SystemExit(f"napi-{side} did nothing: somebody else was charged for what came in")
    return (after - before) / NS


def threads_gain(rows: Rows, who: str, before: str = "before", after: str = "after") -> float:
    """Seconds of all of a process's threads between two readings."""
    both = [one(rows, who=who, kind="threads", when=when)["texts"] for when in (before, after)]
    sums = [sum(int(text.split()[0]) for text in texts.values()) for texts in both]
    return (sums[1] - sums[0]) / NS


def asked(folder: pathlib.Path, tool: str, sink: dict[str, Any]) -> tuple[int, int]:
    """Queries sent and answered, as the tool counts them; kxdpgun does not receive."""
    if tool == "dnsperf":
        path = folder / "dnsperf.out"
        return int(number(r"Queries sent: +(\d+)", path)), int(number(r"Queries completed: +(\d+)", path))
    if tool == "kxdpgun":
        return sink["queries4"], sink["queries4"]
    if tool in FLOORS:
        found = loaded(folder / f"{tool}.out")
        return found["connections"], found["answered"]
    queries = loaded(folder / "controller.json")["queries"]
    return queries["handed"], queries["answered"]


def cost(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Of udp, tcp and tls: seconds of processor time a million answers, which is us a query, and counts."""
    rows, tool = readings(folder), run["tool"]
    sink = loaded(folder / "sink.out")
    sent, done = asked(folder, tool, sink)
    million = max(done, 1) / 10**6
    tree, own = 0.0, 0.0
    if tool.startswith("reprise"):
        alone = used_alone(rows, "distributor")
        own, tree = used(rows, "distributor") - alone, used(rows, "controller") + alone
    else:
        own = used(rows, tool)
    received = softirq(rows, "client")
    both = (one(rows, who="client", kind="interface", when=when) for when in ("before", "after"))
    before, after = (int(row["values"]["rx_packets"]) for row in both)
    return {
        **{f"sink_{key}": value for key, value in sink.items() if isinstance(value, int)},
        "cost": (own + received) / million,
        "process": own / million,
        "softirq": received / million,
        "tree": tree / million,
        "share": done / max(sent, 1),
        "answers": done,
        "arrived": after - before,
        "packets": (after - before) / max(done, 1),
        "early": sink.get("early_data", 0) / max(sink.get("connections", 0), 1),
        "wanted": bench.sources(1000 if bench.info["bench"] == "udp" else 2000),
        "resumed": 0.8 if bench.info["quick"] else 0.98,  # a source's first handshake is a full one
    }


# --- timing -----------------------------------------------------------------------------------------------

Query = tuple[int, tuple[str, ...]]  # time in ns, (id, name, type)


@functools.cache
def queries(path: pathlib.Path) -> list[Query]:
    """(time in ns, key) of every packet of a capture, in file order."""
    rows = tshark(path, ("frame.time_epoch", "dns.id", "dns.qry.name", "dns.qry.type"))
    return [(nanoseconds(time), tuple(key)) for time, *key in rows]


def trace_of(bench: Bench, run: Run) -> pathlib.Path:
    """What was sent; drool gets a copy in microseconds."""
    return bench.top / "traces" / f"{run['row']}{'-us' if run['tool'] == 'drool' else ''}.pcap.zst"


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


def start_of(folder: pathlib.Path) -> int:
    """When the first query was due, CLOCK_REALTIME."""
    return int(loaded(folder / "controller.json")["start"]["real_ns"])


def rates(found: list[tuple[int, int]], clean: set[int], last: int) -> list[float]:
    """Of each whole second without steal: how far the number of arrivals is from the trace's, as a share."""
    due = collections.Counter(offset // NS for offset, _ in found)
    came = collections.Counter((offset + error) // NS for offset, error in found)
    return [abs(came[second] - due[second]) / due[second] for second in range(last) if second in clean]


def timing(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Errors and rates in seconds without steal. drool announces no start: its errors are centred on their
    median.
    """
    sent, came = queries(trace_of(bench, run)), queries(folder / "capture.pcap.zst")
    if run["tool"].startswith("reprise"):
        start = start_of(folder)
    else:
        start = statistics.median_low(error for _, error in errors(sent, came, 0)[0])
    found, missing = errors(sent, came, start)
    length = sent[-1][0] - sent[0][0]
    seconds = range(length // NS + 1)
    clean = {s for s in seconds if not touched(bench.spans, start + s * NS, start + (s + 1) * NS)}
    absolute = sorted(abs(error) for due, error in found if due // NS in clean)
    signed = sorted(error for due, error in found if due // NS in clean)
    return {
        "absolute": absolute,
        "p50": quantile(absolute, 0.5) / 1000 if absolute else None,
        "p99": quantile(absolute, 0.99) / 1000 if absolute else None,
        "median": quantile(signed, 0.5) / 1000 if signed else 0.0,
        "rates": rates(found, clean, length // NS) if len(sent) / max(length / NS, 1e-9) > 9_000 else [],
        "missing": missing,
        "dropped": dropped(folder),
        "stolen": len(seconds) - len(clean),
    }


# --- reading and changing traces --------------------------------------------------------------------------


def reading(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Of a reader: how fast, and by how much it miscounted."""
    tool, total = run["tool"], packets_of(bench.top / "traces" / "root.pcap.zst")
    if tool == "reprise":
        count = loaded(folder / "reprise.out")["queries"]
    else:
        text = (folder / f"{tool}.out").read_text() + (folder / f"{tool}.err").read_text()
        found = re.search(r"(\d+) packets" if tool == "tcpdump" else r"Accepted Packets:\s+(\d+)", text)
        count = int(found[1]) if found else -1
    return {"speed": total / max(used(readings(folder), tool), 1e-6) / 10**6, "wrong": abs(count - total)}


def own_reading(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Of our reader alone."""
    total = packets_of(bench.top / "traces" / "root.pcap.zst")
    count = loaded(folder / f"{run['tool']}.out")["queries"]
    return {
        "speed": total / max(used(readings(folder), run["tool"]), 1e-6) / 10**6,
        "wrong": abs(count - total),
    }


def building(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Of zones built from a capture, in which every query has a response."""
    responses = packets_of(bench.top / "traces" / "upstream.pcap.zst") // 2
    rows, report = readings(folder), loaded(folder / "zones" / "build.json")
    return {
        "speed": responses / max(used(rows, run["tool"]), 1e-6) / 10**6,
        "memory": one(rows, who=run["tool"], kind="rusage")["peak_kb"] / 1024,
        "zones": len(report["zones"]),
        "wrong": abs(report["counts"]["used"] - responses),
    }


def changing(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Of a change to a trace: how fast, and what was written."""
    total, counted = packets_of(bench.top / "traces" / "root.pcap.zst"), loaded(folder / "count.json")
    return {
        "speed": total / max(used(readings(folder), run["tool"]), 1e-6) / 10**6,
        "wall": run["wall_s"],
        "digest": counted["sha256"],
        "wrong": abs(counted["queries"] - total),
    }


# --- hierarchies ------------------------------------------------------------------------------------------


def planning(_: Bench, folder: pathlib.Path, __: Run) -> Values:
    """What it takes to plan, and that every zone is served."""
    report = loaded(folder / "plan" / "plan.json")
    served = {zone for group in report["groups"] for zone in group["zones"]}
    return {
        "cpu": used(readings(folder), "plan"),
        "colours": report["colours"],
        "missing": report["zones"] - len(served),
    }


def serving(_: Bench, folder: pathlib.Path, __: Run) -> Values:
    """BIND with views: its start, its memory, and a query in the first and in the last view."""
    rows = readings(folder)
    begin, end = (one(rows, who="named", kind="start", when=when) for when in ("before", "after"))
    values: Values = {
        "start": (end["mono_ns"] - begin["mono_ns"]) / NS,
        "memory": int(number(r"VmRSS:\s+(\d+) kB", folder / "status.txt")) * 1_024 / 10**6,
        "lost": 0,
    }
    for place in ("first", "last"):
        sent, done = asked_at(folder / f"dnsperf-{place}.out")
        values[place] = (
            threads_gain(rows, "named", f"before-{place}", f"after-{place}") * 10**6 / max(done, 1)
        )
        values["lost"] += sent - done
    values["ratio"] = values["last"] / values["first"]
    return values


def asked_at(path: pathlib.Path) -> tuple[int, int]:
    """Queries that dnsperf sent and that were answered."""
    return int(number(r"Queries sent:\s+(\d+)", path)), int(number(r"Queries completed:\s+(\d+)", path))


def data_path(_: Bench, folder: pathlib.Path, run: Run) -> Values:
    """What passed the link between resolver and meta-DNS-server, and what all processes used for it."""
    rows = readings(folder)
    both = (json.loads(one(rows, who="link", kind="ip", when=when)["text"]) for when in ("before", "after"))
    counts = [sum(link[0]["stats64"][way]["packets"] for way in ("rx", "tx")) for link in both]
    moved = counts[1] - counts[0]
    names = ("proxy-server", "proxy-meta1") if run["tool"] == "tun" else ()
    proxies = sum(threads_gain(rows, name) for name in names)
    done = asked_at(folder / "dnsperf.out")[1]
    spent = threads_gain(rows, "meta1") + used(rows, "dnsperf") + proxies
    return {
        "rate": number(r"Queries per second:\s+([\d.]+)", folder / "dnsperf.out"),
        "proxy": proxies / (moved / 10**6) if names else None,
        "all": spent * 10**6 / max(done, 1),
        "lost": max(2 * done - moved, 0),
    }


def delay(_: Bench, folder: pathlib.Path, run: Run) -> Values:
    """How long packets took through the delay line, beyond what was asked for."""
    fields = ("frame.time_epoch", "udp.srcport", "dns.id")
    taken, left = (
        [(tuple(key), nanoseconds(time)) for time, *key in tshark(folder / f"{name}.pcap.zst", fields)]
        for name in ("before", "after")
    )
    waiting: dict[tuple[str, ...], collections.deque[int]] = collections.defaultdict(collections.deque)
    for key, time in left:
        waiting[key].append(time)
    wanted = int(run["delay_ms"] * 10**6)
    late = sorted(abs(waiting[key].popleft() - time - wanted) for key, time in taken if waiting[key])
    seconds = (taken[-1][1] - taken[0][1]) / NS if len(taken) > 1 else 1
    return {
        "rate": len(taken) / seconds,
        "p50": quantile(late, 0.5) / 1_000,
        "p99": quantile(late, 0.99) / 1_000,
        "lost": len(taken) - len(late),
    }
