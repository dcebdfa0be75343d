"""The tools that are measured: their command lines and how each is started and awaited.

Every command line is in the session's bench.json; dnsperf's flags are fixed here.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.bed import CLIENT, CLIENT_CORE, SERVER, SERVER6, SERVER_CORE, Bed, Program
from cli import programs
from cli.errors import RepriseError
from cli.plan import certificates, network

_PORT = 4853
_LIMIT_S = 180.0
_NO_BPF = "--bounding-set=-bpf,-sys_admin,-perfmon"


@dataclass(frozen=True)
class Dnsperf:
    """Closed loop: keeps `outstanding` queries on the way, one thread."""

    clients: int
    outstanding: int
    data: Path
    runs: int  # through the data file
    mode: str = "udp"  # tcp and dot (TLS) keep a connection a client
    a_connection: int = 0  # so many queries on each, 0 = no limit

    def argv(self) -> list[str]:
        """-Q is left at no limit."""
        flags = {"-c": self.clients, "-T": 1, "-q": self.outstanding, "-n": self.runs}
        words = [word for flag, value in flags.items() for word in (flag, str(value))]
        words += [] if self.mode == "udp" else ["-m", self.mode]
        words += [] if self.a_connection == 0 else ["-O", f"num-queries-per-conn={self.a_connection}"]
        return [programs.packaged("dnsperf"), "-s", SERVER, "-d", str(self.data), *words]

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end."""
        argv = self.argv()
        _end_well(bed.start("dnsperf", CLIENT, CLIENT_CORE, argv).finish(_LIMIT_S), bed, "dnsperf")
        return [argv]


@dataclass(frozen=True)
class Kxdpgun:
    """Sends at a rate by AF_XDP and drops the answers."""

    rate: int
    seconds: int
    data: Path

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end."""
        argv = [programs.packaged("kxdpgun"), "-t", str(self.seconds), "-Q", str(self.rate), "-b", "64", "-r"]
        argv += ["-F", f"{CLIENT_CORE}s1", "-i", str(self.data), SERVER]
        _end_well(bed.start("kxdpgun", CLIENT, CLIENT_CORE, argv).finish(_LIMIT_S), bed, "kxdpgun")
        return [argv]


@dataclass(frozen=True)
class Drool:
    """Replays a capture with its timing over one socket, without waiting for answers."""

    trace: Path

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end."""
        argv = [programs.packaged("drool"), "replay", "-t", "keep", "-n", "--no-tcp"]
        argv += [str(self.trace), SERVER, "53"]
        _end_well(bed.start("drool", CLIENT, CLIENT_CORE, argv).finish(_LIMIT_S), bed, "drool")
        return [argv]


@dataclass(frozen=True)
class Floor:
    """One query a connection by the fewest system calls, or at OpenSSL's own cost."""

    connections: int
    in_flight: int
    sources: int
    words: tuple[str, ...] = ()  # for TLS
    name: str = "floor"

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end."""
        argv = [programs.own("reprise-stream-floor"), SERVER, "--connections", str(self.connections)]
        argv += ["--in-flight", str(self.in_flight), "--sources", str(self.sources), *self.words]
        _end_well(bed.start(self.name, CLIENT, CLIENT_CORE, argv).finish(_LIMIT_S), bed, self.name)
        return [argv]


@dataclass(frozen=True)
class Tree:
    """A started controller with its distributor."""

    bed: Bed
    distributor: Program
    controller: Program
    argvs: list[list[str]]

    def finish(self) -> list[list[str]]:
        """Waits for its end; the records go, the controller's account stays."""
        status = self.controller.finish(_LIMIT_S)
        self.distributor.finish(_LIMIT_S)
        folder = self.bed.folder
        results = folder / "results"
        shutil.rmtree(folder / "tls")
        account = _account(results / "controller.json")
        if status != 0 or not account.get("clean"):
            reasons = ", ".join(account.get("because", [])) or self.controller.last_line()
            raise RepriseError(f"the replay was not clean: {reasons}", f"see {folder}")
        for file in ("controller.json", "sources.csv"):
            (results / file).rename(folder / file)
        shutil.rmtree(results)
        return self.argvs


@dataclass(frozen=True)
class Reprise:
    """The real tree: controller, distributor and its queriers, all of them on the client's core."""

    trace: Path
    controller: tuple[str, ...] = ()
    distributor: tuple[str, ...] = ()
    may_load_bpf: bool = True  # else the client's side lacks the rights, as in many containers
    queriers: int = 1

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs the tree to its end."""
        return self.start(bed).finish()

    def start(self, bed: Bed) -> Tree:
        """Starts the tree."""
        results = bed.folder / "results"
        results.mkdir()
        certificates.write(bed.folder / "tls", {CLIENT: network.control_address(1)})
        argvs = [self._distributor(bed.folder), self._controller(bed)]
        distributor = bed.start("distributor", CLIENT, CLIENT_CORE, argvs[0])
        distributor.until("event=listening")
        controller = bed.start("controller", network.CONTROLLER, SERVER_CORE, argvs[1])
        return Tree(bed, distributor, controller, argvs)

    def _distributor(self, folder: Path) -> list[str]:
        argv = [] if self.may_load_bpf else [programs.packaged("setpriv"), _NO_BPF]
        argv += [programs.own("reprise-querier"), "distribute", "--run-id", "bench", "--name", CLIENT]
        argv += ["--listen", f"{network.control_address(1)}:{_PORT}", "--queriers", str(self.queriers)]
        return [*argv, "--results", str(folder / "results"), *_tls(folder / "tls", CLIENT), *self.distributor]

    def _controller(self, bed: Bed) -> list[str]:
        folder = bed.folder
        argv = [programs.own("reprise-controller"), str(self.trace), "--run-id", "bench"]
        argv += ["--distributor", f"{CLIENT}={network.control_address(1)}:{_PORT}"]
        argv += ["--server", SERVER, "--server", SERVER6, "--source-mode", bed.source_mode]
        argv += ["--confirm-return-path"]
        argv += ["--results", str(folder / "results"), *_tls(folder / "tls", "controller")]
        return [*argv, *self.controller]


class Tool(Protocol):
    """What can be measured."""

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end in a bed; returns its command lines."""


def _tls(folder: Path, name: str) -> list[str]:
    files = {"--cert": f"{name}.pem", "--key": f"{name}.key", "--ca": "ca.pem"}
    return [word for option, file in files.items() for word in (option, str(folder / file))]


def _account(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _end_well(status: int, bed: Bed, name: str) -> None:
    if status != 0:
        raise RepriseError(f"{name} ended with status {status}", f"see {bed.folder}")
