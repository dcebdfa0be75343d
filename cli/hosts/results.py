"""Copying a run's results from its machines, so that it can be repeated and lacks nothing.

`collect` is for those that a run could not fetch.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from cli import locks, run_name
from cli.errors import RepriseError, last_line, want
from cli.executor import run as local
from cli.executor.machine import Text
from cli.hosts import changes, files, inventory, share
from cli.hosts.inventory import Target, UnreachableError
from cli.plan import planned
from cli.plan.planned import RESULTS
from report import whole_file

_LOCK = ".collect-lock"
_TRIES = 3
# What is written here: by the command and by the report.
_OPERATORS = (
    *("plan.json*", "manifest.json*", "summary.json*", "compare.json*", "report.html*", "comparison.html*"),
    *("plots", "plots/*", "logs/executor.log"),
)
_CUT_OFF = 255  # ssh's status when it lost its connection


def fetch(
    target: Target,
    run: str,
    to: Path,
    own: Callable[[str], bool] | None = None,
    only: list[str] | None = None,
) -> None:
    """Copies the results of a run on a machine that differ from what is here; `only`: see `changes.sums`.

    `own`: whether a name is one that this machine's results may have, see share.py; None where this is not
    known, and nothing that is here already is replaced. What the operator's own machine writes comes from no
    other one.
    """
    sums: dict[str, str] = target.ask(dict[Text, Text], "changes.sums", run=run, only=only)

    def differing(names: Iterable[str]) -> list[str]:
        here = ((to / name, name) for name in names)
        return [name for path, name in here if not path.is_file() or changes.checksum(path) != sums[name]]

    def is_own(name: str) -> bool:
        if not files.is_below(name) or share.matches(name, _OPERATORS):
            return False
        if own is not None:
            return own(name)
        return name in share.OF_ALL or not os.path.lexists(to / name) or not differing([name])

    for name in sums:
        if not is_own(name):
            raise RepriseError(
                f"{target.name} has {name!r} among its results, which it may not write",
                f"see whether that host is sound: {changes.results(run)}",
            )
    left = differing(sums)
    for _ in range(_TRIES):
        if left:
            _copy(target, run, to, left)
            left = differing(left)
    if left:
        what = f"{len(left)} result files were damaged in transit, for example {left[0]}"
        raise RepriseError(f"{target.name}: {what}", "check its disk and network")


def _copy(target: Target, run: str, to: Path, names: list[str]) -> None:
    """Their names go in by standard input: there may be many."""
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
        asked.write(b"".join(os.fsencode(f"{RESULTS}/{name}") + b"\0" for name in names))
        asked.seek(0)
        complaint = ""
        argv = target.call("changes.send", run=run)
        with subprocess.Popen(argv, stdin=asked, stdout=subprocess.PIPE, stderr=errors) as there:
            assert there.stdout is not None
            try:
                for name in names:
                    files.receive(there.stdout, to, name)
            except EOFError as error:
                complaint = str(error)
            except OSError as error:
                what = f"cannot copy results of {target.name}: {error.strerror}"
                raise RepriseError(what, "make room for them") from None
            finally:
                there.stdout.close()
                if sys.exc_info()[0] is not None:
                    there.kill()
        errors.seek(0)
        said = last_line(errors.read())
    if there.returncode == _CUT_OFF:
        raise UnreachableError(target, said)
    if there.returncode != 0 or complaint:
        raise RepriseError(f"{target.name}: cannot read results: {said or complaint}", "check its disk")


def collect(host: str, run: str, output: Path, inventories: list[str]) -> None:
    """Fetches what is still on a host of inventories, and removes it there; with what was the last to come
    the run gets its report.
    """
    run_name.checked(run)
    groups = inventory.read(*map(Path, inventories))
    target = next(one for group in groups.values() for one in group if one.name == host)
    output.mkdir(parents=True, exist_ok=True)
    with locks.opened(output / _LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # hosts are collected at the same time, and write one manifest
        folder = local.Folder(output / (run + local.PARTIAL), output / run)
        to = folder.final if folder.final.is_dir() else folder.partial
        to.mkdir(exist_ok=True)
        fetch(target, run, to, _own(to, target.name))
        is_last = _is_last(target.name, to / "manifest.json")
        done = subprocess.run(target.call("changes.forget", run=run), check=False, capture_output=True)
        want(done.returncode == 0, f"{target.name}: {last_line(done.stderr)}", "run it again")
        if is_last:
            error = local.report(to)
            want(not error, f"the run has no report: {error}", f"see `reprise report {to}`")
            if to == folder.partial:
                to.rename(folder.final)


def _own(folder: Path, machine: str) -> Callable[[str], bool] | None:
    """Whether a result belongs to the machine, by the run's plan and manifest; None if they are not here."""
    try:
        plan = planned.read(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return share.results(plan, next(one["hosts"] for one in found["hosts"] if one["machine"] == machine))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None


def _is_last(name: str, manifest: Path) -> bool:
    """Whether nothing else is still to come; notes that this machine's results have."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False  # the run's command was killed
    if found.get("uncollected", {}).pop(name, None) is not None:
        whole_file.write(manifest, local.as_text(found))
    return not found.get("uncollected")
