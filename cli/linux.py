"""The few Linux system calls that Python 3.11's `os` lacks, for namespaces, mounts, signals and the clock."""

import ctypes
import os
import platform
import pwd
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.errors import RepriseError

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOSYMFOLLOW = 256
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

# Releases that the tests run on.
TESTED = "Debian 12 and 13"
_TESTED_VERSIONS = ("12", "13")

# Options that a user namespace may not clear on a mount: bit of statvfs, flag of mount(2), and name.
_LOCKED = (
    (os.ST_NOSUID, MS_NOSUID, "nosuid"),
    (os.ST_NODEV, MS_NODEV, "nodev"),
    (os.ST_NOEXEC, MS_NOEXEC, "noexec"),
    (0x2000, MS_NOSYMFOLLOW, "nosymfollow"),  # Python has no name for the bit
)

STA_UNSYNC = 0x0040
TIME_ERROR = 5

_PIDFD_GETFD = 438  # of every processor
PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, attempt: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{attempt}: {os.strerror(code)}")


def unshare(flags: int, name: str) -> None:
    """Moves this process (its children, for CLONE_NEWPID) to new namespaces; `name` is for the error."""
    _check(_libc.unshare(ctypes.c_int(flags)), f"unshare {name}")


def setns(descriptor: int) -> None:
    """Moves this thread to the network namespace behind `descriptor`."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(CLONE_NEWNET)), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2); an empty `kind` changes the propagation of an existing mount."""
    arguments = [os.fsencode(text) or None for text in (source, target, kind)]
    result = _libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None)
    _check(result, f"mount {kind or 'propagation'} on {target}")


def locked(path: str) -> dict[str, int]:
    """The options of the mount that a path is on which a user namespace may not clear: names and flags."""
    bits = os.statvfs(path).f_flag
    return {name: flag for bit, flag, name in _LOCKED if bits & bit}


def forbid_links(target: str) -> None:
    """From now on, symbolic links below the mount `target` are not followed."""
    had = sum(locked(target).values())
    mount("", target, "", had | MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOSYMFOLLOW)


def die_with_parent(number: int) -> None:
    """Asks the kernel to send signal `number` to this process when the thread that forked it ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0), "prctl PR_SET_PDEATHSIG")


@contextmanager
def inside(descriptor: int | None) -> Iterator[None]:
    """Runs the body in another network namespace: sockets and processes made there stay there.

    None means the current one. The namespace belongs to the thread.
    """
    if descriptor is None:
        yield
        return
    with Path("/proc/thread-self/ns/net").open("rb", 0) as back:
        setns(descriptor)
        try:
            yield
        finally:
            setns(back.fileno())


def make_mounts_private() -> None:
    """Cuts the new mount namespace off from the old one, also when the process lives in a chroot.

    In a chroot "/" need not be a mount point and cannot be made private by itself: step out to the
    namespace's root (setns to the own namespace), cut there, and step back in.
    """
    try:
        mount("", "/", "", MS_REC | MS_PRIVATE)
        return
    except OSError:
        pass
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(ctypes.c_int(own), ctypes.c_int(CLONE_NEWNS)), "setns to the own mount namespace")
        mount("", "/", "", MS_REC | MS_PRIVATE)
    finally:
        os.fchdir(root)
        os.chroot(".")
        os.close(root)
        os.close(own)


def set_timer_slack(nanoseconds: int) -> None:
    """How much later than asked this thread's sleeps may end; inherited by children."""
    _check(_libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(nanoseconds), 0, 0, 0), "prctl PR_SET_TIMERSLACK")


def user_number(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise RepriseError(f"there is no user {name}", "run playbooks/deploy.yml, or add the user") from None


def group_number(user: str) -> int:
    return pwd.getpwuid(user_number(user)).pw_gid


def setpriv(program: str, user: str, group: str, kept: tuple[str, ...]) -> tuple[str, ...]:
    """The words before a command that make it a user's, with the capabilities `kept` and never any other;
    `program` is the path of setpriv.
    """
    given = ",".join(("-all", *(f"+{one}" for one in kept)))
    return (
        program,
        *("--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"),
        *("--bounding-set", given, "--inh-caps", given, "--ambient-caps", given, "--"),
    )


def bound(program: str, by: str = "KILL") -> tuple[str, ...]:
    """The words before a command so that it gets a signal when the process that starts it ends in any way.
    They come after those that change its user. `program` is the path of setpriv.
    """
    return (program, "--pdeathsig", by, "--")


def descriptor_of(pid: int, number: int) -> int:
    """A descriptor of ours for what a descriptor of another process stands for."""
    process = os.pidfd_open(pid)
    try:
        found = int(_libc.syscall(_PIDFD_GETFD, process, number, 0))
    finally:
        os.close(process)
    _check(int(found < 0), f"descriptor {number} of process {pid}")
    return found


def system() -> tuple[str, bool]:
    """The name of this machine's system, "" where it has none, and whether the tests run on it."""
    try:
        said = platform.freedesktop_os_release()
    except OSError:
        return "", False
    tested = said["ID"] == "debian" and said.get("VERSION_ID") in _TESTED_VERSIONS
    return said["PRETTY_NAME"], tested


def clock() -> dict[str, Any]:
    """The kernel's own view of its clock (adjtimex(2)): `synchronized`, and in microseconds
    `estimated_error_us` and `maximum_error_us`, as chrony, ntpd, ptp4l or systemd-timesyncd told it. Without
    any of them the errors mean nothing and are None.
    """
    found = ctypes.create_string_buffer(512)
    result = _libc.adjtimex(found)
    # struct timex of linux/timex.h up to the status: modes, offset, frequency, errors
    _, _, _, most, likely, status = struct.unpack_from("@I4li", found)
    good = result >= 0 and result != TIME_ERROR and not status & STA_UNSYNC
    return {
        "synchronized": good,
        "estimated_error_us": likely if good else None,
        "maximum_error_us": most if good else None,
    }


def units(process: str) -> list[str]:
    """The units of systemd that a process is in, and its other control groups; none where it has ended."""
    try:
        groups = Path("/proc", process, "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    return [line.rpartition("/")[2] for line in groups]


def describe_exit(code: int) -> str:
    """An exit in words: a status or the name of the signal."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
