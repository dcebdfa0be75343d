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
TAIL = 16_384  # bytes that hold a program's last words


def ended(what: Step | Process, log: Path) -> tuple[str, str, bool]:
    """What ended a program and how to fix it, in its own words, and whether it told so whoever started it, as
    our own do; both empty where it said nothing.
    """
    end = part(log, -TAIL)
    if (told := read_told(end)) is not None:
        return *told, True
    found = re.search(what.reason, part(log, 0, _MOST)) if what.reason else None
    return (found[0].strip() if found else "") or last_line(end), "", False


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


def part(log: Path, begin: int = 0, size: int = -1) -> str:
    """What a log or other file says from a byte on, or in the last `-begin` bytes; "" where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(begin if begin >= 0 else max(0, log.stat().st_size + begin))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""
