"""A link that loses, repeats, delays or swaps chosen TCP segments: a bridge of two interfaces in Python.

Usage: stateless_link.py NEAR FAR CONTROL

It passes every Ethernet frame on from one interface to the other; NEAR is the client's side. A connection is
known by the client's port. Its segments are numbered from 1, those to the server and those to the client
apart.

CONTROL is a Unix socket of datagrams. A datagram is either a JSON string, the name of a file to which all
frames are written from then on (nanosecond pcap), before any fault; or an object of rules by client port,
which replace those before: [["server", 3, "drop"]] drops the third segment to the server, [["server reset",
1, "drop"]] the first with RST. The answer is "done". Acts:

    drop        it is lost
    duplicate   it comes twice
    swap        it comes after the next segment of the same direction, or after HOLD_S where none follows
    delay       it comes DELAY_S late
"""

import heapq
import itertools
import json
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

PORT = 53
HOLD_S, DELAY_S = 0.05, 0.4  # a swapped segment waits no longer than HOLD_S
_RST = 4
_ALL = 3  # ETH_P_ALL
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_RCVBUFFORCE, _BUFFER = 33, 16 << 20  # nothing is lost but what is told to be
_MOST = 1 << 16
_PCAP = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, _MOST, 1)

Rules = dict[int, dict[tuple[str, int], str]]


def ports(frame: bytes) -> tuple[int, int, bool] | None:
    """Source and destination port of a TCP segment, and whether it is a reset; None for other frames."""
    kind, ip = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and len(ip) >= 20 and ip[9] == 6:
        at = (ip[0] & 15) * 4
    elif kind == b"\x86\xdd" and len(ip) >= 40 and ip[6] == 6:
        at = 40
    else:
        return None
    if len(ip) < at + 20:
        return None
    return *struct.unpack_from("!HH", ip, at), bool(ip[at + 13] & _RST)


class Faults:
    """Decides what becomes of each frame; `send` is told the side and the frame, at once or later."""

    def __init__(self, send: Callable[[str, bytes], None]) -> None:
        self.send = send
        self.rules: Rules = {}
        self.seen: Counter[tuple[int, str]] = Counter()
        self.held: dict[tuple[int, str], bytes] = {}
        self.later: list[tuple[float, int, str, bytes, bool]] = []  # the last: a swapped one
        self.order = itertools.count()

    def load(self, given: dict[str, list[tuple[str, int, str]]]) -> None:
        """New rules; the numbers of segments begin anew."""
        self.rules = {int(port): {(to, n): act for to, n, act in one} for port, one in given.items()}
        self.seen.clear()

    def take(self, to: str, frame: bytes) -> None:
        """A frame that goes to the "server" or the "client"."""
        found = ports(frame)
        if found is None or PORT not in found:
            self.send(to, frame)
            return
        key = (found[0] if to == "server" else found[1], to)
        act = self.act(key[0], to)
        if found[2]:
            act = self.act(key[0], f"{to} reset") or act
        if act == "swap":
            self.held[key] = frame
            self.wait(HOLD_S, to, frame, swapped=True)
        elif act == "delay":
            self.wait(DELAY_S, to, frame)
        elif act != "drop":
            self.send(to, frame)
        if act == "duplicate":
            self.send(to, frame)
        if act != "swap" and (before := self.held.pop(key, None)):
            self.send(to, before)

    def act(self, port: int, what: str) -> str:
        """Counts a segment; its fault."""
        self.seen[port, what] += 1
        return self.rules.get(port, {}).get((what, self.seen[port, what]), "")

    def wait(self, seconds: float, to: str, frame: bytes, *, swapped: bool = False) -> None:
        heapq.heappush(self.later, (time.monotonic() + seconds, next(self.order), to, frame, swapped))

    def next_s(self) -> float | None:
        """Until the first waiting frame is due."""
        return max(0.0, self.later[0][0] - time.monotonic()) if self.later else None

    def due(self) -> None:
        """Sends what has waited long enough."""
        while self.later and self.later[0][0] <= time.monotonic():
            _, _, to, frame, swapped = heapq.heappop(self.later)
            if not swapped:
                self.send(to, frame)
                continue
            key = next((key for key, one in self.held.items() if one is frame), None)
            if key is not None:
                del self.held[key]
                self.send(to, frame)


def opened(interface: str) -> socket.socket:
    """All that comes in on an interface, not what we send there."""
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    one.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    one.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, _BUFFER)
    one.bind((interface, 0))
    return one


class Capture:
    """A file of frames, or none."""

    def __init__(self) -> None:
        self.file: IO[bytes] | None = None

    def begin(self, path: str) -> None:
        self.file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - until the process ends
        self.file.write(_PCAP)

    def write(self, frame: bytes) -> None:
        now = time.time_ns()
        if self.file is not None:
            self.file.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(frame), len(frame)) + frame)


def main(near: str, far: str, control_path: str) -> None:
    sides = {"client": opened(near), "server": opened(far)}
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(control_path)

    def send(to: str, frame: bytes) -> None:
        sides[to].send(frame)

    faults, capture = Faults(send), Capture()

    def obey() -> None:
        text, asker = control.recvfrom(_MOST)
        told = json.loads(text)
        if isinstance(told, str):
            capture.begin(told)
        else:
            faults.load(told)
        control.sendto(b"done", asker)

    def forward(to: str) -> None:
        frame = sides["client" if to == "server" else "server"].recv(_MOST)
        capture.write(frame)
        faults.take(to, frame)

    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ, obey)
    selector.register(sides["client"], selectors.EVENT_READ, partial(forward, "server"))
    selector.register(sides["server"], selectors.EVENT_READ, partial(forward, "client"))
    print("forwarding", file=sys.stderr, flush=True)
    while True:
        for key, _ in selector.select(faults.next_s()):
            key.data()
        faults.due()


if __name__ == "__main__":
    main(*sys.argv[1:])
