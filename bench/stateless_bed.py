"""What `reprise bench stateless` measures on: a real server with or without a front, and its readings.

The client's side, our controller, the bench itself and its watch run on core 0. Core 1 is the server's: the
server, the front and the kernel thread that receives at the server's interface.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench import veth
from bench.bed import CLIENT, CLIENT_IF, SERVER_CORE, SERVER_IF, Bed
from cli import programs
from cli.errors import RepriseError
from cli.experiment.schema import Server
from cli.plan import network
from cli.process import Process
from cli.servers import bind, nsd
from tests.bed import below

EDNS_SIZE = 4096  # of the queries, and the most that the servers send over UDP
NAMES = 200  # of each size of reply
STATISTICS = "front.json"
_TXT, _MOST_IN_STRING = 16, 255
_BESIDE_RDATA = 12 + 4 + 12 + 11  # header, type and class of the question, record, OPT
Kind = Literal["bind", "nsd"]
_READY = {"bind": " running\n", "nsd": "nsd started"}
_APEX = """$ORIGIN .
. 300 IN SOA ns. hostmaster. 1 3600 600 86400 300
. 300 IN NS ns.
ns. 300 IN A 192.0.2.1
"""


@dataclass(frozen=True)
class Way:
    """How queries reach the server: the transport, and the front where there is one."""

    name: str
    transport: tuple[str, ...]  # the controller's options
    front: tuple[str, ...] = ()  # options of `reprise-proxy stateless`
    cookies: str = (
        "1"  # net.ipv4.tcp_syncookies: 1 where the queue of half-open connections is full, 2 always
    )


_SINGLE = ("--transport", "stateless-tcp")
UDP = Way("udp", ("--transport", "udp"))
TCP = Way("tcp", _SINGLE)
TCP_COOKIES = Way("tcp-cookies", _SINGLE, cookies="2")
PERSISTENT = Way("tcp-persistent", ("--transport", "tcp", "--idle-timeout-s", "600"))
REFERENCE = Way("reference", _SINGLE, ("--front", "reference", "--active", "1"))
REFERENCE_AXFR = Way("reference-axfr", _SINGLE, (*REFERENCE.front, "--axfr-detect", "1"))
BPF = Way("bpf", _SINGLE, ("--front", "bpf"))
BPF_NO_AXFR = Way("bpf-no-axfr", _SINGLE, (*BPF.front, "--axfr-detect", "0"))


# --- the zone ---------------------------------------------------------------------------------------------


def names(size: int) -> list[str]:
    """Whose TXT records make replies of so many bytes."""
    return [f"n{number:03d}.s{size}.bench.example" for number in range(NAMES)]


def zone(sizes: tuple[int, ...]) -> str:
    """A root zone with the names of all sizes."""
    lines = (f"{name}. 300 IN TXT {strings}\n" for size in sizes for name, strings in _texts(size))
    return _APEX + "".join(lines)


def _texts(size: int) -> list[tuple[str, str]]:
    """Names with the strings of their record: as many bytes as the reply has left for it."""
    found = []
    for name in names(size):
        left = size - _BESIDE_RDATA - (len(name) + 2)
        strings = []
        while left > 0:
            length = min(left - 1, _MOST_IN_STRING)
            if left - 1 - length == 1:  # a string of its own needs two
                length -= 1
            strings.append('"' + "x" * length + '"')
            left -= 1 + length
        found.append((name, " ".join(strings)))
    return found


# --- the hosts --------------------------------------------------------------------------------------------


class ServedBed(Bed):
    """Client, server and controller, with one real server."""

    def __init__(self, folder: Path, source_mode: str = "addresses") -> None:
        super().__init__(folder, source_mode, napi=False)
        self.measured: dict[str, Process] = {}
        # As on a wire, and without segmentation, which needs the offload; the receiver verifies them.
        veth.set_offloads(self.hosts.of(CLIENT), CLIENT_IF, {veth.SEND_CHECKSUMS: False})

    def set_cookies(self, value: str) -> None:
        """When the server's kernel answers SYNs with SYN cookies."""
        with self.inside(network.SERVER):
            Path("/proc/sys/net/ipv4/tcp_syncookies").write_text(value, encoding="ascii")

    def serve(self, kind: Kind, zone_file: Path) -> list[str]:
        """Starts BIND or NSD with one thread or process on the server's core; its command line."""
        site = self.site(zone=zone_file)
        settings = Server(
            kind=kind, zone=str(zone_file), edns_size=EDNS_SIZE, minimal_responses=True, tcp_idle_timeout_s=60
        )
        config = self.folder / f"{kind}.conf"
        make = bind.config if kind == "bind" else nsd.config
        config.write_text(make(settings, site), encoding="ascii")
        program = "named" if kind == "bind" else "nsd"
        copy = Path(programs.copied(program, self.folder))  # AppArmor keeps Debian's out of our folders
        options = ["-g", "-n", "1"] if kind == "bind" else ["-d"]
        argv = [str(copy), *options, "-c", str(config)]
        server = self.start(network.SERVER, argv, "server", SERVER_CORE)
        self.measured["server"] = server.until(_READY[kind])
        copy.unlink()
        return argv

    def start_front(self, words: tuple[str, ...]) -> list[str]:
        """Starts a front on the server's host and core; its command line."""
        argv = [programs.own("reprise-proxy"), "stateless", "--interface", SERVER_IF]
        argv += ["--stats", str(self.folder / STATISTICS), *words]
        front = self.start(network.SERVER, argv, "front", SERVER_CORE)
        self.measured["front"] = front.until("event=ready")
        return argv

    def stop_measured(self) -> None:
        """Ends the front, which writes its statistics, and the server."""
        for program in reversed(self.measured.values()):
            if (status := program.stop()) != 0:
                raise RepriseError(f"{program.name} ended with status {status}", f"see {program.log}")

    def read(self, when: str) -> None:
        """Readings of the server, the front, the core and both hosts' counters of TCP as well."""
        for who, program in self.measured.items():
            self.log.processes([program.pid, *below(program.pid)], when, who)
        self.log.thread(when, "ksoftirqd", _ksoftirqd())
        self.log.file(when, "machine", "cpu", Path("/proc/stat"))
        for who, host in (("client", CLIENT), ("server", network.SERVER)):
            with self.inside(host):
                for kind in ("snmp", "netstat"):
                    self.log.file(when, who, kind, Path("/proc/thread-self/net") / kind)
        super().read(when)


def served(folder: Path, server: Kind, zone_file: Path, way: Way, source_mode: str) -> ServedBed:
    """A bed with the server, and the front where the way has one, both ready; to be closed."""
    bed = ServedBed(folder, source_mode)
    try:
        bed.set_cookies(way.cookies)
        bed.serve(server, zone_file)
        if way.front:
            bed.start_front(way.front)
        bed.receive_in_threads()  # last: a front may change the interface's settings
    except BaseException:
        bed.close()
        raise
    return bed


def command_lines(bed: ServedBed) -> list[list[str]]:
    """The command lines of server and front."""
    return [[*program.argv] for program in bed.measured.values()]


def _ksoftirqd() -> int:
    """The kernel thread that does softirq work which the server's core has put off."""
    name = f"ksoftirqd/{SERVER_CORE}"
    for pid in veth.processes_named(name):
        return pid
    raise RepriseError(f"no kernel thread {name}", "run in the machine's own PID namespace")


def pin_bench() -> set[int]:
    """Keeps the bench off the server's core; the cores that it had."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core for core in before if core != SERVER_CORE} or before)
    return before
