"""Files that go from one machine to another as bytes only: the receiver has requested them in a certain
order, so the sender cannot choose where they go, or send anything but contents.

A line with its size comes before each file. At both ends, folders are opened one inside the other and never
through a link.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cli.errors import RepriseError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SIZE = re.compile(rb"[0-9]{1,18}\n")
_LONGEST_SIZE = 19
_KEPT_FREE = 64 << 20  # bytes of a disk that are never filled with a machine's files
_CHUNK = 1 << 20


def is_below(name: str) -> bool:
    """Whether a name is a plain path of a file below a folder: not absolute, without `..`."""
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


@contextlib.contextmanager
def _parent(top: Path, name: str, mode: int | None = None) -> Iterator[tuple[int, str]]:
    """The open folder of a file below `top`, and the file's name in it; missing folders are made if a mode
    for them is given.
    """
    if not is_below(name):
        raise RepriseError(f"{name!r} is not the name of a file below {top}", "see whether the host is sound")
    *above, last = name.split("/")
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for one in above:
            if mode is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(one, mode, dir_fd=folder)
            deeper = os.open(one, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder, last
    finally:
        os.close(folder)


def send(top: Path, name: str, to: IO[bytes]) -> None:
    """Writes a regular file below `top` to the stream."""
    with _parent(top, name) as (folder, last):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(last, flags, dir_fd=folder)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is open already
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RepriseError(f"{name} is not a regular file", "remove it")
        to.write(b"%d\n" % found.st_size)
        _copy(file, to, found.st_size, name)
    to.flush()


def receive(
    source: IO[bytes], top: Path, name: str, modes: tuple[int, int] = (0o777, 0o666), owner: int = -1
) -> None:
    """Reads a file that is sent into a new one that then replaces any file of its name; `modes` are the modes
    for new folders and for the file.
    """
    line = source.readline(_LONGEST_SIZE)
    if not _SIZE.fullmatch(line):
        raise EOFError(f"{name}: no size was sent")
    size = int(line)
    if size > shutil.disk_usage(top).free - _KEPT_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    with _parent(top, name, modes[0]) as (folder, last):
        part = f".{secrets.token_hex(8)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, modes[1], dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - it is open already
                if owner >= 0:
                    os.fchown(descriptor, owner, -1)
                _copy(source, file, size, name)
            os.rename(part, last, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(part, dir_fd=folder)
            raise


def _copy(source: IO[bytes], to: IO[bytes], size: int, name: str) -> None:
    while size:
        chunk = source.read(min(size, _CHUNK))
        if not chunk:
            raise EOFError(f"{name}: {size} bytes are missing")
        to.write(chunk)
        size -= len(chunk)
