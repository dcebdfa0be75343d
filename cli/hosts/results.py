"""Copying a run's results from its machines, so that it can be repeated and lacks nothing.

`python -m cli.hosts.results HOST RUN OUTPUT INVENTORY...` is for those that a run could not fetch.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from cli.errors import RepriseError, one_line, tell, want
from cli.executor import run as local
from cli.hosts import changes, inventory
from cli.hosts.inventory import Target, unreachable
from report import whole_file

_TRIES = 3
_CUT_OFF = 255  # ssh's status when it lost its connection


class Results:
    """The results of one run on one machine, and where they are copied to."""

    def __init__(self, target: Target, run: str, to: Path) -> None:
        self._target, self._run, self._to = target, run, to

    def fetch(self, patterns: list[str] | None = None, while_it_runs: bool = False) -> int:
        """Copies those that match, or all that differ from what is here; returns how many. It waits for the
        end of the run on the machine unless told.
        """
        sums = self._sums("look" if while_it_runs else "sums")
        wanted = [
            name
            for name in sums
            if patterns is None or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
        ]
        left = self._differing(wanted, sums)
        count = len(left)
        for _ in range(_TRIES):
            if not left:
                return count
            self._copy(left)
            left = self._differing(left, sums)
        raise RepriseError(
            f"{self._target.name}: {len(left)} result files were damaged in transit, for example {left[0]}",
            "check its disk and network",
        )

    def _sums(self, how: str) -> dict[str, str]:
        done = subprocess.run(
            self._target.python("changes", how, self._run), capture_output=True, check=False
        )
        try:
            found = json.loads(done.stdout)
        except ValueError:
            raise unreachable(self._target, _last(done.stderr)) from None
        return {str(name): str(value) for name, value in found.items()}

    def _differing(self, names: Iterable[str], sums: dict[str, str]) -> list[str]:
        return [
            name
            for name in names
            if not (self._to / name).is_file() or changes.checksum(self._to / name) != sums[name]
        ]

    def _copy(self, names: list[str]) -> None:
        """Their names go in by standard input: there may be many."""
        listed = b"".join(name.encode() + b"\0" for name in names)
        pack = [
            "tar",
            "-C",
            str(changes.results(self._run)),
            "--no-recursion",
            "--null",
            "-T",
            "-",
            "-cf",
            "-",
        ]
        unpack = ["tar", "-C", str(self._to), "--no-same-owner", "-xf", "-"]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                self._target.command(*pack),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as there,
            subprocess.Popen(unpack, stdin=there.stdout, stderr=subprocess.PIPE) as here,
        ):
            assert there.stdin is not None
            assert there.stdout is not None
            assert here.stderr is not None
            there.stdin.write(listed)
            there.stdin.close()
            there.stdout.close()
            complaint = _last(here.stderr.read())
            here.wait()
            status = there.wait()
            errors.seek(0)
            said = _last(errors.read())
        if status == _CUT_OFF:
            raise unreachable(self._target, said)
        if status != 0:
            raise RepriseError(f"{self._target.name}: cannot read results: {said}", "check its disk")
        if here.returncode != 0:
            raise RepriseError(
                f"cannot copy results of {self._target.name}: {complaint}", "make room for them"
            )


def _last(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").splitlines()
    return one_line(lines[-1]) if lines else ""


def _collect(target: Target, run: str, output: Path) -> None:
    """What is still on a machine; with what was the last to come the run gets its report."""
    output.mkdir(parents=True, exist_ok=True)
    with _alone(output):
        folder = local.Folder(output / (run + local.PARTIAL), output / run)
        to = folder.final if folder.final.is_dir() else folder.partial
        to.mkdir(exist_ok=True)
        Results(target, run, to).fetch()
        is_last = _is_last(target.name, to / "manifest.json")
        done = subprocess.run(target.python("changes", "forget", run), check=False, capture_output=True)
        want(done.returncode == 0, f"{target.name}: {_last(done.stderr)}", "run it again")
        if is_last:
            _, error = local.report(to)
            want(not error, f"the run has no report: {error}", f"see `reprise report {to}`")
            if to == folder.partial:
                to.rename(folder.final)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hosts are collected at the same time, and write one manifest."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_last(name: str, manifest: Path) -> bool:
    """Whether nothing else was still to come; notes that this machine's results have."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False  # the run's command was killed
    if found.get("uncollected", {}).pop(name, None) is None:
        return False
    whole_file.write(manifest, local.as_text(found))
    return not found["uncollected"]


def main(arguments: list[str]) -> int:
    """HOST RUN OUTPUT INVENTORY...: fetches what is still on a host, and removes it there."""
    host, run, output, *inventories = arguments
    try:
        groups = inventory.read(*map(Path, inventories))
        target = next(one for group in groups.values() for one in group if one.name == host)
        _collect(target, run, Path(output))
    except RepriseError as error:
        tell(error)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
