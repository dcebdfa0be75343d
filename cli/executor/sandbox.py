"""A PID, mount and (when asked) network namespace that dies with the command, whatever ends the command.

Three processes: the command, a *keeper* that it forks, and the *init* of the new PID namespace. Keeper and
init ask for SIGKILL at their parent's death, and init also watches a pipe whose only writer is the command.
When init ends, the kernel kills every process of the namespace, and the network namespaces vanish with their
last user. The pipe carries the user's wishes too: one byte STOP asks for an orderly end, end of file means
die now.
"""

import contextlib
import os
import re
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from cli import linux
from cli.errors import EXIT_FAILED, SIGNALS, RepriseError, complain, interrupts_held
from cli.process import ended

STOP = b"s"
_KILLED = 128  # the keeper's exit status is this much more than the signal that ended init
_PATIENCE_S = 10.0  # for processes that the kernel has killed; one may be writing to a slow disk


def run(body: Callable[[int], int], runtime: Path | None, own_network: bool) -> int:
    """Runs body(life) as init of a new sandbox, with a tmpfs on `runtime` where one is given. Returns its
    exit status, negative where a signal ended the sandbox.

    `life` is the reading end of the pipe. Signals to the command ask the body to stop; the third one kills
    it.
    """
    life, leash = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    named, name = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    sys.stderr.flush()
    with interrupts_held():
        keeper = os.fork()
    if keeper == 0:
        os.close(leash)
        _child(lambda: _keep(body, life, name, runtime, own_network))
    os.close(life)
    os.close(name)
    process = os.pidfd_open(keeper)
    try:
        with signals_forwarded(leash, process):
            _, status = os.waitpid(keeper, 0)
            os.close(leash)  # an init whose keeper was killed ends by that, after all others of its sandbox
            with contextlib.suppress(ValueError, OSError):  # it never began
                ended(int(os.read(named, 32)), _PATIENCE_S)
    finally:
        os.close(named)
        os.close(process)
    code = os.waitstatus_to_exitcode(status)
    return code if code <= _KILLED else _KILLED - code


# The folder stands in configurations of servers, whose syntaxes quote in different ways or not at all.
_PLAIN = re.compile(r"[\w./@+-]+")
_TEMPORARY = f"/tmp/reprise-{os.geteuid()}"


def runtime_folder() -> Path:
    """The fixed empty directory over which each run mounts its own tmpfs."""
    if os.geteuid() == 0:
        wanted = Path("/run/reprise")
    else:
        wanted = Path(os.environ.get("HOME", "/nonexistent")) / ".cache/reprise/runtime"
        if not _PLAIN.fullmatch(str(wanted)) or not _make(wanted):
            wanted = _own_temporary() / "runtime"
    if not _make(wanted) or wanted.stat().st_uid != os.geteuid():
        raise RepriseError(f"cannot use {wanted}", "make it a directory of your own")
    return wanted


def _own_temporary() -> Path:
    """A folder in /tmp for this user only; a new one if somebody else has taken its usual name."""
    folder = Path(_TEMPORARY)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022:
        return folder
    return Path(tempfile.mkdtemp(prefix="reprise-", dir="/tmp"))


def _make(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def signals_forwarded(leash: int, keeper: int | None = None) -> Iterator[None]:
    """Meanwhile signals become STOP bytes on the leash; the third kills what is behind the descriptor
    `keeper`, if there is one.
    """
    seen = 0

    def forward(_number: int, _frame: object) -> None:
        nonlocal seen
        seen += 1
        with contextlib.suppress(OSError):  # the body has ended already
            if keeper is not None and seen >= 3:
                signal.pidfd_send_signal(keeper, signal.SIGKILL)
            else:
                os.write(leash, STOP)

    old = {number: signal.signal(number, forward) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _keep(body: Callable[[int], int], life: int, name: int, runtime: Path | None, own_network: bool) -> int:
    """The keeper: makes the namespaces, forks init into them, writes its number to `name`, waits for it."""
    linux.die_with_parent(signal.SIGKILL)
    os.setsid()  # the terminal's ctrl-C reaches the command only, which passes it on
    _unshare(own_network)
    linux.die_with_parent(signal.SIGKILL)  # a change of credentials clears it
    with interrupts_held():
        init = os.fork()
    if init == 0:
        _child(lambda: _init(body, life, runtime))
    os.write(name, str(init).encode("ascii"))
    os.close(name)
    os.close(life)
    _, status = os.waitpid(init, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _KILLED - code


def _unshare(own_network: bool) -> None:
    flags = linux.CLONE_NEWPID | linux.CLONE_NEWNS | (linux.CLONE_NEWNET if own_network else 0)
    try:
        if os.geteuid() != 0:
            _become_mapped_root()
        linux.unshare(flags, "PID, mount and network namespaces")
    except OSError as error:
        what = f"this user cannot make namespaces here ({error.strerror or error})"
        raise RepriseError(what, "run as root, or allow unprivileged user namespaces") from None


def _become_mapped_root() -> None:
    """A user namespace in which this user is root: enough for namespaces, mounts and veth pairs."""
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER, "user namespace")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def _init(body: Callable[[int], int], life: int, runtime: Path | None) -> int:
    linux.die_with_parent(signal.SIGKILL)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    try:
        linux.make_mounts_private()
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        if runtime is not None:
            flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOSYMFOLLOW
            linux.mount("reprise", str(runtime), "tmpfs", flags, "mode=0711")
    except OSError as error:
        hint = "run on a host where /proc is mounted whole, see `reprise doctor`"
        raise RepriseError(f"cannot set up the run's own mounts: {error.strerror}", hint) from None
    return body(life)


def _child(work: Callable[[], int]) -> NoReturn:
    """Runs `work` in a forked process and never returns into the parent's code."""
    status = EXIT_FAILED
    try:
        status = work()
    except RepriseError as error:
        complain(error.line())
        status = error.status
    except KeyboardInterrupt:
        pass  # the command says so
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
