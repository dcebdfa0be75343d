"""Small file systems, and filling them."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli import linux, programs


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs of this size, made as a new folder."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder.mkdir()
    linux.mount("reprise-test", str(folder), "tmpfs", 0, f"size={size}")
    try:
        yield folder
    finally:
        subprocess.run([programs.packaged("umount"), "--lazy", str(folder)], check=True)


def fill(folder: Path, name: str = "filler") -> Path:
    """Takes the last byte of a file system with a file of that name."""
    path = folder / name
    with path.open("wb", buffering=0) as file:
        for piece in (1 << 16, 1):
            try:
                while True:
                    file.write(bytes(piece))
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return path


@contextmanager
def thin_disk(folder: Path) -> Iterator[tuple[Path, Path]]:
    """An ext4 of 64 MiB on a disk with less room, and that disk: it takes writes and fails to hold them."""
    with small_disk(folder, "16m"):
        image, top = folder / "image", folder / "top"
        image.touch()
        os.truncate(image, 64 << 20)
        top.mkdir()
        make = ["/sbin/mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image)]
        try:
            subprocess.run(make, check=True, capture_output=True)
            subprocess.run(["mount", "-o", "loop", str(image), str(top)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this host has no loop devices or no ext4")
        try:
            yield top, folder
        finally:
            subprocess.run([programs.packaged("umount"), "--lazy", str(top)], check=True)
