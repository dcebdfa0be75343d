"""What is carried out on one machine: files, steps, processes and what is read off them.

`Machine` is what the executor asks for; `LocalMachine` does it here, for all of a plan's hosts as network
namespaces or for those that are this machine. A machine elsewhere has a `LocalMachine` too, see remote.py.
Arguments name what is in the plan, so that they are few and can be sent.
"""

import contextlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import FiniteFloat, InstanceOf

from cli import linux, process, programs
from cli.executor import netns, processes, workers
from cli.executor.processes import Child
from cli.executor.words import ended, part
from cli.plan.planned import RECORDS, RESULTS, RUN, File, Folder, HostStep, Plan, Ready, Refused
from cli.servers import ask
from report.transports import TRANSPORTS

_LOOK_S = 0.2  # between two looks at all processes
_SHOWN = 3  # zones that a server did not load, in an error line
_ALWAYS = 4 * 1024 * 1024  # bytes that the ends of files, logs, the manifest and the report take
_AHEAD_S = 2.0  # a look at the disk and an end in order take no longer
_EVERY_S = 0.5  # between two measurements of the rate
Text = InstanceOf[str]  # of a machine; names of files may be any bytes


@dataclass(frozen=True)
class State:
    """What there is to know of a machine at a moment."""

    children: dict[int, tuple[int | None, FiniteFloat, int]]  # by number: exit, cpu_s and max_rss_bytes
    lines: tuple[Text, ...] = ()  # new ones of the main process's output
    missing: Text | None = None  # what the awaited process lacks, None when it is ready
    trouble: tuple[Text, Text] | None = None  # what makes going on pointless, and how to fix it
    records: bool = False  # queriers have begun to write here
    outlived: bool = False  # all has ended but processes that may outlive those of the plan
    reasons: tuple[Text, ...] = ()  # at the replay's end: why the run is not clean
    replaced: tuple[Text, ...] = ()  # then, too: processes that ended without a complaint
    events: tuple[workers.Event, ...] = ()  # then, too: what the servers did of their own
    steal_s: FiniteFloat = 0.0  # seconds that its hypervisor gave to others since it was booted
    lost: Text | None = None  # why nothing can be asked of it any more


@dataclass(frozen=True)
class Said:
    """What ended a step or process and how to fix it, in its own words, and whether it has said so for
    whoever started it. `warnings`: lines of a step's file, or what a server's log says that it does not take.
    """

    what: Text
    hint: Text = ""
    itself: bool = False
    warnings: tuple[Text, ...] = ()


class Machine(Protocol):
    """The calls by which the executor has a plan carried out, here or on several hosts."""

    tick_s: float  # how often `poll` is worth its while, beside signals

    def prepare(self) -> list[str]:
        """Makes network, folders and files; returns the settings that were refused."""

    def carry_out(self, steps: Sequence[HostStep]) -> None:
        """Applies steps of its hosts, either of their set-up or such as read something; a failure is an
        error.
        """

    def start(self, ident: str, turn: int = 0) -> Child:
        """Starts a step or process of the plan; `poll` updates it."""

    def begin(self) -> None:
        """The replay begins: essential processes are watched from now on."""

    def poll(self, awaited: str = "", ended: bool = False) -> State:
        """What has changed. `awaited`: a process whose readiness is looked at; it runs here, or is asked from
        here. `ended`: the replay has, and what was watched is told.
        """

    def said(self, ident: str, keep: bool = False) -> Said:
        """What a step or process has said; `keep`: its configuration is kept beside its log."""

    def signal(self, child: Child, number: int) -> None:
        """Sends a signal to a process if it still runs."""

    def collect(self) -> dict[str, int]:
        """Has the files that the plan's figures are read from in the results. Returns how many packets hosts
        wanted to send and had no route for.
        """

    def fill(self, text: str) -> str:
        """The text with this machine's names in the place of the plan's."""


class Space:
    """Says in time when a run has to stop, while there is still room for the ends of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = (-math.inf, 0)  # when its files were measured, and their bytes
        self._rate = 0.0  # bytes a second, the latest

    def trouble(self) -> tuple[str, str] | None:
        """WHAT and MEND where the run has to stop: less is free than what is always needed and what it writes
        until it has stopped.
        """
        mend = "make room or choose another folder with -o"
        try:
            now = time.monotonic()
            if (passed := now - self._last[0]) >= _EVERY_S:
                held = written(self._folder)
                self._rate = max(0, held - self._last[1]) / passed
                self._last = (now, held)
            short = shutil.disk_usage(self._folder).free < _ALWAYS + _AHEAD_S * self._rate
        except OSError as error:
            return f"cannot look at results in {self._folder.parent}: {error.strerror}", mend
        return (f"no space left for results in {self._folder.parent}", mend) if short else None


def written(folder: Path) -> int:
    """Bytes in the files of a folder itself (records, answers); one that goes meanwhile counts nothing."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


class LocalMachine:
    """This machine. Several threads may carry out steps, and all else is called by one."""

    tick_s = 1.0

    def __init__(self, plan: Plan, runtime: Path, results: Path, seen: Path) -> None:
        """`seen`: the results as the programs see them."""
        self.children: dict[int, Child] = {}  # by process number
        self._plan = plan
        self._names = {RUN: str(runtime), RESULTS: str(seen)}
        self._results = results
        self._output = runtime / "main.out"
        self._read = 0  # bytes of it
        self._space = Space(results)
        self._hosts = netns.Hosts()
        self._workers = workers.Watch((), ())
        self._looked = 0.0

    def prepare(self) -> list[str]:
        self._hosts = netns.build(self._plan.network)
        make_folders(self._plan.folders, self.fill)
        make_files(self._plan.files, self.fill)
        return self._hosts.refused_sysctls

    # --- steps and processes ------------------------------------------------------------------------------

    def carry_out(self, steps: Sequence[HostStep]) -> None:
        """The commands run in the host's network. Namespaces vanish, so that nothing is undone here."""
        for step in steps:
            log, env = self._log(step.id), self._env({})
            processes.carry_out(step.apply, self._hosts.of(step.host), self.fill, env, log)

    def start(self, ident: str, turn: int = 0) -> Child:
        """The output of the main process goes to a file of its own."""
        what, log = self._plan.named(ident), self._log(ident)
        argv = [self.fill(text).replace("@turn@", str(turn)) for text in what.argv]
        output = self._output if ident == self._plan.main else None
        netns_of_host, env = self._hosts.of(what.host), self._env(what.env)
        begun = process.Process.started(argv, log, output=output, env=env, netns=netns_of_host)
        child = Child(ident, what.role, what.host, begun.pid, log, turn=turn, log_begin=begun.begin)
        child.floor_rss_bytes = processes.peak_rss_bytes(os.getpid()) + processes.FLOOR_MARGIN
        self.children[child.pid] = child
        return child

    def _env(self, env: Mapping[str, str]) -> dict[str, str]:
        base = {"PATH": programs.SEARCH_PATH, "LANG": "C.UTF-8"}
        own = dict.fromkeys(("HOME", "TMPDIR"), self._names[RUN])
        return {**base, **own, **{key: self.fill(value) for key, value in env.items()}}

    def signal(self, child: Child, number: int) -> None:
        """By its process number, which is not given away before it has been collected."""
        if child.running:
            os.kill(child.pid, number)

    # --- what can be seen ---------------------------------------------------------------------------------

    def begin(self) -> None:
        self._workers = workers.Watch(self.children.values(), self._plan.processes)

    def poll(self, awaited: str = "", ended: bool = False) -> State:
        """Processes below the essential ones are looked at less often: it means to look at all."""
        children = self.children.values()
        processes.reap(self.children)
        for child in children:
            child.note_peak()
        if ended or time.monotonic() > self._looked + _LOOK_S:
            self._workers.look()
            self._looked = time.monotonic()
        all_ended = bool(children) and not any(child.running for child in children)
        left = {one.leaves for one in self._plan.processes if one.leaves and all_ended}
        reasons, replaced = self._workers.told() if ended else ([], [])
        return State(
            {one.pid: (one.exit, one.cpu_s, one.max_rss_bytes) for one in children},
            self._new_lines(),
            self._missing(awaited) if awaited else None,
            self._space.trouble(),
            any(self._results.glob(RECORDS)),
            any(map(processes.runs, left)),
            tuple(reasons),
            tuple(replaced),
            tuple(self._workers.events()) if ended else (),
            processes.steal_s(),
        )

    def _new_lines(self) -> tuple[str, ...]:
        if not self._output.exists():
            return ()
        with self._output.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return tuple(whole.decode("utf-8", "replace").splitlines())

    def _missing(self, ident: str) -> str | None:
        """Of the process that was started last under this name; one that answers is asked from the host that
        the plan names.
        """
        wanted = self._plan.named(ident).ready
        if wanted.asks:
            with linux.inside(self._hosts.of(wanted.source)):
                return dns_problem(wanted)
        return problem(wanted, next(one for one in reversed(self.children.values()) if one.id == ident))

    def said(self, ident: str, keep: bool = False) -> Said:
        what, log = self._plan.named(ident), self._log(ident)
        for path in (Path(self.fill(one)) for one in what.files if keep):
            if path.is_file():
                shutil.copy(path, log.parent / path.name)  # with its mode: it may have secrets
        warnings = [refused(what.ready.refused, log)] if what.ready.refused else []
        if what.warnings and (file := Path(self.fill(what.warnings))).is_file():
            warnings = file.read_text(encoding="utf-8").splitlines()
        return Said(*ended(what, log), tuple(filter(None, warnings)))

    def collect(self) -> dict[str, int]:
        return netns.refused_packets(self._hosts)

    def fill(self, text: str) -> str:
        for mark, value in self._names.items():
            text = text.replace(mark, value)
        for child in self.children.values():
            text = text.replace(f"@pid:{child.id}@", str(child.pid))
        return text

    def _log(self, ident: str) -> Path:
        return self._results / "logs" / f"{ident}.log"


def problem(ready: Ready, child: Child) -> str | None:
    """None when the process is ready as far as itself can tell, otherwise what is still missing."""
    if ready.kind == "log" and ready.text not in part(child.log, child.log_begin):
        return f"its log does not say '{ready.text}'"
    return "it has not ended" if ready.kind == "exit" and child.exit != 0 else None


def refused(wanted: Refused, log: Path) -> str:
    """What the log says of things refused, the first few in words; "" when there is nothing."""
    found = {match["what"]: match["why"] for match in re.finditer(wanted.pattern, part(log), re.MULTILINE)}
    shown = ", ".join(f"{what} ({why})" for what, why in list(found.items())[:_SHOWN])
    title = wanted.title.format(s="s" if len(found) > 1 else "")
    return f"{len(found)} {title}: {shown}" if found else ""


def dns_problem(ready: Ready) -> str | None:
    """Asks every address for the zone's SOA over all its transports; all must answer with authority.
    Connections come first: what does not listen yet refuses them at once.
    """
    ports = sorted(ready.ports.items(), key=lambda one: not TRANSPORTS[one[0]].stream)
    for address in ready.addresses:
        for transport, port in ports:
            trouble = ask.problem(address, port, ready.origin, transport, ready.kind == "answers")
            if trouble is not None:
                return f"{address} over {TRANSPORTS[transport].title}: {trouble}"
    return None


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
        if file.from_ is not None:
            shutil.copyfile(fill(file.from_), path)
        else:
            text = fill(file.content or "")
            path.touch(mode=0o600)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))  # names of files may be any bytes
        path.chmod(int(file.mode, 8))
        if file.owner:
            os.chown(path, linux.user_number(file.owner), -1)
