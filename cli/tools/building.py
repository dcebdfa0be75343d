"""What is made inside this folder: the release build of our programs, and the virtual environment.

Uses Python's own library alone: the bootstrap runs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import locks, programs, steps
from cli.errors import RepriseError, complain
from cli.progress import Progress

LOCK = ".bootstrap-lock"
BUILD = programs.ROOT / "build/release"
VENV = programs.ROOT / ".venv"
_SEARCHED = ("REPRISE_MOLD", "REPRISE_BPF_CLANG", "HELP2MAN")  # programs that may come and go
_SYSTEM_PYTHON = "/usr/bin/python3"
# pip is what a new environment gets last: without it an earlier attempt was cut short. The files of pinned
# packages list what those need as well.
_INSTALL = """
[ -x "$1/bin/pip" ] || "$2" -m venv --clear "$1" || exit 1
environment=$1; shift 2
exec "$environment/bin/python" -m pip install --disable-pip-version-check --no-deps "$@"
"""


# --- programs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """Targets of the release build. `installed` are the packages it can find: with others it is configured
    again, because some parts are built only where their package is there.
    """

    targets: Sequence[str]
    installed: Sequence[str]

    @property
    def _mark(self) -> Path:
        return BUILD / ".configured-with"

    def _configured(self) -> bool:
        there = (BUILD / "build.ninja").is_file() and not self._of_another_folder()
        return there and _read(self._mark) == _lines(sorted(self.installed))

    @staticmethod
    def _of_another_folder() -> bool:
        """A build that was copied along still names the folder it was made for, and would write there."""
        line = "CMAKE_HOME_DIRECTORY:INTERNAL="
        homes = [one for one in _read(BUILD / "CMakeCache.txt").splitlines() if one.startswith(line)]
        return homes not in ([], [f"{line}{programs.ROOT}"])

    def configure(self) -> tuple[str, ...]:
        again = tuple(f"-U{one}" for one in _SEARCHED)
        return ("cmake", "--preset", "release", *again, *(("--fresh",) if self._of_another_folder() else ()))

    def is_built(self) -> bool:
        """With nothing to do ninja answers within a few hundredths of a second."""
        if not self.targets:
            return True
        if not self._configured():
            return False
        done = subprocess.run(
            ["ninja", "-C", str(BUILD), "-n", *self.targets], capture_output=True, text=True, check=False
        )
        return done.stdout.rstrip().endswith("ninja: no work to do.")

    def build(self, title: str) -> None:
        """Configures where that is needed, and compiles."""
        progress = Progress(quiet_s=steps.LINE_EVERY_S)
        if not self._configured():
            job = steps.Job(f"{title}: configuring", self.configure(), cwd=programs.ROOT)
            _carry_out(job, progress, "cmake failed")
            self._mark.write_text(_lines(sorted(self.installed)), encoding="utf-8")
        argv = ("ninja", "-C", str(BUILD), *self.targets)
        job = steps.Job(title, argv, steps.NINJA_ENVIRONMENT)
        _carry_out(job, progress, "the build failed")


def _carry_out(job: steps.Job, progress: Progress, complaint: str) -> None:
    done = steps.run(job, progress)
    if done.returncode != 0:
        steps.show_tail(done.stdout)
        raise RepriseError(complaint, "see above")


# --- Python packages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """Files of pinned Python packages that are to be in the virtual environment."""

    files: Sequence[str]

    @property
    def _mark(self) -> Path:
        return VENV / ".requirements"

    def is_made(self) -> bool:
        """Whether every file was installed as it is now."""
        there = _read(self._mark).splitlines()
        return all(self._line(file) in there for file in self.files)

    @staticmethod
    def _line(file: str) -> str:
        return f"{file} {hashlib.sha256((programs.ROOT / file).read_bytes()).hexdigest()}"

    def job(self, title: str) -> steps.Job:
        """Makes the environment and fetches the packages."""
        paths = [programs.ROOT / file for file in self.files]
        options = [word for path in paths for word in ("-r", str(path))]
        argv = ("sh", "-c", _INSTALL, "sh", str(VENV), _SYSTEM_PYTHON, *options)
        return steps.Job(title, argv)

    def finish(self, done: steps.Done) -> None:
        """Marks the files as installed, or says that they are not."""
        if done.returncode != 0:
            steps.show_tail(done.stdout)
            raise RepriseError(
                "pip failed", "see above, check pip's configuration and the network, and run it again"
            )
        others = [line for line in _read(self._mark).splitlines() if line.split()[0] not in self.files]
        self._mark.write_text(_lines([*others, *map(self._line, self.files)]), encoding="utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _lines(texts: Sequence[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One bootstrap at a time."""
    with locks.opened(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            complain("reprise: waiting for another bootstrap")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
