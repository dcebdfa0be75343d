"""Nagle's algorithm of a server, as its connections have it."""

import os
import socket
import subprocess

import pytest

from cli.errors import RepriseError
from cli.servers import running


@pytest.mark.parametrize("on", [True, False])
def test_connections_inherit_what_was_set_from_outside(on: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, on)
        running.switch_nagle(os.getpid(), on=on)
        with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
            assert bool(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) is not on


def test_a_server_without_tcp_is_told() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            with pytest.raises(RepriseError, match=f"process {child.pid} listens at no TCP port"):
                running.switch_nagle(child.pid, on=True)
        finally:
            child.kill()
