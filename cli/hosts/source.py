"""What version of the source tree lies in a folder, whether or not it is a repository.

`python3 -P -m cli.hosts.source [ARCHIVE]` prints a checksum of all that is deployed to hosts, and writes it
into an archive. It runs before anything is installed, so it uses Python's own library alone.
"""

from __future__ import annotations

import hashlib
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = ("build", "results", "bench-results", "__pycache__")


def files(root: Path = ROOT) -> Iterator[Path]:
    """All files that are deployed, in their order."""
    for path in sorted(root.iterdir()):
        if path.name in _LEFT_OUT or (path.name.startswith(".") and path.name != ".clang-format"):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files(path)
        elif path.is_file():
            yield path


def checksum() -> str:
    """Of names and contents."""
    total = hashlib.sha256()
    for path in files():
        total.update(str(path.relative_to(ROOT)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def write(archive: Path) -> None:
    """A compressed archive of the files."""
    with tarfile.open(archive, "w:gz", compresslevel=6) as file:
        for path in files():
            file.add(path, str(path.relative_to(ROOT)), recursive=False)


def main(arguments: list[str]) -> int:
    """See the module's text."""
    sys.stdout.write(checksum() + "\n")
    if arguments:
        write(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
