"""Files that may be compressed, read as what they hold. Which way they are is told by their first bytes."""

import bz2
import gzip
import lzma
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)  # what reading a broken file raises
_MAGICS = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_OPENERS: dict[str | None, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open, None: open}


def compression_of(text: bytes) -> str | None:
    """The compression of what begins with these bytes."""
    return next((name for magic, name in _MAGICS.items() if text.startswith(magic)), None)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file's content, decompressed as it is read. Raises one of DAMAGED, at the end too."""
    with path.open("rb") as file:
        kind = compression_of(file.read(8))
    if kind in _OPENERS:
        with _OPENERS[kind](path, "rb") as file:
            yield file
        return
    name = str(kind)  # zstd and lz4 are not in Python's library
    program = shutil.which(name)
    if program is None:
        raise OSError(f"it is compressed with {name}, which is not here: apt-get install {name}")
    argv = [program, "-dcq", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield process.stdout
        whole = not process.stdout.read(1)
        process.stdout.close()
    if whole and process.returncode != 0:
        raise EOFError(f"the {name} data is cut or corrupt")
