"""papers.json of a run: figures that the papers have and summary.json lacks. It is made once for each clean
run whose arrivals are known.
"""

import ipaddress
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from report import series, server, whole_file
from report.errors import ReportError
from report.papers import arrivals
from report.rqfile import MARK_OPENED, NEVER, Status, windows
from report.run import Json, Run, as_json, as_list
from report.server import Floats, Series
from report.tally import Measured, measure

FILE = "papers.json"
_SCHEMA = 4
_PUBLISHED_RATE = 37_037  # queries/s of B-Root-16
_TIME_WAIT_S = 60
_PART_S = 2
_INTERVAL_S = 10  # in which CPU time is counted, as by statelessTCP
_SLOW_MS = 1_000  # a lookup that takes longer is slow
_ASKED = (Status.ANSWERED, Status.TIMED_OUT, Status.CONNECTION_FAILED)
_MAGIC = 0xA1B23C4D  # of a capture with nanoseconds
_BEFORE_IP = {1: 14, 113: 16, 276: 20}  # bytes, by link type: Ethernet, tcpdump's two of interface "any"


def figures_of(folder: Path, with_arrivals: bool = True) -> Json:
    """Those of summary.json and, of a clean run, papers.json. Raises ReportError where a summary lacks."""
    summary, known = series.summary_of(folder), as_json(folder / FILE)
    if not summary["clean"]:  # it may lack what papers.json is made of
        return summary
    if known.get("schema") != _SCHEMA:
        known = of(measure(Run(folder)), summary, with_arrivals)
        if "problem" not in known["arrival"]:
            whole_file.write(folder / FILE, json.dumps(known) + "\n")
    return {**summary, **known}


def of(measured: Measured, summary: Json, with_arrivals: bool) -> Json:
    return {
        "schema": _SCHEMA,
        "arrival": _arrivals(measured) if with_arrivals else {},
        "load": _load(measured, summary),
        "state": _state(measured, summary),
        "nodes": lookups(measured, summary),
        "cpu": _cpu(measured, summary),
        "sessions": _sessions(measured, summary),
    }


def _arrivals(measured: Measured) -> Json:
    """`problem` says why there are none."""
    try:
        return arrivals.of(measured.run, measured.warmup_ns, measured.tally.sent)
    except ReportError as error:
        return {"problem": str(error)}


def _load(measured: Measured, summary: Json) -> Json:
    """What server and clients had to do. Shares are of 1; `sent_flatness` is half the distance between the
    5th and the 95th percentile of the rate in parts of 2 s, as a share of its median.
    """
    run, tally = measured.run, measured.tally
    begin, end = measured.warmup_ns / 1e9, tally.last_ns / 1e9
    cores = {one["machine"]: one["cores"] or 0 for one in summary["hosts"] if one["role"] == "server"}
    used = _growth(server.summed(server.process_series(run, "cpu_s")), _bounds(measured))
    in_parts = tally.sends.per(int(_PART_S * 1e9), int(end / _PART_S))[int(-(-begin // _PART_S)) :]
    sent = _spread(in_parts / _PART_S)
    query_mbps, response_mbps = (
        server.rate_of(server.host_series(run, name)).between(begin, end) * 8e-6
        for name in ("rx_bytes", "tx_bytes")
    )
    cost, answered = summary["cpu_us_per_query"], max(1, summary["queries"]["answered"])
    rate = tally.sent / max(tally.span_ns / 1e9, 1e-9)
    scaled = float(np.median(response_mbps)) * _PUBLISHED_RATE / rate if len(response_mbps) else None
    return {
        "sent_per_s": sent,
        "sent_flatness": (sent["p95"] - sent["p5"]) / 2 / sent["median"] if sent.get("median") else None,
        "query_mbps": _spread(query_mbps),
        "response_mbps": _spread(response_mbps),
        "response_mbps_scaled": scaled,
        "server_cpu_share": _spread(used / _INTERVAL_S / (sum(cores.values()) or 1)),
        "client_us_per_query": sum(cost.get(role) or 0.0 for role in ("controller", "querier")),
        "busiest": _busiest(measured, end),
        "truncated_share": sum(summary["truncated_by_transport"].values()) / answered,
        "fallback_share": summary["tcp_fallbacks"] / max(1, summary["queries"]["sent"]),
    }


def _spread(values: Floats) -> Json:
    """As boxes show it, by nearest ranks; empty without values."""
    if not len(values):
        return {}
    names = {"min": 0, "p5": 5, "q1": 25, "median": 50, "q3": 75, "p95": 95, "max": 100}
    found = np.percentile(values, list(names.values()), method="inverted_cdf")
    return {"count": len(values), **dict(zip(names, found.tolist(), strict=True))}


def _busiest(measured: Measured, span_s: float) -> Json:
    """The program of the clients and the controller that used most of a core."""
    used = {f"querier {one.host}/{one.querier}": one.statistics.get("cpu_s") or 0.0 for one in measured.files}
    used["controller"] = measured.run.controller.get("cpu_s") or 0.0
    name = max(used, key=lambda one: used[one])
    return {"name": name, "share": used[name] / max(span_s, 1e-9)}


def _state(measured: Measured, summary: Json) -> Json:
    """Connections in the second half of the replay, at the server."""
    run, half_s, end_s = measured.run, measured.tally.span_ns / 2e9, measured.tally.span_ns / 1e9
    established, waiting = (server.host_series(run, f"tcp_{name}") for name in ("established", "time_wait"))
    standing, closing = (one.between(half_s, end_s) for one in (established, waiting))
    if not standing.any():
        return {}
    both, memory = standing + closing, summary["server_memory"]["all"]
    connections, usual = float(np.median(both)), float(np.median(standing))
    rtt_ms = run.setting("rtt.rtt_ms")
    return {
        "established": usual,
        "time_wait": float(np.median(closing)),
        "connections": connections,
        "bytes_per_connection": memory / connections if memory and connections else None,
        "established_share": float(np.median(standing / np.maximum(both, 1))),
        "time_wait_of_closed": _of_closed(measured, established, waiting, half_s, end_s),
        "queries_per_rtt": measured.tally.sent / end_s / usual * rtt_ms / 1000 if rtt_ms and usual else None,
    }


def _cpu(measured: Measured, summary: Json) -> Json:
    """Seconds of CPU in each whole interval of 10 s after the warm-up: the kernel's for packets that no
    process was charged for, the server's processes' with their system calls, the same without the time of a
    front's program for answers, where it was measured, in equal parts, the front's, and all; empty where
    nobody sampled.
    """
    run, bounds = measured.run, _bounds(measured)
    own = server.server_processes(run)

    def spent(column: str, of_server: bool) -> Floats:
        parts = [one for one in server.process_series(run, column) if (one.name in own) is of_server]
        return _growth(server.summed(parts), bounds)

    kernel = _growth(server.host_series(run, "uncharged_s"), bounds)
    if not kernel.any():
        return {}
    process, front = (spent("cpu_s", which) - spent("elsewhere_s", which) for which in (True, False))
    sent = (summary["front"].get("out_seconds") or 0.0) * _INTERVAL_S / (max(measured.tally.span_ns, 1) / 1e9)
    parts = {"kernel_s": kernel, "server_s": process, "server_alone_s": process - sent, "front_s": front}
    parts["total_s"] = kernel + process + front
    return {name: one.tolist() for name, one in parts.items()}


def _bounds(measured: Measured) -> Floats:
    """Of the whole intervals after the warm-up, in seconds."""
    return np.arange(measured.warmup_ns / 1e9, measured.tally.last_ns / 1e9 + 0.5, _INTERVAL_S)


def _growth(series: Series, bounds: Floats) -> Floats:
    """Of a counter from each bound to the next."""
    if not len(series.times):
        return np.zeros(max(0, len(bounds) - 1))
    return np.diff(np.interp(bounds, series.times, series.values))


def _sessions(measured: Measured, summary: Json) -> Json:
    """Connections with one query at once, as the clients see them: from the SYN to the answer. `bytes`: what
    a session takes at the server: an entry of the front, or half of what the kernel's objects have grown by
    for each established connection, as both of its ends are on this machine.
    """
    begin, end = measured.warmup_ns, measured.tally.last_ns
    came, lives = _opening(measured, "received", "latency")
    answered = (lives != NEVER) & (came >= begin)  # NEVER is before all
    came, lives = came[answered], lives[answered]
    entry, growth = summary["front"]["bytes_per_entry"], summary["server_memory"]["kernel_objects"]
    standing = server.host_series(measured.run, "tcp_established").between(end / 2e9, end / 1e9)
    established = float(np.median(standing)) if len(standing) else 0.0
    held = growth / 2 / established if growth and established else None
    if not len(came):
        return {"bytes": entry or held}
    order = np.argsort(np.concatenate([came - lives, came]), kind="stable")
    steps = np.concatenate([np.ones(len(came), np.int64), -np.ones(len(came), np.int64)])[order]
    return {
        "mean": float(lives.sum() / (end - begin)),
        "max": int(np.cumsum(steps).max()),
        "life_us": float(lives.mean() / 1e3),
        "bytes": entry or held,
    }


def _opening(measured: Measured, *names: str) -> list[NDArray[np.int64]]:
    """These times of queries for which a connection was opened, in ns; NEVER where that was not."""
    found = [[np.zeros(0, np.int64)] * len(names)]
    for one in windows(measured.files):
        opened = one.marks & MARK_OPENED != 0
        found.append([getattr(one, name)[opened] for name in names])
    return [np.concatenate(column) for column in zip(*found, strict=True)]


def _of_closed(
    measured: Measured, established: Series, waiting: Series, begin_s: float, end_s: float
) -> float | None:
    """TIME-WAIT over what had closed in the minute before: what was opened and is no more established."""
    (sent,) = _opening(measured, "sent")
    opened = np.sort(sent[sent != NEVER])
    times, standing = established.times, established.values
    closed = np.searchsorted(opened, times * 1e9) - standing
    before = np.interp(times - _TIME_WAIT_S, times, closed)
    held = (times > max(begin_s, _TIME_WAIT_S)) & (times <= end_s) & (closed > before)
    ratios = waiting.values[held] / (closed - before)[held]
    return float(np.median(ratios)) if len(ratios) else None


# --- nodes ------------------------------------------------------------------------------------------------


def lookups(measured: Measured, summary: Json) -> Json:
    """Of runs with a resolver for each node, what each node waited for, and the packets of a query; empty for
    a run with one resolver, or none. A node is a source of the trace. Its time in lookups is that of all its
    queries that were due after the warm-up: from when a query was due to its answer, or the whole timeout
    where no answer came.
    """
    run = measured.run
    if len(as_list(run.setting("hierarchy.resolver"))) < 2:
        return {}
    timeout_ns = int((run.setting("replay.timeout_s") or 5) * 1e9)
    sources, waited = [], []
    for window in windows(measured.files):
        kept = np.isin(window.status, _ASKED) & (window.due >= measured.warmup_ns)
        answered = window.status == Status.ANSWERED
        whole = np.where(answered, window.received - np.minimum(window.due, window.sent), timeout_ns)
        sources.append(window.source[kept])
        waited.append(whole[kept])
    nodes, places = np.unique(np.concatenate(sources), return_inverse=True)
    spent = np.concatenate(waited).astype(np.float64)
    total = np.bincount(places, spent, len(nodes))
    slow = float(spent[spent > _SLOW_MS * 1e6].sum())
    sent = next((one["queries"]["sent"] for one in summary["hosts"] if one["role"] == "client"), 0)
    packets = _packets(run)
    return {
        "lookup_us": (total / np.maximum(np.bincount(places, minlength=len(nodes)), 1) / 1e3).tolist(),
        "slow_s": slow / 1e9,
        "slow_share": slow / max(float(total.sum()), 1.0),
        "packets_per_query": packets / sent if packets and sent else None,
    }


def _packets(run: Run) -> int:
    """Between the first client and its resolver since the start; what other nodes asked that resolver as
    their peer is left out.
    """
    path, begin_ns = run.folder / arrivals.CAPTURE, run.told("start")["real_ns"]
    texts = map(str, as_list(run.setting("replay.peers")))
    hosts = (one.partition(":" if one.count(":") == 1 else "]")[0].lstrip("[") for one in texts)
    peers = {ipaddress.ip_address(one).packed for one in hosts}
    ends = _ends(path) if path.is_file() else ()
    return sum(at >= begin_ns and not {source, target} & peers for at, source, target in ends)


def _ends(path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """Time, source and target of each packet of a capture of ours."""
    data = path.read_bytes()
    magic, link = struct.unpack_from("<I16xI", data) if len(data) >= 24 else (0, 0)
    skip, at = _BEFORE_IP.get(link), 24
    while magic == _MAGIC and skip is not None and at + 16 <= len(data):
        seconds, rest, size, _ = struct.unpack_from("<IIII", data, at)
        packet = data[at + 16 + skip : at + 16 + size]
        at += 16 + size
        if packet and packet[0] >> 4 == 4:
            yield seconds * 1_000_000_000 + rest, packet[12:16], packet[16:20]
        elif packet:
            yield seconds * 1_000_000_000 + rest, packet[8:24], packet[24:40]
