"""What the formulas of recompute.py read of a run's raw files: the kernel's readings, what the tools printed,
and captures through tshark. Shares no code with Reprise or the bench.
"""

import bisect
import collections
import decimal
import functools
import hashlib
import itertools
import json
import pathlib
import re
import statistics
import struct
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

TICK_S = 0.01  # of /proc/stat and /proc/PID/stat
NS = 10**9
STALL_NS = 30 * 10**6  # an acknowledgement that is held back comes after 40 ms
AT_ONCE_NS = 10**6
SYN, ACK, SYN_ACK = 0x02, 0x10, 0x12
SERVER_PORTS = ("53", "853")
SERVER_CORE = "cpu1"
UTIME, STIME = 11, 12  # of /proc/PID/stat behind the name: user and system time in ticks
IDLE, IOWAIT, STEAL = 3, 4, 7  # of a line of /proc/stat behind the name

Reading = dict[str, Any]
Spans = list[tuple[int, int]]
Key = tuple[str, ...]  # of a query: id, name and, where it is read, type
_QUESTION = ("dns.id", "dns.qry.name", "dns.qry.type")

# --- files ------------------------------------------------------------------------------------------------


def load(path: pathlib.Path) -> Any:
    return json.loads(path.read_text())


def number(pattern: str, *paths: pathlib.Path, otherwise: float | None = None) -> float:
    """What the pattern finds in a tool's output."""
    found = re.search(pattern, "".join(path.read_text() for path in paths))
    if found is None and otherwise is None:
        raise SystemExit(f"{paths[0]}: nothing matches {pattern}")
    return float(found[1]) if found else float(otherwise or 0)


def dropped(folder: pathlib.Path) -> int:
    """Packets, as tcpdump says at its end; 1 where it says nothing."""
    found = re.findall(r"(\d+) packets? dropped by kernel", (folder / "tcpdump.err").read_text())
    return int(found[-1]) if found else 1


# --- written traces ---------------------------------------------------------------------------------------

# Protobuf field 1, a number, and the head of field 2, which is last.
_HEAD = re.compile(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x80-\xff]*[\x00-\x7f]", re.DOTALL)


def written(path: pathlib.Path) -> dict[str, Any]:
    """The queries of a trace (of a capture: packets), counted by reading all of it, and the file's digest."""
    data = path.read_bytes()
    if path.suffix == ".pcap":
        count = packets(path)
    else:
        count = data.count(b"\n") - 2 if path.suffix == ".tsv" else stream_queries(data)
    return {"queries": count, "sha256": hashlib.sha256(data).hexdigest()}


def stream_queries(data: bytes) -> int:
    """Records that are queries, frame by frame as docs/formats.md lays a stream out; it must be whole."""
    if data[:8] != b"RPSTREAM" or struct.unpack_from("<I", data, 8) != (1,):
        raise ValueError("no stream of version 1")
    at, sizes = 28, []
    while (head := struct.unpack_from("<IQ", data, at - 12))[0]:  # size, digest; at the end how many records
        sizes += _messages(data[at : at + head[0]])
        at += head[0] + 12
    if head[1] != len(sizes) or at != len(data):
        raise ValueError(f"the stream ends with {head[1]} records at byte {at}: {len(sizes)} of {len(data)}")
    return sum(size > 0 for size in sizes)


def _messages(block: bytes) -> list[int]:
    """Sizes of the messages of a block's records."""
    head = _HEAD.match(block)
    sizes, at = [], head.end() if head else 0
    while at < len(block):
        (size,) = struct.unpack_from("<I", block, at)
        addresses = sum(4 if family == 4 else 16 for family in block[at + 6 : at + 8])
        sizes.append(struct.unpack_from("<H", block, at + 48 + addresses)[0])
        at += 4 + size
    return sizes


# --- times ------------------------------------------------------------------------------------------------


def nanoseconds(text: str) -> int:
    """Of seconds with a decimal point; exact."""
    return int(decimal.Decimal(text) * NS)


def quantile(ordered: list[int], share: float, unit: int = 1, none: float | None = None) -> float | None:
    """The smallest value that at least `share` of them do not exceed, in the unit; `none` where none is."""
    index = -(-int(len(ordered) * share * 10**6) // 10**6) - 1
    return ordered[max(0, min(index, len(ordered) - 1))] / unit if ordered else none


def watched(lines: list[str]) -> tuple[Spans, dict[str, float]]:
    """The spans (CLOCK_REALTIME ns) between two readings that differ in steal, and figures: seconds of steal,
    seconds watched, and how many of them had steal.
    """
    rows = [row for line in lines if len(row := line.split()) > 10 and row[2] == "cpu"]
    seen = [(int(row[1]), int(row[10])) for row in rows]
    spans = [(a[0], b[0]) for a, b in itertools.pairwise(seen) if b[1] > a[1]]
    seconds = range(seen[0][0], seen[-1][0], NS) if seen else ()
    return spans, {
        "steal_s": round((seen[-1][1] - seen[0][1]) * TICK_S if seen else 0.0, 2),
        "seconds": len(seconds),
        "seconds_with_steal": sum(touched(spans, one, one + NS) for one in seconds),
    }


def touched(spans: Spans, begin: int, end: int) -> bool:
    """Whether some steal lies between the two moments; spans are in order and apart."""
    after = bisect.bisect_left(spans, (begin, begin))
    return any(first < end and last > begin for first, last in spans[max(0, after - 1) : after + 1])


# --- captures ---------------------------------------------------------------------------------------------


def tshark(path: pathlib.Path, *fields: str, options: tuple[str, ...] = ()) -> list[list[str]]:
    """The fields of each packet, the first of which is its time."""
    argv = ["tshark", "-n", "-r", str(path), *options, "-T", "fields", "-e", "frame.time_epoch"]
    argv += [word for field in fields for word in ("-e", field)]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in out.splitlines()]


def queries(path: pathlib.Path, *fields: str) -> list[tuple[int, Key]]:
    """Time in ns and key of every packet of a capture, in file order."""
    return [(nanoseconds(time), tuple(key)) for time, *key in tshark(path, *fields)]


@functools.cache
def asked(path: pathlib.Path) -> list[tuple[int, Key]]:
    """The queries of a trace; many runs have the same."""
    return queries(path, *_QUESTION)


def packets(path: pathlib.Path) -> int:
    """Packets of a capture, as capinfos counts them."""
    argv = ["capinfos", "-M", "-T", "-r", "-c", str(path)]
    return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\t")[-1])


def paired(first: list[tuple[int, Key]], then: list[tuple[int, Key]]) -> list[tuple[int, int]]:
    """Both times of what is in both lists: the n-th with a key in one is the n-th with it in the other."""
    times: dict[Key, collections.deque[int]] = collections.defaultdict(collections.deque)
    for time, key in then:
        times[key].append(time)
    return [(time, times[key].popleft()) for time, key in first if times[key]]


def delayed(taken: list[tuple[int, Key]], left: list[tuple[int, Key]], wanted: int) -> list[int]:
    """By how many ns the time through the delay line was not the wanted one, in order."""
    return sorted(abs(after - before - wanted) for before, after in paired(taken, left))


def errors(trace: list[tuple[int, Key]], came: list[tuple[int, Key]], start: int) -> list[tuple[int, int]]:
    """(due offset, arrival - due), all in ns, of every query that came."""
    return [(time - trace[0][0], seen - start - time + trace[0][0]) for time, seen in paired(trace, came)]


def rates(found: list[tuple[int, int]], clean: set[int], last: int) -> list[float]:
    """Of each whole second without steal: how far the number of arrivals is from the trace's, as a share."""
    due = collections.Counter(offset // NS for offset, _ in found)
    came = collections.Counter((offset + error) // NS for offset, error in found)
    return [abs(came[second] - due[second]) / due[second] for second in range(last) if second in clean]


def timing(trace: pathlib.Path, folder: pathlib.Path, start: int | None, spans: Spans) -> dict[str, Any]:
    """Errors and rates in seconds without steal; without a start the errors are centered on their median."""
    sent = asked(trace)
    came = queries(folder / "capture.pcap.zst", *_QUESTION)
    if start is None:
        start = statistics.median_low(error for _, error in errors(sent, came, 0))
    found, length = errors(sent, came, start), sent[-1][0] - sent[0][0]
    seconds = range(length // NS + 1)
    clean = {s for s in seconds if not touched(spans, start + s * NS, start + (s + 1) * NS)}
    signed = sorted(error for due, error in found if due // NS in clean)
    return {
        "signed": signed,
        "absolute": sorted(map(abs, signed)),
        "rates": rates(found, clean, length // NS) if len(sent) / max(length / NS, 1e-9) > 9_000 else [],
        "missing": len(sent) - len(found),
        "stolen": len(seconds) - len(clean),
    }


class Segment(NamedTuple):
    """A captured packet: its payload, and the DNS messages that end in it by id and name."""

    time: int
    connection: str
    asks: bool  # from the client
    syn: bool
    bare: bool  # an acknowledgement and nothing else
    place: str  # in its direction's bytes
    size: int
    whole: int  # bytes of the messages (with their lengths) or TLS records that end in it
    messages: tuple[Key, ...]


def segment_of(row: list[str]) -> Segment:
    """Of a line of tshark."""
    time, connection, port, flags, place, size, records, lengths, *names = row
    heads, parts = (5, records) if records else (2, lengths)
    whole = sum(int(part) + heads for part in parts.split(",") if part)
    messages = tuple(zip(*(text.split(",") if text else [] for text in names), strict=False))
    syn, bare = int(flags, 16) & SYN_ACK == SYN, int(flags, 16) == ACK and size == "0"
    asks = port in SERVER_PORTS
    return Segment(nanoseconds(time), connection, asks, syn, bare, place, int(size), whole, messages)


def segments(folder: pathlib.Path) -> list[Segment]:
    """The packets of the run's capture; TLS is read with the secrets that the sink wrote.

    What the kernel sent again is left out: it does so where the server is slow to acknowledge.
    """
    keys = folder / "keys.txt"
    options = ("-o", f"tls.keylog_file:{keys}") if keys.exists() else ()
    tcp = ("tcp.stream", "tcp.dstport", "tcp.flags", "tcp.seq", "tcp.len", "tls.record.length")
    names = ("dns.length", "dns.id", "dns.qry.name")
    first: dict[tuple[Any, ...], Segment] = {}
    for row in tshark(folder / "capture.pcap.zst", *tcp, *names, options=options):
        one = segment_of(row)
        number = len(first) if one.bare else 0  # each tells something of its own
        first.setdefault((one.connection, one.asks, one.place, one.size, number), one)
    return list(first.values())


def pipelined(seen: list[Segment]) -> int:
    """Queries on connections that still wait for an answer."""
    waiting: dict[str, int] = collections.Counter()
    found = 0
    for one in seen:
        found += bool(one.asks and one.messages and waiting[one.connection] > 0)
        waiting[one.connection] += len(one.messages) * (1 if one.asks else -1)
    return found


def odd(asking: list[Segment], opened: set[str]) -> int:
    """Connections without exactly one SYN and query."""
    count = collections.Counter(one.connection for one in asking)
    return sum(count[one] != 1 for one in opened | set(count)) + len(set(count) - opened)


def moments(path: pathlib.Path, start: int) -> dict[Key, int]:
    """When each query of the trace is due, by id and name."""
    found = queries(path, "dns.id", "dns.qry.name")
    return {key: start + time - found[0][0] for time, key in found}


def lateness(asking: list[Segment], due: dict[Key, int], start: int, spans: Spans) -> list[int]:
    """Arrival minus due time in ns, in order of size, of the queries that no steal can have touched."""
    both = [(due.get(one.messages[0], start), one.time) for one in asking]
    return sorted(b - a for a, b in both if not touched(spans, a - NS, max(a, b) + NS // 10))


def stalls(seen: list[Segment], due: dict[Key, int], start: int) -> int:
    """Queries over 30 ms late that came right behind a bare acknowledgement: it let them go."""
    freed: dict[str, int] = collections.Counter()
    found = 0
    for one in seen:
        if one.bare and not one.asks:
            freed[one.connection] = one.time
        elif one.asks and one.messages:
            late = one.time - due.get(one.messages[0], start)
            found += late > STALL_NS and one.time - freed[one.connection] < AT_ONCE_NS
    return found


# --- readings ---------------------------------------------------------------------------------------------


def kilobytes(text: str, name: str) -> int:
    """A line `NAME:  N kB`, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def running(row: Reading) -> float:
    """Seconds that a thread or all threads of a process ran."""
    return sum(int(text.split()[0]) for text in row.get("texts", {"": row.get("text")}).values()) / NS


def ticks(row: Reading) -> list[int]:
    """User and system time of processes together."""
    fields = [text.rpartition(")")[2].split() for text in row.get("texts", {"": row.get("text")}).values()]
    return [sum(int(each[place]) for each in fields) for place in (UTIME, STIME)]


def free(row: Reading) -> float:
    """Seconds that nobody used of the server's core."""
    (fields,) = [line.split()[1:] for line in row["text"].splitlines() if line.split()[0] == SERVER_CORE]
    return sum(int(fields[place]) for place in (IDLE, IOWAIT, STEAL)) * TICK_S


class Readings(list[Reading]):
    """Of one run, in order."""

    def all(self, **want: str) -> list[Reading]:
        return [row for row in self if all(row[key] == value for key, value in want.items())]

    def one(self, **want: str) -> Reading:
        (found,) = self.all(**want)
        return found

    def gain(self, value: Callable[[Reading], Any], who: str, kind: str, part: str = "") -> Any:
        """By how much a value grew over what is measured, or a part of it."""
        end, begin = (value(self.one(who=who, kind=kind, when=when + part)) for when in ("after", "before"))
        return end - begin

    def used(self, who: str) -> float:
        """Seconds of a process with all its threads and the children it waited for."""
        row = self.one(who=who, kind="rusage")
        return float(row["user_s"] + row["system_s"])

    def used_alone(self, who: str) -> float:
        """Seconds of a process without its children.

        schedstat is exact but of the first thread only: where the ticks of the whole process tell of more,
        they are taken.
        """
        exact, stat = (self.one(who=who, kind=kind, when="end") for kind in ("schedstat", "stat"))
        rough = sum(ticks(stat)) * TICK_S
        return running(exact) if abs(running(exact) - rough) < 5 * TICK_S else rough

    def softirq(self, side: str) -> float:
        """Seconds of the side's NAPI thread during the run."""
        who = f"napi-{side}"
        if self.gain(lambda row: row["pid"], who, "schedstat"):
            raise SystemExit(f"{who}: another thread at the end; its time is not known")
        if not (spent := self.gain(running, who, "schedstat")):
            raise SystemExit(f"{who} did nothing: somebody else was charged for what came in")
        return float(spent)

    def threads(self, who: str, part: str = "") -> float:
        """Seconds of all threads of processes."""
        return float(self.gain(running, who, "threads", part))

    def user_share(self, who: str) -> float:
        """Share of user time in what processes spent, by the kernel's ticks; 0 where there was none."""
        user = self.gain(lambda row: ticks(row)[0], who, "stats")
        both = self.gain(lambda row: sum(ticks(row)), who, "stats")
        return float(user / both) if both else 0.0

    def interface(self, who: str, name: str) -> int:
        """By how much a counter of a side's interface grew."""
        return int(self.gain(lambda row: int(row["values"][name]), who, "interface"))

    def counter(self, who: str, kind: str, group: str, name: str) -> int:
        """By how much a counter of /proc/net/snmp or netstat grew: a group has lines of names and values."""

        def value(row: Reading) -> int:
            lines = (one.split()[1:] for one in row["text"].splitlines() if one.startswith(f"{group}:"))
            return int(dict(zip(*lines, strict=True))[name])

        return int(self.gain(value, who, kind))

    def link(self) -> int:
        """Packets that passed the link, both ways."""

        def value(row: Reading) -> int:
            return sum(json.loads(row["text"])[0]["stats64"][way]["packets"] for way in ("rx", "tx"))

        return int(self.gain(value, "link", "ip"))

    def seconds(self, who: str, kind: str) -> float:
        """Seconds of processor time between two readings."""
        return float(self.gain(lambda row: row["mono_ns"], who, kind) / NS)

    def busy(self) -> float:
        """Seconds that the server's core was neither idle nor taken away, whoever used it."""
        return self.seconds("machine", "cpu") - float(self.gain(free, "machine", "cpu"))

    def slab(self, when: str) -> int:
        """Most bytes of the kernel's slabs."""
        return max((kilobytes(row["text"], "Slab") for row in self.all(kind="meminfo", when=when)), default=0)

    def standing(self, wanted: int, control: int = 1) -> list[tuple[int, int, int, int]]:
        """Counts of client (without its connection to the controller) and server while both have all
        connections, with the moments of the reading's begin and end.
        """
        sides = (self.all(kind="sockets", who=side) for side in ("client", "server"))
        both = ((a, a["established"] - control, b, b["established"]) for a, b in zip(*sides, strict=False))
        return [(m, n, a["begin_ns"], b["mono_ns"]) for a, m, b, n in both if min(m, n) >= wanted]

    def resident(self) -> int:
        """Bytes of all queriers together at their most."""
        peak: dict[str, int] = collections.Counter()
        for row in self.all(kind="process"):
            peak[row["who"]] = max(peak[row["who"]], kilobytes(row["smaps"], "Rss"))
        return sum(peak.values())

    def growth(self) -> float | None:
        """Bytes that the queriers grew for each connection, between the readings of fewest and most."""
        points: list[list[int]] = []
        for row in self:
            if row["kind"] == "sockets" and row["who"] == "client":
                points.append([row["established"], 0])
            elif row["kind"] == "process" and points:
                points[-1][1] += kilobytes(row["smaps"], "Rss")
        first = next((point for point in points if point[1]), [0, 0])
        last = max(points, default=first)
        return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > 2 * first[0] else None


def readings(folder: pathlib.Path) -> Readings:
    return Readings(map(json.loads, (folder / "readings.jsonl").read_text().splitlines()))


def view(folder: pathlib.Path, rows: Readings, place: str) -> tuple[float, int]:
    """Processor time of named in us a query in its first or last view, and queries without an answer."""
    words, out = ("Queries sent", "Queries completed"), folder / f"dnsperf-{place}.out"
    sent, done = (int(number(rf"{word}:\s+(\d+)", out)) for word in words)
    return rows.threads("named", f"-{place}") * 10**6 / max(done, 1), sent - done
