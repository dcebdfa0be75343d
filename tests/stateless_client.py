"""A plain socket client that sends queries over TCP in any pieces, and what it sees."""

import asyncio
import contextlib
import enum
import errno
import itertools
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.dns_server import framed, messages

LIMIT_S = 15.0  # for all answers of a connection
_APART_S = 0.004  # between segments, so that they stay apart
_READ = 1 << 16


class End(enum.Enum):
    """How a connection ended, as its client sees it."""

    OPEN = "open"  # nothing more came; all answers are there
    CLOSED = "closed"
    RESET = "reset"
    SILENT = "silent"  # nothing more came, and answers are missing


class HalfClose(enum.Enum):
    """When the client says that it sends no more."""

    NEVER = enum.auto()
    AFTER = enum.auto()  # all was sent
    WITH = enum.auto()  # in the same segment as the last data


@dataclass(frozen=True)
class Exchange:
    """What is sent on one connection: pieces, each in a segment of its own.

    In turn: each piece is a query, and is sent when the one before was answered. `wanted` says from the
    messages so far whether they are all; by itself there is one for each query.
    """

    pieces: tuple[bytes, ...]
    answers: int = 1
    in_turn: bool = False
    half_close: HalfClose = HalfClose.NEVER
    mss: int = 0  # 0: what the link allows
    source_port: int = 0
    limit_s: float = LIMIT_S
    close_s: float = 2.0  # for the server's FIN after ours
    idle_s: float = 0.0  # between the handshake and the first piece
    settings: tuple[tuple[int, int, int], ...] = ()  # of the socket: level, option, value
    abort: bool = False  # close with a reset, when all is there or the limit is reached
    wanted: Callable[[list[bytes]], bool] | None = None


@dataclass
class Outcome:
    messages: list[bytes] = field(default_factory=list)
    end: End = End.SILENT
    rest: bytes = b""  # after the last whole message
    port: int = 0  # of the client


def whole(*queries: bytes, **more: object) -> Exchange:
    """Each query in a segment of its own, one after the other without waiting."""
    return _exchange(tuple(framed(one) for one in queries), len(queries), more)


def together(*queries: bytes, **more: object) -> Exchange:
    """All queries in one segment, if it takes them."""
    return _exchange((b"".join(framed(one) for one in queries),), len(queries), more)


def split(query: bytes, *at: int, **more: object) -> Exchange:
    """A query cut at these places; its length takes the first two bytes."""
    data, places = framed(query), (0, *at, None)
    return _exchange(tuple(data[a:b] for a, b in itertools.pairwise(places)), 1, more)


def _exchange(pieces: tuple[bytes, ...], answers: int, more: dict[str, object]) -> Exchange:
    return Exchange(pieces, **{"answers": answers, **more})  # type: ignore[arg-type]


class _Talk:
    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self.sock, self.exchange = sock, exchange
        self.loop = asyncio.get_running_loop()
        self.data = b""
        self.seen = Outcome()

    def missing(self) -> bool:
        found = list(messages(self.data))
        wanted = self.exchange.wanted
        return not wanted(found) if wanted else len(found) < self.exchange.answers

    async def carry_out(self, server: tuple[str, int]) -> None:
        await self.loop.sock_connect(self.sock, server)
        self.seen.port = self.sock.getsockname()[1]
        await asyncio.sleep(self.exchange.idle_s)
        for number, piece in enumerate(self.exchange.pieces):
            if self.exchange.in_turn and not await self.read_until(number):
                return
            last = number + 1 == len(self.exchange.pieces)
            await self.send(piece, last)
            if not last:
                await asyncio.sleep(0 if self.exchange.in_turn else _APART_S)
        while self.missing() and await self.read():
            pass

    async def send(self, piece: bytes, last: bool) -> None:
        with_data = last and self.exchange.half_close is HalfClose.WITH
        if with_data:
            self.sock.send(piece, socket.MSG_MORE)  # waits for more, or for the end
        else:
            await self.loop.sock_sendall(self.sock, piece)
        if last and self.exchange.half_close is not HalfClose.NEVER:
            self.sock.shutdown(socket.SHUT_WR)

    async def read_until(self, count: int) -> bool:
        """Until there are so many messages; false at the connection's end."""
        while len(list(messages(self.data))) < count:
            if not await self.read():
                return False
        return True

    async def read(self) -> bool:
        data = await self.loop.sock_recv(self.sock, _READ)
        self.data += data
        if not data:
            self.seen.end = End.CLOSED
        return bool(data)

    def read_rest(self) -> None:
        """What had come before a reset."""
        with contextlib.suppress(OSError):
            while data := self.sock.recv(_READ):
                self.data += data

    async def finish(self) -> None:
        """Says that it sends no more where it has not, and reads what still comes."""
        if self.exchange.half_close is HalfClose.NEVER:
            self.sock.shutdown(socket.SHUT_WR)
        while await self.read():
            pass


async def exchange(sock: socket.socket, server: tuple[str, int], what: Exchange) -> Outcome:
    """Carries it out with a fresh socket, and closes it."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for setting in (
        *what.settings,
        *([(socket.IPPROTO_TCP, socket.TCP_MAXSEG, what.mss)] if what.mss else []),
    ):
        sock.setsockopt(*setting)
    if what.source_port:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", what.source_port))
    if what.abort:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk = _Talk(sock, what)
    try:
        await asyncio.wait_for(talk.carry_out(server), what.limit_s)
        if talk.seen.end is not End.CLOSED:
            talk.seen.end = End.OPEN
            if not what.abort:
                await asyncio.wait_for(talk.finish(), what.close_s)
    except TimeoutError:
        talk.seen.end = End.SILENT if talk.missing() else End.OPEN
    except OSError as error:
        talk.read_rest()
        is_reset = isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN  # so says shutdown()
        talk.seen.end = End.RESET if is_reset else End.SILENT if talk.missing() else End.OPEN
    finally:
        sock.close()
    talk.seen.messages = list(messages(talk.data))
    talk.seen.rest = talk.data[sum(2 + len(one) for one in talk.seen.messages) :]
    return talk.seen


def datagram(sock: socket.socket, server: tuple[str, int], query: bytes, limit_s: float = 3.0) -> bytes:
    with sock:
        sock.settimeout(limit_s)
        sock.connect(server)
        sock.send(query)
        return sock.recv(_READ)
