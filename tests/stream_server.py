"""A DNS server over TCP for the tests that misbehaves on demand; answers echo the queries.

Usage: stream_server.py ADDRESS:PORT BEHAVIOUR[=N]
    answer         answers at once
    reverse=N      collects N queries of a connection and answers the last one first
    dribble        answers byte by byte, each in a segment of its own
    garbage        answers with something that is not DNS
    silent         reads and says nothing
    close-after=N  answers N queries of each connection, then closes it
    drop-at=N      closes each connection instead of answering its N-th query
    reset-at=N     the same with a reset; N = 0: as soon as it has accepted
    deaf           accepts and reads nothing
    full           has room for N connections that nobody accepts
    truncate       answers over UDP are truncated; N of every 10 queries are told so
    truncate-only=N  the same, and nobody answers over TCP
    flip=N         passes all on to port N and spoils the fifth TLS record of each client
    pause=N        passes all on to port N, and for a second reads no more than the first 4 KB of each client
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from typing import cast

SMALL_BUFFER = 4096


def echo(query: bytes, flags: int = 0x80) -> bytes:
    return query[:2] + bytes([query[2] | flags]) + query[3:]


def framed(message: bytes) -> bytes:
    return struct.pack("!H", len(message)) + message


def reset(transport: asyncio.WriteTransport) -> None:
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    transport.abort()


class Talker(asyncio.Protocol):
    """One connection; it answers at once, and its children do something else with a query."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0
        self.data = b""
        self.transport: asyncio.Transport = asyncio.Transport()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.begin()

    def data_received(self, data: bytes) -> None:
        self.data += data
        while len(self.data) >= 2 and len(self.data) >= 2 + (size := int.from_bytes(self.data[:2], "big")):
            query, self.data = self.data[2 : 2 + size], self.data[2 + size :]
            self.seen += 1
            self.on_query(query)

    def begin(self) -> None:
        pass

    def on_query(self, query: bytes) -> None:
        self.transport.write(framed(echo(query)))


class Reverse(Talker):
    def begin(self) -> None:
        self.held: list[bytes] = []

    def on_query(self, query: bytes) -> None:
        self.held.append(query)
        if len(self.held) == self.number:
            for one in reversed(self.held):
                super().on_query(one)
            self.held = []


class Dribble(Talker):
    def on_query(self, query: bytes) -> None:
        for byte in framed(echo(query)):
            self.transport.write(bytes([byte]))


class Garbage(Talker):
    def on_query(self, query: bytes) -> None:
        self.transport.write(framed(b"hello"))


class Silent(Talker):
    def on_query(self, query: bytes) -> None:
        pass


class CloseAfter(Talker):
    def on_query(self, query: bytes) -> None:
        super().on_query(query)
        if self.seen == self.number:
            self.transport.close()


class DropAt(Talker):
    def on_query(self, query: bytes) -> None:
        if self.seen == self.number:
            self.transport.close()
        elif self.seen < self.number:
            super().on_query(query)


class ResetAt(Talker):
    def begin(self) -> None:
        if self.number == 0:
            reset(self.transport)

    def on_query(self, query: bytes) -> None:
        if self.seen == self.number:
            reset(self.transport)
        elif self.seen < self.number:
            super().on_query(query)


class Truncate(asyncio.DatagramProtocol):
    """The UDP side of `truncate`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        truncated = self.seen % 10 < self.number
        self.seen += 1
        self.transport.sendto(echo(data, 0x82 if truncated else 0x80), addr)


TALKERS: dict[str, Callable[[int], Talker]] = {
    "answer": Talker,
    "reverse": Reverse,
    "dribble": Dribble,
    "garbage": Garbage,
    "silent": Silent,
    "close-after": CloseAfter,
    "drop-at": DropAt,
    "reset-at": ResetAt,
    "truncate": Talker,
}


async def spoil(client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
    """Passes TLS records on; the fifth has its last bit turned."""
    count = 0
    try:
        while True:
            head = await client.readexactly(5)
            body = bytearray(await client.readexactly(int.from_bytes(head[3:], "big")))
            count += 1
            if count == 5:
                body[-1] ^= 1
            server.write(head + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        server.close()


async def pause(client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
    """Passes bytes on, and reads nothing for a second when it has passed the first ones."""
    passed = 0
    while data := await client.read(SMALL_BUFFER):
        if passed < SMALL_BUFFER <= passed + len(data):
            await asyncio.sleep(1)
        passed += len(data)
        server.write(data)
    server.close()


async def copy(server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    try:
        while data := await server.read(65536):
            client.write(data)
    except ConnectionError:
        pass
    client.close()


Forward = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
FORWARD: dict[str, Forward] = {"flip": spoil, "pause": pause}


async def proxy(address: str, port: int, target: int, forward: Forward) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(address, target)
        await asyncio.gather(forward(reader, to_server), copy(from_server, writer))

    listening = listener(address, port, 4096, small=True)
    await asyncio.start_server(serve, sock=listening, limit=SMALL_BUFFER)


async def ignore(listening: socket.socket) -> None:
    """Accepts and does nothing else."""
    listening.setblocking(False)
    kept = []
    while True:
        kept.append(await asyncio.get_running_loop().sock_accept(listening))


def listener(address: str, port: int, backlog: int, small: bool = False) -> socket.socket:
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if small:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    one.bind((address, port))
    one.listen(backlog)
    return one


async def talk(address: str, port: int, kind: str, number: int) -> None:
    loop = asyncio.get_running_loop()
    one = listener(address, port, 4096)
    await loop.create_server(lambda: TALKERS[kind](number), sock=one)
    if kind == "truncate":
        await datagrams(address, port, number)


async def datagrams(address: str, port: int, number: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: Truncate(number), local_addr=(address, port))


async def serve(endpoint: str, behaviour: str) -> None:
    address, _, port = endpoint.rpartition(":")
    kind, _, number = behaviour.partition("=")
    kept: list[object] = []
    if kind == "full":
        kept.append(listener(address, int(port), int(number)))
    elif kind == "deaf":
        kept.append(asyncio.create_task(ignore(listener(address, int(port), 4096, small=True))))
    elif kind in FORWARD:
        await proxy(address, int(port), int(number), FORWARD[kind])
    elif kind == "truncate-only":
        await datagrams(address, int(port), int(number))
    else:
        await talk(address, int(port), kind, int(number or 0))
    sys.stderr.write("responding\n")
    sys.stderr.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
