"""Errors of a run in one line, from what programs said: their last lines, their reasons, their logs."""

from __future__ import annotations

import re
from pathlib import Path

from cli import linux
from cli.errors import RepriseError
from cli.executor.processes import Child, last_line
from cli.experiment.experiment import Replay, Rtt
from cli.plan.planned import Step

_CONFIG_LINE = re.compile(r"[\w-]+\.conf:\d+: .+")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_KEYS = {
    "--server": "server.addresses",
    "--server-port": "server.port",
    "--port": "replay.ports",
    "--hedge": "replay.hedge_ms",
    "--skip-source": "replay.skip_sources",
    "--all-opcodes": "replay.all_opcodes = true",
    "--generate": "generate.name",
    "--generate-sources": "generate.sources",
    "--generate-rd": "generate.rd",
    "--no-tls-verify": "tls.verify = false",
    "--queriers": "topology.queriers",
    "--seed": "mutate.seed",
    "--malformed": "mutate.malformed",
    "--skip-bad": "hierarchy.skip_bad = true",
}
_CUT = "the trace is cut or corrupt"  # the reader's words
_CUT_MEND = "what came before is replayed and counted; copy or capture the trace again"


def step_error(step: Step, child: Child, log: str) -> RepriseError:
    """A failed step in one line: the tool's own error where it gave one."""
    if step.id == "checkzone":
        what, hint = first_complaint(child.log), ""
    else:
        words = last_line(child.log)
        what, hint = parts(words)
        what = what or words
    what, hint = (in_keys(text, step.id) for text in (what, hint))
    return RepriseError(
        f"{step.title} failed: {what or linux.describe_exit(child.exit or 0)}", hint or f"see {log}"
    )


def in_keys(text: str, part: str) -> str:
    """What a program said, with its options under the names that they have in an experiment. `part`: a step
    of the plan, "rtt" or "hierarchy.rtt" for a delay line, or "controller", also for what it controls.
    """
    if part == "synth":
        text = text.replace("see --help", "see reprise trace synth --help")
    return _OPTION.sub(lambda found: _key(found[0], part), text)


def _key(option: str, part: str) -> str:
    """The key of an option; the option itself where it is in no experiment."""
    name = option.removeprefix("--").replace("-", "_")
    if part == "synth":
        return option if name in ("help", "output") else f"synth.{name}"
    if part in ("rtt", "hierarchy.rtt"):
        short = name if name == "rtt_ms" else name.removeprefix("rtt_")
        return f"{part}.{short}" if short in Rtt.__dataclass_fields__ else option
    if option in _KEYS:
        return _KEYS[option]
    if part != "controller":
        return option
    if name.startswith("tls_"):
        return "tls." + name.removeprefix("tls_")
    known = name in Replay.__dataclass_fields__ or name == "from"
    return f"replay.{name}" if known else option


def judged(reason: str, see: str) -> tuple[str, str]:
    """WHAT and MEND of a reason `WHAT[; MEND]` of the controller; a reader's words may hold any "; "."""
    if _CUT in reason:
        return reason, _CUT_MEND
    what, _, hint = reason.partition("; ")
    return what, hint or see


def parts(line: str) -> tuple[str, str]:
    """WHAT and MEND of a program's last line `PROGRAM: error: WHAT; HINT`; both empty for any other line.

    WHAT may hold a library's words and so a "; " of its own.
    """
    _, marker, text = line.partition(": error: ")
    if not marker:
        return "", ""
    what, semicolon, hint = text.rpartition("; ")
    return (what, hint) if semicolon else (text, "")


def first_complaint(log: Path) -> str:
    """The first error of a zone checker; its later lines only sum up."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    lines = [line for line in lines if line]
    return next(
        (line for line in lines if "error" in line.lower() or "fail" in line.lower()),
        lines[0] if lines else "",
    )


def last_words(child: Child) -> str:
    """The end of a process's log, to be put after what happened to it; a server's words on a line of its
    configuration say more, and come before it.
    """
    words = refused_line(child.log) or last_line(child.log)
    return f": {words}" if words else ""


def refused_line(log: Path) -> str:
    """The first complaint of a line of a configuration file, from the file's name on."""
    try:
        found = _CONFIG_LINE.search(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[0].strip() if found else ""
