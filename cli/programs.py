"""Where the programs are: our own in a build folder, packaged servers and tools on the system's path."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cli.errors import RepriseError

ROOT = Path(__file__).resolve().parent.parent
# Packages that a run needs only where it is asked for them; on a host each brings a service of its own.
_OPTIONAL = {"unbound": "unbound", "kresd": "knot-resolver"}
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def own(name: str) -> str:
    """Path of one of our programs; REPRISE_PROGRAMS names another folder than the release build's."""
    for folder in _folders():
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    raise RepriseError(f"program {name} is not built", "run ./reprise, which builds it")


def _folders() -> list[Path]:
    given = os.environ.get("REPRISE_PROGRAMS")
    return [Path(given)] if given else [ROOT / "build/release/bin"]


def packaged(name: str) -> str:
    """Path of a packaged program; sbin is searched even where the user's PATH lacks it."""
    path = shutil.which(name, path=_SEARCH_PATH)
    if path is None:
        package = _OPTIONAL.get(name)
        mend = f"apt-get install {package}" if package else "run ./reprise, which installs it"
        raise RepriseError(f"program {name} is missing", mend)
    return path


def find(name: str) -> str | None:
    """Like `packaged`, None where it is missing."""
    return shutil.which(name, path=_SEARCH_PATH)
