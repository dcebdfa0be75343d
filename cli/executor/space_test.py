"""When a run has to stop for want of room: a function of what is free and of how fast the run writes."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.executor import machine
from cli.executor.machine import Space

MIB = 1 << 20


class Disk:
    """A clock and a disk in the test's hands; files are sparse."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now_s = 0.0
        self.free = 0
        self.space = Space(folder)
        usage = SimpleNamespace(disk_usage=lambda _folder: SimpleNamespace(free=self.free))
        patch.setattr(machine, "shutil", usage)
        patch.setattr(machine, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def after(self, seconds: float, size: int) -> None:
        self.now_s += seconds
        path = self.folder / "queries-client1-0.rq"
        path.touch()
        os.truncate(path, size)


@pytest.mark.parametrize(("rate", "margin"), [(0, 4 * MIB), (1 * MIB, 6 * MIB), (200 * MIB, 404 * MIB)])
def test_the_margin_follows_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: int, margin: int
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    disk.free = margin + 1
    for second in range(4):
        disk.after(1.0, second * rate)
        assert not disk.space.trouble()
    disk.free = margin - 1
    assert disk.space.trouble()


def test_a_rate_is_not_taken_from_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, monkeypatch)
    disk.free = 7 * MIB
    for size in (0, MIB):
        assert not disk.space.trouble()
        disk.after(0.1, size)
    assert not disk.space.trouble()
    disk.after(0.9, 2 * MIB)
    assert disk.space.trouble()


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    trouble = Space(tmp_path / "results").trouble()
    assert trouble is not None
    assert trouble[0] == f"cannot look at results in {tmp_path}: No such file or directory"


def test_an_empty_disk_is_short_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Disk(tmp_path, monkeypatch).space.trouble()
