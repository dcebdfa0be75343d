"""What is carried out on one machine: files, steps, processes and what is read off them.

`Machine` is what the executor asks for; `LocalMachine` does it here, for all of a plan's hosts as network
namespaces or for those that are this machine. A machine elsewhere has a `LocalMachine` too, see remote.py.
Arguments name what is in the plan, so that they are few and can be sent.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cli import linux
from cli.errors import RepriseError
from cli.executor import hoststeps, netns, processes, ready, sockdiag, workers
from cli.executor.processes import Child, Launch
from cli.executor.space import Space
from cli.executor.words import ended, told
from cli.plan.planned import RESULTS, RUN, File, Folder, HostStep, Plan, Process, Step

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Machine(Protocol):
    """One machine. `children` are the processes that were started there, by process number."""

    children: dict[int, Child]
    tick_s: float  # how often `poll` is worth its while, beside signals

    def prepare(self) -> list[str]:
        """Makes network, folders and files; returns the settings that were refused."""

    def start_step(self, ident: str) -> Child:
        """Starts a step of the plan."""

    def warnings(self, ident: str) -> list[str]:
        """What a step that has ended warns of."""

    def set_up(self, steps: Sequence[HostStep]) -> None:
        """Applies steps of its hosts that change them; a failure is an error."""

    def carry_out(self, step: HostStep) -> None:
        """Applies a step that reads something off a host."""

    def start(self, ident: str, turn: int) -> Child:
        """Starts a process of the plan."""

    def missing(self, ident: str) -> str | None:
        """None when the process that was started last under this name is ready, else what is missing."""

    def refused(self, ident: str) -> str:
        """What its log says of things that it does not take."""

    def dns_problem(self, ident: str) -> str | None:
        """None when the process, on whatever machine, answers hosts of this one."""

    def words(self, ident: str) -> tuple[str, str]:
        """What ended a step or process and how to fix it, in its own words."""

    def told(self, ident: str) -> tuple[str, str] | None:
        """The same, only where it has said so for whoever started it."""

    def keep_files(self, ident: str) -> None:
        """Keeps what a process reads beside its log."""

    def begin(self) -> None:
        """The replay begins: essential processes are watched from now on."""

    def lost(self) -> str | None:
        """Why nothing can be asked of it any more, None while it can."""

    def poll(self) -> list[str]:
        """Updates `children`; returns new lines of the main process's output."""

    def trouble(self) -> tuple[str, str] | None:
        """What makes going on pointless on this machine, and how to fix it: no room for results."""

    def reasons(self) -> list[str]:
        """Why the run is not clean: what ended below essential processes, and what they complained of."""

    def replaced(self) -> list[str]:
        """Children of essential processes that ended without a complaint."""

    def signal(self, child: Child, number: int) -> None:
        """Sends a signal to a process if it still runs."""

    def outlived(self) -> bool:
        """Whether processes still run that may outlive those of the plan."""

    def has_records(self) -> bool:
        """Whether queriers have begun to write here."""

    def refused_packets(self) -> dict[str, int]:
        """Packets that a host wanted to send and had no route for, by host."""

    def collect(self) -> None:
        """Has the files that the plan's figures are read from in the results."""

    def fill(self, text: str) -> str:
        """The text with this machine's names in the place of the plan's."""


class LocalMachine:
    """This machine. Single-threaded: namespaces belong to the thread."""

    tick_s = 1.0

    def __init__(self, plan: Plan, runtime: Path, results: Path, seen: Path | None = None) -> None:
        """`seen`: the results as the programs see them."""
        self.children: dict[int, Child] = {}
        self._plan = plan
        self._names = {RUN: str(runtime), RESULTS: str(seen or results)}
        self._results = results
        self._output = runtime / "main.out"
        self._read = 0  # bytes of it
        self._space = Space(results)
        self._hosts = netns.Hosts()
        self._workers = workers.Watch(())
        self._processes = {one.id: one for one in plan.processes}
        self._steps = {one.id: one for one in plan.prepare}

    def prepare(self) -> list[str]:
        self._hosts = netns.build(self._plan.network)
        make_folders(self._plan.folders, self.fill)
        make_files(self._plan.files, self.fill)
        return self._hosts.refused_sysctls

    # --- steps and processes ------------------------------------------------------------------------------

    def start_step(self, ident: str) -> Child:
        """A step runs in the machine's own network."""
        return self._known(processes.start(self._launch(self._steps[ident], "step", ""), None, None))

    def warnings(self, ident: str) -> list[str]:
        """The lines of the step's file of warnings."""
        file = self._steps[ident].warnings
        return Path(self.fill(file)).read_text(encoding="utf-8").splitlines() if file else []

    def set_up(self, steps: Sequence[HostStep]) -> None:
        """Namespaces vanish, so that nothing is undone here."""
        for step in steps:
            self.carry_out(step)

    def carry_out(self, step: HostStep) -> None:
        """The commands run in the host's network."""
        log = self._log(step.id)
        hoststeps.carry_out(step.apply, self._hosts.of(step.host), self.fill, self._env({}), log)

    def start(self, ident: str, turn: int) -> Child:
        """The output of the main process goes to a file of its own."""
        process = self._processes[ident]
        self._check_port(process)
        launch = self._launch(process, process.role, process.host, turn)
        netns_of_host = self._hosts.of(process.host)
        if ident != self._plan.main:
            child = processes.start(launch, None, netns_of_host)
        else:
            with self._output.open("wb") as output:
                child = processes.start(launch, output.fileno(), netns_of_host)
        child.turn = turn
        return self._known(child)

    def _known(self, child: Child) -> Child:
        self.children[child.pid] = child
        return child

    def _check_port(self, process: Process) -> None:
        """A port that is taken would make a process look ready that is not."""
        port = process.ready.port
        if process.ready.kind == "listen":
            with linux.inside(self._hosts.of(process.host)):
                if sockdiag.listens(port):
                    raise RepriseError(
                        f"TCP port {port}, which {process.id} needs, is in use", "end what uses it"
                    )

    def _launch(self, what: Step | Process, role: str, host: str, turn: int = 0) -> Launch:
        argv = [self.fill(text).replace("@turn@", str(turn)) for text in what.argv]
        return Launch(what.id, role, host, argv, self._env(what.env), self._log(what.id))

    def _env(self, env: Mapping[str, str]) -> dict[str, str]:
        base = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": self._names[RUN], "TMPDIR": self._names[RUN]}
        return {**base, **{key: self.fill(value) for key, value in env.items()}}

    # --- readiness ----------------------------------------------------------------------------------------

    def missing(self, ident: str) -> str | None:
        process = self._processes[ident]
        with linux.inside(self._hosts.of(process.host)):
            return ready.problem(process.ready, self._latest(ident))

    def refused(self, ident: str) -> str:
        wanted = self._processes[ident].ready.refused
        return ready.refused(wanted, self._latest(ident).log) if wanted else ""

    def dns_problem(self, ident: str) -> str | None:
        """Asks from the host that the plan names."""
        asked = self._processes[ident].ready
        with linux.inside(self._hosts.of(asked.source)):
            return ready.dns_problem(asked)

    def words(self, ident: str) -> tuple[str, str]:
        what: Step | Process = self._steps.get(ident) or self._processes[ident]
        return ended(what, self._log(ident))

    def told(self, ident: str) -> tuple[str, str] | None:
        return told(self._log(ident))

    def keep_files(self, ident: str) -> None:
        """Its configuration, so that its error can be understood."""
        for path in map(Path, map(self.fill, self._processes[ident].files)):
            if path.is_file():
                shutil.copy(path, self._log(ident).parent / path.name)  # with its mode: it may have secrets

    def _latest(self, ident: str) -> Child:
        return next(child for child in reversed(self.children.values()) if child.id == ident)

    # --- the run ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        complaints = {one.id: one.complaints for one in self._plan.processes}
        essential = {one.id for one in self._plan.processes if one.essential}
        watched = [child for child in self.children.values() if child.id in essential]
        self._workers = workers.of_plan(watched, complaints)

    def lost(self) -> None:
        """Never: it is this machine."""

    def poll(self) -> list[str]:
        processes.reap(self.children)
        for child in self.children.values():
            child.note_peak()
        if not self._output.exists():
            return []
        with self._output.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return whole.decode("utf-8", "replace").splitlines()

    def trouble(self) -> tuple[str, str] | None:
        """Also looks at the processes below the essential ones."""
        self._workers.look()
        return self._space.trouble()

    def reasons(self) -> list[str]:
        self._workers.look()
        return self._workers.reasons()

    def replaced(self) -> list[str]:
        return self._workers.replaced()

    def signal(self, child: Child, number: int) -> None:
        """By its process number, which is not given away before it has been collected."""
        child.signal(number)

    def outlived(self) -> bool:
        left = {one.leaves for one in self._plan.processes if one.leaves}
        return any(map(processes.named, left))

    def has_records(self) -> bool:
        return any(self._results.glob(self._plan.records))

    def refused_packets(self) -> dict[str, int]:
        return netns.refused_packets(self._hosts)

    def collect(self) -> None:
        """Nothing to do: they are written here."""

    def fill(self, text: str) -> str:
        for mark, value in self._names.items():
            text = text.replace(mark, value)
        for child in self.children.values():
            text = text.replace(f"@pid:{child.id}@", str(child.pid))
        return text

    def _log(self, ident: str) -> Path:
        return self._results / "logs" / f"{ident}.log"


def make_folders(folders: Sequence[Folder], fill: Callable[[str], str]) -> None:
    for folder in folders:
        path = Path(fill(folder.path))
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(int(folder.mode, 8))
        if folder.owner:
            os.chown(path, linux.user_number(folder.owner), -1)
        if folder.group:
            os.chown(path, -1, linux.group_number(folder.group))


def make_files(files: Sequence[File], fill: Callable[[str], str]) -> None:
    for file in files:
        path = Path(fill(file.path))
        if file.copy_of is not None:
            shutil.copyfile(fill(file.copy_of), path)
        else:
            text = fill(file.content or "")
            path.touch(mode=0o600)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))  # names of files may be any bytes
        path.chmod(int(file.mode, 8))
        if file.owner:
            os.chown(path, linux.user_number(file.owner), -1)
