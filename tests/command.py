"""The `reprise` command in a process forked from the test's: it begins with all modules imported.

It does what `python -m cli` does in its folder and environment, but for the plots of a report: they are
painted and not rendered, which takes most of a short run's processor time. Tests of report/ render them.
"""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cli import linux, programs
from cli.__main__ import main
from cli.executor import run as _run  # noqa: F401 - imported before the fork, not in each command
from cli.process import Process
from cli.tools import deploy as _deploy  # noqa: F401
from cli.tools import search as _search  # noqa: F401
from report import __main__ as _report  # noqa: F401
from report.html import environment

__all__ = ["LIMIT_S", "SAVING", "UNRENDERED", "run", "save_blank", "save_for_ever", "start"]

Save = Callable[..., None]

LIMIT_S = 120.0
SAVING = "saving a plot"
UNRENDERED = f"{programs.ROOT}/tests/unrendered:{programs.ROOT}"  # PYTHONPATH of commands that are not forked
_CRASHED = 70  # as nothing else in the command ends

for _name in environment().list_templates(["j2"]):  # compiled before the fork as well
    environment().get_template(_name)


def start(
    *arguments: str,
    cwd: Path,
    log: Path,
    output: Path | None = None,
    environment: Mapping[str, str] | None = None,
    save: Save | None = None,
) -> Process:
    """Starts a command in a session of its own without input; it dies with the test. Its output goes to the
    log like its errors, or to a file of its own. `save` stands in for Figure.savefig.
    """
    output = output or log
    for file in (log, output):
        file.touch()
    pid = os.fork()
    if pid == 0:
        try:
            _become_process(cwd, output, log)
            os.environ.update({"PYTHONPATH": str(programs.ROOT), **(environment or {})})
            mock.patch.object(Figure, "savefig", save or save_blank).start()
            mock.patch.object(ConstrainedLayoutEngine, "execute").start()
            _end(main(list(arguments)))
        except SystemExit as stop:  # of a bad command line
            _end(stop.code if isinstance(stop.code, int) else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            _end(_CRASHED)
    return Process("reprise", pid, log, output, arguments)


def run(*arguments: str, cwd: Path, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """A command from its beginning to its end."""
    with tempfile.TemporaryDirectory() as folder:
        command = start(*arguments, cwd=cwd, log=Path(folder, "errors"), output=Path(folder, "output"))
        status = command.wait(limit_s)
        said = [one.read_text(encoding="utf-8", errors="replace") for one in (command.output, command.log)]
    return subprocess.CompletedProcess(arguments, status, *said)


def _become_process(cwd: Path, output: Path, log: Path) -> None:
    """What exec() would have done: a fresh session, its own streams, signals as a shell leaves them."""
    gc.freeze()  # files of the test are not closed by us
    os.setsid()
    linux.die_with_parent(signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for path, target in ((output, 1), (log, 2)):
        os.dup2(os.open(path, flags, 0o644), target)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(cwd)


def save_blank(_figure: Figure, target: Any, **how: Any) -> None:
    """A plot that has been painted becomes an empty picture."""
    blank = b'<svg xmlns="http://www.w3.org/2000/svg"></svg>\n'
    target.write(blank if how["format"] == "svg" else b"")


def save_for_ever(_figure: Figure, _target: Any, **_how: Any) -> None:
    """Says so, and stays in the middle of the report until a signal comes."""
    sys.stderr.write(f"{SAVING}\n")
    signal.pause()


def _end(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 1
    os._exit(status)
