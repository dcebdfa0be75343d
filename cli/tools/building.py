"""What is made inside this folder: the release build of our programs, and the virtual environment.

Uses Python's own library alone: the bootstrap runs it.
"""

import contextlib
import fcntl
import hashlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import locks, programs, steps
from cli.errors import complain

LOCK = ".bootstrap-lock"
BUILD = programs.ROOT / "build/release"
VENV = programs.ROOT / ".venv"
_MARK = ".configured-with"
_SEARCH_AGAIN = ("-UREPRISE_*", "-UHELP2MAN")  # for programs that may come and go
_INSTALLED = ".requirements"
_SYSTEM_PYTHON = "/usr/bin/python3"
# pip is what a new environment gets last: without it an earlier attempt was cut short. The files of pinned
# packages list what those need as well. Of their modules only what a run imports is compiled, and at once: it
# takes less time beside apt-get and g++ than later, when everything waits for it.
_INSTALL = """
[ -x "$1/bin/pip" ] || "$2" -m venv --clear "$1" || exit 1
environment=$1; shift 2
"$environment/bin/python" -m pip install --disable-pip-version-check --no-deps --no-compile "$@" || exit 1
[ -O "$environment" ] || exit 0 # root's files would be in its owner's way
env -u PYTHONDONTWRITEBYTECODE "$environment/bin/python" -P -c \\
    "import cli.executor.run, cli.zones.signer, report.__main__" || true # a command says what is wrong
"""


# --- programs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """Targets of the release build. `installed` are the packages it can find: with others it is configured
    again, because some parts are built only where their package is there.
    """

    targets: Sequence[str]
    installed: Sequence[str]

    def configure(self) -> tuple[str, ...]:
        """The call of cmake that the build needs first; nothing where it is configured for what there is."""
        # A build that was copied along still names the folder it was made for, and would write there.
        here = f"CMAKE_HOME_DIRECTORY:INTERNAL={programs.ROOT}\n" in _read(BUILD / "CMakeCache.txt")
        if here and (BUILD / "build.ninja").is_file() and _read(BUILD / _MARK) == self._found():
            return ()
        return ("cmake", "--preset", "release", *(_SEARCH_AGAIN if here else ("--fresh",)))

    def _found(self) -> str:
        return "".join(f"{name}\n" for name in sorted(self.installed))

    def is_built(self) -> bool:
        """With nothing to do ninja answers within a few hundredths of a second."""
        if not self.targets or self.configure():
            return not self.targets
        argv = ["ninja", "-C", str(BUILD), "-n", *self.targets]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.stdout.rstrip().endswith("ninja: no work to do.")

    def build(self, title: str) -> None:
        """Configures where that is needed, and compiles."""
        if argv := self.configure():
            steps.carry_out(steps.Job(f"{title}: configuring", argv, cwd=programs.ROOT), "cmake failed")
            (BUILD / _MARK).write_text(self._found(), encoding="utf-8")
        argv = ("ninja", "-C", str(BUILD), *self.targets)
        steps.carry_out(steps.Job(title, argv, steps.NINJA_ENVIRONMENT), "the build failed")


# --- Python packages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """Files of pinned Python packages that are to be in the virtual environment."""

    files: Sequence[str]

    def is_made(self) -> bool:
        """Whether every file was installed as it is now."""
        return {*map(self._line, self.files)} <= {*_read(VENV / _INSTALLED).splitlines()}

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
        hint = "see above, check pip's configuration and the network, and run it again"
        steps.want_done(done, "pip failed", hint)
        there = _read(VENV / _INSTALLED).splitlines()
        others = (line for line in there if line.split()[0] not in self.files)
        text = "".join(f"{line}\n" for line in (*others, *map(self._line, self.files)))
        (VENV / _INSTALLED).write_text(text, encoding="utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One bootstrap at a time."""
    with locks.opened(path) as lock:
        if not locks.taken(lock):
            complain("reprise: waiting for another bootstrap")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
