"""One test bed: hosts as network namespaces, the programs on them, captures, real servers, the replay tree.

Faults in the replay tree (a killed process, a cut link, a stranger's certificate) are made here, where each
process can be reached; faults that a user makes are tested through `reprise run`. The benches measure on it.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TypeVar

from cli import linux, programs
from cli.errors import RepriseError, one_line
from cli.executor import netns
from cli.experiment.schema import Server
from cli.plan import certificates, network
from cli.process import Process
from cli.servers import nsd
from cli.servers.kind import Service, Site
from cli.servers.kinds import KINDS
from report.rqfile import RqFile, read_rq

AnyProcess = TypeVar("AnyProcess", bound=Process)
PORT = 4853
READY_S = 30.0
ZONE = """$ORIGIN .
. 300 IN SOA ns. hostmaster. 1 3600 600 86400 300
. 300 IN NS ns.
ns. 300 IN A 192.0.2.1
com. 300 IN NS ns.
"""
_DNS_SERVER = Path(__file__).with_name("dns_server.py")
_COUNTS = re.compile(r"(\d+) packets? captured, (\d+) packets? received")  # of tcpdump, at SIGUSR1
_FETCHED_S = 1.5  # tcpdump fetches once a second


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = READY_S) -> None:
    """Polls until the condition holds; fails after the bound."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise RepriseError(f"in {limit_s:.0f} s not seen: {what}", "see the programs' output")
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Also of a process that nobody has reaped: in a container the first process may reap none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def below(pid: int) -> list[int]:
    """Process ids of all descendants, parents first; of one that has ended there are none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [found for child in children for found in (int(child), *below(int(child)))]


def start(kind: type[AnyProcess], folder: Path, name: str, argv: list[str], core: int = -1) -> AnyProcess:
    """Starts a program in the network that we are in, its output and errors in files of the folder. It dies
    with this process.
    """
    log, output = folder / f"{name}.err", folder / f"{name}.out"
    return kind.started(argv, log, name=name, output=output, bound=True, core=core)


# --- hosts ------------------------------------------------------------------------------------------------


class BareBed:
    """The hosts of a network and the programs started on them; all ends with close(), or the `with` block."""

    program: type[Process] = Process

    def __init__(self, folder: Path, wanted: network.Network) -> None:
        self.folder = folder
        self.started: list[Process] = []
        self.hosts = netns.build(wanted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for program in reversed(self.started):
            program.kill()
        for descriptor in self.hosts.descriptors.values():
            os.close(descriptor)

    def inside(self, host: str) -> AbstractContextManager[None]:
        """Runs the body in the host's network."""
        return linux.inside(self.hosts.of(host))

    def start(self, host: str, argv: list[str], name: str = "", core: int = -1) -> Process:
        """Starts a program on a host; a second one of a name has a number behind it."""
        name = name or Path(argv[0]).name
        if any(one.name == name for one in self.started):
            name = f"{name}-{len(self.started)}"
        with self.inside(host):
            self.started.append(start(self.program, self.folder, name, argv, core))
        return self.started[-1]

    def output(self, host: str, *argv: str, check: bool = False) -> str:
        """Standard output of a short program on a host; unless told, its status does not matter."""
        with self.inside(host):
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=60, check=check)
        return done.stdout

    def ip(self, host: str, *words: str) -> None:
        self.output(host, programs.packaged("ip"), *words, check=True)

    def start_nsd(self, host: str, config: Path, name: str = "") -> Process:
        """A real NSD; it is not waited for."""
        return self.start(host, [programs.packaged("nsd"), "-d", "-c", str(config)], name)

    def start_named(self, host: str, config: Path, *options: str, name: str = "", ready: str = "") -> Process:
        """A real BIND with one thread, once it serves."""
        argv = [programs.packaged("named"), "-g", "-n", "1", *options, "-c", str(config)]
        return self.start(host, argv, name).until(ready or " running\n", 120)

    def start_dns_server(self, host: str, *served: str, wrap: tuple[str, ...] = ()) -> Process:
        """dns_server.py, which does what real servers cannot be told to do."""
        argv = [*wrap, sys.executable, str(_DNS_SERVER), *served]
        return self.start(host, argv, "dns_server").until("responding")


class Capture:
    """tcpdump on an interface of a host, from when it listens. What it writes can be read at once, unless
    `live` is false.
    """

    def __init__(
        self,
        bed: BareBed,
        host: str,
        interface: str,
        name: str = "capture",
        *words: str,
        snap: int = 16_384,  # the ring's places are of this size: at 65,535 they last for 0.1 s
        live: bool = True,
        core: int = -1,
    ) -> None:
        self.path = bed.folder / f"{name}.pcap"
        argv = [programs.packaged("tcpdump"), "-i", interface, "-n", "-s", str(snap), "-B", "65536"]
        argv += ["-Z", "root", "--time-stamp-precision=nano", "-w", str(self.path)]
        argv += ["--immediate-mode", "-U"] if live else []
        program = "tcpdump" if name == "capture" else f"tcpdump-{name}"
        self.program = bed.start(host, [*argv, *words], program, core).until("listening on")

    def stop(self) -> None:
        """Ends it when it has written all that came so far; by itself it would not wait for that. Where it
        leaves packets out (-Q), all is written when no more is for longer than it takes to fetch them.
        """
        if self.program.exit is not None:
            return
        answers, written, since = 0, "", time.monotonic()

        def whole() -> bool:
            nonlocal answers, written, since
            counts = _COUNTS.findall(self.program.text())
            if len(counts) == answers:
                return False  # it has not answered yet
            answers = len(counts)
            if counts[-1][0] != written:
                written, since = counts[-1][0], time.monotonic()
            if written == counts[-1][1] or time.monotonic() > since + _FETCHED_S:
                return True
            self.program.send(signal.SIGUSR1)
            return False

        self.program.send(signal.SIGUSR1)
        wait_for(whole, "tcpdump writing what it captured")
        self.program.stop(signal.SIGINT)

    def rows(self, where: str, *fields: str, options: tuple[str, ...] = ()) -> list[list[str]]:
        """What tshark, which shares no code with us, finds: fields of the packets that a display filter lets
        through; several values of a field have commas between them.
        """
        argv = [
            programs.packaged("tshark"),
            "-n",
            "-r",
            str(self.path),
            "-Y",
            where,
            "-T",
            "fields",
            *options,
        ]
        argv += [word for one in fields for word in ("-e", one)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0 and "cut short" not in done.stderr:  # a packet is being written
            raise RepriseError(f"tshark failed: {one_line(done.stderr)}", f"see {self.path}")
        return [line.split("\t") for line in done.stdout.splitlines()]


# --- the replay tree --------------------------------------------------------------------------------------


class Bed(BareBed):
    """Clients, a controller and a server."""

    run_id = "test"
    options: tuple[str, ...] = ("--late-ms", "1000")  # the machine may be busy with other tests

    def __init__(
        self,
        folder: Path,
        clients: int = 2,
        source_mode: str = "ports",
        peers: tuple[str, ...] = (),  # further addresses of the server
        extend: Callable[[network.Network], network.Network] = lambda base: base,
        listen_queue: int = 4096,
    ) -> None:
        self.clients, self.source_mode = clients, source_mode
        super().__init__(folder, extend(network.local(clients, listen_queue, source_mode, peers)))
        names = {network.client(i): network.control_address(i) for i in range(1, clients + 1)}
        certificates.write(folder / "tls", names, feeders=[network.client(1)])

    @property
    def results(self) -> Path:
        path = self.folder / "results"
        path.mkdir(exist_ok=True)
        return path

    def site(self, service: Service | None = None, zone: Path | None = None) -> Site:
        """What the server of the service addresses serves, by itself a small root zone."""
        self.folder.chmod(0o755)
        if zone is None:
            zone = self.folder / "zone"
            zone.write_text(ZONE, encoding="ascii")
        return Site(
            folder=str(self.folder),
            zones=((".", str(zone)),),
            addresses=(network.SERVICE_V4, network.SERVICE_V6),
            user="",
            descriptors=12_000,
            tls=service,
            version=KINDS["bind"].version(),
        )

    def start_server(
        self, service: Service | None = None, zone: Path | None = None, **settings: Any
    ) -> Process:
        """A real NSD at the service addresses."""
        site = self.site(service, zone)
        config = self.folder / "nsd.conf"
        server = Server(kind="nsd", zone=site.zones[0][1], **settings)
        config.write_text(nsd.config(server, site), encoding="ascii")
        return self.start_nsd(network.SERVER, config).until("nsd started")

    def start_distributor(
        self,
        index: int,
        *,
        queriers: int = 2,
        feeds: tuple[str, ...] = (),
        results: Path | None = None,
        host: str = "",
        run: str = "",
        tls: Path | None = None,
        extra: tuple[str, ...] = (),
        wrap: tuple[str, ...] = (),
        core: int = -1,
    ) -> Process:
        name = network.client(index)
        folder = tls or self.folder / "tls"
        argv = [*wrap, programs.own("reprise-querier"), "distribute", "--run-id", run or self.run_id]
        argv += [
            "--name",
            name,
            "--listen",
            f"{network.control_address(index)}:{PORT}",
            "--queriers",
            str(queriers),
        ]
        argv += ["--results", str(results or self.results), *_tls(folder, name), *extra]
        for feed in feeds:
            argv += ["--feed", feed]
        title = f"distributor-{name}" if self.clients > 1 else "distributor"
        program = self.start(host or name, argv, title, core)
        wait_for(lambda: "event=listening" in program.text() or program.has_ended(), f"{name} listening")
        return program

    def start_controller(
        self,
        trace: Path | None,
        clients: tuple[int, ...] = (1,),
        extra: tuple[str, ...] = (),
        tls: Path | None = None,
        core: int = -1,
    ) -> Process:
        argv = [programs.own("reprise-controller"), *([str(trace)] if trace else []), "--run-id", self.run_id]
        for index in clients:
            argv += ["--distributor", f"{network.client(index)}={network.control_address(index)}:{PORT}"]
        argv += ["--server", network.SERVICE_V4, "--server", network.SERVICE_V6]
        argv += ["--confirm-return-path"]  # there is no other way than to the client
        argv += ["--results", str(self.results), *_tls(tls or self.folder / "tls", "controller"), *extra]
        argv += [] if "--late-ms" in extra else self.options
        return self.start(network.CONTROLLER, argv, "controller", core)

    def account(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.results / "controller.json").read_text())
        return loaded

    def records(self) -> list[RqFile]:
        return [read_rq(path) for path in sorted(self.results.glob("queries-*.rq"))]

    def queriers(self, distributor: Process) -> list[int]:
        """Process ids of a distributor's queriers."""
        return below(distributor.pid)


def _tls(folder: Path, name: str) -> list[str]:
    files = {"--cert": f"{name}.pem", "--key": f"{name}.key", "--ca": "ca.pem"}
    return [word for option, file in files.items() for word in (option, str(folder / file))]


def progress(controller: Process) -> Counter[str]:
    """The controller's latest line about the queries."""
    lines = [line for line in controller.text().splitlines() if line.startswith("progress")]
    last = lines[-1] if lines else ""
    return Counter({key: int(value) for key, value in re.findall(r"(\w+)=(\d+)\b", last)})


def wait_for_answers(controller: Process) -> None:
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
