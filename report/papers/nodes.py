"""Of runs with a resolver for each node: what each node waited for, and the packets of a query.

A node is a source of the trace. Its time in lookups is that of all its queries that were due after the
warm-up: from when a query was due to its answer, or the whole timeout where no answer came.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from report.papers.arrivals import CAPTURE
from report.records import windows
from report.rqfile import Status
from report.run import Json, Run, as_dict, as_list
from report.summary import Measured

SLOW_MS = 1_000  # a lookup that takes longer is slow
_ASKED = (Status.ANSWERED, Status.TIMED_OUT, Status.CONNECTION_FAILED)
_MAGIC = 0xA1B23C4D  # of a capture with nanoseconds
_BEFORE_IP = {1: 14, 113: 16, 276: 20}  # bytes, by link type: Ethernet, tcpdump's two of interface "any"


def of(measured: Measured, summary: Json) -> Json:
    """The part `nodes` of papers.json; empty for a run with one resolver, or none."""
    run = measured.run
    if len(as_list(as_dict(run.experiment.get("hierarchy")).get("resolver"))) < 2:
        return {}
    timeout_ns = int(as_dict(run.experiment.get("replay")).get("timeout_s", 5) * 1e9)
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
    slow = float(spent[spent > SLOW_MS * 1e6].sum())
    first = next((one for one in summary["hosts"] if one["role"] == "client"), None)
    sent = first["queries"]["sent"] if first else 0
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
    path, begin_ns = run.folder / CAPTURE, run.told("start")["real_ns"]
    texts = map(str, as_list(as_dict(run.experiment.get("replay")).get("peers")))
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
