"""The tools that are measured: their command lines and how each is started and awaited.

Every command line is in the session's bench.json; dnsperf's flags are fixed here.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.bed import CLIENT, CLIENT_CORE, SERVER, SERVER_CORE, Bed
from cli import programs
from cli.errors import RepriseError
from tests.bed import Program

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
        return _run(bed, "dnsperf", argv)


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
        return _run(bed, "kxdpgun", argv)


@dataclass(frozen=True)
class Drool:
    """Replays a capture with its timing over one socket, without waiting for answers."""

    trace: Path

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end."""
        argv = [programs.packaged("drool"), "replay", "-t", "keep", "-n", "--no-tcp"]
        argv += [str(self.trace), SERVER, "53"]
        return _run(bed, "drool", argv)


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
        argv = [programs.own("reprise-floor"), SERVER, "--connections", str(self.connections)]
        argv += ["--in-flight", str(self.in_flight), "--sources", str(self.sources), *self.words]
        return _run(bed, self.name, argv)


@dataclass(frozen=True)
class Tree:
    """A started controller with its distributor."""

    bed: Bed
    distributor: Program
    controller: Program

    def finish(self) -> list[list[str]]:
        """Waits for its end; the records go, the controller's account stays."""
        status = self.controller.wait(_LIMIT_S)
        if status == 0:  # otherwise nobody may have told it to end
            self.distributor.wait(_LIMIT_S)
        folder, results = self.bed.folder, self.bed.results
        shutil.rmtree(folder / "tls")
        account = self.bed.account() if (results / "controller.json").exists() else {}
        if status != 0 or not account.get("clean"):
            reasons = ", ".join(account.get("because", [])) or self.controller.last_line()
            raise RepriseError(f"the replay was not clean: {reasons}", f"see {folder}")
        for file in ("controller.json", "sources.csv"):
            (results / file).rename(folder / file)
        shutil.rmtree(results)
        return [argv_of(self.distributor), argv_of(self.controller)]


@dataclass(frozen=True)
class Reprise:
    """The real tree: controller, distributor and its queriers, all of them on the client's core."""

    trace: Path
    controller: tuple[str, ...] = ()
    may_load_bpf: bool = True  # else the client's side lacks the rights, as in many containers
    queriers: int = 1
    controller_core: int = SERVER_CORE

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs the tree to its end."""
        return self.start(bed).finish()

    def start(self, bed: Bed) -> Tree:
        """Starts the tree."""
        wrap = () if self.may_load_bpf else (programs.packaged("setpriv"), _NO_BPF)
        distributor = bed.start_distributor(1, queriers=self.queriers, wrap=wrap, core=CLIENT_CORE)
        options = ("--source-mode", bed.source_mode, *self.controller)
        return Tree(
            bed, distributor, bed.start_controller(self.trace, extra=options, core=self.controller_core)
        )


class Tool(Protocol):
    """What can be measured."""

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end in a bed; returns its command lines."""


def argv_of(program: Program) -> list[str]:
    """Its command line."""
    words = program.process.args
    assert isinstance(words, list)
    return [str(word) for word in words]


def _run(bed: Bed, name: str, argv: list[str]) -> list[list[str]]:
    if (status := bed.start(CLIENT, argv, name, CLIENT_CORE).wait(_LIMIT_S)) != 0:
        raise RepriseError(f"{name} ended with status {status}", f"see {bed.folder}")
    return [argv]
