"""Counts a written trace for the mutate bench.

Usage: recompute_count.py FILE.pcap|FILE.tsv|FILE.rps

Prints {"queries": N, "sha256": "..."} after reading the whole file: a capture through capinfos, text line by
line, a stream frame by frame as docs/formats.md lays it out.
"""

import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys

# Protobuf field 1, a number, and the head of field 2, which is last.
_HEAD = re.compile(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x80-\xff]*[\x00-\x7f]", re.DOTALL)


def count_stream(data: bytes) -> int:
    """Records that are queries; ends the script where the stream is not whole."""
    if data[:8] != b"RPSTREAM" or struct.unpack_from("<I", data, 8) != (1,):
        raise SystemExit("no stream of version 1")
    at, sizes = 16, []
    while True:
        size, digest = struct.unpack_from("<IQ", data, at)
        at += 12
        if size == 0:
            break
        sizes += _messages(data[at : at + size])
        at += size
    if digest != len(sizes) or at != len(data):
        raise SystemExit(f"the stream ends with {digest} records at byte {at}: {len(sizes)} of {len(data)}")
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


def count(path: pathlib.Path) -> int:
    """Queries of a written trace (of a capture: packets)."""
    if path.suffix in (".pcap", ".zst"):
        argv = ["capinfos", "-M", "-T", "-r", "-c", str(path)]
        return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\t")[-1])
    data = path.read_bytes()
    return data.count(b"\n") - 2 if path.suffix == ".tsv" else count_stream(data)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: recompute_count.py FILE.pcap|FILE.tsv|FILE.rps")
    file = pathlib.Path(sys.argv[1])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    print(json.dumps({"queries": count(file), "sha256": digest}))
