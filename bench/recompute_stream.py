"""The part of recompute.py for `bench tcp` and `bench tls`: costs, held connections, captured segments."""

import collections
import dataclasses
import json
import pathlib
import re
import statistics
import subprocess
from typing import Any

from bench.recompute_base import (
    NS,
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

STALL_NS = 30 * 10**6  # an acknowledgement that is held back comes after 40 ms
AT_ONCE_NS = 10**6
CONTROL_LINKS = 1  # the client's TCP connection to its controller
FLOORS = ("floor", "openssl")
SYN, ACK, SYN_ACK = 0x02, 0x10, 0x12
SERVER_PORTS = ("53", "853")
FIELDS = (
    "frame.time_epoch",
    "tcp.stream",
    "tcp.dstport",
    "tcp.flags",
    "tcp.seq",
    "tcp.len",
    "tls.record.length",
)
DNS_FIELDS = ("dns.length", "dns.id", "dns.qry.name")

Spans = list[tuple[int, int]]
Found = dict[tuple[str, str], list[dict[str, float]]]
Result = dict[str, Any]


def stream(top: pathlib.Path, bench: dict[str, Any], spans: Spans) -> Result:
    """Table, ratios and checks of the tcp and tls benches."""
    costs: Found = collections.defaultdict(list)
    table: Table = {}
    checks: list[dict[str, Any]] = []
    for run in bench["runs"]:
        folder = top / run["folder"]
        if run["row"] == "hold":
            checks += hold(folder, run, bench, table)
        elif run["row"] == "segments":
            checks += segments(top, run, bench, spans, table)
        else:
            costs[run["row"], run["tool"]].append(cost(folder, run))
    fill(table, costs)
    ratios = ratios_of(table)
    counted = counts(costs, bench)
    claimed = [] if bench["quick"] else claims(table, ratios, bench)
    return {"table": table, "ratios": ratios, "checks": claimed + counted + checks}


# --- costs ------------------------------------------------------------------------------------------------


def cost(folder: pathlib.Path, run: Run) -> dict[str, float]:
    """Microseconds of processor time a query with its answer, and the counts, of one run."""
    rows = readings(folder)
    sink = json.loads((folder / "sink.out").read_text())
    sent, done = asked(folder, run["tool"])
    each = max(done, 1) / 10**6
    received = softirq(rows, "client")
    tree = 0.0
    if run["tool"].startswith("reprise"):
        alone = used_alone(rows, "distributor")
        own = used_with_children(rows, "distributor") - alone
        tree = (used_with_children(rows, "controller") + alone) / each
    else:
        own = used_with_children(rows, run["tool"])
    numbers = {key: value for key, value in sink.items() if isinstance(value, int)}
    return {
        **{f"sink_{key}": value for key, value in numbers.items()},
        "cost": (own + received) / each,
        "process": own / each,
        "softirq": received / each,
        "tree": tree,
        "early": sink["early_data"] / max(sink["connections"], 1),
        "packets": interface_gain(rows, "client", "rx_packets") / max(done, 1),
        "sent": sent,
        "answers": done,
    }


def asked(folder: pathlib.Path, tool: str) -> tuple[int, int]:
    """Queries sent and answered, as the tool counts them."""
    if tool in FLOORS:
        found = json.loads((folder / f"{tool}.out").read_text())
        return found["connections"], found["answered"]
    return answered(folder, tool, {})


def fill(table: Table, costs: Found) -> None:
    """Rows of the table."""
    for (row, tool), values in costs.items():
        units = {"us/query": "cost", "us process": "process", "us softirq": "softirq"}
        if tool.startswith("reprise"):
            units["us tree"] = "tree"
        units["packets in/query"] = "packets"
        if row == "early-data":
            units["share early data"] = "early"
        for unit, key in units.items():
            table[row, tool, unit] = [value[key] for value in values]


def ratios_of(table: Table) -> Table:
    """Ours over the floor's cost, dnsperf's over ours, repeat by repeat."""
    ratios: Table = {}
    for row, tool, unit in table:
        if not tool.startswith("reprise") or unit != "us/query":
            continue
        ours = table[row, tool, unit]
        for other in (*FLOORS, "dnsperf"):
            theirs = table.get((row, other, unit))
            if theirs is None:
                continue
            name = f"dnsperf / {tool}" if other == "dnsperf" else f"{tool} / {other}"
            pairs = zip(ours, theirs, strict=False)
            ratios[row, name, "times"] = [b / a if other == "dnsperf" else a / b for a, b in pairs]
    return ratios


def claims(table: Table, ratios: Table, bench: dict[str, Any]) -> list[dict[str, Any]]:
    """Medians over the repeats against what was promised."""
    checks = []
    single = table.get(("one-query", "reprise", "us/query"))
    if single:
        name = "one-query: reprise: us of processor time a query"
        checks.append(check(name, statistics.median(single), 25.0, least=False))
    for row in ("full", "resumed"):
        values = ratios.get((row, "reprise / openssl", "times"))
        if values and bench["bench"] == "tls":
            name = f"{row}: reprise's processor time over OpenSSL's own"
            checks.append(check(name, statistics.median(values), 1.2, least=False))
    return checks


def counts(costs: Found, bench: dict[str, Any]) -> list[dict[str, Any]]:
    """What the tool counts must agree with what the sink saw."""
    checks = []
    for (row, tool), values in costs.items():
        who = f"{row}: {tool}"
        share = min(value["answers"] / max(value["sent"], 1) for value in values)
        checks.append(check(f"{who}: share of queries answered", share, 0.999, least=True))
        excess = max(value["answers"] - value["sink_queries"] for value in values)
        checks.append(check(f"{who}: answers beyond those that the sink sent", excess, 0, least=False))
        if row != "persistent":
            lack = max(value["sink_queries"] - value["sink_connections"] for value in values)
            name = f"{who}: queries without a connection of their own"
            checks.append(check(name, lack, 0, least=False))
        elif tool != "dnsperf":
            reused = min(1 - value["sink_connections"] / value["sink_queries"] for value in values)
            checks.append(check(f"{who}: share of queries on open connections", reused, 0.7, least=True))
        if tool != "dnsperf":
            checks += own_counts(who, row, tool, values, bench)
    return checks


def own_counts(
    who: str, row: str, tool: str, values: list[dict[str, float]], bench: dict[str, Any]
) -> list[dict[str, Any]]:
    """Source addresses over TCP; kinds of handshakes over TLS. A source's first handshake is a full one."""
    checks = []
    if bench["bench"] == "tcp" and (row == "one-query" or tool == "reprise-many"):
        wanted = min(bench["sources"], 2000) if bench["quick"] else bench["sources"]
        seen = min(value["sink_sources"] for value in values)
        checks.append(check(f"{who}: source addresses at the server", seen, wanted, least=True))
    if row == "full":
        most = max(value["sink_resumed"] for value in values)
        checks.append(check(f"{who}: resumed handshakes", most, 0, least=False))
    if row == "resumed":
        least = min(value["sink_resumed"] / value["sink_connections"] for value in values)
        wanted = 0.8 if bench["quick"] else 0.98
        checks.append(check(f"{who}: share of connections resumed", least, wanted, least=True))
    if row == "early-data":
        least = min(value["sink_early_data"] for value in values)
        checks.append(check(f"{who}: connections with early data", least, 1, least=True))
    return checks


# --- hold -------------------------------------------------------------------------------------------------


def hold(folder: pathlib.Path, run: Run, bench: dict[str, Any], table: Table) -> list[dict[str, Any]]:
    """Connections that stood on both sides, and for how long; what they cost."""
    rows = readings(folder)
    wanted = min(bench["sources"], 2000) if bench["quick"] else bench["sources"]
    held, seconds = standing(rows, wanted)
    who = "hold: reprise"
    for side in ("client", "server"):
        table["hold", "reprise", f"connections {side}"] = [min(held[side], default=0)]
    table["hold", "reprise", "s held"] = [seconds]
    table["hold", "reprise", "bytes slab/socket"] = [slab(rows) / (2 * wanted)]
    descriptors, memory = queriers(rows)
    table["hold", "reprise", "descriptors/querier"] = [descriptors]
    table["hold", "reprise", "MB RSS of queriers"] = [memory / 10**6]
    table["hold", "reprise", "bytes RSS/connection"] = growth(rows)
    sink = json.loads((folder / "sink.out").read_text())
    length = bench["seconds"] or (2 if bench["quick"] else 60)
    bad = sink["failed"] + sink["closed_idle"]
    queries = json.loads((folder / "controller.json").read_text())["queries"]
    return [
        check(f"{who}: s with all connections established on both sides", seconds, length, least=True),
        check(f"{who}: most connections open at the sink", sink["peak_open"], wanted, least=True),
        check(f"{who}: connections opened anew", sink["connections"] - wanted, 0, least=False),
        check(f"{who}: connections that ended otherwise than by the client", bad, 0, least=False),
        check(f"{who}: unanswered", queries["handed"] - queries["answered"], 0, least=False),
    ]


def standing(rows: list[dict[str, Any]], wanted: int) -> tuple[dict[str, list[int]], float]:
    """Counts of both sides while both have all connections, and from the first to the last such reading."""
    client, server = (
        [row for row in rows if row["kind"] == "sockets" and row["who"] == side]
        for side in ("client", "server")
    )
    held: dict[str, list[int]] = {"client": [], "server": []}
    times = []
    for ours, theirs in zip(client, server, strict=False):
        both = (ours["established"] - CONTROL_LINKS, theirs["established"])
        if min(both) >= wanted:
            held["client"].append(both[0])
            held["server"].append(both[1])
            times += [ours["begin_ns"], theirs["mono_ns"]]
    return held, (times[-1] - times[0]) / NS if times else 0.0


def slab(rows: list[dict[str, Any]]) -> int:
    """Bytes by which the kernel's slabs grew at the most."""
    sizes = {"before": [0], "during": [0]}
    for row in rows:
        if row["kind"] == "meminfo":
            sizes[row["when"]].append(kilobytes(row["text"], "Slab"))
    return 1024 * (max(sizes["during"]) - max(sizes["before"]))


def queriers(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Most descriptors of a querier; bytes of all of them together at their most."""
    found = [row for row in rows if row["kind"] == "process"]
    peak: dict[str, int] = collections.defaultdict(int)
    for row in found:
        peak[row["who"]] = max(peak[row["who"]], kilobytes(row["smaps"], "Rss"))
    return max((row["descriptors"] for row in found), default=0), 1024 * sum(peak.values())


def growth(rows: list[dict[str, Any]]) -> list[float]:
    """Bytes that the queriers grew for each connection, between the readings of fewest and most."""
    points: list[list[int]] = []
    for row in rows:
        if row["kind"] == "sockets" and row["who"] == "client":
            points.append([row["established"], 0])
        elif row["kind"] == "process" and points:
            points[-1][1] += 1024 * kilobytes(row["smaps"], "Rss")
    first = next((point for point in points if point[1]), [0, 0])
    last = max(points, default=first)
    return [(last[1] - first[1]) / (last[0] - first[0])] if last[0] > 2 * first[0] else []


def kilobytes(text: str, name: str) -> int:
    """A line `NAME:  N kB`."""
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


# --- segments ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Segment:
    """A captured packet: its payload, and the DNS messages that end in it by id and name."""

    time: int
    stream: str
    asks: bool  # from the client
    syn: bool
    bare: bool  # an acknowledgement and nothing else
    place: int  # in its direction's stream of bytes
    size: int
    whole: int  # bytes of the messages (with their lengths) or TLS records that end in it
    messages: tuple[tuple[str, ...], ...]


def segments(
    top: pathlib.Path, run: Run, bench: dict[str, Any], spans: Spans, table: Table
) -> list[dict[str, Any]]:
    """Every query travels in one segment of its own, and none is held back."""
    folder = top / run["folder"]
    seen = captured(folder)
    sent = [segment for segment in seen if segment.asks]
    asking = [segment for segment in sent if segment.messages]
    due = due_times(top / "traces" / "proof.pcap")
    who = f"segments: {run['tool']}"
    missing = len(set(due) - {key for segment in asking for key in segment.messages})
    broken = sum(not one_whole_query(segment) for segment in asking)
    if bench["bench"] == "tcp":  # over TLS the handshake has segments without a query
        broken += sum(not segment.messages for segment in sent if segment.size)
    checks = [
        check(f"{who}: queries not in the capture", missing, 0, least=False),
        check(f"{who}: queries not in one segment of their own", broken, 0, least=False),
        check(f"{who}: packets that the capture dropped", dropped(folder), 0, least=False),
        *by_kind(who, run["tool"], sent, seen),
    ]
    late = lateness(folder, asking, due, spans)
    most, usual = (quantile(late, share) / 10**6 if late else -1.0 for share in (1.0, 0.99))
    table["segments", run["tool"], "ms late at most"] = [most]
    table["segments", run["tool"], "ms late p99"] = [usual]
    if not bench["quick"]:
        name = f"{who}: queries in seconds without steal"
        checks.append(check(name, len(late), 1, least=True))
        name = f"{who}: 99th percentile of their lateness in ms"
        checks.append(check(name, usual, STALL_NS / 10**6, least=False))
        held = stalls(seen, due, start_of(folder))
        checks.append(check(f"{who}: queries held back for an acknowledgement", held, 0, least=False))
    return checks


def one_whole_query(segment: Segment) -> bool:
    """One message, and nothing of another."""
    return len(segment.messages) == 1 and segment.whole == segment.size


def by_kind(who: str, tool: str, sent: list[Segment], seen: list[Segment]) -> list[dict[str, Any]]:
    """Either each query has a connection of its own, or they share them without waiting for answers."""
    asking = collections.Counter(segment.stream for segment in sent if segment.messages)
    opened = {segment.stream for segment in sent if segment.syn}
    if tool == "one-query":
        odd = sum(asking[stream] != 1 for stream in opened | set(asking)) + len(set(asking) - opened)
        return [check(f"{who}: connections without exactly one SYN and query", odd, 0, least=False)]
    name = f"{who}: queries for each SYN"
    shared = check(name, asking.total() / max(len(opened), 1), 5, least=True)
    name = f"{who}: share of queries sent before the answer to the one before"
    return [shared, check(name, pipelined(seen) / max(asking.total(), 1), 0.5, least=True)]


def pipelined(seen: list[Segment]) -> int:
    """Queries on connections that still wait for an answer."""
    waiting: dict[str, int] = collections.Counter()
    found = 0
    for segment in seen:
        if segment.asks and segment.messages:
            found += waiting[segment.stream] > 0
        waiting[segment.stream] += len(segment.messages) * (1 if segment.asks else -1)
    return found


def lateness(
    folder: pathlib.Path, asking: list[Segment], due: dict[tuple[str, ...], int], spans: Spans
) -> list[int]:
    """Arrival minus due time in ns, in order of size, of the queries that no steal can have touched."""
    start = start_of(folder)
    late = []
    for segment in asking:
        moment = start + due.get(segment.messages[0], 0)
        if not touched(spans, moment - NS, max(moment, segment.time) + NS // 10):
            late.append(segment.time - moment)
    return sorted(late)


def stalls(seen: list[Segment], due: dict[tuple[str, ...], int], start: int) -> int:
    """Queries over 30 ms late that came right behind a bare acknowledgement: it let them go."""
    freed: dict[str, int] = {}
    found = 0
    for segment in seen:
        if segment.bare and not segment.asks:
            freed[segment.stream] = segment.time
        elif segment.asks and segment.messages:
            moment = start + due.get(segment.messages[0], 0)
            behind = segment.time - freed.get(segment.stream, 0)
            found += segment.time - moment > STALL_NS and behind < AT_ONCE_NS
    return found


def start_of(folder: pathlib.Path) -> int:
    """When the first query was due, CLOCK_REALTIME."""
    return int(json.loads((folder / "controller.json").read_text())["start"]["real_ns"])


def captured(folder: pathlib.Path) -> list[Segment]:
    """The packets of the run's capture; TLS is read with the secrets that the sink wrote.

    What the kernel sent again is left out: it does so where the server is slow to acknowledge.
    """
    keys = folder / "keys.txt"
    options = ["-o", f"tls.keylog_file:{keys}"] if keys.exists() else []
    rows = tshark(folder / "capture.pcap.zst", (*FIELDS, *DNS_FIELDS), options)
    first: dict[tuple[str, bool, int, int, int], Segment] = {}
    for row in rows:
        segment = segment_of(row)
        number = len(first) if segment.bare else 0  # each tells something of its own
        first.setdefault((segment.stream, segment.asks, segment.place, segment.size, number), segment)
    return list(first.values())


def segment_of(row: list[str]) -> Segment:
    """Of a line of FIELDS and DNS_FIELDS."""
    time, stream, port, flags, place, size, records, lengths, *names = row
    heads, parts = (5, records) if records else (2, lengths)
    sizes = [int(part) + heads for part in parts.split(",") if part]
    ids, questions = (text.split(",") if text else [] for text in names)
    return Segment(
        time=nanoseconds(time),
        stream=stream,
        asks=port in SERVER_PORTS,
        syn=int(flags, 16) & SYN_ACK == SYN,
        bare=int(flags, 16) == ACK and size == "0",
        place=int(place),
        size=int(size),
        whole=sum(sizes),
        messages=tuple(zip(ids, questions, strict=False)),
    )


def due_times(path: pathlib.Path) -> dict[tuple[str, ...], int]:
    """Of each query of the trace by id and name, in ns from the first."""
    rows = tshark(path, ("frame.time_epoch", *DNS_FIELDS[1:]), [])
    first = nanoseconds(rows[0][0])
    return {tuple(key): nanoseconds(time) - first for time, *key in rows}


def tshark(path: pathlib.Path, fields: tuple[str, ...], options: list[str]) -> list[list[str]]:
    """The fields of each packet."""
    argv = ["tshark", "-n", "-r", str(path), *options, "-T", "fields"]
    for field in fields:
        argv += ["-e", field]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in out.splitlines()]


def dropped(folder: pathlib.Path) -> int:
    """Packets, as tcpdump says at its end; 1 where it says nothing."""
    found = re.findall(r"(\d+) packets? dropped by kernel", (folder / "tcpdump.err").read_text())
    return int(found[-1]) if found else 1
