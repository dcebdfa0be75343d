"""NAPI on veth: who pays for receiving a packet.

Without NAPI the receiver's network stack runs in the sender's context: a server's answer would be charged to
the server, or to the client, as chance has it. With GRO on at the receiver and TCP's segmentation off at the
sender veth uses NAPI for all packets; with threaded NAPI the receiving work is done by one kernel thread for
each interface, which can be pinned and whose time can be read.
"""

import array
import contextlib
import fcntl
import fnmatch
import socket
import struct
import time
from pathlib import Path

from cli import linux
from cli.errors import RepriseError

_SIOCETHTOOL = 0x8946
# Commands of the ioctl that switch an offload of an interface.
RECEIVE_CHECKSUMS, SEND_CHECKSUMS, TSO, GSO, GRO = 0x15, 0x17, 0x1F, 0x24, 0x2C
# As packets are on a wire: with whole checksums, and neither merged nor cut.
NO_OFFLOADS = {SEND_CHECKSUMS: False, RECEIVE_CHECKSUMS: False, TSO: False, GSO: False, GRO: False}
_APPEARS_S = 5.0


def set_offloads(netns: int | None, interface: str, settings: dict[int, bool]) -> None:
    """Switches offloads of a host's interface, in the order given."""
    for setting, value in settings.items():
        _ethtool(netns, interface, setting, int(value))


def has_offload(netns: int | None, interface: str, setting: int) -> bool:
    """Whether an offload of a host's interface is on; the command that asks is the one before."""
    return _ethtool(netns, interface, setting - 1, 0) != 0


def _ethtool(netns: int | None, interface: str, command: int, value: int) -> int:
    with linux.inside(netns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        words = array.array("I", (command, value))
        address = words.buffer_info()[0]
        fcntl.ioctl(some, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), address))
        return words[1]


def use_threaded_napi(netns: int | None, sysfs: Path, interface: str) -> int:
    """Turns it on for an interface of the host that `sysfs` shows; returns the thread's process number."""
    known = processes_named(f"napi/{interface}-*")  # other namespaces may have some of the same name
    set_offloads(netns, interface, {GRO: True, TSO: False})
    (sysfs / "class/net" / interface / "threaded").write_text("1", encoding="ascii")
    end = time.monotonic() + _APPEARS_S
    while not (fresh := processes_named(f"napi/{interface}-*") - known):
        if time.monotonic() > end:
            raise RepriseError(
                f"the kernel made no NAPI thread for {interface}",
                "run in the machine's own PID namespace on Linux 5.12 or newer",
            )
        time.sleep(0.01)
    return fresh.pop()


def processes_named(pattern: str) -> set[int]:
    """Numbers of the processes and kernel threads whose names match a shell pattern."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
            found |= {int(folder.name)} if fnmatch.fnmatchcase(name, pattern) else set()
    return found
