"""Processes of servers that end while the replay goes on, and what servers say of it in their logs.

A server may start a process again that died, and answer on: without a look at its process tree the run would
seem clean. Processes are known by number and start, so that one that was replaced at once is noticed too.
"""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import InstanceOf

from cli.executor.processes import Child
from cli.executor.words import part
from cli.plan.planned import Process
from cli.servers import running

_MOST_TOLD = 3  # reasons of one server
_MOST_EVENTS = 100  # of one server
# How servers write the time; both groups are needed, as a second is too long.
_STAMPS = (
    ("%Y-%m-%d %H:%M:%S", re.compile(r"\[(\S+ \S+)\.(\d+)\]")),  # NSD
    ("%d-%b-%Y %H:%M:%S", re.compile(r"(\d+-\w+-\d+ \S+)\.(\d+)")),  # BIND
)
_SETTLING_S = 1.0  # so long, processes may leave that were replaced before the replay


@dataclass(frozen=True)
class _Process:
    pid: int
    start: int  # ticks since boot
    name: str = field(compare=False)


@dataclass
class _Server:
    child: Child
    process: Process
    log_begin: int  # bytes of the log from before the replay
    known: set[_Process]
    names: Counter[str] = field(default_factory=Counter)  # of those from before the replay that stayed
    missing: Counter[str] = field(default_factory=Counter)  # of those, at the last look
    lacking: Counter[str] = field(default_factory=Counter)  # of those, at the last two: no successor came
    ended: list[_Process] = field(default_factory=list)


def _process(folder: Path) -> _Process | None:
    """The process with this folder in /proc; None where it has ended."""
    head, _, rest = part(folder / "stat").rpartition(")")
    fields = rest.split()
    if not fields or fields[0] in "ZX":
        return None
    return _Process(int(folder.name), int(fields[19]), head.partition("(")[2])


def below(pid: int) -> set[_Process]:
    """The process and all its descendants that have not ended."""
    return set(filter(None, map(_process, running.tree(pid))))


@dataclass(frozen=True)
class Event:
    """A line of a server's log, and its time."""

    real_ns: int
    process: str
    text: InstanceOf[str]


class Watch:
    """Looks at servers' process trees from now on."""

    def __init__(self, children: Iterable[Child], processes: Iterable[Process]) -> None:
        """Of the plan's essential processes, those that run."""
        self._servers = []
        essential = {one.id: one for one in processes if one.essential}
        for child in children:
            if child.running and child.id in essential:
                tree = below(child.pid)
                names = Counter(one.name for one in tree)
                begin = child.log.stat().st_size if child.log.exists() else 0
                self._servers.append(_Server(child, essential[child.id], begin, tree, names))
        self._settled = time.monotonic() + _SETTLING_S

    def look(self) -> None:
        """Notes processes that have ended since. One that is new belongs to the tree from then on."""
        for server in self._servers:
            tree = below(server.child.pid)
            if not any(one.pid == server.child.pid for one in tree):
                continue  # the whole server has ended, which is told elsewhere
            gone = {one for one in server.known if _process(Path(f"/proc/{one.pid}")) != one}
            server.known = (server.known - gone) | tree
            names = Counter(one.name for one in tree)
            if time.monotonic() < self._settled:
                server.names &= names
            missing = server.names - names
            server.lacking, server.missing = missing & server.missing, missing
            server.ended += sorted(gone, key=lambda one: one.pid)

    def told(self) -> tuple[list[str], list[str]]:
        """Why the run is not clean, with the server's own words put to what they are about; and processes
        that ended without a complaint and that others of their name replaced, as those of NSD do when it
        reads its zones again: that matters only where queries were lost.
        """
        reasons: list[str] = []
        replaced: list[str] = []
        for server in self._servers:
            said = _said(server, server.process.complaints)
            silent: list[str] = []
            for process in server.ended:
                text = f"process {process.pid} ({process.name}) of {server.child.id} ended during the replay"
                if words := next((line for line in said if re.search(rf"\b{process.pid}\b", line)), ""):
                    said = [line for line in said if line != words]
                    reasons.append(f"{text}: {words}")
                elif process.name in server.lacking:
                    reasons.append(f"{text}, and none took its place")
                else:
                    silent.append(text)
            reasons += [f"{server.child.id} said: {line}" for line in said[:_MOST_TOLD]]
            replaced += silent[:_MOST_TOLD]
            if len(silent) > _MOST_TOLD:
                replaced.append(f"{len(silent) - _MOST_TOLD} more processes of {server.child.id} ended")
        return reasons, replaced

    def events(self) -> list[Event]:
        """What the servers did of their own, of each the first lines that say so."""
        return [
            Event(time_ns, server.child.id, line[end:].strip())
            for server in self._servers
            for line in _said(server, server.process.events)[:_MOST_EVENTS]
            for time_ns, end in _stamp(line)
        ]


def _stamp(line: str) -> Iterator[tuple[int, int]]:
    """The time at a line's beginning, in ns of the machine's clock, and where it ends."""
    for form, stamp in _STAMPS:
        if found := stamp.match(line):
            with contextlib.suppress(ValueError, OverflowError):
                seconds = time.mktime(time.strptime(found[1], form))
                yield int(seconds) * 1_000_000_000 + int(found[2].ljust(9, "0")), found.end()


def _said(server: _Server, wanted: str) -> list[str]:
    """Lines of the log since the start of the replay that match, each once."""
    text = part(server.child.log, server.log_begin) if wanted else ""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if re.search(wanted, line)))
