"""Writers of the result files, for tests: small, whole, and as docs/formats.md says."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from report.run import Run
from report.summary import summarize
from report.tally import measure

FIELDS = [
    ("seq", "<u8", 0),
    ("trace_ns", "<i8", 8),
    ("due_ns", "<i8", 16),
    ("send_ns", "<i8", 24),
    ("recv_ns", "<i8", 32),
    ("latency_ns", "<i8", 40),
    ("connect_ns", "<i8", 48),
    ("source", "<u4", 56),
    ("connection", "<u4", 60),
    ("reply_size", "<u4", 64),
    ("rcode", "<u2", 68),
    ("flags", "<u2", 70),
    ("marks", "<u2", 72),
    ("status", "|u1", 74),
    ("transport", "|u1", 75),
    ("query_size", "<u2", 76),
    ("reason", "|u1", 78),
    ("retries", "|u1", 79),
]
DTYPE = np.dtype(
    {
        "names": [name for name, _, _ in FIELDS],
        "formats": [kind for _, kind, _ in FIELDS],
        "offsets": [offset for _, _, offset in FIELDS],
        "itemsize": 80,
    }
)
START = 5_000_000_000_000  # the announced start of written runs, CLOCK_MONOTONIC
START_REAL = 1_700_000_000_000_000_000
TRACE_FIRST = 1_475_762_100_000_000_000


@dataclass(frozen=True)
class Query:
    """One record; times in ns since the start. `sent` None: never sent; `latency` None: no reply."""

    seq: int
    due: int
    sent: int | None = 0
    latency: int | None = 500_000
    status: int = 1
    transport: int = 0
    rcode: int = 0
    flags: int = 0x8000
    source: int = 0
    reason: int = 0
    marks: int = 0
    reply_size: int = 100
    connect: int = 0


def records(queries: Sequence[Query], start: int = START) -> np.ndarray[Any, np.dtype[np.void]]:
    rows = np.zeros(len(queries), DTYPE)
    for row, query in zip(rows, queries, strict=True):
        replied = query.status == 1 and query.sent is not None and query.latency is not None
        row["seq"], row["source"], row["transport"] = query.seq, query.source, query.transport
        row["trace_ns"], row["due_ns"] = TRACE_FIRST + query.due, start + query.due
        row["send_ns"] = 0 if query.sent is None else start + query.sent
        row["recv_ns"] = start + (query.sent or 0) + (query.latency or 0) if replied else 0
        row["latency_ns"] = (query.latency or 0) if replied else -1
        row["reply_size"] = query.reply_size if replied else 0
        row["rcode"], row["flags"] = (query.rcode, query.flags) if replied else (0xFFFF, 0)
        row["connect_ns"] = query.connect
        row["marks"], row["status"], row["reason"] = query.marks, query.status, query.reason
    return rows


def header(magic: bytes, record_size: int, values: dict[str, Any], schema: int = 1) -> bytes:
    text = json.dumps(values).encode()
    size = (24 + len(text) + 7) & ~7
    return (struct.pack("<8sIIII", magic, schema, size, record_size, len(text)) + text).ljust(size, b"\0")


def rq_bytes(
    rows: np.ndarray[Any, np.dtype[np.void]], schema: int = 1, start: int = START, **stats: Any
) -> bytes:
    head = {
        "fields": [{"name": n, "type": t, "offset": o} for n, t, o in FIELDS],
        "run": "test",
        "host": "client1",
        "querier": 0,
        "start_mono_ns": start,
        "start_real_ns": START_REAL,
        "trace_first_ns": TRACE_FIRST,
    }
    body = rows.tobytes()
    text = json.dumps({"schema": 1, "clean": True, "because": "", **stats}).encode()
    end = struct.pack("<QQII8s", len(rows), xxhash.xxh3_64(body).intdigest(), len(text), 0, b"RPRQEND1")
    return header(b"RPRQHDR1", 80, head, schema) + body + text + end


def ra_bytes(answers: Sequence[tuple[int, bytes, bytes]], kind: str = "replay") -> bytes:
    body = b""
    for seq, query, reply in answers:
        record = struct.pack("<QqIIII", seq, START_REAL, 0, len(query), len(reply), 0) + query + reply
        body += record.ljust((len(record) + 7) & ~7, b"\0")
    end = struct.pack("<QQII8s", len(answers), xxhash.xxh3_64(body).intdigest(), 0, 0, b"RPRAEND1")
    return header(b"RPRAHDR1", 0, {"kind": kind}) + body + end


def controller_json(read: int, **ends: Any) -> dict[str, Any]:
    skipped: dict[str, int] = ends.pop("skipped_by", {})
    names = ("answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")
    return {
        "schema": 1,
        "run": "test",
        "clean": True,
        "because": [],
        "trace": "trace.pcap",
        "reader": {"packets": read * 2, "queries": read, "responses": read, "trouble": None, "counters": {}},
        "queries": {"read": read, "handed": read, **{name: ends.get(name, 0) for name in names}},
        "skipped": skipped,
        "sources": 1,
        "start": {
            "mono_ns": START,
            "real_ns": START_REAL,
            "trace_first_ns": TRACE_FIRST,
            "trace_last_ns": TRACE_FIRST,
        },
        "children": [{"name": "client1", "lost": False, "same_clock": True, "queriers": 1}],
        "cpu_s": 0.5,
        "max_rss_bytes": 10_000_000,
        "duration_s": 1.0,
    }


MANIFEST: dict[str, Any] = {
    "schema": 1,
    "experiment": {
        "name": "test",
        "title": "A test",
        "trace": "trace.pcap",
        "server": {"kind": "nsd", "zone": None},
    },
    "processes": [
        {
            "id": "nsd",
            "role": "server",
            "host": "server",
            "cpu_s": 1.5,
            "max_rss_bytes": 50_000_000,
            "exit": 0,
        },
        {
            "id": "client1",
            "role": "distributor",
            "host": "client1",
            "cpu_s": 0.75,
            "max_rss_bytes": 9_000_000,
            "exit": 0,
        },
    ],
    "server_died": None,
    "steal_s": 0.0,
    "warmup_s": 0,
    "leaked_packets": 0,
    "host": {"cpus": 2},
    "versions": {"reprise": "0.1.0"},
    "commit": "0" * 40,
}

SERVER_HEADER = (
    "time_real_ns,time_mono_ns,host_cpu_s,host_steal_s,process,pid_count,cpu_s,rss_bytes,pss_bytes,fds,"
    "tcp_established,tcp_syn_recv,tcp_time_wait,tcp_fin_wait,tcp_close_wait,tcp_other,tcp_mem_bytes,udp_mem_bytes,"
    "rx_packets,tx_packets,rx_bytes,tx_bytes\n"
)


def server_csv(seconds: int, steal_at: int | None = None, process: str = "nsd") -> str:
    """One sample a second from the start; the steal counter grows once, between `steal_at` - 1 and
    `steal_at`.
    """
    lines = [SERVER_HEADER]
    for second in range(seconds + 1):
        steal = 0.01 if steal_at is not None and second >= steal_at else 0.0
        now = second * 1_000_000_000
        lines.append(
            f"{START_REAL + now},{START + now},{second * 0.5},{steal},{process},2,"
            f"{second * 0.25},60000000,40000000,20,"
            f"3,0,{second},0,0,0,4096,8192,{second * 10},{second * 10},{second * 700},{second * 900}\n"
        )
    return "".join(lines)


def write_run(
    folder: Path,
    queries: Sequence[Query],
    *,
    controller: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
    server: str | None = None,
    stats: dict[str, Any] | None = None,
) -> Path:
    """A whole, clean run unless the parts given say otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "queries-client1-0.rq").write_bytes(rq_bytes(records(queries), **(stats or {})))
    answered = sum(query.status == 1 for query in queries)
    told = controller or controller_json(len(queries), answered=answered)
    (folder / "controller.json").write_text(json.dumps(told))
    (folder / "manifest.json").write_text(json.dumps(manifest or MANIFEST))
    if server is not None:
        (folder / "server.csv").write_text(server)
    return folder


def summarized(folder: Path) -> dict[str, Any]:
    """The run's summary, which is written into its folder."""
    summary = summarize(measure(Run(folder)))
    (folder / "summary.json").write_text(json.dumps(summary))
    return summary
