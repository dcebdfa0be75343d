"""The processes of a server. One that the user runs is found by its number, or by the service that systemd
has of it.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cli import linux, programs
from cli.errors import RepriseError, UsageError
from cli.servers import kind

_BOOTED = Path("/run/systemd/system")  # sd_booted(3)


def process(server: kind.Server) -> int:
    """The number of the server's first process; 0 where the experiment does not say."""
    found = server.pid or (_main_process(server.service) if server.service else 0)
    if found and not Path(f"/proc/{found}").is_dir():
        raise UsageError(f"there is no process {found}", "set server.pid to the number of the server's first")
    return found


def tree(pid: int) -> Iterator[Path]:
    """The folders in /proc of a process and of those below it."""
    found = [pid]
    for one in found:
        proc = Path("/proc") / str(one)
        with contextlib.suppress(OSError):  # it has ended
            found += [int(word) for task in proc.glob("task/*/children") for word in task.read_text().split()]
        yield proc


def _main_process(service: str) -> int:
    systemctl = programs.find("systemctl")
    if systemctl is None or not _BOOTED.is_dir():
        what = "server.service needs systemd, which does not run here"
        raise UsageError(what, "give the process by server.pid")
    argv = [systemctl, "show", "--property", "MainPID", "--value", "--", service]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = done.stdout.strip()
    if done.returncode != 0 or not found.isdigit() or found == "0":
        why = done.stderr.strip().partition("\n")[0] or "it does not run"
        raise UsageError(f"{service} has no main process: {why}", f"systemctl start {service}, or server.pid")
    return int(found)


def switch_nagle(pid: int, on: bool) -> None:
    """Sets Nagle's algorithm of a server that may have no option for it: on the listening sockets of the one
    with this process, whose connections inherit it. Throws RepriseError where there are none or it may not.
    """
    found = 0
    for proc in tree(pid):
        for descriptor in proc.glob("fd/*"):
            try:
                if str(descriptor.readlink()).startswith("socket:"):
                    found += _switched(int(proc.name), int(descriptor.name), on)
            except PermissionError:
                what = f"the sockets of process {proc.name} cannot be reached"
                raise RepriseError(what, "run as root, or leave out socket.nagle") from None
            except OSError:
                continue  # it was closed
    if not found:
        raise RepriseError(f"process {pid} listens at no TCP port", "leave out socket.nagle")


def _switched(pid: int, number: int, on: bool) -> bool:
    """Whether it is a socket that listens for TCP."""
    with socket.socket(fileno=linux.descriptor_of(pid, number)) as one:
        if one.type != socket.SOCK_STREAM or one.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not on)
    return True
