"""Changes of a machine by a run, and their undo; what is copied from and to it.

The operator's machine calls these functions by ssh, see cli/call.py. `apply` carries out steps, read from
standard input, in the machine's own namespaces and over a connection of its own; how to undo each is written
to a journal first. `tear_down` undoes what runs have left that did not end in order. The module is loaded
quickly: for every few steps.
"""

import contextlib
import fcntl
import fnmatch
import hashlib
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cli import linux, locks
from cli.errors import RepriseError, one_line
from cli.executor import processes
from cli.hosts import files, leftovers

RUNTIME = Path("/run/reprise")  # of each run a folder with its files and keys, in memory
STATE = Path("/var/lib/reprise")  # of each run a folder with its results
BOOTED = Path("/run/systemd/system")  # sd_booted(3)
_SETTLED_S = 100.0  # longer than an agent that nobody asks goes on
_REPAIRED_S = 30.0
_ROOM = "nosuid,nodev,mode=0711,size=50%"
_RUN, _RESULTS = "@run@", "@results@"  # of the plan


def runtime(run: str) -> Path:
    return RUNTIME / run


def results(run: str) -> Path:
    return STATE / "runs" / run


def make_state() -> None:
    """Makes this machine's folder for results, copied files and changes to undo. Only root can look into it;
    programs see the results of their run elsewhere.
    """
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    STATE.chmod(0o700)


def _journal(run: str) -> Path:
    return STATE / "undo" / f"{run}.jsonl"


def begin_journal(run: str) -> None:
    """From the first moment: its undo also removes the folder."""
    path = _journal(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)


def make_runtime(run: str) -> None:
    """Makes the folder of a run's files, in memory."""
    folder = runtime(run)
    folder.mkdir(parents=True)
    argv = [*_outside(), "mount", "-t", "tmpfs", "-o", _ROOM, "reprise", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RepriseError(f"cannot mount {folder}: {one_line(done.stderr)}", "let root mount file systems")


@contextlib.contextmanager
def locked(run: str, patience_s: float = 0.0) -> Iterator[list[str]]:
    """This machine is one run's at a time; what an earlier one left is undone, and named. With patience it
    waits for an agent to end whose operator is gone.
    """
    make_state()
    end = time.monotonic() + patience_s
    with _lock() as lock:
        while not locks.taken(lock):
            if time.monotonic() >= end:
                other = lock.read().strip() or "?"
                raise RepriseError(f"in use by run {other}", "wait for it to finish")
            time.sleep(0.2)
        left = teardown()
        lock.seek(0)
        lock.truncate()
        lock.write(run + "\n")
        lock.flush()
        try:
            yield left
        finally:
            lock.truncate(0)


def _lock() -> IO[str]:
    return locks.of_machine("run", RUNTIME / locks.MACHINE.name)


# --- the agent's unit, see unit.py -------------------------------------------------------------------------


def unit(run: str) -> str:
    return f"reprise-{run}.service"


def _outside() -> tuple[str, ...]:
    """What a command begins with so that its mounts are seen outside of the unit, too."""
    inside = any(fnmatch.fnmatchcase(one, unit("*")) for one in linux.units("self"))
    return ("nsenter", "--target", "1", "--mount", "--") if inside else ()


def _unit_lives(run: str) -> bool:
    """Whether systemd has not yet undone what an agent left that was killed."""
    if not BOOTED.is_dir():
        return False
    argv = ["systemctl", "show", "--property=ActiveState", "--value", unit(run)]
    state = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    return state not in ("", "inactive", "failed")


# --- changes of the machine -------------------------------------------------------------------------------


def apply() -> list[str]:
    """Carries out steps from standard input, in their order; how to undo each is written down before it.
    Returns their names.
    """
    asked = json.load(sys.stdin)
    run = str(asked["run"])

    def fill(text: str) -> str:
        return text.replace(_RUN, str(runtime(run))).replace(_RESULTS, str(results(run)))

    for step in asked["steps"]:
        log = results(run) / "logs" / f"{step['id']}.log"
        with _journaled(run) as journal:
            _note(journal, [[fill(word) for word in command] for command in step["undo"]])
            processes.carry_out(step["apply"], None, fill, dict(os.environ), log)
    return [str(step["id"]) for step in asked["steps"]]


@contextlib.contextmanager
def _journaled(run: str) -> Iterator[IO[str]]:
    """The journal, for this process alone: nothing is changed any more once it is being undone."""
    try:
        journal = _journal(run).open("r+", encoding="utf-8")
    except FileNotFoundError:
        raise RepriseError("the run has ended", "start it again") from None
    with journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        if os.fstat(journal.fileno()).st_nlink == 0:
            raise RepriseError("the run has ended", "start it again")
        yield journal


def _note(journal: IO[str], commands: list[list[str]]) -> None:
    """Writes down how a step is undone; that is on the disk when it is carried out."""
    if not commands:
        return
    journal.seek(0, os.SEEK_END)
    journal.write(json.dumps(commands) + "\n")
    journal.flush()
    os.fsync(journal.fileno())


def undo(run: str) -> list[str]:
    """Leaves the machine as it was before the run; the run's results stay. What cannot be undone is returned,
    and stays in the journal.
    """
    failed: list[str] = []
    with contextlib.suppress(RepriseError), _journaled(run) as journal:
        left: list[str] = []
        for line in reversed(journal.read().splitlines()):
            if complaints := _undone(run, line):
                failed += complaints
                left.append(line)
        if left:
            journal.seek(0)
            journal.truncate()
            journal.write("".join(f"{line}\n" for line in reversed(left)))
        else:
            _journal(run).unlink()
    folder = runtime(run)
    if folder.exists() and not failed:
        if os.path.ismount(folder):
            subprocess.run([*_outside(), "umount", "-l", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    return failed


def _undone(run: str, line: str) -> list[str]:
    """Carries out a line of the journal, all of its commands; what went wrong."""
    log = results(run) / "logs" / "undo.log"
    if not log.parent.is_dir():
        log = Path(os.devnull)
    try:
        commands = json.loads(line)
    except ValueError:
        return []  # cut off when the machine stopped, and so not carried out
    failed = []
    for command in commands:
        try:
            processes.carry_out([command], None, str, dict(os.environ), log)
        except (RepriseError, OSError) as error:
            failed.append(str(error))
    return failed


def teardown() -> list[str]:
    """Undoes what runs have left that did not end in order; their names."""
    journals = {path.stem for path in (STATE / "undo").glob("*.jsonl")}
    folders = {path.name for path in RUNTIME.glob("*")} - {locks.MACHINE.name}
    left = sorted(journals | folders)
    for run in left:
        undo(run)
    return left


def tear_down() -> list[str]:
    """The same when no agent lives, and removes what experiments named. What fronts left is an error."""
    with locked("teardown", _SETTLED_S) as left:
        shutil.rmtree(STATE / "inputs", ignore_errors=True)
        for one in leftovers.ours():
            raise RepriseError(one.what, one.hint)
        return left


# --- what was prepared, and results -----------------------------------------------------------------------


def _place(run: str, name: str) -> tuple[Path, str]:
    """The folder of a file that has this name in the plan, and its name in the folder."""
    place, _, rest = name.partition("/")
    return {_RUN: runtime, _RESULTS: results}[place](run), rest


def made(run: str) -> dict[str, tuple[int, str]]:
    """Modes and owners of all files of a run on this machine, by name as in the plan."""
    found: dict[str, tuple[int, str]] = {}
    for place, top in ((_RUN, runtime(run)), (_RESULTS, results(run))):
        for path in top.rglob("*"):
            state = path.lstat()
            if stat.S_ISREG(state.st_mode):
                found[f"{place}/{path.relative_to(top)}"] = stat.S_IMODE(state.st_mode), _user(state.st_uid)
    return found


def _user(number: int) -> str:
    """The name of a user; "" for root and for users without a name."""
    try:
        return pwd.getpwuid(number).pw_name if number else ""
    except KeyError:
        return ""


def send(run: str) -> None:
    """Writes the files whose names in the plan are read from standard input, see files.py."""
    for name in os.fsdecode(sys.stdin.buffer.read()).split("\0")[:-1]:
        files.send(*_place(run, name), sys.stdout.buffer)


def put(run: str) -> None:
    """Reads files that another machine sends after a line with their names in the plan, modes and owners."""
    os.umask(0)  # so that files get exactly the given modes
    for name, mode, owner in json.loads(sys.stdin.buffer.readline()):
        user = linux.user_number(owner) if owner else -1
        files.receive(sys.stdin.buffer, *_place(run, name), (0o755, mode), user)


def settle(run: str) -> None:
    """Waits until a run whose agent was cut off has ended here."""
    end = time.monotonic() + _SETTLED_S
    while _journal(run).exists() and (_is_held() or _unit_lives(run)):
        if time.monotonic() > end:
            raise RepriseError("the run has not ended there", "run playbooks/collect.yml later")
        time.sleep(0.2)


def _is_held() -> bool:
    """Whether an agent lives; one that was killed took its processes with it."""
    with _lock() as lock:
        return not locks.taken(lock)


def runs() -> list[str]:
    """Those whose results are here, when no agent lives."""
    with locked("collect", _SETTLED_S):
        return sorted(path.name for path in (STATE / "runs").glob("*"))


def forget(run: str) -> None:
    """Removes the results of a run when it has ended."""
    settle(run)
    shutil.rmtree(results(run), ignore_errors=True)


def sums(run: str, only: list[str] | None = None) -> dict[str, str]:
    """Checksums of the run's results by their names: of all when it has ended, or, while it goes on, of those
    that match one of these patterns. A NAME.part is no result: it belongs to a process that was killed before
    it could rename the file.
    """
    if only is None:
        settle(run)
    folder = results(run)
    found = (one for one in sorted(folder.rglob("*")) if one.is_file() and not one.is_symlink())
    names = (str(one.relative_to(folder)) for one in found if one.suffix != ".part")
    return {
        name: checksum(folder / name)
        for name in names
        if only is None or any(fnmatch.fnmatchcase(name, one) for one in only)
    }


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- files that an experiment names -----------------------------------------------------------------------


def place_of(checksum: str) -> Path:
    """The folder that holds a file or folder with this checksum, under its own name."""
    return STATE / "inputs" / checksum[:32]


def named_sum(path: Path) -> str:
    """SHA-256 of the name and content of a file, or of a folder and the names and contents of its files."""
    total = hashlib.sha256(os.fsencode(path.name) + b"\0")
    for one in sorted(path.rglob("*")) if path.is_dir() else (path,):
        if one.is_file():
            total.update(os.fsencode(one.relative_to(path)) + b"\0" + checksum(one).encode())
    return total.hexdigest()


def inputs() -> list[str]:
    """Checksums of what is whole here."""
    return [path.read_text(encoding="ascii") for path in (STATE / "inputs").glob("*/.checksum")]


def take(wanted: str) -> None:
    """Unpacks an archive from standard input; its one file or folder has to have the checksum."""
    folder = place_of(wanted)
    shutil.rmtree(folder, ignore_errors=True)
    (STATE / "inputs").mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    status = subprocess.run(["tar", "-C", str(folder), "--no-same-owner", "-xf", "-"], check=False).returncode
    found = [named_sum(path) for path in folder.iterdir()]
    if status != 0 or found != [wanted]:
        shutil.rmtree(folder, ignore_errors=True)
        raise RepriseError("the copy was damaged", "run it again")
    (folder / ".checksum").write_text(wanted, encoding="ascii")


def repair(run: str) -> int:
    """Undoes what a run has left that was killed. Where another run has the machine, that one did it;
    who only looks whether it is in use has it for a moment.
    """
    end = time.monotonic() + _REPAIRED_S
    while (_journal(run).exists() or runtime(run).exists()) and time.monotonic() < end:
        with contextlib.suppress(RepriseError), locked(run):
            return 0
        time.sleep(0.1)
    return int(_journal(run).exists())
