"""Zone files as they come: plain or compressed (gz, bz2, xz, zst, lz4); their origin; unpacking."""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from cli.errors import RepriseError, UsageError, want
from report import compressed

_SCAN_LIMIT = 4 * 1024 * 1024  # bytes read in search of the SOA record
MOST_BYTES = 1 << 30  # in a zone's text once decompressed or written out: a small file can hold more


def compression(path: Path) -> str | None:
    """The compression by the file's first bytes, None for plain text."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        raise UsageError(f"no zone file {path}", "set server.zone to a zone file") from None
    except OSError as error:
        raise UsageError(f"cannot read zone file {path}: {error.strerror}", "give a readable file") from None
    if not head:
        raise UsageError(f"zone file {path} is empty", "set server.zone to a zone file")
    return compressed.compression_of(head)


def opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    """The file's text as bytes, decompressed as it is read."""
    compression(path)
    return compressed.opened(path)


def open_below(path: Path, top: Path) -> IO[bytes] | None:
    """Opens a regular file below the folder `top`, which has no links in its name; None for everything else,
    wherever links lead. Throws OSError.
    """
    if not Path(os.path.realpath(path)).is_relative_to(top):
        return None
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    real = Path(f"/proc/self/fd/{file}").readlink()  # links may have changed
    if stat.S_ISREG(os.fstat(file).st_mode) and real.is_relative_to(top):
        return os.fdopen(file, "rb")
    os.close(file)
    return None


def find_origin(path: Path) -> str:
    """The owner of the zone's SOA record, absolute and with its final dot."""
    try:
        with opened(path) as file:
            text = file.read(_SCAN_LIMIT).decode("utf-8", "replace")
    except compressed.DAMAGED as error:
        raise UsageError(f"zone file {path} cannot be decompressed: {error}", "fetch it again") from None
    origin = origin_of(text)
    if origin is None:
        raise UsageError(f"zone file {path} has no SOA record with a full name", "set server.origin")
    return origin


def origin_of(text: str) -> str | None:
    """The SOA's owner in zone file text; None when it is not there or relative to an unknown origin."""
    origin: str | None = None
    owner: str | None = None
    for line in text.splitlines():
        words = line.split(";", 1)[0].split()
        if not words:
            continue
        if words[0].upper() == "$ORIGIN" and len(words) > 1:
            origin = words[1]
            continue
        if not line[0].isspace():
            owner = words.pop(0)
        if "SOA" in (word.upper() for word in words[:3]):
            return _absolute(owner, origin)
    return None


def _absolute(owner: str | None, origin: str | None) -> str | None:
    if owner is None or owner == "@":
        return origin
    if owner.endswith("."):
        return owner.lower()
    return None if origin is None else f"{owner}.{origin}".replace("..", ".").lower()


def unpack(source: Path, target: Path) -> None:
    """Writes the decompressed zone; plain files may have any size. A broken archive or a full disk is one
    line.
    """
    packed = compression(source) is not None
    left = MOST_BYTES
    try:
        with opened(source) as file, target.open("wb") as out:
            while part := file.read(1 << 20):
                left -= len(part)
                want(
                    left >= 0 or not packed,
                    f"{source} is over {MOST_BYTES >> 30} GiB decompressed",
                    "decompress it yourself",
                )
                out.write(part)
    except compressed.DAMAGED as error:
        raise RepriseError(
            f"cannot unpack {source}: {error}", "fetch it again or make room in memory"
        ) from None
