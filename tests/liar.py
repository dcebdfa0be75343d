"""A DNS server over UDP that says more than it should, for the tests.

Usage: liar.py ADDRESS:PORT     answers every query twice, then with another id, and once from another port;
                                before that it sends what cannot be read (random bytes, a question that points
                                at itself) and the answer to a question whose name ends otherwise
"""

from __future__ import annotations

import random
import socket
import sys

NOISE = b"\x84" + random.Random(7).randbytes(59)


def main(endpoint: str) -> None:
    address, _, port = endpoint.rpartition(":")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        server.bind((address, int(port)))
        stranger.bind((address, int(port) + 1))
        sys.stderr.write("responding\n")
        sys.stderr.flush()
        while True:
            query, peer = server.recvfrom(65535)
            answer = query[:2] + bytes([query[2] | 0x80]) + query[3:]
            stranger.sendto(answer, peer)
            server.sendto(answer[:2] + NOISE, peer)
            server.sendto(answer[:12] + b"\xc0\x0c" + answer[14:], peer)
            server.sendto(answer[:-6] + bytes([answer[-6] ^ 1]) + answer[-5:], peer)
            server.sendto(answer, peer)
            server.sendto(answer, peer)
            server.sendto(bytes([answer[0] ^ 0x80]) + answer[1:], peer)


if __name__ == "__main__":
    main(sys.argv[1])
