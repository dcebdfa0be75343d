"""Nagle's algorithm of a server that has no option for it."""

from __future__ import annotations

import socket

from cli import linux
from cli.errors import RepriseError
from cli.servers import running


def switch(pid: int, on: bool) -> None:
    """Sets it on the listening sockets of the server with this process, whose connections inherit it; a step
    of a plan. Throws RepriseError where there is none or it may not.
    """
    found = 0
    for proc in running.tree(pid):
        for descriptor in proc.glob("fd/*"):
            try:
                if str(descriptor.readlink()).startswith("socket:"):
                    found += _switch(int(proc.name), int(descriptor.name), on)
            except PermissionError:
                what = f"the sockets of process {proc.name} cannot be reached"
                raise RepriseError(what, "run as root, or leave out socket.nagle") from None
            except OSError:
                continue  # it was closed
    if not found:
        raise RepriseError(f"process {pid} listens at no TCP port", "leave out socket.nagle")


def _switch(pid: int, number: int, on: bool) -> bool:
    """Whether it is a socket that listens for TCP."""
    with socket.socket(fileno=linux.descriptor_of(pid, number)) as one:
        if one.type != socket.SOCK_STREAM or one.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not on)
    return True
