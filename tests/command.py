"""The `reprise` command in a process forked from the test's: it begins with all modules imported.

It does what `python -m cli` does in its folder and environment, but for the plots of a report: they are
painted and not rendered, which takes most of a short run's processor time. Tests of report/ render them. The
short steps of a plan that are functions of ours are forked likewise (a tenth of a short run's processor time
is Python's start): those that run on hosts, as other users or to the end of a run are processes of their own.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cli import call, linux, programs
from cli.__main__ import main
from cli.executor import run as _run  # noqa: F401 - imported before the fork, not in each command
from cli.plan import certificates
from cli.process import Process
from cli.servers import conditions, counted
from cli.tools import deploy as _deploy  # noqa: F401
from cli.tools import search as _search  # noqa: F401
from cli.zones import rootzone, wildcard
from report import __main__ as _report  # noqa: F401
from report.html import environment

__all__ = ["LIMIT_S", "SAVING", "UNRENDERED", "run", "save_blank", "save_for_ever", "start"]

Save = Callable[..., None]

LIMIT_S = 120.0
SAVING = "saving a plot"
UNRENDERED = f"{programs.ROOT}/tests/unrendered:{programs.ROOT}"  # PYTHONPATH of commands that are not forked
_CRASHED = 70  # as nothing else in the command ends
_SHORT = tuple(
    f"{one.__module__}.{one.__name__}"
    for one in (
        certificates.write,
        conditions.write,
        counted.write,
        counted.await_idle,
        rootzone.write,
        wildcard.write,
    )
)
_spawn = os.posix_spawn

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
            mock.patch.object(os, "posix_spawn", _fork_or_spawn).start()
            _end_as(main, arguments)
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
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for path, target in ((output, 1), (log, 2)):
        os.dup2(os.open(path, flags, 0o644), target)
    _begin_anew()
    os.chdir(cwd)


def _begin_anew() -> None:
    """Streams of its own, and signals as a program has them at its start."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _fork_or_spawn(
    path: str,
    words: list[str],
    environment: Mapping[str, str],
    *,
    file_actions: Sequence[tuple[Any, ...]],
    **how: Any,
) -> int:
    """Stands in for os.posix_spawn() as Process.started calls it."""
    if words[:3] != [sys.executable, "-m", "cli.call"] or words[3] not in _SHORT:
        return _spawn(path, words, environment, file_actions=file_actions, **how)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            for _, target, file, flags, mode in file_actions:
                os.dup2(os.open(file, flags, mode), target)
            for one in [int(file.name) for file in Path("/proc/self/fd").iterdir()]:  # as exec() does
                with contextlib.suppress(OSError):  # the listing's own
                    if one > 2 and not os.get_inheritable(one):
                        os.close(one)
            os.environ.clear()
            os.environ.update(environment)
            _begin_anew()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            _end_as(call.main, words[3:])
        finally:
            _end(_CRASHED)
    with contextlib.suppress(OSError):  # as the child does, whoever is first
        os.setpgid(pid, pid)
    return pid


def _end_as(function: Callable[[list[str]], int], arguments: Sequence[str]) -> None:
    """Ends this process as Python would after that function."""
    try:
        _end(function(list(arguments)))
    except SystemExit as stop:  # of a bad command line
        _end(stop.code if isinstance(stop.code, int) else 1)
    except BaseException:
        traceback.print_exc()


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
