"""Figures and checks of the mutate bench; run alone it counts a written trace.

Usage: recompute_mutate.py FILE.pcap|FILE.tsv|FILE.rps

Prints {"queries": N, "sha256": "..."} after reading the whole file: a capture through capinfos, text line by
line, a stream frame by frame as docs/formats.md lays it out.
"""

import collections
import hashlib
import json
import pathlib
import statistics
import struct
import subprocess
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from bench.recompute_base import Table, check, readings, used_with_children

# Million queries a second of processor time, by row.
_FLOORS = {"stream": 1.0, "rules": 0.7, "text": 0.5}
_SPEED_UP = 1.7


def count_stream(data: bytes) -> int:
    """Records that are queries; ends the script where the stream is not whole."""
    if data[:8] != b"RPSTREAM" or struct.unpack_from("<I", data, 8) != (1,):
        raise SystemExit("no stream of version 1")
    at, records, queries = 16, 0, 0
    while True:
        size, digest = struct.unpack_from("<IQ", data, at)
        at += 12
        if size == 0:
            break
        for message_size in _messages(data[at : at + size]):
            records += 1
            queries += message_size > 0
        at += size
    if digest != records or at != len(data):
        raise SystemExit(f"the stream ends with {digest} records at byte {at}: {records} of {len(data)}")
    return queries


def _messages(block: bytes) -> list[int]:
    """Sizes of the messages of a block's records."""
    flat = _bytes_field(block)
    sizes, at = [], 0
    while at < len(flat):
        (size,) = struct.unpack_from("<I", flat, at)
        families = flat[at + 6], flat[at + 7]
        message_at = at + 48 + sum(4 if family == 4 else 16 for family in families)
        sizes.append(struct.unpack_from("<H", flat, message_at)[0])
        at += 4 + size
    return sizes


def _bytes_field(block: bytes) -> bytes:
    """Protobuf field 2; field 1 before it is a number."""
    at = 0
    while True:
        tag = block[at]
        value, at = _varint(block, at + 1)
        if tag == 0x12:
            return block[at : at + value]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def count(path: pathlib.Path) -> int:
    """Queries of a written trace (of a capture: packets)."""
    if path.suffix in (".pcap", ".zst"):
        argv = ["capinfos", "-M", "-T", "-r", "-c", str(path)]
        return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\t")[-1])
    data = path.read_bytes()
    return data.count(b"\n") - 2 if path.suffix == ".tsv" else count_stream(data)


def mutate(top: pathlib.Path, bench: dict[str, Any]) -> dict[str, Any]:
    """Table, ratios and checks of the mutate bench."""
    table: Table = collections.defaultdict(list)
    wall: dict[tuple[str, int], dict[str, float]] = collections.defaultdict(dict)
    digests: dict[str, set[str]] = collections.defaultdict(set)
    wrong: collections.Counter[str] = collections.Counter()
    total = count(top / "traces" / "root.pcap.zst")
    for run in bench["runs"]:
        folder, row, tool = top / run["folder"], run["row"], run["tool"]
        counted = json.loads((folder / "count.json").read_text())
        spent = used_with_children(readings(folder), tool)
        table[row, tool, "M/s"].append(total / max(spent, 1e-6) / 10**6)
        table[row, tool, "s wall"].append(run["wall_s"])
        wall[row, run["repeat"]][tool] = run["wall_s"]
        digests[row].add(counted["sha256"])
        wrong[row] += abs(counted["queries"] - total)
    ratios = speed_ups(wall)
    checks = [] if bench["quick"] else claims(table, ratios)
    for row, found in digests.items():
        checks.append(check(f"{row}: queries miscounted", wrong[row], 0, least=False))
        checks.append(check(f"{row}: different outputs", len(found), 1, least=False))
    return {"table": dict(table), "ratios": ratios, "checks": checks}


def speed_ups(wall: dict[tuple[str, int], dict[str, float]]) -> Table:
    """One thread's time over two threads', repeat by repeat."""
    ratios: Table = collections.defaultdict(list)
    for (row, _), seconds in wall.items():
        if {"reprise", "reprise-jobs-2"} <= set(seconds):
            ratios[row, "reprise-jobs-2", "times faster"].append(
                seconds["reprise"] / seconds["reprise-jobs-2"]
            )
    return dict(ratios)


def claims(table: Table, ratios: Table) -> list[dict[str, Any]]:
    """What the bench promises on speed."""
    found = []
    for (row, tool, unit), values in table.items():
        if tool == "reprise" and unit == "M/s" and row in _FLOORS:
            name = f"{row}: million queries a second of processor time"
            found.append(check(name, statistics.median(values), _FLOORS[row], least=True))
    for (row, _, _), values in ratios.items():
        name = f"{row}: one thread's time over that of two"
        found.append(check(name, statistics.median(values), _SPEED_UP, least=True))
    return found


def main() -> int:
    """Counts one file."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: recompute_mutate.py FILE.pcap|FILE.tsv|FILE.rps\n")
        return 2
    path = pathlib.Path(sys.argv[1])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(json.dumps({"queries": count(path), "sha256": digest}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
