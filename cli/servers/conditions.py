"""What a server runs with: what the kernel allows it, and what it makes of its configuration.

Runs are compared fairly only where these agree, whatever the experiments say: a limit of 1,024 descriptors
is nobody's setting. Written when the server is ready, as JSON.
"""

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from cli.errors import RepriseError
from cli.servers import running
from cli.servers.kind import Condition
from cli.servers.kinds import KINDS
from report import whole_file

_OF_PROCESS = re.compile(  # which has always a number of open files, and never "unlimited"
    r"^Threads:\s+(\d+)$.*^Cpus_allowed_list:\s+(\S+)$.*^Max open files\s+(\d+)", re.MULTILINE | re.DOTALL
)


def write(pid: int, out: Path, kind: str = "", config: str = "", program: str = "") -> None:
    """Of the server with this process; with a kind also what its program makes of its configuration."""
    own = KINDS.get(kind)
    found: dict[str, int | float | str] = {**of_process(pid)}
    if own is not None and own.shows:
        found |= of_settings(own.conditions, own.shown(config, program))
    keep(out, found)


def keep(out: Path, found: Mapping[str, object]) -> None:
    """Writes a file of the results."""
    try:
        whole_file.write(out, json.dumps({"schema": 1, **found}, indent=2) + "\n")
    except OSError as error:
        raise RepriseError(f"cannot write {out}: {error.strerror}", "make room for results") from None


def of_process(pid: int) -> dict[str, int]:
    """Sums over the process and those below it; of limits the lowest. Empty where it has ended."""
    rows = []
    for proc in running.tree(pid):
        with contextlib.suppress(OSError):  # it has ended
            if found := _OF_PROCESS.search((proc / "status").read_text() + (proc / "limits").read_text()):
                rows.append((int(found[3]), int(found[1]), _cores(found[2])))
    if not rows:
        return {}
    descriptors, threads, cores = zip(*rows, strict=True)
    return {
        "cores": min(cores),
        "descriptors of a process": min(descriptors),
        "processes": len(rows),
        "threads": sum(threads),
    }


def _cores(listed: str) -> int:
    """How many are in a list such as 0-3,6."""
    ranges = [part.split("-") for part in listed.split(",")]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ranges)


def of_settings(conditions: tuple[Condition, ...], shown: str) -> dict[str, int | float | str]:
    """The last value of each key in what a server shows of its configuration."""
    found: dict[str, int | float | str] = {}
    for one in conditions:
        if lines := re.findall(rf'^[#\s]*{re.escape(one.key)}\s*[\s:=]\s*"?([^\s";]+)', shown, re.MULTILINE):
            found[one.title] = one.value(lines[-1])
    return found
