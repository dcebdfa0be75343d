"""Debian packages: what packages.txt lists, what is installed, and installing the rest.

Uses Python's own library alone: the bootstrap runs it.
"""

import configparser
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli import linux, locks, programs, steps
from cli.errors import RepriseError, complain
from cli.progress import Progress
from cli.servers.kinds import KINDS

_POLICY = Path("/usr/sbin/policy-rc.d")
_LISTS = Path("/var/lib/apt/lists")
_UNKNOWN_NOTED = programs.ROOT / "build/unknown-packages"
_LOCK = "packages"
_POLICY_MARK = "made by reprise while it installs packages"
# Servers are started by experiments only: services of packages that we installed are not left enabled.
_SERVICES = {one.packages[0]: one.services for one in KINDS.values()}
_UNKNOWN = re.compile(  # packages that apt-get says it does not know
    r"^E: (?:Unable to locate package|Package) '?([^'\s]+)(?:$|' has no installation)", re.M
)
# Sections for building, checking and measuring: what the Debian package of Reprise was built with.
BUILDING = ("base", "packet", "bench", "test", "man", "debian")
_APT = ("apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=600")


def read(text: str) -> dict[str, tuple[str, ...]]:
    """The names in each section of packages.txt."""
    parser = configparser.RawConfigParser(
        allow_no_value=True, delimiters=("=",), inline_comment_prefixes=("#",)
    )
    parser.read_string(text)
    return {section: tuple(parser[section]) for section in parser.sections()}


def listed() -> dict[str, tuple[str, ...]]:
    """What packages.txt and the servers list; where the Debian package of Reprise is installed nothing is
    built.
    """
    found = read((programs.ROOT / "packages.txt").read_text(encoding="utf-8"))
    for name, kind in KINDS.items():
        section = kind.section or name
        found[section] = (*found.get(section, ()), *kind.packages)
    return {name: found[name] for name in found if not (programs.INSTALLED and name in BUILDING)}


def missing(names: Iterable[str]) -> list[str]:
    """Those that dpkg does not know as installed, each once."""
    names = list(dict.fromkeys(names))
    argv = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *names]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        raise RepriseError("there is no dpkg", f"use {linux.TESTED}, or a system like them") from None
    installed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("installed ")}
    return [name for name in names if name not in installed]


def want(names: Iterable[str]) -> None:
    """An error unless all are installed."""
    if absent := missing(names):
        what = f"Debian packages are missing: {', '.join(absent)}"
        raise RepriseError(what, f"as root: apt install {' '.join(absent)}")


def install(names: Sequence[str], title: str) -> None:
    """Installs packages and starts none of their daemons. The lists may be absent or old: then they are
    fetched, and it is tried once more. Packages that the system does not know are told, and left out.
    """
    if os.geteuid() != 0:
        command = f"apt-get install --no-install-recommends {' '.join(names)}"
        raise RepriseError("Debian packages are missing", f"run as root: {command}")
    if shutil.which("apt-get") is None:
        raise RepriseError("there is no apt-get", f"use {linux.TESTED}, or a system like them")
    name, tested = linux.system()
    if not tested:
        complain(f"reprise: {name or 'this system'} is not tested; Reprise is tested on {linux.TESTED}")
    complain(f"reprise: installing Debian packages: {' '.join(names)}")
    progress = Progress(quiet_s=steps.LINE_EVERY_S)
    with _no_daemons(names) as lock:
        words = ("install", "--no-install-recommends")
        wanted = _job(lock, title, *words, *names)
        done = steps.run(wanted, progress)
        if done.returncode != 0:
            done = steps.run(_job(lock, f"{title}: lists", "update"), progress)
            done = steps.run(wanted, progress) if done.returncode == 0 else done
        unknown = list(dict.fromkeys(_UNKNOWN.findall(done.stdout))) if done.returncode != 0 else []
        if unknown:
            _UNKNOWN_NOTED.parent.mkdir(parents=True, exist_ok=True)
            _UNKNOWN_NOTED.write_text("\n".join(unknown), encoding="ascii")
            complain(f"reprise: warning: no package {', '.join(unknown)} on this system; going on without")
            known = [one for one in names if one not in unknown]
            done = steps.run(_job(lock, title, *words, *known), progress)
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
            why = (errors or lines[-1:] or ["it says nothing"])[0]
            raise RepriseError(f"apt-get failed: {why}", "fix that and run it again")


def _job(lock: int, title: str, *words: str) -> steps.Job:
    env = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    return steps.Job(title, (*_APT, *words), env, only_itself=True, held=(lock,))


def unknown() -> list[str]:
    """Packages that this system did not know when they were to be installed. Once apt has other lists it may
    know them.
    """
    try:
        is_old = _UNKNOWN_NOTED.stat().st_mtime < _LISTS.stat().st_mtime
        return [] if is_old else _UNKNOWN_NOTED.read_text(encoding="ascii").split()
    except OSError:
        return []


@contextmanager
def _no_daemons(names: Sequence[str]) -> Iterator[int]:
    """Daemons of packages do not start meanwhile, nor later, also where the installation is interrupted. A
    policy of the administrator's own stays. Ours is good for as long as the lock is held: where we were
    killed, it takes itself away when it is asked next. One installation at a time on a host, whichever folder
    it is for, as all share the policy. Yields the lock, with a number that no shell redirection uses.
    """
    with locks.of_machine(_LOCK) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ours = not _POLICY.exists() or _POLICY_MARK in _POLICY.read_text(encoding="utf-8", errors="replace")
        held = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 10)
        try:
            if ours:
                lock = locks.MACHINE / _LOCK
                text = f'test -e {lock} && ! flock -n {lock} true && exit 101\nrm -f "$0"\n'
                _POLICY.write_text(f"#!/bin/sh\n# {_POLICY_MARK}\n{text}", encoding="ascii")
                _POLICY.chmod(0o755)
            yield held
        finally:
            lives = Path("/run/systemd/system").is_dir()
            by_systemd = ["systemctl", "disable", "--now"] if lives else ["deb-systemd-helper", "disable"]
            for unit in (unit for package in names for unit in _SERVICES.get(package, ())):
                for argv in (["update-rc.d", unit, "disable"], [*by_systemd, f"{unit}.service"]):
                    if programs.find(argv[0]):
                        subprocess.run(argv, capture_output=True, check=False)
            if ours:
                _POLICY.unlink(missing_ok=True)
            os.close(held)
