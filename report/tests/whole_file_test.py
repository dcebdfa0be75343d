"""Whole files on a disk that fills: the old content stays, and reserved room is enough."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from report import whole_file
from tests.small_disk import fill, small_disk


def test_a_file_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    whole_file.write(path, "one")
    whole_file.write(path, b"two", durable=False)
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.netns
def test_a_full_disk_leaves_the_file_before_and_nothing_else(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = disk / "manifest.json"
        whole_file.write(path, "before")
        fill(disk)
        with pytest.raises(OSError, match="No space left") as caught:
            whole_file.write(path, "x" * 100_000)
        assert caught.value.errno == errno.ENOSPC
        assert path.read_text() == "before"
        assert {one.name for one in disk.iterdir()} == {"manifest.json", "filler"}


@pytest.mark.netns
def test_reserved_room_is_there_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        room = whole_file.Reserved(disk / "manifest.json", 100_000)
        assert not (disk / "manifest.json").exists()
        fill(disk)
        room.write("x" * 90_000)
        assert (disk / "manifest.json").read_text() == "x" * 90_000


@pytest.mark.netns
def test_without_room_nothing_is_left(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with pytest.raises(OSError, match="No space left"):
            whole_file.Reserved(disk / "manifest.json", 100_000)
        whole_file.Reserved(disk / "manifest.json", 10_000).release()
        assert not list(disk.iterdir())
