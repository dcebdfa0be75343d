"""Files that are whole or not there: content goes to NAME.part first, and the name follows.

A full disk, a kill or a crash of the host leaves what stood under the name before, never half of the new.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write(path: Path, content: str | bytes, durable: bool = True, mode: int = 0o644) -> None:
    """Writes a file, replacing one of that name. `durable` has it on the disk before its name changes;
    what can be made again need not wait for that.
    """
    with half_of(path) as half, _made(half, mode) as file:
        file.write(_bytes(content))
        if durable:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def half_of(path: Path) -> Iterator[Path]:
    """Where to write what gets its name at the end; nothing of it stays where that is not reached."""
    half = _half(path)
    try:
        yield half
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def write_named(path: Path, content: str | bytes) -> None:
    """The same for a name that a user gave: what is no file of its own there (a device, a pipe, a link such
    as /dev/stdout) stays, and is written to.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(_bytes(content))
    else:
        write(path, content)


class Reserved:
    """Room on the disk for a file that is written at the end, when the disk may be full."""

    def __init__(self, path: Path, size: int) -> None:
        """Raises OSError where there is no room for `size` bytes."""
        self._path = path
        self._file = _made(_half(path), 0o644)
        try:
            os.posix_fallocate(self._file.fileno(), 0, size)
        except BaseException:
            self.release()
            raise

    def write(self, content: str | bytes) -> None:
        """Writes the file into its room and gives it its name; once."""
        with self._file as file:
            file.write(_bytes(content))
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        _half(self._path).replace(self._path)

    def release(self) -> None:
        """Gives the room back, for a file that will not be written."""
        self._file.close()
        _half(self._path).unlink(missing_ok=True)


def _made(half: Path, mode: int) -> IO[bytes]:
    """A new file, even if something else is in its place."""
    half.unlink(missing_ok=True)
    return os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


def _half(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _bytes(content: str | bytes) -> bytes:
    """Names of files in it may be any bytes."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
