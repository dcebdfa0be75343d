"""What must hold on the wire and at the clients whatever fails between them and a front."""

import asyncio
import ipaddress
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tests import stateless_client
from tests.packets import TCP, UDP, Packet, tcp_head
from tests.stateless_bed import FRONT, PLAIN, PORT, StatelessBed, address
from tests.stateless_client import End, Exchange, Outcome
from tests.stateless_views import SAME, compare, views
from tests.streams import flows

LOST_S = 5.0
NO_FIN_S = 0.2  # that front sends none
_SPACE = 1 << 32


# --- the wire ---------------------------------------------------------------------------------------------


def contradictions(found: Sequence[Packet]) -> list[str]:
    """Bytes to a client that are not what was sent before at the same sequence number, by connection; and
    datagrams to a client, for none of them asks over UDP.
    """
    wrong = [
        f"datagram to {one.destination}:{one.destination_port}"
        for one in found
        if one.protocol == UDP and one.source_port == PORT
    ]
    for flow in flows(list(found), PORT):
        sent: dict[int, int] = {}
        for one in flow.packets:
            if flow.from_client(one):
                continue
            for place, byte in enumerate(one.payload):
                if sent.setdefault((one.sequence + place) % _SPACE, byte) != byte:
                    wrong.append(f"port {flow.client[1]}: other bytes at {one.sequence}")
                    break
    return wrong


def segments(found: Sequence[Packet], port: int) -> dict[str, int]:
    """How many segments went each way for a client's port."""
    return {
        "server": sum(one.protocol == TCP and one.source_port == port for one in found),
        "client": sum(one.protocol == TCP and one.destination_port == port for one in found),
    }


# --- clients ----------------------------------------------------------------------------------------------


def truth(bed: StatelessBed, server: str, what: Exchange) -> Outcome:
    """By the kernel's TCP on a link without faults."""
    target = (address(server, PLAIN, 4), PORT)
    told = replace(what, source_port=0, abort=False)
    outcome = asyncio.run(stateless_client.exchange(bed.socket(4), target, told))
    assert len(outcome.messages) == what.answers
    return outcome


def carry_out(
    bed: StatelessBed,
    server: str,
    family: int,
    work: Sequence[Exchange],
    at_once: int = 64,
    meanwhile: Iterable[tuple[float, Callable[[], object]]] = (),
) -> list[Outcome]:
    """All of them through the front, many at once; `meanwhile` has what else is done, so many seconds after
    the start. The front in user space is spared bursts, for it never asks again what the server's UDP socket
    had no room for; and what it has lost is not waited for.
    """
    if bed.front == "reference":
        at_once = min(at_once, 16)
        work = [replace(one, limit_s=min(one.limit_s, one.idle_s + LOST_S), close_s=NO_FIN_S) for one in work]
    room = asyncio.Semaphore(at_once)
    target = (address(server, FRONT, family), PORT)

    async def one(what: Exchange) -> Outcome:
        async with room:
            return await stateless_client.exchange(bed.socket(family), target, what)

    async def later(seconds: float, what: Callable[[], object]) -> None:
        await asyncio.sleep(seconds)
        what()

    async def everyone() -> list[Outcome]:
        also = asyncio.gather(*(later(*one) for one in meanwhile))
        found = await asyncio.gather(*(one(what) for what in work))
        await also
        return list(found)

    return asyncio.run(everyone())


def fate(true: Outcome, seen: Outcome) -> str:
    """answered (records beside the answer may be left out, as over UDP), closed (before all was answered),
    silent, or what is wrong with the answers.
    """
    verdict = compare(views(true.messages), views(seen.messages), seen, End.CLOSED)
    if verdict.kind in (SAME, "fewer records"):
        return "answered"
    return "closed" if verdict.kind in ("closed", "reset") else str(verdict)


# --- packets that no kernel would send --------------------------------------------------------------------


def segment(
    source: tuple[str, int],
    target: tuple[str, int],
    flags: int,
    sequence: int = 1,
    acknowledged: int = 0,
    payload: bytes = b"",
) -> bytes:
    """An IPv4 packet with a TCP segment; the kernel fills in the rest of the IP header."""
    head = bytearray(tcp_head(source[1], target[1], sequence, acknowledged, flags))
    ends = b"".join(ipaddress.IPv4Address(one[0]).packed for one in (source, target))
    pseudo = ends + struct.pack("!BBH", 0, TCP, len(head) + len(payload))
    head[16:18] = struct.pack("!H", _checksum(pseudo + bytes(head) + payload))
    body = bytes(head) + payload
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, TCP, 0) + ends + body


def _checksum(data: bytes) -> int:
    words = struct.unpack(f"!{len(data) // 2}H", data) if len(data) % 2 == 0 else _odd(data)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _odd(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"!{len(data) // 2 + 1}H", data + b"\0")
