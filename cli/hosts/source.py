"""What version of the source tree lies in a folder, whether or not it is a repository.

Its functions are called before anything is installed, so it uses Python's own library alone. The Debian
package knows the checksum of the source that it was built from.
"""

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

from cli.errors import RepriseError

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "source.sha256"  # in the Debian package only
_FOLDERS = ("bench", "cli", "cmake", "controller", "core", "docs", "experiments", "mutator", "packaging",
            "playbooks", "proxy", "querier", "report", "sampler", "tests", "zonebuilder")  # fmt: skip
_FILES = ("CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md",
          "conftest.py", "packages.txt", "profile.py", "pyproject.toml", "reprise", "requirements-export.txt",
          "requirements-hosts.txt",
          "requirements-test.txt", "requirements.txt")  # fmt: skip


def files() -> Iterator[Path]:
    """All files that are deployed, in their order. What else lies in the folder is the user's own."""
    for path in (path for name in _FOLDERS for path in sorted((ROOT / name).rglob("*"))):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and not any(one.startswith(".") or one == "__pycache__" for one in parts):
            yield path
    yield from (ROOT / name for name in _FILES if (ROOT / name).is_file())


def checksum() -> str:
    """SHA-256 over the files' names and contents, in hex."""
    if RECORDED.is_file():
        return RECORDED.read_text(encoding="ascii").strip()
    total = hashlib.sha256()
    for path in files():
        total.update(str(path.relative_to(ROOT)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def write(archive: Path) -> None:
    with tarfile.open(archive, "w:gz", compresslevel=6) as file:
        for path in files():
            file.add(path, str(path.relative_to(ROOT)), recursive=False, filter=_of_root)


def remove() -> None:
    """Removes the files, so that none of this version stays beside the next, but not what was built. A
    repository is somebody's own, and its files may be nowhere else.
    """
    if RECORDED.is_file():
        raise RepriseError(f"{ROOT} belongs to the Debian package", "as root: apt remove reprise")
    if (ROOT / ".git").exists():
        raise RepriseError(
            f"{ROOT} is a repository whose files differ from those to be installed",
            "do not change them while hosts are prepared, or set another reprise_root",
        )
    for path in list(files()):
        path.unlink()


def _of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """root runs what is in the archive: nobody else may change it."""
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mode &= 0o755
    return info
