"""The frame that `.rq` and `.ra` files share: a header with JSON, record bytes, and a footer with count and
checksum.

A file without a footer is one whose writer was cut off. That is a fact about the run and no error: what is
whole in it is good. A file that is something else, or of a schema not known here, is refused.
"""

import json
import mmap
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from report.errors import ReportError

SCHEMA = 1
FIXED_HEADER = struct.Struct("<8sIIII")
FOOTER = struct.Struct("<QQII8s")
HASH_CHUNK = 1 << 24
MAX_HEADER = 1 << 20


@dataclass(frozen=True)
class Frame:
    """A mapped file. Record bytes are `data[start:end]`; `count` is the footer's, None where there is no
    footer.
    """

    path: Path
    data: memoryview
    header: dict[str, Any]
    record_size: int
    start: int
    end: int
    count: int | None
    statistics: dict[str, Any]
    problem: str | None

    @property
    def cut_off(self) -> bool:
        return self.count is None

    def miscounted(self, held: float) -> str | None:
        """A problem where the footer counts others than the records that there are."""
        same = self.count in (None, held)
        return None if same else f"its footer counts {self.count} records and it holds {held}"


def open_frame(path: Path, header_magic: bytes, footer_magic: bytes) -> Frame:
    """Maps the file read-only and checks header, footer and checksum; the map lives as long as the frame's
    data.
    """
    data = mapped(path)
    if bytes(data[:8]) != header_magic[: len(data)]:
        raise ReportError(f"{path} is not a {path.suffix} file", "name a file that Reprise wrote")
    # A writer killed before its first flush leaves an empty file or a piece of a header.
    cut = Frame(path, data, {}, 0, len(data), len(data), None, {}, "cut off in its header")
    if len(data) < FIXED_HEADER.size:
        return cut
    _, schema, header_size, record_size, json_size = FIXED_HEADER.unpack_from(data)
    if schema != SCHEMA:
        raise ReportError(
            f"{path} has schema {schema}, known is {SCHEMA}", "use the version of Reprise that wrote it"
        )
    if header_size > MAX_HEADER or FIXED_HEADER.size + json_size > header_size:
        raise ReportError(f"{path} has a damaged header", "copy the file again or repeat the run")
    if len(data) < header_size:
        return cut
    header = _json(path, data[FIXED_HEADER.size :][:json_size])
    cut = Frame(
        path, data, header, record_size, header_size, len(data), None, {}, "cut off: it has no footer"
    )
    if len(data) < header_size + FOOTER.size or bytes(data[-8:]) != footer_magic:
        return cut
    count, checksum, json_size, _, _ = FOOTER.unpack_from(data, len(data) - FOOTER.size)
    end = len(data) - FOOTER.size - json_size
    if end < header_size:
        raise ReportError(f"{path} has a damaged footer", "copy the file again or repeat the run")
    statistics = _json(path, data[end : end + json_size]) if json_size else {}
    good = checksum_of(data[header_size:end]) == checksum
    problem = None if good else "its checksum does not match its records"
    return replace(cut, end=end, count=count, statistics=statistics, problem=problem)


def mapped(path: Path) -> memoryview:
    """A file to read; the map lives as long as what is made of it."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ReportError(
            f"cannot read {path}: {error.strerror}", "check the path and its permissions"
        ) from error


def _json(path: Path, text: memoryview) -> dict[str, Any]:
    try:
        value = json.loads(bytes(text))
    except ValueError as error:
        raise ReportError(f"{path} has damaged JSON", "copy the file again or repeat the run") from error
    if not isinstance(value, dict):
        raise ReportError(f"{path} has unexpected JSON", "copy the file again or repeat the run")
    return value


def checksum_of(data: memoryview) -> int:
    """XXH3-64 with seed 0, in steps so that a mapped file need not be in memory at once."""
    state = xxhash.xxh3_64()
    for at in range(0, len(data), HASH_CHUNK):
        state.update(data[at : at + HASH_CHUNK])
        release(data, at, at + HASH_CHUNK)
    return state.intdigest()


def scratch() -> str:
    """A folder for large files that nobody keeps, on a disk, where /tmp may be memory."""
    return os.environ.get("TMPDIR") or "/var/tmp"


def release(data: memoryview, start: int = 0, end: int | None = None) -> None:
    """Takes the pages of a mapped file, or those between two places, out of this process's memory; they come
    back when they are read. It takes longer the more of the file it is about.
    """
    if isinstance(data.obj, mmap.mmap):
        start -= start % mmap.PAGESIZE
        data.obj.madvise(mmap.MADV_DONTNEED, start, (len(data) if end is None else end) - start)
