"""Locks that only their owner can hold: whoever may open a file may also lock it, and so keep others
waiting forever.

Uses only Python's standard library: the bootstrap imports it.
"""

import fcntl
import os
from pathlib import Path
from typing import IO

MACHINE = Path("/run/reprise/locks")  # root's on this machine


def opened(path: Path) -> IO[str]:
    """The file of a lock, for the caller to lock; links are not followed, and its content stays."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # an older version's may be open to all
    return os.fdopen(descriptor, "r+", encoding="utf-8")


def of_machine(name: str, folder: Path | None = None) -> IO[str]:
    """The file of one of the machine's locks, in a folder that only root can enter."""
    folder = folder or MACHINE
    folder.parent.mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return opened(folder / name)


def taken(file: IO[str]) -> bool:
    """Takes the lock unless somebody else holds it; it is held as long as the file is open."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
