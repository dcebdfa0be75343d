"""Reads and writes small packet captures for the tests: nanosecond pcap, raw IP or Ethernet, UDP and TCP.

It shares no code with the programs that it checks.
"""

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

UDP, TCP = 17, 6
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
_MAGIC = 0xA1B23C4D
_RAW, _ETHERNET = 101, 1
_FILE = struct.pack("<IHHiIII", _MAGIC, 2, 4, 0, 0, 65535, _RAW)  # the header of what is written here
_SERVER, _SERVER_PORT = "192.0.2.53", 53


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
    flags: int = 0  # of TCP
    sequence: int = 0
    acknowledged: int = 0

    def has(self, flags: int) -> bool:
        """Whether all these TCP flags are set."""
        return self.flags & flags == flags

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
        if int.from_bytes(data[6:8], "big") & 0x1FFF:
            return None  # a fragment without ports
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
    payload = data[8:] if protocol == UDP else data[(data[12] >> 4) * 4 :] if len(data) >= 20 else b""
    sequence, acknowledged, _, flags = (
        struct.unpack_from("!IIBB", data, 4) if protocol == TCP and len(data) >= 20 else (0, 0, 0, 0)
    )
    return Packet(
        time,
        protocol,
        _address(source),
        ports[0],
        _address(destination),
        ports[1],
        payload,
        flags,
        sequence,
        acknowledged,
    )


@lru_cache(maxsize=1 << 16)
def _address(packed: bytes) -> str:
    return str(ipaddress.ip_address(packed))


@lru_cache(maxsize=1 << 16)
def _packed(address: str) -> bytes:
    return ipaddress.IPv4Address(address).packed


def query(ident: int, name: str, kind: int = 1) -> bytes:
    """A DNS query of class IN."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
    return struct.pack("!HHHHHH", ident, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)


def write(path: Path, packets: Iterable[tuple[int, str, int, bytes]]) -> Path:
    """A trace of IPv4 UDP queries: (time in ns, source, port, message)."""
    path.write_bytes(_FILE + b"".join(udp(*one) for one in packets))
    return path


def write_frames(path: Path, frames: Iterable[bytes]) -> Path:
    """A trace of what udp() and Client make, in the order given."""
    path.write_bytes(_FILE + b"".join(frames))
    return path


def udp(time: int, source: str, port: int, message: bytes) -> bytes:
    head = struct.pack("!HHHH", port, _SERVER_PORT, 8 + len(message), 0)
    return captured(time, source, _SERVER, UDP, head + message)


@dataclass
class Client:
    """A client's TCP connection in a trace; every method makes one or more captured packets."""

    source: str
    port: int
    sequence: int = 1_000
    peer: int = 5_000  # the server's sequence number

    def open(self, time: int) -> bytes:
        syn = self._sent(time, SYN)
        self.sequence += 1
        return syn + self._heard(time + 1_000, SYN | ACK) + self._sent(time + 2_000, ACK)

    def ask(self, time: int, message: bytes) -> bytes:
        """One segment with one query."""
        payload = struct.pack("!H", len(message)) + message
        asked = self._sent(time, ACK | PSH, payload)
        self.sequence += len(payload)
        return asked

    def fin(self, time: int) -> bytes:
        return self._sent(time, FIN | ACK)

    def rst(self, time: int) -> bytes:
        return self._sent(time, RST)

    def server_fin(self, time: int) -> bytes:
        return self._heard(time, FIN | ACK)

    def _sent(self, time: int, flags: int, payload: bytes = b"") -> bytes:
        head = tcp_head(self.port, _SERVER_PORT, self.sequence, self.peer, flags)
        return captured(time, self.source, _SERVER, TCP, head + payload)

    def _heard(self, time: int, flags: int) -> bytes:
        head = tcp_head(_SERVER_PORT, self.port, self.peer, self.sequence, flags)
        self.peer += 1 if flags & (SYN | FIN) else 0
        return captured(time, _SERVER, self.source, TCP, head)


def tcp_head(port: int, peer_port: int, sequence: int, acknowledged: int, flags: int) -> bytes:
    return struct.pack("!HHIIBBHHH", port, peer_port, sequence, acknowledged, 5 << 4, flags, 65535, 0, 0)


def captured(
    time: int, source: str, destination: str, protocol: int, body: bytes, fragment: int = 0
) -> bytes:
    """A packet of raw IPv4; `fragment` is its field of flags and offset."""
    addresses = _packed(source) + _packed(destination)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 7, fragment, 64, protocol, 0) + addresses + body
    return struct.pack("<IIII", time // 10**9, time % 10**9, len(ip), len(ip)) + ip
