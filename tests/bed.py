"""A test bed: hosts as network namespaces, a real NSD, and the real programs started one by one.

Faults in the replay tree (a killed process, a cut link, a stranger's certificate) are made here, where each
process can be reached; faults that a user makes are tested through `reprise run`.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import linux, programs
from cli.executor import netns
from cli.experiment.schema import Server
from cli.plan import certificates, network
from cli.servers import servers
from report.rqfile import RqFile, read_rq

PORT = 4853
ZONE = """$ORIGIN .
. 300 IN SOA ns. hostmaster. 1 3600 600 86400 300
. 300 IN NS ns.
ns. 300 IN A 192.0.2.1
com. 300 IN NS ns.
"""


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    """Polls until the condition holds; fails after the bound."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"in {limit_s} s not seen: {what}"
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Also of a process that nobody has reaped: in a container the first process may reap none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def _die_with_test() -> None:
    ctypes.CDLL(None).prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@dataclass
class Program:
    """A started process with its standard error in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, limit_s: float = 60.0) -> int:
        return self.process.wait(timeout=limit_s)


def start(argv: list[str], log: Path) -> Program:
    """Starts a program in the network that we are in; it dies with the test."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_test,  # noqa: PLW1509 - the tests have one thread
        )
    return Program(process, log)


@dataclass
class Bed:
    """Two clients, a controller and a server; everything ends with close()."""

    folder: Path
    clients: int = 2
    source_mode: str = "ports"
    peers: tuple[str, ...] = ()  # further addresses of the server
    extend: Callable[[network.Network], network.Network] = lambda base: base
    hosts: netns.Hosts = field(default_factory=netns.Hosts)
    started: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        base = network.local(self.clients, 4096, self.source_mode, self.peers)
        self.hosts = netns.build(self.extend(base))
        names = {network.client(i): network.control_address(i) for i in range(1, self.clients + 1)}
        certificates.write(self.folder / "tls", names, feeders=[network.client(1)])

    @property
    def results(self) -> Path:
        path = self.folder / "results"
        path.mkdir(exist_ok=True)
        return path

    def start(self, host: str, argv: list[str], name: str = "") -> Program:
        log = self.folder / f"{name or Path(argv[0]).name}-{len(self.started)}.log"
        with linux.inside(self.hosts.of(host)):
            self.started.append(start(argv, log))
        return self.started[-1]

    def ip(self, host: str, *words: str) -> None:
        with linux.inside(self.hosts.of(host)):
            subprocess.run([programs.packaged("ip"), *words], check=True)

    def start_server(self) -> Program:
        zone = self.folder / "zone"
        zone.write_text(ZONE, encoding="ascii")
        self.folder.chmod(0o755)
        site = servers.Site(
            folder=str(self.folder),
            zone_file=str(zone),
            origin=".",
            addresses=(network.SERVICE_V4, network.SERVICE_V6),
            user="",
            descriptors=2000,
        )
        config = self.folder / "nsd.conf"
        config.write_text(servers.nsd_config(Server(kind="nsd", zone=str(zone)), site), encoding="ascii")
        server = self.start("server", [programs.packaged("nsd"), "-d", "-c", str(config)])
        wait_for(lambda: "nsd started" in server.text(), "nsd started")
        return server

    def start_distributor(
        self,
        index: int,
        *,
        queriers: int = 2,
        feeds: tuple[str, ...] = (),
        results: Path | None = None,
        host: str = "",
        run: str = "test",
        tls: Path | None = None,
        extra: tuple[str, ...] = (),
        wrap: tuple[str, ...] = (),
    ) -> Program:
        name = network.client(index)
        folder = tls or self.folder / "tls"
        argv = [*wrap, programs.own("reprise-querier"), "distribute", "--run-id", run, "--name", name]
        argv += ["--listen", f"{network.control_address(index)}:{PORT}", "--queriers", str(queriers)]
        argv += ["--results", str(results or self.results), *_tls(folder, name), *extra]
        for feed in feeds:
            argv += ["--feed", feed]
        program = self.start(host or name, argv, f"distributor-{name}")
        wait_for(
            lambda: "event=listening" in program.text() or program.process.poll() is not None,
            f"{name} listening",
        )
        return program

    def start_controller(
        self,
        trace: Path | None,
        clients: tuple[int, ...] = (1,),
        extra: tuple[str, ...] = (),
        tls: Path | None = None,
    ) -> Program:
        argv = [programs.own("reprise-controller"), *([str(trace)] if trace else []), "--run-id", "test"]
        for index in clients:
            argv += ["--distributor", f"{network.client(index)}={network.control_address(index)}:{PORT}"]
        argv += ["--server", network.SERVICE_V4, "--server", network.SERVICE_V6]
        argv += ["--confirm-return-path"]  # there is no other way than to the client
        argv += ["--results", str(self.results), *_tls(tls or self.folder / "tls", "controller"), *extra]
        if "--late-ms" not in extra:
            argv += ["--late-ms", "0"]  # the machine that runs the tests may be busy with others
        return self.start("controller", argv, "controller")

    def account(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.results / "controller.json").read_text())
        return loaded

    def records(self) -> list[RqFile]:
        return [read_rq(path) for path in sorted(self.results.glob("queries-*.rq"))]

    def queriers(self, distributor: Program) -> list[int]:
        """Process ids of a distributor's queriers."""
        children = Path(f"/proc/{distributor.process.pid}/task/{distributor.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def close(self) -> None:
        for program in reversed(self.started):
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait()
        for descriptor in self.hosts.descriptors.values():
            os.close(descriptor)


def _tls(folder: Path, name: str) -> list[str]:
    files = {"--cert": f"{name}.pem", "--key": f"{name}.key", "--ca": "ca.pem"}
    return [word for option, file in files.items() for word in (option, str(folder / file))]


def progress(controller: Program) -> Counter[str]:
    """The controller's latest line about the queries."""
    lines = [line for line in controller.text().splitlines() if line.startswith("progress")]
    last = lines[-1] if lines else ""
    return Counter({key: int(value) for key, value in re.findall(r"(\w+)=(\d+)\b", last)})


def wait_for_answers(controller: Program) -> None:
    """Until the controller's progress lines report answers: the replay is in its middle."""
    wait_for(lambda: progress(controller)["answered"] > 0, "answers in the progress lines")


def synth(path: Path, *options: str) -> Path:
    """A synthetic trace by reprise-mutator."""
    subprocess.run(
        [programs.own("reprise-mutator"), "synth", *options, "-o", str(path)],
        check=True,
        capture_output=True,
    )
    return path


def accounted(queries: dict[str, int]) -> int:
    """All ends of queries, as in controller.json; equals what was read."""
    ends = ("answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")
    return sum(queries[end] for end in ends)


MakeBed = Callable[..., Bed]
