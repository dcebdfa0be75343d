"""Errors of a run in one line, from what programs said: their error lines, their reasons, their logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cli import linux
from cli.errors import last_line, read_told
from cli.executor.processes import Child
from cli.plan.planned import Process, Step, Terms

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_MOST = 65_536  # bytes of a log that are looked through for a reason
_TAIL = 16_384


def ended(what: Step | Process, log: Path) -> tuple[str, str]:
    """What ended a program and how to fix it, in its own words; both empty where it said nothing."""
    return told(log) or (_reason(what.reason, log) or last_line(tail(log)), "")


def told(log: Path) -> tuple[str, str] | None:
    """What one of our own programs told whoever started it at its end."""
    return read_told(tail(log))


def end_of(child: Child) -> str:
    """How a process ended, in words."""
    return linux.describe_exit(child.exit or 0)


def in_terms(text: str, terms: Terms, fill: Callable[[str], str]) -> str:
    """What a program said, in the experiment's terms. `fill` puts paths in place of the plan's names."""
    for name, meaning in terms.names.items():
        if not name.startswith("--"):
            line = r"(:\d+)?" if name.startswith("@") else ""
            text = re.sub(re.escape(fill(name)) + line, lambda _: meaning, text)  # noqa: B023

    def key(found: re.Match[str]) -> str:
        option = found[0]
        prefixed = terms.prefix + option.removeprefix("--").replace("-", "_") if terms.prefix else option
        return terms.names.get(option, prefixed)

    return _OPTION.sub(key, text)


def _reason(pattern: str, log: Path) -> str:
    if not pattern:
        return ""
    try:
        with log.open("rb") as file:
            found = re.search(pattern, file.read(_MOST).decode("utf-8", "replace"))
    except OSError:
        return ""
    return found[0].strip() if found else ""


def tail(log: Path) -> str:
    """The end of a log; "" where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
