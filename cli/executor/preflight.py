"""What an experiment says is looked at before anything starts: its files, and the values that programs take.

The programs have `--check`: they look at their options, and for a first query in a trace, and end. So what
they refuse is known before there is a network, a server or a results folder.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli import programs
from cli.errors import UsageError
from cli.executor.words import in_keys, parts
from cli.experiment.experiment import Experiment
from cli.plan import delay, mutation
from cli.plan.planned import RESULTS, RUN, Plan

_LIMIT_S = 5.0  # of a look; a trace that shows no query so soon is left to the run


@dataclass(frozen=True)
class Look:
    """A command line that only checks; `part` is whose keys it is about, as `in_keys` has it."""

    part: str
    argv: tuple[str, ...]


def check_trace(experiment: Experiment) -> None:
    """What can be seen of the trace without reading it."""
    if experiment.trace is None:
        return
    path = Path(experiment.trace)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"trace {path} is not a file", "save it to a file first, it is read more than once")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError:
        raise UsageError(f"no trace {path}", "give an existing file with --set trace=FILE") from None
    except OSError as error:
        raise UsageError(f"cannot read trace {path}: {error.strerror}", "give a readable file") from None
    if empty:
        raise UsageError(f"trace {path} is empty", "capture or fetch it again")


def check_values(plan: Plan) -> None:
    """Has the programs look at their command lines; the first complaint is a usage error."""
    with tempfile.TemporaryDirectory(prefix="reprise-") as scratch:
        for file in plan.files:
            if file.path == mutation.RULE_FILE:
                Path(_filled(file.path, scratch)).write_text(
                    file.content or "", encoding="utf-8", errors="surrogateescape"
                )
        for look in looks(plan):
            _carry_out(look, scratch)


def looks(plan: Plan) -> Iterator[Look]:
    """Pure: the command lines, in the order in which the run would use them."""
    experiment = plan.experiment
    what = "trace" if experiment.trace is not None else "options"
    for step in plan.prepare:
        if step.id in ("synth", "mutate"):
            yield Look(step.id, (*step.argv, "--check", *((what,) if step.id == "mutate" else ())))
    proxy = next((_without_rights(one.argv)[0] for one in plan.processes if one.role == "proxy"), None)
    behind = experiment.world.rtt if experiment.world else None
    for part, rtt in (("rtt", experiment.rtt), ("hierarchy.rtt", behind)):
        if proxy is not None and rtt is not None and rtt.by is None:
            yield Look(part, (proxy, "delay", "--tun", "check", *delay.options(rtt), "--check"))
    distributor = next(one for one in plan.processes if one.role == "distributor")
    yield Look("controller", (*distributor.argv, "--check"))
    played = experiment.trace is not None and experiment.mutate is None
    controller = next(one for one in plan.processes if one.id == plan.main)
    argv = _without_own_authority(controller.argv)
    yield Look("controller", (*argv, "--check", "trace" if played else "options"))


def _without_own_authority(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The certificates of the run are still to be made."""
    at = argv.index("--tls-ca") if "--tls-ca" in argv else len(argv)
    return argv[:at] + argv[at + 2 :] if argv[at + 1 : at + 2] and RUN in argv[at + 1] else argv


def _without_rights(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The program itself, which the run starts with fewer rights and perhaps from a copy still to be made."""
    return argv[argv.index("--") + 1 :] if Path(argv[0]).name == "setpriv" else argv


def _filled(word: str, scratch: str) -> str:
    return word.replace(RUN, scratch).replace(RESULTS, scratch)


def _carry_out(look: Look, scratch: str) -> None:
    program, *words = _without_rights(look.argv)
    argv = [programs.own(Path(program).name), *(_filled(word, scratch) for word in words)]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="surrogateescape", check=False, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return
    complaint = next((line for line in done.stderr.splitlines() if ": error: " in line), "")
    if done.returncode == 0 or not complaint:
        return  # where it cannot even be started the run itself has more to say
    what, hint = (in_keys(_without_scratch(text, scratch), look.part) for text in parts(complaint))
    raise UsageError(what, hint)


def _without_scratch(text: str, scratch: str) -> str:
    """The experiment's own rules were written to a file, whose name the user has never seen."""
    rules = _filled(mutation.RULE_FILE, scratch)
    return re.sub(rf"{re.escape(rules)}(:\d+)?", "[mutate]", text)
