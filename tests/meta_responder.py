"""A DNS server for the proxies' tests, over UDP and TCP, at several addresses with a number each.

It answers every TXT question with its address's number; the first label "sN" asks for an answer of about N
bytes. Usage: meta_responder.py ADDRESS=NUMBER ...
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys

import dns.flags
import dns.message
import dns.rrset

PORT = 53


def answer(wire: bytes, number: str, udp: bool) -> bytes:
    """The reply to a query, truncated where its sender takes less."""
    query = dns.message.from_wire(wire)
    question = query.question[0]
    label = question.name.labels[0].decode()
    size = int(label[1:]) if label[:1] == "s" and label[1:].isdigit() else 0
    texts = [number] + ["x" * 250] * (size // 250)
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", "TXT", " ".join(texts)))
    room = max(512, query.payload) if udp else 65535
    whole = reply.to_wire(max_size=65535)
    if len(whole) <= room:
        return whole
    short = dns.message.make_response(query)
    short.flags |= dns.flags.TC
    return short.to_wire()


def sockets(address: str) -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    stream = socket.socket(family, socket.SOCK_STREAM)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for one in (datagrams, stream):
        one.bind((address, PORT))
    stream.listen(16)
    return datagrams, stream


def serve_stream(connection: socket.socket, number: str) -> bool:
    """One query of a connection (their test clients send each in one segment); false at its end."""
    prefix = connection.recv(2, socket.MSG_WAITALL)
    if len(prefix) < 2:
        return False
    wire = connection.recv(struct.unpack("!H", prefix)[0], socket.MSG_WAITALL)
    reply = answer(wire, number, udp=False)
    connection.sendall(struct.pack("!H", len(reply)) + reply)
    return True


def main(arguments: list[str]) -> None:
    ready = selectors.DefaultSelector()
    for argument in arguments:
        address, _, number = argument.partition("=")
        datagrams, stream = sockets(address)
        ready.register(datagrams, selectors.EVENT_READ, ("udp", number))
        ready.register(stream, selectors.EVENT_READ, ("listen", number))
    print("responding", file=sys.stderr, flush=True)
    while True:
        for key, _ in ready.select():
            kind, number = key.data
            one = key.fileobj
            assert isinstance(one, socket.socket)
            if kind == "udp":
                wire, peer = one.recvfrom(65535)
                one.sendto(answer(wire, number, udp=True), peer)
            elif kind == "listen":
                ready.register(one.accept()[0], selectors.EVENT_READ, ("tcp", number))
            elif not serve_stream(one, number):
                ready.unregister(one)
                one.close()


if __name__ == "__main__":
    main(sys.argv[1:])
