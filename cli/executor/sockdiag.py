"""Socket states from the kernel's sock_diag interface (netlink, see sock_diag(7)): cheap at 100,000 sockets.

Asking for one TCP state at a time makes all answers of a dump the same length, so that they can be counted by
slicing the buffer instead of walking it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_DONE = 3
_NLMSG_ERROR = 2

ESTABLISHED, SYN_SENT, SYN_RECV, FIN_WAIT1, FIN_WAIT2, TIME_WAIT = 1, 2, 3, 4, 5, 6
CLOSE_WAIT, LAST_ACK, LISTEN, CLOSING, NEW_SYN_RECV = 8, 9, 10, 11, 12

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_BUFFER = 1 << 18


def tcp_counts(groups: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Number of TCP sockets, IPv4 and IPv6, of this network namespace for each named group of states."""
    with _open() as netlink:
        return {
            name: sum(_count(netlink, family, states) for family in (socket.AF_INET, socket.AF_INET6))
            for name, states in groups.items()
        }


def listens(port: int) -> bool:
    """Whether any TCP socket of this network namespace listens on `port`."""
    with _open() as netlink:
        for family in (socket.AF_INET, socket.AF_INET6):
            for chunk in _dump(netlink, family, 1 << LISTEN):
                if any(_local_port(message) == port for message in _messages(chunk)):
                    return True
    return False


def _open() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)


def _count(netlink: socket.socket, family: int, states: tuple[int, ...]) -> int:
    return sum(_count_messages(chunk) for state in states for chunk in _dump(netlink, family, 1 << state))


def _dump(netlink: socket.socket, family: int, state_mask: int) -> Iterator[bytes]:
    """Buffers of a dump, the final one (with the end mark) included."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, state_mask)
    netlink.send(
        _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 1, 0) + body
    )
    while True:
        chunk = netlink.recv(_BUFFER)
        yield chunk
        last = _last_type(chunk)
        if last in (_NLMSG_DONE, _NLMSG_ERROR):
            return


def _last_type(chunk: bytes) -> int:
    """The end mark comes in a buffer of its own or after whole messages; its type is what matters."""
    kind = 0
    for offset, length in _offsets(chunk):
        kind = struct.unpack_from("=H", chunk, offset + 4)[0]
        if length == 0:
            break
    return int(kind)


def _offsets(chunk: bytes) -> Iterator[tuple[int, int]]:
    """Offsets and lengths of the messages; runs of equal lengths are not shortened here."""
    offset = 0
    while offset + _HEADER.size <= len(chunk):
        length = struct.unpack_from("=I", chunk, offset)[0]
        if length < _HEADER.size:
            return
        yield offset, length
        offset += (length + 3) & ~3


def _messages(chunk: bytes) -> Iterator[bytes]:
    for offset, length in _offsets(chunk):
        if struct.unpack_from("=H", chunk, offset + 4)[0] == SOCK_DIAG_BY_FAMILY:
            yield chunk[offset : offset + length]


def _local_port(message: bytes) -> int:
    return int(struct.unpack_from("!H", message, _HEADER.size + 4)[0])


def _count_messages(chunk: bytes) -> int:
    """Diag messages in a buffer: by stride where all have one length, otherwise by walking."""
    if len(chunk) < _HEADER.size:
        return 0
    stride = (struct.unpack_from("=I", chunk)[0] + 3) & ~3
    kind = struct.unpack_from("=H", chunk, 4)[0]
    lengths = chunk[0::stride] if stride else b""
    if kind == SOCK_DIAG_BY_FAMILY and len(chunk) % stride == 0 and lengths == lengths[:1] * len(lengths):
        return len(chunk) // int(stride)
    return sum(1 for _ in _messages(chunk))
