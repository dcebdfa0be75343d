"""What is sent: the same questions as dnsperf's data file and as a capture."""

import ipaddress
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

_FIRST_SOURCE = ipaddress.IPv4Address("10.0.0.1")
_SERVER = ipaddress.IPv4Address("198.19.255.53")
_START_S = 1_700_000_000
_RAW_IP = 101  # link type
_NANOSECOND_MAGIC = 0xA1B23C4D
_BATCH = 10_000
OPT = struct.pack("!BHHIH", 0, 41, 4096, 0, 0)  # for answers of up to 4,096 bytes


def name(index: int) -> str:
    return f"n{index:06d}.bench.example"


def write_dnsperf(path: Path, names: int) -> None:
    """Lines NAME TYPE; dnsperf and kxdpgun read them."""
    path.write_text("".join(f"{name(i)} A\n" for i in range(names)), encoding="ascii")


def write_pcap(
    path: Path,
    queries: int,
    sources: int,
    names: int | Sequence[str],
    gap_us: int = 1,
    kind: int = 1,
    opt: bytes = b"",
) -> None:
    """A capture of queries of one type with a fixed gap; the names, those given or so many of the data
    file's, and sources go round. Recursion is asked for, as dnsperf does; `opt`: their OPT record.
    """
    texts = [name(i) for i in range(names)] if isinstance(names, int) else names
    asked = [question_of(text, kind) for text in texts]
    write(path, (_packet(i, i * gap_us, i % sources, asked[i % len(asked)], opt) for i in range(queries)))


def write_hold(path: Path, sources: int, rate: int, hold_s: int) -> None:
    """A query from each source, so many a second, and `hold_s` after the last one more from the first."""
    question = question_of(name(0))
    step_us = 1_000_000 // rate
    times = [i * step_us for i in range(sources)]
    times.append(times[-1] + hold_s * 1_000_000)
    write(path, (_packet(i, time, i % sources, question) for i, time in enumerate(times)))


def write(path: Path, packets: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", _NANOSECOND_MAGIC, 2, 4, 0, 0, 65535, _RAW_IP))
        while batch := b"".join(islice(packets, _BATCH)):
            file.write(batch)


def datagram(time_us: int, source: tuple[int, int], target: tuple[int, int], message: bytes) -> bytes:
    """A packet with IPv4 and UDP, addresses and ports, in a capture's record. Nobody looks at checksums in a
    capture of what a host sends.
    """
    udp = struct.pack("!HHHH", source[1], target[1], 8 + len(message), 0)
    size = 28 + len(message)
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, size, 0, 0x4000, 64, 17, 0, source[0], target[0])
    second, rest = divmod(time_us, 1_000_000)
    return struct.pack("<IIII", _START_S + second, rest * 1000, size, size) + ip + udp + message


def question_of(text: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in text.split("."))
    return labels + b"\0" + struct.pack("!HH", kind, 1)


def _packet(index: int, time_us: int, source: int, question: bytes, opt: bytes = b"") -> bytes:
    dns = struct.pack("!HHHHHH", index & 0xFFFF, 0x0100, 1, 0, 0, bool(opt)) + question + opt
    client = (int(_FIRST_SOURCE) + source, 1024 + index // 65536 % 60000)
    return datagram(time_us, client, (int(_SERVER), 53), dns)
