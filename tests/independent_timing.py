#!/usr/bin/env python3
"""Timing error of a run from a capture at the server, sharing no code with Reprise.

Usage: independent_timing.py RUN [TRACE]

Both captures are read by tshark. The n-th query with a given (id, name, type) in the trace is the n-th one in
the capture. It was due at the announced start + (its time in the trace - the time of the first query); its
error is the capture's time stamp minus that, so it holds the way from querier to server and all that the
records cannot see. Prints one JSON object; times in microseconds. Exit status 1 where queries are missing in
the capture.
"""

import bz2
import collections
import decimal
import gzip
import json
import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

FIELDS = ("frame.time_epoch", "dns.id", "dns.qry.name", "dns.qry.type")


def plain(path: str, folder: str) -> str:
    """The path of an uncompressed copy: tshark reads neither xz nor zst."""
    openers: dict[bytes, Any] = {b"\xfd7zXZ\x00": lzma.open, b"\x1f\x8b\x08": gzip.open, b"BZh": bz2.open}
    with pathlib.Path(path).open("rb") as file:
        head = file.read(6)
    for magic, opener in openers.items():
        if head.startswith(magic):
            copy = pathlib.Path(folder) / "trace"
            with opener(path) as packed, copy.open("wb") as out:
                shutil.copyfileobj(packed, out)
            return str(copy)
    return path


def queries(path: str, responses: bool = False) -> list[tuple[int, tuple[str, ...]]]:
    """(time in ns, key) of every DNS query, or of every response, in file order."""
    argv = [
        "tshark",
        "-r",
        path,
        "-Y",
        f"dns.flags.response=={responses:d} && !icmp && !icmpv6",
        "-T",
        "fields",
    ]
    for field in FIELDS:
        argv += ["-e", field]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = (line.split("\t") for line in out.splitlines())
    return [(int(decimal.Decimal(time) * 10**9), tuple(key)) for time, *key in rows]


def quantile(ordered: list[int], share: float) -> float:
    """The smallest value that at least `share` of the sample does not exceed, in microseconds."""
    index = max(0, -(-int(len(ordered) * share * 10**6) // 10**6) - 1)
    return ordered[min(index, len(ordered) - 1)] / 1000


def main() -> int:
    run = pathlib.Path(sys.argv[1])
    account = json.loads((run / "controller.json").read_text())
    trace = sys.argv[2] if len(sys.argv) > 2 else account["trace"]
    start = account["start"]
    seen: dict[tuple[str, ...], collections.deque[int]] = collections.defaultdict(collections.deque)
    for time, key in queries(str(run / "capture.pcap")):
        seen[key].append(time)
    errors, missing = [], 0
    with tempfile.TemporaryDirectory() as folder:
        asked = queries(plain(trace, folder))
    for time, key in asked:
        if seen[key]:
            due = start["real_ns"] + time - start["trace_first_ns"]
            errors.append(seen[key].popleft() - due)
        else:
            missing += 1
    absolute = sorted(abs(e) for e in errors)
    signed = sorted(errors)
    result = {
        "queries": len(errors) + missing,
        "missing": missing,
        "unexpected": sum(len(left) for left in seen.values()),
        "median_us": quantile(signed, 0.5),
        "abs_p50_us": quantile(absolute, 0.5),
        "abs_p99_us": quantile(absolute, 0.99),
        "abs_max_us": absolute[-1] / 1000,
    }
    print(json.dumps(result))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
