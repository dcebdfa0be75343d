"""A control group whose processes get no more memory than told."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bed import wait_for

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class MemoryGroup:
    """Its folder among those of the memory controller."""

    folder: Path

    def take(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")

    def wait_until_empty(self) -> None:
        procs = self.folder / "cgroup.procs"
        wait_for(lambda: not procs.read_text(encoding="ascii"), "the end of what had no memory")


def _own() -> tuple[Path, str]:
    """This process's group where memory is controlled, and the name of the limit's file."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        number, names, path = line.split(":", 2)
        if "memory" in names.split(","):
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        if number == "0" and (top := Path("/sys/fs/cgroup" + path)).joinpath("cgroup.controllers").is_file():
            return top, "memory.max"
    pytest.skip("no control group limits memory here")


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """A new group below our own, with a limit in bytes; the processes in it have to end before it does."""
    own, file = _own()
    folder = own / f"reprise-test-{os.getpid()}-{next(_NUMBERS)}"
    try:
        folder.mkdir()
        (folder / file).write_text(f"{limit}\n", encoding="ascii")
    except OSError as error:
        pytest.skip(f"no control group limits memory here: {error}")
    try:
        yield MemoryGroup(folder)
    finally:
        folder.rmdir()
