"""A DNS server over TLS 1.3 that takes early data, which Python's ssl module cannot: OpenSSL by ctypes.

Usage: early_data_server.py ADDRESS:PORT CERTIFICATE KEY accept|reject
Answers echo the queries. A line for each connection says how many queries came as early data.
"""

from __future__ import annotations

import ctypes
import socket
import sys
import threading

from tests.stream_server import echo, framed
from tests.streams import messages

SSL = ctypes.CDLL("libssl.so.3")
PEM = 1
MOST = 16_384
READ_ERROR, READ_SUCCESS, READ_FINISH = 0, 1, 2
AllowEarlyData = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

for _name in ("TLS_server_method", "SSL_CTX_new", "SSL_new"):
    getattr(SSL, _name).restype = ctypes.c_void_p

REFUSE = AllowEarlyData(lambda _ssl, _argument: 0)


class Connection:
    """One client, served until it closes."""

    def __init__(self, context: ctypes.c_void_p, peer: socket.socket) -> None:
        self.peer = peer
        self.ssl = ctypes.c_void_p(SSL.SSL_new(context))
        SSL.SSL_set_fd(self.ssl, peer.fileno())
        self.buffer = ctypes.create_string_buffer(MOST)
        self.got = ctypes.c_size_t(0)

    def early(self) -> bytes:
        """What came with the handshake."""
        data = b""
        while True:
            result = SSL.SSL_read_early_data(
                self.ssl, self.buffer, ctypes.c_size_t(MOST), ctypes.byref(self.got)
            )
            if result != READ_SUCCESS:
                return data
            data += self.buffer.raw[: self.got.value]

    def read(self) -> bytes:
        done = SSL.SSL_read_ex(self.ssl, self.buffer, ctypes.c_size_t(MOST), ctypes.byref(self.got))
        return self.buffer.raw[: self.got.value] if done == 1 else b""

    def answer(self, data: bytes) -> int:
        """The number of queries, which all came whole."""
        queries = list(messages(data))
        for query in queries:
            answer = framed(echo(query))
            SSL.SSL_write_ex(self.ssl, answer, ctypes.c_size_t(len(answer)), ctypes.byref(self.got))
        return len(queries)

    def serve(self) -> None:
        data = self.early()
        if SSL.SSL_accept(self.ssl) == 1:
            sys.stderr.write(f"connection early={self.answer(data)}\n")
            sys.stderr.flush()
            while data := self.read():
                self.answer(data)
            SSL.SSL_shutdown(self.ssl)
        SSL.SSL_free(self.ssl)
        self.peer.close()


def main(endpoint: str, certificate: str, key: str, behaviour: str) -> None:
    context = ctypes.c_void_p(SSL.SSL_CTX_new(ctypes.c_void_p(SSL.TLS_server_method())))
    assert SSL.SSL_CTX_use_certificate_chain_file(context, certificate.encode()) == 1
    assert SSL.SSL_CTX_use_PrivateKey_file(context, key.encode(), PEM) == 1
    assert SSL.SSL_CTX_set_max_early_data(context, MOST) == 1
    if behaviour == "reject":
        SSL.SSL_CTX_set_allow_early_data_cb(context, REFUSE, None)
    address, _, port = endpoint.rpartition(":")
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, int(port)))
        listening.listen(4096)
        sys.stderr.write("responding\n")
        sys.stderr.flush()
        while True:
            peer, _ = listening.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=Connection(context, peer).serve, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
