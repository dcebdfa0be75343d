"""A server of the user's own, which a command line of the experiment starts.

How it is set up is the user's matter. It runs without root from the beginning, in a folder of its own.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from cli import programs
from cli.errors import UsageError
from cli.servers.kind import ServerKind

KIND = ServerKind(
    "a server of server.command",
    program="command",
    asks="",
    user="",
    tested=(),
    packages=(),
    options=(),
    complaints="",
    over_tls=False,
    idle_step_s=0.001,  # that of a front before it counts
    zone_checker=("named-checkzone", "-i", "none", "-k", "ignore"),
)


def program(line: str) -> str:
    """The path of the program that a command line starts."""
    name = shlex.split(line)[0]
    found = programs.find(name) if "/" not in name or Path(name).is_absolute() else None
    if found is None:
        hint = "correct server.command: give the name of an installed program, or the whole path of yours"
        raise UsageError(f"no program {name}", hint)
    return found


def arguments(line: str, given: Mapping[str, str]) -> tuple[str, ...]:
    """The words behind the program, with what is given in the place of {NAME}."""

    def fill(found: re.Match[str]) -> str:
        return given.get(found[1], found[0])

    return tuple(re.sub(r"(?<!\$)\{(\w+)\}", fill, word) for word in shlex.split(line)[1:])
