"""Counts a written trace for the mutate bench.

Usage: recompute_count.py FILE.pcap|FILE.tsv|FILE.rps

Prints {"queries": N, "sha256": "..."} after reading the whole file: a capture through capinfos, text line by
line, a stream frame by frame as docs/formats.md lays it out.
"""

import hashlib
import json
import pathlib
import struct
import subprocess
import sys


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


def main() -> int:
    """Counts one file."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: recompute_count.py FILE.pcap|FILE.tsv|FILE.rps\n")
        return 2
    path = pathlib.Path(sys.argv[1])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(json.dumps({"queries": count(path), "sha256": digest}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
