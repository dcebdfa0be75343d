"""Two hosts for the fronts of statelessTCP: a client's, and a server's with a real NSD or BIND."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import dns.message

from bench.veth import NO_OFFLOADS, set_offloads
from cli import programs
from cli.experiment.schema import Server
from cli.plan.network import Address, Host, Link, Network, Route, sysctls
from cli.process import Process
from cli.servers import bind, nsd
from cli.servers.kind import Site
from cli.servers.kinds import KINDS
from tests.bed import BareBed, below, wait_for

CLIENT, SERVER = "client", "server"
CLIENT_IF, SERVER_IF = "data0", "data1"
CLIENT4, CLIENT6 = "198.19.1.1", "fd00:198:19:1::1"
SERVER4, SERVER6 = "198.19.1.2", "fd00:198:19:1::2"  # of the interface
SERVICE4, SERVICE6 = "198.19.255.53", "fd00:198:19:ff::53"  # of the loopback
SIZES = (100, 500, 1200, 2000, 3900)  # bytes of the TXT records sSIZE.example.
ADDRESSES = (SERVICE4, SERVER4, SERVICE6, SERVER6)
ACTIVE = ("--active", "1")
KEY = "c3RhdGVsZXNzIGZyb250IGluIHVzZXIgc3BhY2U="  # of TSIG, named test.
TRANSFERRED = 6000  # hosts in the zone, so that a transfer takes more than a client's window

# An nftables rule against packets with data, at the client.
DROP_ANSWERS = """table inet loss {
    chain input { type filter hook input priority 0; tcp sport 53 tcp flags & psh == psh drop; }
}"""


def network() -> Network:
    """A link, and service addresses behind it."""
    return Network(
        kind="namespaces",
        hosts=(Host(CLIENT), Host(SERVER)),
        links=(
            Link(
                CLIENT,
                SERVER,
                CLIENT_IF,
                SERVER_IF,
                (f"{CLIENT4}/24", f"{CLIENT6}/64"),
                (f"{SERVER4}/24", f"{SERVER6}/64"),
            ),
        ),
        addresses=(Address(SERVER, "lo", f"{SERVICE4}/32"), Address(SERVER, "lo", f"{SERVICE6}/128")),
        routes=(Route(CLIENT, f"{SERVICE4}/32", via=SERVER4), Route(CLIENT, f"{SERVICE6}/128", via=SERVER6)),
        sysctls=tuple(one for host in (CLIENT, SERVER) for one in sysctls(host, 4096, host == CLIENT)),
    )


def zone_text() -> str:
    """Answers of several sizes, and enough hosts for a long transfer."""
    lines = ["$ORIGIN example.", "$TTL 300", "@ SOA ns hostmaster 1 3600 600 86400 300", "@ NS ns"]
    lines += ["ns A 192.0.2.1", "a A 192.0.2.2", "a AAAA 2001:db8::2"]
    for size in SIZES:
        strings = [f'"{"x" * min(250, size - at)}"' for at in range(0, size, 250)]
        lines.append(f"s{size} TXT {' '.join(strings)}")
    lines += [f"host{number} A 10.1.{number // 250}.{number % 250}" for number in range(TRANSFERRED)]
    return "\n".join(lines) + "\n"


class ReferenceBed(BareBed):
    """The two hosts; at the server's, packets have whole checksums and are not merged."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, network())
        self.folder.chmod(0o755)
        self.stats = folder / "front.json"
        for host, interface in ((CLIENT, CLIENT_IF), (SERVER, SERVER_IF)):
            set_offloads(self.hosts.of(host), interface, NO_OFFLOADS)

    def start_nsd_server(self, port: int = 53, minimal: bool = True) -> Process:
        wanted, site = self._server("nsd", port, minimal)
        transfers = "    provide-xfr: 0.0.0.0/0 NOKEY\n    provide-xfr: ::0/0 NOKEY\n"
        config = self.folder / "nsd.conf"
        config.write_text(nsd.config(wanted, site) + transfers, encoding="ascii")
        return self.start_nsd(SERVER, config, "server").until("nsd started")

    def start_bind_server(self) -> Process:
        """BIND with zone transfers, a key, and records in the zone's order."""
        text = bind.config(*self._server("bind", 53, True))
        text = text.replace("allow-transfer { none; };", "allow-transfer { any; };")
        text = text.replace("recursion no;", "recursion no;\n    rrset-order { order fixed; };")
        config = self.folder / "named.conf"
        key = f'key test. {{ algorithm hmac-sha256; secret "{KEY}"; }};\n'
        config.write_text(key + text, encoding="ascii")
        return self.start_named(SERVER, config, name="server")

    def _server(self, kind: Literal["nsd", "bind"], port: int, minimal: bool) -> tuple[Server, Site]:
        zone = self.folder / "zone"
        zone.write_text(zone_text(), encoding="ascii")
        site = Site(
            str(self.folder),
            (("example.", str(zone)),),
            ADDRESSES,
            user="",
            descriptors=4096,
            version=KINDS[kind].version(),
        )
        return Server(kind=kind, zone=str(zone), port=port, minimal_responses=minimal), site

    def start_front(self, *options: str, front: str = "reference", ready: str = "event=ready") -> Process:
        """A front at the server's interface, once it serves."""
        argv = [programs.own("reprise-proxy"), "stateless", "--front", front, "--interface", SERVER_IF]
        argv += ["--stats", str(self.stats), *options]
        return self.start(SERVER, argv, "front").until(ready)

    def statistics(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.stats.read_text())
        return loaded

    def finish(self, front: Process) -> dict[str, Any]:
        """Ends a front in order; its last statistics."""
        assert front.stop() == 0, front.text()
        return self.statistics()

    def dig(self, name: str, kind: str = "TXT", *options: str, server: str = SERVICE4) -> str:
        """All that dig says of an answer over TCP."""
        argv = [programs.packaged("dig"), f"@{server}", name, kind, "+tcp", "+nocookie", "+tries=1"]
        return self.output(CLIENT, *argv, "+time=3", "+nostats", "+nocmd", *options)

    def connect(self, server: str = SERVICE4, port: int = 53, timeout: float = 5.0) -> socket.socket:
        """A connection from the client's host."""
        with self.inside(CLIENT):
            return socket.create_connection((server, port), timeout=timeout)

    def listening(self, port: int = 53) -> None:
        """Waits until the server takes connections."""

        def answers() -> bool:
            try:
                self.connect(port=port).close()
            except OSError:
                return False
            return True

        wait_for(answers, "the server taking connections")


# --- what tests do with them --------------------------------------------------------------------------------


def query(name: str = "a.example.", kind: str = "A", payload: int = 4096) -> bytes:
    """A query as over TCP."""
    message = dns.message.make_query(name, kind, use_edns=0 if payload else -1, payload=payload or 512)
    wire = message.to_wire()
    return struct.pack(">H", len(wire)) + wire


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError(f"the connection ended after {len(data)} of {size} bytes")
        data += piece
    return data


def answer(connection: socket.socket) -> dns.message.Message:
    """The next message of a connection."""
    (size,) = struct.unpack(">H", read_exactly(connection, 2))
    return dns.message.from_wire(read_exactly(connection, size))


def ask(bed: ReferenceBed, wire: bytes, server: str = SERVICE4) -> dns.message.Message:
    """One query on a connection of its own."""
    with bed.connect(server) as connection:
        connection.sendall(wire)
        return answer(connection)


def until_counted(bed: ReferenceBed, what: str, least: int = 1) -> None:
    """The file is written once a second."""
    wait_for(lambda: bed.statistics()[what] >= least, f"{what} of {least}")


def server_of(bed: ReferenceBed) -> Process:
    return next(one for one in bed.started if one.name == "server")


def plain(text: str) -> list[str]:
    """What a client prints of an answer, without what differs from one time to the next."""
    text = re.sub(r"id: \d+", "id", text)
    return sorted(line for line in text.splitlines() if not re.match(r";; (From|Time|Received)", line))


def forged(source: str, destination: str, port: int = 4000, data: bytes = b"") -> bytes:
    """A packet of a client that is not there: a SYN, or data on a connection that nobody has opened."""
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    flags = 0x18 if data else 0x02

    def segment(checksum: int) -> bytes:
        return struct.pack(">HHIIBBHHH", port, 53, 1, 1, 5 << 4, flags, 65535, checksum, 0) + data

    pseudo = addresses + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(segment(0))) + segment(0)
    total = sum(struct.unpack(f">{(len(pseudo) + 1) // 2}H", pseudo + b"\0" * (len(pseudo) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    size = 20 + len(segment(0))  # the kernel adds the header's checksum
    header = struct.pack(
        ">BBHHHBBH", 0x45, 0, size, 1, 0, 64, socket.IPPROTO_TCP, 0
    )  # the kernel adds the sum
    return header + addresses + segment(~total & 0xFFFF)


class Stopped:
    """A server that does nothing inside the block."""

    def __init__(self, server: Process) -> None:
        self.ids = [server.pid, *below(server.pid)]

    def __enter__(self) -> None:
        for pid in self.ids:
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for pid in reversed(self.ids):
            os.kill(pid, signal.SIGCONT)


def nft(bed: ReferenceBed, *words: str) -> None:
    bed.output(CLIENT, programs.packaged("nft"), *words, check=True)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[ReferenceBed]:
    """A bed whose NSD takes connections."""
    with ReferenceBed(folder) as made:
        made.start_nsd_server()
        made.listening()
        yield made
