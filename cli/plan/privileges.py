"""What the programs of a run may do: an unprivileged user, and of root's rights only those named here.

`setpriv` starts each program with a bounding set that holds nothing else and with no_new_privs, so that
neither it nor what it starts can get more. docs/privileges.md says why each right is needed. Proxies and
servers give up root by themselves, once their devices and sockets are open.

What only works on files has no network either. Without root the programs run as the user that started them,
as before.
"""

import dataclasses
import functools
import os
import pwd
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cli import linux, programs
from cli.experiment.schema import Experiment
from cli.plan.planned import RESULTS, RUN, Facts, File, Folder, Process, Step

USER = "nobody"
_COPIED = "reprise-querier"  # its user may not see the folder that it is in
_READ = ("dac_read_search",)  # traces, zones and Python lie in folders of the user's own
# Steps that make files that root obeys; they read nothing made by others, or only lines of a known form.
_AS_ROOT = ("certificates", "zone", "serve")
_ASKING = ("ask",)  # steps with a network
TOOLS = ("setpriv", "unshare")
_ROLES = {"controller": _READ, "warm": _READ}
_SOCKETS = ("net_admin",)
_FRAMES, _PROGRAMS = ("net_raw",), ("bpf", "perfmon")
_PACKETS = (*_FRAMES, *_PROGRAMS, "ipc_lock")
_REALTIME = ("sys_nice",)
_DEVICE = ("dac_override",)  # /dev/net/tun may be root's alone
_PORTS = ("net_bind_service",)


@functools.cache
def user() -> str:
    """The user that programs of a run become; "" where there is no such user, or this process lacks a right
    to give or to make a network namespace.
    """
    if os.geteuid() != 0:
        return ""
    every = (*_READ, *_SOCKETS, *_PACKETS, *_REALTIME, *_DEVICE, *_PORTS)
    try:
        argv = _alone(every)
    except KeyError:
        return ""
    return USER if subprocess.run([*argv, "true"], capture_output=True, check=False).returncode == 0 else ""


def rights(one: Step | Process, experiment: Experiment) -> tuple[str, ...] | None:
    """The capabilities of a step or process; None where it is started as root."""
    if isinstance(one, Step):
        return None if one.id in _AS_ROOT else _READ
    if one.role == "distributor":
        replay = experiment.replay
        packets = _PACKETS if replay.source_mode == "packet" else ()
        return (*_SOCKETS, *packets, *(_REALTIME if replay.realtime else ()))
    if one.role == "front" and not experiment.has_proxy:
        return (*_SOCKETS, *(_PROGRAMS if experiment.server.front == "bpf" else (*_FRAMES, *_DEVICE)))
    if one.role == "server" and experiment.server.kind == "command":
        return _PORTS
    return _ROLES.get(one.role)


def command(one: Step | Process, experiment: Experiment, facts: Facts) -> tuple[str, ...]:
    """The command of a step or process that gives it its rights and no more."""
    kept = rights(one, experiment)
    if kept is None or not facts.user:
        return one.argv
    alone = isinstance(one, Step) and one.id not in _ASKING
    return (*_before(facts.programs, facts.user, facts.user_group, kept, alone), *one.argv)


def _before(
    tools: Mapping[str, str], name: str, group: int, kept: tuple[str, ...], alone: bool
) -> tuple[str, ...]:
    """The words before a command; `alone`: without a network."""
    apart = (tools["unshare"], "--net", "--") if alone else ()
    return (*apart, *linux.setpriv(tools["setpriv"], name, str(group), kept))


def _alone(kept: tuple[str, ...]) -> tuple[str, ...]:
    """Those of this machine; KeyError where it has no such user."""
    tools = {tool: programs.packaged(tool) for tool in TOOLS}
    return _before(tools, USER, pwd.getpwnam(USER).pw_gid, kept, alone=True)


def reading() -> tuple[str, ...]:
    """The words before a command on this machine that reads files made by anyone and needs no network;
    none if this process has no rights to give up.
    """
    return _alone(_READ) if user() else ()


def serving(name: str) -> tuple[str, ...]:
    """The words before a server of this machine, which run it as its packaged user; none if there is no such
    user or nothing to give up.
    """
    try:
        group = pwd.getpwnam(name).pw_gid
    except KeyError:
        return ()
    return linux.setpriv(programs.packaged("setpriv"), name, str(group), _PORTS) if user() else ()


def server(argv: tuple[str, ...], name: str, facts: Facts) -> tuple[str, ...]:
    """The command of a server that does not give up root by itself, as its packaged user."""
    if not facts.user or not name:
        return argv
    return (*linux.setpriv(facts.programs["setpriv"], name, name, _PORTS), *argv)


def moved(facts: Facts) -> Facts:
    """The facts with programs where their user can start them."""
    if not facts.user:
        return facts
    return dataclasses.replace(facts, programs={**facts.programs, _COPIED: f"{RUN}/{_COPIED}"})


def files(facts: Facts) -> tuple[File, ...]:
    """The copies that `moved` names."""
    return (File(f"{RUN}/{_COPIED}", from_=facts.programs[_COPIED], mode="0755"),) if facts.user else ()


def folders(facts: Facts) -> tuple[Folder, ...]:
    """The results, where the user writes next to root but cannot remove or replace root's files."""
    return (Folder(RESULTS, "1775", group=facts.user),) if facts.user else ()


def lend(results: Path, run: Path) -> Path:
    """Shows the results in the run's folder, where its user can reach them: the folders above them may be
    closed to him. Returns the place.
    """
    seen = run / "results"
    seen.mkdir()
    linux.mount(str(results), str(seen), "", linux.MS_BIND)
    linux.forbid_links(str(seen))
    return seen


def give_back(results: Path) -> None:
    """Makes the results ours again when the run has ended, in any way. Links and everything else that is not
    a file or folder of the run are removed: the run's programs make none.
    """
    for _, below, files_, place in os.fwalk(results):
        for name in (*below, *files_):
            status = os.stat(name, dir_fd=place, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
                os.chown(name, os.geteuid(), os.getegid(), dir_fd=place, follow_symlinks=False)
            else:
                os.unlink(name, dir_fd=place)
    os.chown(results, os.geteuid(), os.getegid())
    results.chmod(stat.S_IMODE(results.stat().st_mode) & ~(stat.S_ISVTX | stat.S_IWGRP))
