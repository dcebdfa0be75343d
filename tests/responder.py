"""A DNS responder over UDP for the tests: echoes every query as an answer after a while, or says nothing.

Usage: responder.py ADDRESS:PORT=DELAY_MS ...     (DELAY_MS "never": silent)
"""

from __future__ import annotations

import heapq
import select
import socket
import sys
import time


def main(arguments: list[str]) -> None:
    delays: dict[socket.socket, float | None] = {}
    for argument in arguments:
        endpoint, _, delay = argument.partition("=")
        address, _, port = endpoint.rpartition(":")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        one = socket.socket(family, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        one.bind((address.strip("[]"), int(port)))
        delays[one] = None if delay == "never" else float(delay) / 1000
    sys.stderr.write("responding\n")
    sys.stderr.flush()
    waiting: list[tuple[float, int, socket.socket, bytes, tuple[str, int]]] = []
    count = 0
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for ready in select.select(list(delays), [], [], left)[0]:
            message, peer = ready.recvfrom(4096)
            delay_s = delays[ready]
            if delay_s is not None and len(message) >= 12:
                count += 1
                answer = message[:2] + bytes([message[2] | 0x80]) + message[3:]
                heapq.heappush(waiting, (time.monotonic() + delay_s, count, ready, answer, peer))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, ready, answer, peer = heapq.heappop(waiting)
            ready.sendto(answer, peer)


if __name__ == "__main__":
    main(sys.argv[1:])
