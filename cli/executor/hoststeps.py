"""Carrying out the plan's steps in hosts, and reading what their guards counted.

A step's commands run in the host's network namespace, one after the other, with their words in the step's
log; the first that fails ends the step. The same commands are for playbooks, so that they are plain command
lines, and whatever needs a decision ("is it there already?") is a shell's.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import linux
from cli.errors import RepriseError
from cli.executor import processes
from cli.servers import nftables
from cli.servers.nftables import GUARD_WORDS

_PATIENCE_S = 120.0  # for one command: ten thousand addresses are added in one


def carry_out(
    commands: Sequence[Sequence[str]],
    netns: int | None,
    fill: Callable[[str], str],
    env: Mapping[str, str],
    log: Path,
) -> None:
    """Runs the commands in the namespace behind `netns`; a failure is an error in the tool's own words."""
    for command in commands:
        argv = [fill(word) for word in command]
        status = _run(argv, netns, env, log)
        if status != 0:
            words = processes.last_line(log) or f"exit status {status}"
            raise RepriseError(f"{shlex.join(argv[:6])} failed: {words}", f"see {log}")


def _run(argv: Sequence[str], netns: int | None, env: Mapping[str, str], log: Path) -> int:
    with linux.inside(netns), log.open("ab") as file:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=dict(env),
                timeout=_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            what = f"{shlex.join(argv[:6])} took over {_PATIENCE_S:g} s"
            raise RepriseError(what, "try again when the machine has less to do") from None
        except OSError as error:
            raise RepriseError(f"cannot run {argv[0]}: {error}", "run ./reprise, which installs it") from None
    return done.returncode


@dataclass(frozen=True)
class Leak:
    """Packets of a host that had no way within the experiment, and what became of them."""

    host: str
    packets: int
    what: str


def guarded(results: Path) -> list[Leak]:
    """What the guards stopped, with the counter; only what is not 0."""
    stopped: list[Leak] = []
    for path in sorted(results.glob("guard-*.json")):
        host = path.stem.removeprefix("guard-")
        try:
            counted = nftables.counters(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            stopped.append(Leak(host, 1, "may have left unseen: its guard cannot be read"))
            continue
        stopped += [
            Leak(host, counted[name], f"{words} (guard's counter {name})")
            for name, words in GUARD_WORDS.items()
            if counted.get(name)
        ]
    return stopped
