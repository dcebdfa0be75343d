"""Reads and writes small packet captures for the tests: nanosecond pcap, raw IP or Ethernet, UDP and TCP.

It shares no code with the programs that it checks.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

UDP, TCP = 17, 6
_MAGIC = 0xA1B23C4D
_RAW, _ETHERNET = 101, 1


@dataclass(frozen=True)
class Packet:
    """One UDP or TCP packet; time in nanoseconds since the epoch."""

    time: int
    protocol: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    payload: bytes

    @property
    def is_query(self) -> bool:
        """A DNS query in one UDP packet."""
        return self.protocol == UDP and len(self.payload) >= 12 and not self.payload[2] & 0x80

    @property
    def ident(self) -> int:
        """The DNS id of a UDP message."""
        return int.from_bytes(self.payload[:2], "big")


def read(path: Path) -> list[Packet]:
    """The UDP and TCP packets of a capture, in file order; a packet cut at the end is left out."""
    data = path.read_bytes()
    if len(data) < 24:
        return []
    magic, *_, link = struct.unpack_from("<IHHiIII", data)
    assert magic == _MAGIC, f"{path} is no nanosecond pcap"
    assert link in (_RAW, _ETHERNET)
    at, found = 24, []
    while at + 16 <= len(data):
        seconds, nanoseconds, size, _ = struct.unpack_from("<IIII", data, at)
        body = data[at + 16 : at + 16 + size]
        at += 16 + size
        if at <= len(data):
            packet = _ip(seconds * 10**9 + nanoseconds, body[14:] if link == _ETHERNET else body)
            found += [packet] if packet else []
    return found


def _ip(time: int, data: bytes) -> Packet | None:
    if len(data) >= 20 and data[0] >> 4 == 4:
        start, end = (data[0] & 15) * 4, int.from_bytes(data[2:4], "big")
        return _transport(time, data[9], data[12:16], data[16:20], data[start:end])
    if len(data) >= 40 and data[0] >> 4 == 6:
        end = 40 + int.from_bytes(data[4:6], "big")
        return _transport(time, data[6], data[8:24], data[24:40], data[40:end])
    return None


def _transport(time: int, protocol: int, source: bytes, destination: bytes, data: bytes) -> Packet | None:
    if protocol not in (UDP, TCP) or len(data) < 8:
        return None
    ports = struct.unpack_from("!HH", data)
    payload = data[8:] if protocol == UDP else data[(data[12] >> 4) * 4 :]
    return Packet(
        time,
        protocol,
        str(ipaddress.ip_address(source)),
        ports[0],
        str(ipaddress.ip_address(destination)),
        ports[1],
        payload,
    )


def query(ident: int, name: str, kind: int = 1) -> bytes:
    """A DNS query of class IN."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
    return struct.pack("!HHHHHH", ident, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)


def write(path: Path, packets: Iterable[tuple[int, str, int, bytes]]) -> Path:
    """A trace of IPv4 UDP queries: (time in ns, source, port, message)."""
    out = [struct.pack("<IHHiIII", _MAGIC, 2, 4, 0, 0, 65535, _RAW)]
    for time, source, port, message in packets:
        udp = struct.pack("!HHHH", port, 53, 8 + len(message), 0) + message
        addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address("192.0.2.53").packed
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, UDP, 0) + addresses + udp
        out.append(struct.pack("<IIII", time // 10**9, time % 10**9, len(ip), len(ip)) + ip)
    path.write_bytes(b"".join(out))
    return path
