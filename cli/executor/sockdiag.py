"""TCP sockets from the kernel's sock_diag interface (netlink, sock_diag(7)): 0.1 s for 100,000 of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2
_ESTABLISHED, _LISTEN = 1, 10  # TCP_ESTABLISHED and TCP_LISTEN of the kernel
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_BUFFER = 1 << 18


def established() -> int:
    """How many sockets of this network namespace are connected, IPv4 and IPv6."""
    return sum(1 for _ in _sockets(_ESTABLISHED))


def listens(port: int) -> bool:
    """Whether any socket of this network namespace listens on `port`."""
    return any(struct.unpack_from("!H", one, 4)[0] == port for one in _sockets(_LISTEN))


def _sockets(state: int) -> Iterator[bytes]:
    """Of this network namespace, what the kernel tells of each."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as netlink:
        for family in (socket.AF_INET, socket.AF_INET6):
            body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << state)
            size = _HEADER.size + len(body)
            netlink.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
            last = False
            while not last:
                found, last = messages(netlink.recv(_BUFFER))
                yield from found


def messages(buffer: bytes) -> tuple[list[bytes], bool]:
    """Contents of the messages in a buffer of a dump, and whether it ends the dump."""
    found: list[bytes] = []
    offset = 0
    while offset + _HEADER.size <= len(buffer):
        length, kind = struct.unpack_from("=IH", buffer, offset)
        if kind == _ERROR:
            raise OSError(-struct.unpack_from("=i", buffer, offset + _HEADER.size)[0], "sock_diag")
        if kind == _DONE or length < _HEADER.size:
            return found, True
        found.append(buffer[offset + _HEADER.size : offset + length])
        offset += (length + 3) & ~3
    return found, False
