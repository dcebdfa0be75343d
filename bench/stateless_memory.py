"""Memory of a query in flight: in the kernel's TCP, and in the fronts.

The server takes queries and answers none. For the kernel's TCP the client's ends of the connections are taken
away without a word to the server (TCP_REPAIR), so that what the kernel's slabs hold more is the server's.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import time
from pathlib import Path

from bench.bed import CLIENT, SERVER, Bed
from bench.session import Session
from bench.stateless_bed import BPF, REFERENCE, STATISTICS, TCP, ServedBed, Way
from cli.errors import RepriseError, complain
from cli.plan import network

WAYS = (TCP, REFERENCE, BPF)
_PORT = 53
_TCP_REPAIR = 19
_QUERY = (
    struct.pack("!HHHHHH", 0, 0x0100, 1, 0, 0, 0) + b"\x05bench\x07example\x00" + struct.pack("!HH", 1, 1)
)
_FRONT_TIMEOUT_MS = 600_000
_PATIENCE_S = 10.0
_SETTLED_S = 0.5


def measure(session: Session, waiting: int) -> None:
    """The kernel's TCP, then each front."""
    for way in WAYS:
        folder = session.next_folder("memory", way.name)
        complain(f"bench: {folder.name}")
        with ServedBed(folder) as bed:
            if way.front:
                argvs = _hold_in_front(bed, way, waiting)
            else:
                argvs = []
                _hold_in_kernel(bed, waiting)
        session.note(folder, row="memory", tool=way.name, repeat=0, argv=argvs, waiting=waiting)


def _hold_in_kernel(bed: ServedBed, waiting: int) -> None:
    """Connections with a query that was read and is not answered."""
    with bed.inside(network.SERVER):
        listener = socket.create_server((SERVER, _PORT), backlog=128)
    read_memory(bed, "before")
    held = []
    with listener:
        for number in range(waiting):
            with bed.inside(CLIENT):
                client = _ask(number)
            server, _ = listener.accept()
            server.recv(512)
            held.append(server)
            client.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
            client.close()
        time.sleep(_SETTLED_S)
        read_memory(bed, "during")
    for server in held:
        server.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
        server.close()


def _hold_in_front(bed: ServedBed, way: Way, waiting: int) -> list[list[str]]:
    """Queries that a front has passed on and that are not answered."""
    with bed.inside(network.SERVER):
        mute = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mute.bind((SERVER, _PORT))
        listener = socket.create_server((SERVER, _PORT), backlog=128)
    with mute, listener:
        argvs = [bed.start_front((*way.front, "--timeout", str(_FRONT_TIMEOUT_MS)))]
        read_memory(bed, "before")
        clients = []
        for number in range(waiting):
            with bed.inside(CLIENT):
                clients.append(_ask(number))
        _keep_statistics(bed, waiting)
        _read_maps(bed)
        read_memory(bed, "during")
        for client in clients:
            client.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
            client.close()
        bed.stop_measured()
    return argvs


def _ask(number: int) -> socket.socket:
    """A connection with one query on its way; from one address, whose ports must last."""
    client = socket.create_connection((SERVER, _PORT), timeout=_PATIENCE_S)
    message = struct.pack("!H", number & 0xFFFF) + _QUERY[2:]
    client.sendall(struct.pack("!H", len(message)) + message)
    return client


def _keep_statistics(bed: ServedBed, waiting: int) -> None:
    """The front's statistics while it has all queries; it writes them once a second."""
    path = bed.folder / STATISTICS
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if path.exists() and json.loads(path.read_text(encoding="utf-8"))["entries"] >= waiting:
            break
        time.sleep(0.1)
    else:
        raise RepriseError(
            f"the front does not hold {waiting} queries", f"see {path} and {bed.measured['front'].log}"
        )
    shutil.copy(path, bed.folder / "front-during.json")


def _read_maps(bed: ServedBed) -> None:
    """What the kernel says of each BPF map of the front: its size, and the memory that it takes."""
    folder = Path(f"/proc/{bed.measured['front'].pid}/fdinfo")
    for path in folder.iterdir():
        text = path.read_text(encoding="ascii")
        if "map_type:" in text:
            bed.log.add("during", f"map-{path.name}", "map", text=text)


def read_memory(bed: Bed, when: str) -> None:
    """The kernel's slabs, all together and each, and its count of sockets at the server."""
    bed.log.file(when, "machine", "meminfo", Path("/proc/meminfo"))
    bed.log.file(when, "machine", "slabinfo", Path("/proc/slabinfo"))
    with bed.inside(network.SERVER):
        bed.log.file(when, "server", "sockstat", Path("/proc/thread-self/net/sockstat"))
