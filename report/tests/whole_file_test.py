"""Whole files on a disk that fills: the old content stays, and reserved room is enough."""

import errno
import os
from pathlib import Path

import pytest

from report import export, whole_file
from report.errors import ReportError
from tests.small_disk import fill, small_disk


def test_a_file_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    whole_file.write(path, "one")
    whole_file.write(path, b"two", durable=False)
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_user_names_is_written_to_where_it_is_no_file(tmp_path: Path) -> None:
    """As root a file in the place of /dev/stdout or /dev/null would break the machine."""
    (tmp_path / "file").write_text("much longer before")
    (tmp_path / "link").symlink_to("file")
    whole_file.write_named(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    whole_file.write_named(tmp_path / "pipe", b"said")
    assert os.read(reader, 10) == b"said"
    os.close(reader)
    whole_file.write_named(tmp_path / "fresh", "x")
    with pytest.raises(ReportError, match="pipe is no file"):
        export.command([], tmp_path / "pipe", parquet=False)
    assert {one.name for one in tmp_path.iterdir()} == {"file", "link", "pipe", "fresh"}


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
