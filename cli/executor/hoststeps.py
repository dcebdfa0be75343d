"""Carrying out the plan's steps in hosts.

A step's commands run in the host's network namespace, one after the other, with their words in the step's
log; the first that fails ends the step. The same commands are for playbooks, so that they are plain command
lines, and whatever needs a decision ("is it there already?") is a shell's.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cli.errors import RepriseError, last_line
from cli.executor.words import tail
from cli.process import Process

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
        tool = Process.started(argv, log, env=env, netns=netns)
        try:
            if not tool.has_ended(_PATIENCE_S):
                what = f"{_shown(argv, log)} took over {_PATIENCE_S:g} s"
                raise RepriseError(what, "try again when the machine has less to do")
            status = tool.reap()
        finally:
            tool.kill()  # also after an interruption: nothing is changed behind an undo
        if status != 0:
            words = _reason(argv[0], log) or f"exit status {status}"
            raise RepriseError(f"{_shown(argv, log)} failed: {words}", f"see {log}")


def _reason(program: str, log: Path) -> str:
    """A tool's last line; nft says on the first what is wrong, and points at it on those below."""
    if program == "nft":
        lines = (line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines())
        return next(filter(None, lines), "")
    return last_line(tail(log))


def _shown(argv: Sequence[str], log: Path) -> str:
    """A shell's lines say nothing to whoever sees only them."""
    return log.stem if argv[:2] == ["sh", "-c"] else shlex.join(argv[:6])
