"""Processes in network namespaces, and what they used: those of a plan, and the commands of its hosts' steps.

The former are reaped with wait4, which also gives CPU time and peak memory of everything they waited for.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import linux
from cli.errors import RepriseError, last_line
from cli.executor.words import TAIL, part
from cli.process import Process

_PATIENCE_S = 120.0  # for one command: ten thousand addresses are added in one
FLOOR_MARGIN = 1 << 20  # bytes; the executor's memory at the fork is known this well


@dataclass
class Child:
    """A started process. `exit` is None while it runs, negative after a signal; CPU is in seconds."""

    id: str
    role: str
    host: str
    pid: int
    log: Path
    exit: int | None = None
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    stopped_by_us: bool = False
    floor_rss_bytes: int = 0
    turn: int = 0  # how often it had been started before
    log_begin: int = 0  # bytes of the log that earlier starts have written
    replaced: bool = False  # it died and another one stands in for it

    def note_peak(self) -> None:
        """Reads the running program's own peak memory (VmHWM).

        wait4's figure also counts the moment before exec, when the child still had its parent's memory: it is
        right only above that floor.
        """
        if self.running:
            self.max_rss_bytes = max(self.max_rss_bytes, peak_rss_bytes(self.pid))

    @property
    def running(self) -> bool:
        """Whether it has not been reaped yet."""
        return self.exit is None

    @property
    def end(self) -> str:
        """How it ended, in words."""
        return linux.describe_exit(self.exit or 0)


def peak_rss_bytes(pid: int) -> int:
    """VmHWM of a process, 0 when it is gone."""
    found = re.search(r"^VmHWM:\s+(\d+)", part(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def reap(children: Mapping[int, Child]) -> None:
    """Collects every ended process without waiting; orphans of the namespace are collected and dropped."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.wait4(-1, os.WNOHANG))[0]:
            pid, status, usage = ended
            if (child := children.get(pid)) is not None:
                child.exit = os.waitstatus_to_exitcode(status)
                child.cpu_s = round(usage.ru_utime + usage.ru_stime, 6)
                peak = usage.ru_maxrss * 1024  # the kernel counts in KiB
                child.max_rss_bytes = peak if peak > child.floor_rss_bytes else child.max_rss_bytes


def steal_s() -> float:
    """Seconds that the hypervisor gave to others since boot, over all cores."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


def runs(name: str) -> bool:
    """Whether any process in sight runs a program of this name and has not ended."""
    listed = Path("/proc").glob("[0-9]*/cmdline")  # which is empty once it has ended
    return any(part(one).partition("\0")[0].rpartition("/")[2] == name for one in listed)


# --- steps of hosts ---------------------------------------------------------------------------------------


def carry_out(
    commands: Sequence[Sequence[str]],
    netns: int | None,
    fill: Callable[[str], str],
    env: Mapping[str, str],
    log: Path,
) -> None:
    """Carries out a step's commands in a host's network namespace, one after the other, with their words in
    the step's log; the first that fails ends the step, and is an error in the tool's own words. The same
    commands are for playbooks, so that they are plain command lines, and whatever needs a decision ("is it
    there already?") is a shell's.
    """
    for command in commands:
        argv = [fill(word) for word in command]
        # A shell's lines say nothing to whoever sees only them.
        shown = log.stem if argv[:2] == ["sh", "-c"] else shlex.join(argv[:6])
        tool = Process.started(argv, log, env=env, netns=netns)
        try:
            if not tool.has_ended(_PATIENCE_S):
                what = f"{shown} took over {_PATIENCE_S:g} s"
                raise RepriseError(what, "try again when the machine has less to do")
            status = tool.reap()
        finally:
            tool.kill()  # also after an interruption: nothing is changed behind an undo
        if status != 0:
            words = last_line(part(log, -TAIL))
            if argv[0] == "nft":  # which says on its first line what is wrong, and points at it below
                words = next(filter(None, map(str.strip, part(log).splitlines())), "")
            raise RepriseError(f"{shown} failed: {words or f'exit status {status}'}", f"see {log}")
