"""Installs and builds what a command line needs, and becomes the `reprise` command. Where the Debian package
of Reprise is installed it only says which other packages are missing.

`./reprise` starts it with the system's Python before anything else is there, so it uses Python's own library
alone. With nothing to do it costs about a tenth of a second.
"""

import contextlib
import io
import os
import sys

from cli import programs, steps
from cli.__main__ import build_parser
from cli.errors import RepriseError, hold_interrupts, telling
from cli.progress import Progress
from cli.tools import needs, packages
from cli.tools.building import LOCK, VENV, Environment, Release, alone
from cli.tools.needs import Needs

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def prepare(arguments: list[str]) -> None:
    """Does what is still to do for the needs of a command. Help, and what is wrong with a command line, are
    left to the command.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            wanted = needs.of(build_parser().parse_args(arguments))
    except SystemExit:
        return
    if wanted == Needs():
        return
    if programs.INSTALLED:
        listed = packages.listed()
        packages.want(name for section in wanted.sections for name in listed.get(section, ()))
        return
    folder = programs.ROOT / "build"
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
    if not os.access(folder, os.W_OK):  # by others only, and everything must be there
        files = [VENV / "bin/python", *(programs.BUILT / one for one in wanted.targets)]
        if not all(file.exists() for file in files):
            what = f"{programs.ROOT} is not writable and not built"
            raise RepriseError(what, "run this command once as its owner")
        return
    with alone(folder / LOCK):
        _carry_out(wanted)


def _carry_out(wanted: Needs) -> None:
    """Packages first, then programs. pip, which mostly waits for the network, works meanwhile: from the
    beginning where the environment's own package is there, and packages can be installed.
    """
    listed = packages.listed()
    every = {name for names in listed.values() for name in names}
    absent = set(packages.missing(every)).difference(packages.unknown())
    named = (name for section in wanted.sections for name in listed[section] if name in absent)
    missing = list(dict.fromkeys(named))
    environment = Environment(wanted.python)
    release = Release(wanted.targets, sorted(every - absent.difference(missing)))
    to_install, to_build = bool(missing), (bool(missing) and bool(wanted.targets)) or not release.is_built()
    to_fetch = not environment.is_made()
    count = to_install + to_build + to_fetch
    title = (f"step {number} of {count}" for number in range(1, count + 1))
    installed = f"{next(title)}: Debian packages" if to_install else ""
    built = f"{next(title)}: programs" if to_build else ""
    job = environment.job(f"{next(title)}: Python packages") if to_fetch else None
    early = os.geteuid() == 0 and "python3-venv" not in missing
    fetching = steps.Running(job) if job and early else None
    try:
        if to_install:
            packages.install(missing, installed)
        if job and not fetching:
            fetching = steps.Running(job)
        if to_build:
            release.build(built)
    except BaseException:
        if fetching:
            fetching.stop()
        raise
    if fetching:
        environment.finish(fetching.watch(Progress(quiet_s=steps.LINE_EVERY_S)))


def decide_on_bytecode() -> None:
    """pip has compiled nothing: what is imported is compiled then, and kept, or each command and each step of
    a run would compile it again. But root's files would be in the owner's way.
    """
    if VENV.stat().st_uid == os.geteuid():
        os.environ.pop(_NO_BYTECODE, None)
    else:
        os.environ[_NO_BYTECODE] = "1"


@telling
def main(arguments: list[str]) -> int:
    """Prepares and hands over; only what went wrong comes back."""
    try:
        prepare(arguments)
        hold_interrupts()
    except OSError as error:
        what = f"{error.filename or 'bootstrap'}: {error.strerror}"
        raise RepriseError(what, "fix that and run it again") from None
    python = VENV / "bin/python"  # help needs no environment
    if python.exists():
        decide_on_bytecode()
    program = str(python) if python.exists() else sys.executable
    os.execv(program, [program, "-P", "-m", "cli", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
