"""The DNS test server: what no real server can be told to do, over UDP, TCP and TLS.

Usage: dns_server.py [ADDRESS:PORT BEHAVIOR[=N]] ...     answers echo the queries unless said otherwise

UDP
    delay=MS         answers so much later
    mute             says nothing, over TCP as well
    refuse           the response code is REFUSED
    truncate=N       answers to N of every 10 queries are truncated; TCP answers at once
    truncate-only=N  the same, and nobody answers over TCP
    lie              first what cannot be read (random bytes, a question that points at itself) and the answer
                     to a question whose name ends otherwise; then two answers and one with another id, all
                     after one from the next port
    late=MS          like delay, over TCP as well
    text=N           over TCP as well: a TXT record with N, which a first label "sM" makes about M bytes long
TCP
    answer           answers at once
    reverse=N        collects N queries of a connection and answers the last one first
    dribble          answers byte by byte, each in a segment of its own
    garbage          answers with something that is not DNS
    silent           reads and says nothing
    close-after=N    answers N queries of each connection, then closes it
    drop-at=N        closes each connection instead of answering its N-th query
    reset-at=N       the same with a reset; N = 0: as soon as it has accepted
    deaf             accepts and reads nothing
    full=N           has room for N connections that nobody accepts
    flip=N           passes all on to port N and spoils each client's second query over TLS 1.3
    pause=N          passes all on to port N, and for a second reads no more than the first 4 KB of a client
TLS 1.3
    early-data=accept|reject,CERTIFICATE,KEY  a line for each connection says how many queries came early
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import socket
import struct
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

SMALL_BUFFER = 4096
BACKLOG = 4096
APPLICATION_DATA = 23  # type of a TLS record
NOISE = b"\x84" + random.Random(7).randbytes(59)


def echo(query: bytes, flags: int = 0x80) -> bytes:
    return query[:2] + bytes([query[2] | flags]) + query[3:]


def framed(message: bytes) -> bytes:
    return struct.pack("!H", len(message)) + message


def messages(stream: bytes) -> Iterator[bytes]:
    """The whole messages of a stream."""
    while len(stream) >= 2 and len(stream) >= 2 + (size := int.from_bytes(stream[:2], "big")):
        yield stream[2 : 2 + size]
        stream = stream[2 + size :]


def bound(kind: socket.SocketKind, address: str, port: int, room: int = 0) -> socket.socket:
    """A socket of the address, with so much room for what it receives."""
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == socket.SOCK_STREAM))
    if room:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    one.bind((address, port))
    return one


# --- UDP --------------------------------------------------------------------------------------------------


class Datagrams(asyncio.DatagramProtocol):
    """A port that does something with each query."""

    def __init__(self, act: Callable[[Datagrams, bytes, Any], None], argument: str) -> None:
        self.act, self.argument = act, argument
        self.seen = 0
        self.stranger: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if len(data) >= 12:
            self.seen += 1
            self.act(self, data, addr)

    def say(self, message: bytes, peer: Any) -> None:
        self.transport.sendto(message, peer)


def delay(port: Datagrams, query: bytes, peer: Any) -> None:
    asyncio.get_running_loop().call_later(float(port.argument or 0) / 1000, port.say, echo(query), peer)


def refuse(port: Datagrams, query: bytes, peer: Any) -> None:
    port.say(query[:2] + bytes([query[2] | 0x80, 5]) + query[4:], peer)


def truncate(port: Datagrams, query: bytes, peer: Any) -> None:
    port.say(echo(query, 0x82 if (port.seen - 1) % 10 < int(port.argument) else 0x80), peer)


def lie(port: Datagrams, query: bytes, peer: Any) -> None:
    answer = echo(query)
    if port.stranger is None:
        address, number = port.transport.get_extra_info("sockname")[:2]
        port.stranger = bound(socket.SOCK_DGRAM, address, number + 1)
    port.stranger.sendto(answer, peer)
    port.say(answer[:2] + NOISE, peer)
    port.say(answer[:12] + b"\xc0\x0c" + answer[14:], peer)
    port.say(answer[:-6] + bytes([answer[-6] ^ 1]) + answer[-5:], peer)
    port.say(answer, peer)
    port.say(answer, peer)
    port.say(bytes([answer[0] ^ 0x80]) + answer[1:], peer)


def text(wire: bytes, number: str, *, udp: bool) -> bytes:
    """The TXT record, or a truncated answer where the sender takes less."""
    import dns.flags  # noqa: PLC0415 - only here are answers made of more than the query
    import dns.message  # noqa: PLC0415
    import dns.rrset  # noqa: PLC0415

    query = dns.message.from_wire(wire)
    name = query.question[0].name
    label = name.labels[0].decode()
    size = int(label[1:]) if label[:1] == "s" and label[1:].isdigit() else 0
    reply = dns.message.make_response(query)
    words = " ".join([number] + ["x" * 250] * (size // 250))
    reply.answer.append(dns.rrset.from_text(name, 60, "IN", "TXT", words))
    whole = reply.to_wire(max_size=65535)
    if not udp or len(whole) <= max(512, query.payload):
        return whole
    short = dns.message.make_response(query)
    short.flags |= dns.flags.TC
    return short.to_wire()


# --- TCP --------------------------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """A client's connection; it does something with each query."""

    def __init__(self, act: Callable[[Connection, bytes], None], argument: str) -> None:
        self.act, self.argument = act, argument
        self.number = int(argument) if argument.isdigit() else -1
        self.seen = 0
        self.data = b""
        self.held: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.act is reset_at and self.number == 0:
            self.reset()

    def data_received(self, data: bytes) -> None:
        self.data += data
        for query in messages(self.data):
            self.data = self.data[2 + len(query) :]
            self.seen += 1
            self.act(self, query)

    def say(self, message: bytes) -> None:
        self.transport.write(framed(message))

    def reset(self) -> None:
        one = self.transport.get_extra_info("socket")
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def reverse(one: Connection, query: bytes) -> None:
    one.held.append(query)
    if len(one.held) == one.number:
        for held in reversed(one.held):
            one.say(echo(held))
        one.held = []


def late(one: Connection, query: bytes) -> None:
    asyncio.get_running_loop().call_later(one.number / 1000, one.say, echo(query))


def dribble(one: Connection, query: bytes) -> None:
    for byte in framed(echo(query)):
        one.transport.write(bytes([byte]))


def close_after(one: Connection, query: bytes) -> None:
    one.say(echo(query))
    if one.seen == one.number:
        one.transport.close()


def drop_at(one: Connection, query: bytes) -> None:
    if one.seen == one.number:
        one.transport.close()
    elif one.seen < one.number:
        one.say(echo(query))


def reset_at(one: Connection, query: bytes) -> None:
    if one.seen == one.number:
        one.reset()
    elif one.seen < one.number:
        one.say(echo(query))


async def deaf(address: str, port: int, _: str) -> None:
    """Accepts and does nothing else."""
    listening = bound(socket.SOCK_STREAM, address, port, SMALL_BUFFER)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    kept = []

    async def accept() -> None:
        while True:
            kept.append(await asyncio.get_running_loop().sock_accept(listening))

    KEPT.append(asyncio.create_task(accept()))


async def full(address: str, port: int, room: str) -> None:
    listening = bound(socket.SOCK_STREAM, address, port)
    listening.listen(int(room))
    KEPT.append(listening)


KEPT: list[object] = []

# --- between client and server ----------------------------------------------------------------------------


async def spoil(client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
    """Passes TLS records on. The third of data, after the end of the handshake and the first query, has its
    last bit turned.
    """
    count = 0
    try:
        while True:
            head = await client.readexactly(5)
            body = bytearray(await client.readexactly(int.from_bytes(head[3:], "big")))
            if head[0] == APPLICATION_DATA:
                count += 1
                body[-1] ^= count == 3
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


def between(forward: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Serve:
    async def serve(address: str, port: int, target: str) -> None:
        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            from_server, to_server = await asyncio.open_connection(address, int(target))
            await asyncio.gather(forward(reader, to_server), copy(from_server, writer))

        listening = bound(socket.SOCK_STREAM, address, port, SMALL_BUFFER)
        await asyncio.start_server(pass_on, sock=listening, limit=SMALL_BUFFER, backlog=BACKLOG)

    return serve


# --- TLS with early data, which Python's ssl module cannot take: OpenSSL by ctypes -------------------------


class EarlyData:
    """OpenSSL, and the clients of one port with a thread each."""

    PEM, MOST, SUCCESS = 1, 16_384, 1

    def __init__(self, behavior: str, certificate: str, key: str) -> None:
        self.lib = ctypes.CDLL("libssl.so.3")
        for name in ("TLS_server_method", "SSL_CTX_new", "SSL_new"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.SSL_CTX_new(ctypes.c_void_p(self.lib.TLS_server_method())))
        assert self.lib.SSL_CTX_use_certificate_chain_file(self.context, certificate.encode()) == 1
        assert self.lib.SSL_CTX_use_PrivateKey_file(self.context, key.encode(), self.PEM) == 1
        assert self.lib.SSL_CTX_set_max_early_data(self.context, self.MOST) == 1
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self.refuse = kind(lambda _ssl, _argument: 0)
        if behavior == "reject":
            self.lib.SSL_CTX_set_allow_early_data_cb(self.context, self.refuse, None)

    def accept_all(self, listening: socket.socket) -> None:
        while True:
            peer, _ = listening.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer: socket.socket) -> None:
        """One client until it closes; every query comes whole."""
        ssl = ctypes.c_void_p(self.lib.SSL_new(self.context))
        self.lib.SSL_set_fd(ssl, peer.fileno())
        data = b"".join(iter(lambda: self.read("SSL_read_early_data", ssl), b""))
        if self.lib.SSL_accept(ssl) == 1:
            early = self.answer(ssl, data)
            line = f"connection early={early}\n"
            os.write(sys.stderr.fileno(), line.encode())  # at once: other threads write as well
            while data := self.read("SSL_read_ex", ssl):
                self.answer(ssl, data)
            self.lib.SSL_shutdown(ssl)
        self.lib.SSL_free(ssl)
        peer.close()

    def read(self, function: str, ssl: ctypes.c_void_p) -> bytes:
        buffer, got = ctypes.create_string_buffer(self.MOST), ctypes.c_size_t(0)
        done = getattr(self.lib, function)(ssl, buffer, ctypes.c_size_t(self.MOST), ctypes.byref(got))
        return buffer.raw[: got.value] if done == self.SUCCESS else b""

    def answer(self, ssl: ctypes.c_void_p, data: bytes) -> int:
        queries = list(messages(data))
        for query in queries:
            answer, put = framed(echo(query)), ctypes.c_size_t(0)
            self.lib.SSL_write_ex(ssl, answer, ctypes.c_size_t(len(answer)), ctypes.byref(put))
        return len(queries)


async def early_data(address: str, port: int, argument: str) -> None:
    listening = bound(socket.SOCK_STREAM, address, port)
    listening.listen(BACKLOG)
    server = EarlyData(*argument.split(","))
    threading.Thread(target=server.accept_all, args=(listening,), daemon=True).start()


# --- all --------------------------------------------------------------------------------------------------

Serve = Callable[[str, int, str], Awaitable[None]]  # address, port, what stands behind the =


@dataclass(frozen=True)
class Behavior:
    """What is done with a query over UDP and over TCP; without one nobody listens there."""

    udp: Callable[[Datagrams, bytes, Any], None] | None = None
    tcp: Callable[[Connection, bytes], None] | None = None

    async def __call__(self, address: str, port: int, argument: str) -> None:
        loop = asyncio.get_running_loop()
        if self.tcp is not None:
            act, listening = self.tcp, bound(socket.SOCK_STREAM, address, port)
            port = listening.getsockname()[1]
            await loop.create_server(lambda: Connection(act, argument), sock=listening, backlog=BACKLOG)
        if self.udp is not None:
            do, sock = self.udp, bound(socket.SOCK_DGRAM, address, port, 4 << 20)
            await loop.create_datagram_endpoint(lambda: Datagrams(do, argument), sock=sock)


ANSWER = Behavior(tcp=lambda one, query: one.say(echo(query)))
BEHAVIORS: dict[str, Serve] = {
    "delay": Behavior(delay),
    "late": Behavior(delay, late),
    "mute": Behavior(lambda _port, _query, _peer: None, lambda _one, _query: None),
    "refuse": Behavior(refuse),
    "truncate": Behavior(truncate, ANSWER.tcp),
    "truncate-only": Behavior(truncate),
    "lie": Behavior(lie),
    "text": Behavior(
        lambda port, query, peer: port.say(text(query, port.argument, udp=True), peer),
        lambda one, query: one.say(text(query, one.argument, udp=False)),
    ),
    "answer": ANSWER,
    "reverse": Behavior(tcp=reverse),
    "dribble": Behavior(tcp=dribble),
    "garbage": Behavior(tcp=lambda one, _query: one.say(b"hello")),
    "silent": Behavior(tcp=lambda _one, _query: None),
    "close-after": Behavior(tcp=close_after),
    "drop-at": Behavior(tcp=drop_at),
    "reset-at": Behavior(tcp=reset_at),
    "deaf": deaf,
    "full": full,
    "flip": between(spoil),
    "pause": between(pause),
    "early-data": early_data,
}


async def main(arguments: list[str]) -> None:
    for endpoint, behavior in zip(arguments[::2], arguments[1::2], strict=True):
        address, _, port = endpoint.rpartition(":")
        name, _, argument = behavior.partition("=")
        await BEHAVIORS[name](address.strip("[]"), int(port), argument)
    print("responding", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
