"""The tools that are measured: their command lines and how each is started and awaited; and the servers, each
of which answers every query with the query itself.

Every command line is in the session's bench.json; dnsperf's flags are fixed here.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from bench.bed import CLIENT, CLIENT_CORE, SERVER, SERVER6, SERVER_CORE, SERVER_IF, Bed
from cli import programs
from cli.errors import RepriseError
from cli.plan import certificates, network
from cli.process import Process

_LIMIT_S = 180.0
NAME = "server.reprise.test"
TLS_PORT = 853
_EARLY_DATA = 16_384  # bytes, as OpenSSL's own server takes


@dataclass(frozen=True)
class Program:
    """A tool that runs on the client's host to its end."""

    name: str
    argv: list[str]

    def run(self, bed: Bed) -> list[list[str]]:
        if (status := bed.start(CLIENT, self.argv, self.name, CLIENT_CORE).wait(_LIMIT_S)) != 0:
            raise RepriseError(f"{self.name} ended with status {status}", f"see {bed.folder}")
        return [self.argv]


def dnsperf(
    clients: int, outstanding: int, data: Path, runs: int, mode: str = "udp", a_connection: int = 0
) -> Program:
    """Closed loop: keeps `outstanding` queries on the way, one thread, -Q at no limit, so many `runs` through
    the data file. Modes tcp and dot (TLS) keep a connection a client, for `a_connection` queries (0: all).
    """
    words = ["-c", str(clients), "-T", "1", "-q", str(outstanding), "-n", str(runs)]
    words += [] if mode == "udp" else ["-m", mode]
    words += [] if a_connection == 0 else ["-O", f"num-queries-per-conn={a_connection}"]
    return Program("dnsperf", [programs.packaged("dnsperf"), "-s", SERVER, "-d", str(data), *words])


def kxdpgun(rate: int, seconds: int, data: Path) -> Program:
    """Sends at a rate by AF_XDP and drops the answers."""
    argv = [programs.packaged("kxdpgun"), "-t", str(seconds), "-Q", str(rate), "-b", "64", "-r"]
    return Program("kxdpgun", [*argv, "-F", f"{CLIENT_CORE}s1", "-i", str(data), SERVER])


def drool(trace: Path) -> Program:
    """Replays a capture with its timing over one socket, without waiting for answers."""
    argv = [programs.packaged("drool"), "replay", "-t", "keep", "-n", "--no-tcp", str(trace), SERVER, "53"]
    return Program("drool", argv)


def floor(
    connections: int, in_flight: int, sources: int, words: tuple[str, ...] = (), name: str = "floor"
) -> Program:
    """One query a connection by the fewest system calls, or, with words for TLS, at OpenSSL's own cost."""
    argv = [programs.own("reprise-floor"), SERVER, "--connections", str(connections)]
    return Program(name, [*argv, "--in-flight", str(in_flight), "--sources", str(sources), *words])


@dataclass(frozen=True)
class Reprise:
    """The real tree: controller, distributor and its queriers, all of them on the client's core."""

    trace: Path
    controller: tuple[str, ...] = ()
    queriers: int = 1
    controller_core: int = SERVER_CORE

    def run(self, bed: Bed) -> list[list[str]]:
        """The records go, the controller's account stays."""
        distributor = bed.start_distributor(1, queriers=self.queriers, core=CLIENT_CORE)
        options = ("--source-mode", bed.source_mode, *self.controller)
        controller = bed.start_controller(self.trace, extra=options, core=self.controller_core)
        self.watch(bed, distributor, controller)
        status = controller.wait(_LIMIT_S)
        if status == 0:  # otherwise nobody may have told it to end
            distributor.wait(_LIMIT_S)
        folder, results = bed.folder, bed.results
        shutil.rmtree(folder / "tls")
        account = bed.account() if (results / "controller.json").exists() else {}
        if status != 0 or not account.get("clean"):
            reasons = ", ".join(account.get("because", [])) or controller.last_line()
            raise RepriseError(f"the replay was not clean: {reasons}", f"see {folder}")
        for file in ("controller.json", "sources.csv"):
            (results / file).rename(folder / file)
        shutil.rmtree(results)
        return [[*distributor.argv], [*controller.argv]]

    def watch(self, bed: Bed, distributor: Process, controller: Process) -> None:
        """What is done while it runs."""


Tool = Program | Reprise  # each runs in a bed to its end and returns its command lines


# --- servers ----------------------------------------------------------------------------------------------


class Sink:
    """In the kernel, at the server's interface; other servers are made of it. tcpdump captures packets that
    the filter lets through, `snap` bytes of each.
    """

    filter = "udp dst port 53"
    snap = 192  # enough for the question

    def start(self, bed: Bed, captured: bool) -> list[Process]:
        """Programs that are ready. Where packets are captured the sink answers behind the taps."""
        argv = [programs.own("reprise-sink"), "udp", SERVER_IF, *(["--tc"] if captured else [])]
        return [bed.start(network.SERVER, argv, "sink", SERVER_CORE).until("event=attached")]

    def read(self, bed: Bed, when: str) -> None:
        """Readings before or after what is measured."""
        bed.read(when)


@dataclass(frozen=True)
class TcpSink(Sink):
    """Processes that share a port, over TCP or, with the folder of an identity, TLS."""

    identity: Path | None = None
    delay_ms: int = 0  # before each answer
    early_data: bool = False
    filter = f"tcp port 53 or tcp port {TLS_PORT}"
    snap = 65_535

    def start(self, bed: Bed, captured: bool) -> list[Process]:
        """Where packets are captured the secrets of TLS are kept for tshark."""
        argv = [programs.own("reprise-sink"), "tcp", "--delay-ms", str(self.delay_ms)]
        if self.identity:
            argv += ["--port", str(TLS_PORT), "--cert", str(self.identity / "server.pem")]
            argv += ["--key", str(self.identity / "server.key")]
            argv += ["--early-data", str(_EARLY_DATA)] if self.early_data else []
            argv += ["--keylog", str(bed.folder / "keys.txt")] if captured else []
        return [bed.start(network.SERVER, argv, "sink", SERVER_CORE).until("event=listening")]


def write_identity(folder: Path, key_type: str) -> None:
    """The server's certificate and key, and the authority that clients trust, `ca.pem`; the folder goes with
    the session's end.
    """
    folder.mkdir(mode=0o700)
    stems, addresses = {str(folder / "server"): ""}, (SERVER, SERVER6)
    certificates.write_service(stems, folder / "ca.pem", NAME, addresses, key_type)
