"""Errors of a run in one line, from what programs said: their error lines, their reasons, their logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import last_line, read_told

if TYPE_CHECKING:  # slow to import, and hosts import this for every few steps
    from cli.plan.planned import File, Process, Step

_OPTION = re.compile(r"(?<![\w-])--(?!help\b)([a-z][a-z0-9-]*)")
_MOST = 65_536  # bytes of a log that are looked through for a reason
_TAIL = 16_384


def ended(what: Step | Process, log: Path) -> tuple[str, str]:
    """What ended a program and how to fix it, in its own words; both empty where it said nothing."""
    return told(log) or (_reason(what.reason, log) or last_line(tail(log)), "")


def told(log: Path) -> tuple[str, str] | None:
    """What one of our own programs told whoever started it at its end."""
    return read_told(tail(log))


def shown(path: Path) -> str:
    """A path from the working directory, where it is below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def in_terms(text: str, keys: Sequence[str], files: Iterable[File], fill: Callable[[str], str]) -> str:
    """What a program said, with the user's places in files, and with `keys` in place of the options that have
    their names. `fill` puts paths in place of the plan's names.
    """
    for place, meant in (one for file in files for one in file.places.items()):
        text = re.sub(re.escape(fill(place)) + r"(:\d+)?", lambda _: meant, text)  # noqa: B023

    def key(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        found = (
            f"{one}{name}" if one.endswith(".") else one for one in keys if one.endswith((".", f".{name}"))
        )
        return next(found, option[0])

    text = _OPTION.sub(key, text)
    return text.replace("see --help", "see reprise trace synth --help") if "synth." in keys else text


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
