"""What recompute.py reads of runs with connections: those that were held, and captured segments."""

import collections
import pathlib
import re
from dataclasses import dataclass

from bench.recompute_runs import (
    NS,
    Bench,
    Rows,
    Run,
    Spans,
    Values,
    dropped,
    loaded,
    nanoseconds,
    quantile,
    readings,
    start_of,
    touched,
    tshark,
)

STALL_NS = 30 * 10**6  # an acknowledgement that is held back comes after 40 ms
AT_ONCE_NS = 10**6
CONTROL_LINKS = 1  # the client's TCP connection to its controller
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

# --- hold -------------------------------------------------------------------------------------------------


def hold(bench: Bench, folder: pathlib.Path, _: Run) -> Values:
    """Connections that stood on both sides, and for how long; what they cost."""
    rows, sink = readings(folder), loaded(folder / "sink.out")
    wanted = bench.sources(2000)
    held, seconds = standing(rows, wanted)
    descriptors, memory = queriers(rows)
    queries = loaded(folder / "controller.json")["queries"]
    return {
        "client": min(held["client"], default=0),
        "server": min(held["server"], default=0),
        "seconds": seconds,
        "slab": slab(rows) / (2 * wanted),
        "descriptors": descriptors,
        "memory": memory / 10**6,
        "growth": growth(rows),
        "length": bench.info["seconds"] or (2 if bench.info["quick"] else 60),
        "peak": sink["peak_open"],
        "wanted": wanted,
        "anew": sink["connections"] - wanted,
        "bad": sink["failed"],
        "unanswered": queries["handed"] - queries["answered"],
    }


def standing(rows: Rows, wanted: int) -> tuple[dict[str, list[int]], float]:
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


def slab(rows: Rows) -> int:
    """Bytes by which the kernel's slabs grew at the most."""
    sizes = {"before": [0], "during": [0]}
    for row in rows:
        if row["kind"] == "meminfo":
            sizes[row["when"]].append(kilobytes(row["text"], "Slab"))
    return 1024 * (max(sizes["during"]) - max(sizes["before"]))


def queriers(rows: Rows) -> tuple[int, int]:
    """Most descriptors of a querier; bytes of all of them together at their most."""
    found = [row for row in rows if row["kind"] == "process"]
    peak: dict[str, int] = collections.defaultdict(int)
    for row in found:
        peak[row["who"]] = max(peak[row["who"]], kilobytes(row["smaps"], "Rss"))
    return max((row["descriptors"] for row in found), default=0), 1024 * sum(peak.values())


def growth(rows: Rows) -> float | None:
    """Bytes that the queriers grew for each connection, between the readings of fewest and most."""
    points: list[list[int]] = []
    for row in rows:
        if row["kind"] == "sockets" and row["who"] == "client":
            points.append([row["established"], 0])
        elif row["kind"] == "process" and points:
            points[-1][1] += 1024 * kilobytes(row["smaps"], "Rss")
    first = next((point for point in points if point[1]), [0, 0])
    last = max(points, default=first)
    return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > 2 * first[0] else None


def kilobytes(text: str, name: str) -> int:
    """A line `NAME:  N kB`."""
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


# --- segments ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """A captured packet: its payload, and the DNS messages that end in it by id and name."""

    time: int
    connection: str
    asks: bool  # from the client
    syn: bool
    bare: bool  # an acknowledgement and nothing else
    place: int  # in its direction's bytes
    size: int
    whole: int  # bytes of the messages (with their lengths) or TLS records that end in it
    messages: tuple[tuple[str, ...], ...]


def segments(bench: Bench, folder: pathlib.Path, run: Run) -> Values:
    """Whether every query travels in one segment of its own, and none is held back."""
    seen = captured(folder)
    sent = [segment for segment in seen if segment.asks]
    asking = [segment for segment in sent if segment.messages]
    due = due_times(bench.top / "traces" / "proof.pcap")
    broken = sum(not one_whole_query(segment) for segment in asking)
    if bench.info["bench"] == "tcp":  # over TLS the handshake has segments without a query
        broken += sum(not segment.messages for segment in sent if segment.size)
    late = lateness(folder, asking, due, bench.spans)
    count = collections.Counter(segment.connection for segment in asking)
    opened = {segment.connection for segment in sent if segment.syn}
    odd = sum(count[connection] != 1 for connection in opened | set(count)) + len(set(count) - opened)
    return {
        "missing": len(set(due) - {key for segment in asking for key in segment.messages}),
        "broken": broken,
        "dropped": dropped(folder),
        "odd": odd,
        "shared": count.total() / max(len(opened), 1),
        "pipelined": pipelined(seen) / max(count.total(), 1),
        "clean": len(late),
        "most": quantile(late, 1.0) / 10**6 if late else -1.0,
        "usual": quantile(late, 0.99) / 10**6 if late else -1.0,
        "held": stalls(seen, due, start_of(folder)),
    }


def one_whole_query(segment: Segment) -> bool:
    """One message, and nothing of another."""
    return len(segment.messages) == 1 and segment.whole == segment.size


def pipelined(seen: list[Segment]) -> int:
    """Queries on connections that still wait for an answer."""
    waiting: dict[str, int] = collections.Counter()
    found = 0
    for segment in seen:
        if segment.asks and segment.messages:
            found += waiting[segment.connection] > 0
        waiting[segment.connection] += len(segment.messages) * (1 if segment.asks else -1)
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
            freed[segment.connection] = segment.time
        elif segment.asks and segment.messages:
            moment = start + due.get(segment.messages[0], 0)
            behind = segment.time - freed.get(segment.connection, 0)
            found += segment.time - moment > STALL_NS and behind < AT_ONCE_NS
    return found


def captured(folder: pathlib.Path) -> list[Segment]:
    """The packets of the run's capture; TLS is read with the secrets that the sink wrote.

    What the kernel sent again is left out: it does so where the server is slow to acknowledge.
    """
    keys = folder / "keys.txt"
    options = ("-o", f"tls.keylog_file:{keys}") if keys.exists() else ()
    rows = tshark(folder / "capture.pcap.zst", (*FIELDS, *DNS_FIELDS), *options)
    first: dict[tuple[str, bool, int, int, int], Segment] = {}
    for row in rows:
        segment = segment_of(row)
        number = len(first) if segment.bare else 0  # each tells something of its own
        first.setdefault((segment.connection, segment.asks, segment.place, segment.size, number), segment)
    return list(first.values())


def segment_of(row: list[str]) -> Segment:
    """Of a line of FIELDS and DNS_FIELDS."""
    time, connection, port, flags, place, size, records, lengths, *names = row
    heads, parts = (5, records) if records else (2, lengths)
    sizes = [int(part) + heads for part in parts.split(",") if part]
    ids, questions = (text.split(",") if text else [] for text in names)
    return Segment(
        time=nanoseconds(time),
        connection=connection,
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
    rows = tshark(path, ("frame.time_epoch", *DNS_FIELDS[1:]))
    first = nanoseconds(rows[0][0])
    return {tuple(key): nanoseconds(time) - first for time, *key in rows}
