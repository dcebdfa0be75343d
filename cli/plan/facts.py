"""What the manifest and the plan must know of this machine: programs, versions, processor, kernel, limits."""

import contextlib
import dataclasses
import os
import platform
import pwd
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from cli import VERSION, call, linux, programs
from cli.errors import RepriseError, UsageError, read_told, want
from cli.experiment import tables
from cli.experiment.experiment import as_dict
from cli.experiment.schema import Experiment, Server
from cli.plan import delay, privileges
from cli.plan.planned import Facts
from cli.servers import running
from cli.servers.kinds import COMMAND, KINDS, STARTED, command_program, own_programs, packaged_programs
from cli.zones import zonefile

_WANTED_DESCRIPTORS = 262_144
_NEARLY = 0.05  # of an idle timeout, by which the server's own may differ
_ORIGIN = r"[A-Za-z0-9._/\\-]{0,1019}\."  # of a zone; no character that is special in a configuration
_USERS = {one.program: one.user for one in KINDS.values()}


def gather(experiment: Experiment, run: str) -> Facts:
    """The plan's facts; missing programs and zone files are errors with their hint."""
    server = experiment.server
    if experiment.sample.capture and os.geteuid() != 0:
        what = "sample.capture needs root: tcpdump cannot keep its rights in a user namespace"
        raise RepriseError(what, "run as root or with --set sample.capture=false")
    if server.front == "bpf" and os.geteuid() != 0:
        what = 'server.front = "bpf" needs root: a user namespace cannot load BPF programs'
        raise RepriseError(what, 'run as root or use server.front = "reference"')
    emulated = experiment.emulated
    tables = as_dict(experiment)
    own = own_programs(tables)
    if "reprise-proxy" in own and (server.front != "bpf" or experiment.rtt is not None):
        delay.check_device()
    user = privileges.user()
    needed = (*packaged_programs(tables), *(privileges.TOOLS if user else ()))
    found = {name: programs.own(name) for name in own} | {name: programs.packaged(name) for name in needed}
    check_kinds(experiment)
    if server.binary is not None:
        if not os.access(server.binary, os.X_OK):
            raise UsageError(f"no program {server.binary}", "set server.binary to a server's program")
        found[KINDS[server.kind].program] = str(server.binary)
    if server.command is not None:
        found[COMMAND.program] = command_program(server.command)
    if emulated is not None and emulated.zones is not None and not Path(emulated.zones).is_dir():
        raise UsageError(f"no folder {emulated.zones}", "set hierarchy.zones to a folder of zone files")
    for table, capture in (("hierarchy", emulated.capture if emulated else None), ("server", server.capture)):
        if capture is not None and not Path(capture).is_file():
            raise UsageError(f"no file {capture}", f"set {table}.capture to a capture")
    zone = Path(server.zone) if server.zone is not None and server.kind != "address" else None
    if zone is not None:
        zonefile.compression(zone)  # or what is wrong with the file
    return Facts(
        run=run,
        cores=len(os.sched_getaffinity(0)),
        descriptors=raise_descriptors(),
        python=sys.executable,
        source_root=str(programs.ROOT),
        programs=found,
        origin=_origin_of(server) if server.origin or zone is None else _origin(zone),
        **_users_lines(experiment),
        users={
            **{name: _packaged_user(_USERS[name]) for name in needed if name in _USERS},
            COMMAND.program: user,
        },
        user=user,
        user_group=pwd.getpwnam(user).pw_gid if user else 0,
        process=running.process(server),
        zone_cache=str(programs.cache() / "zones"),
        versions={kind: KINDS[kind].version(_binary(server, kind)) for kind in kinds(experiment)},
    )


def check_kinds(experiment: Experiment) -> None:
    """Whether the servers of a run can do what they are asked for. Throws UsageError."""
    server, emulated = experiment.server, experiment.emulated
    for name in emulated.resolvers if emulated else (server.kind, server.front):
        if (kind := STARTED.get(name)) is None:
            continue
        if experiment.over_tls and not experiment.has_proxy and not kind.over_tls:
            raise UsageError(f"{kind.title} serves no DNS over TLS", "use another server or transport")
        for key in kind.unused:
            given = getattr(server, key) != getattr(Server(), key)
            in_front = key == "tcp_listen_queue" and experiment.has_proxy
            want(not given or in_front, f"{kind.title} has no use for server.{key}", "leave it out")
        idle = kind.idle_s(server.tcp_idle_timeout_s)
        what = f"{kind.title} cannot close connections that were idle for {server.tcp_idle_timeout_s:g} s"
        near = abs(idle - server.tcp_idle_timeout_s) <= _NEARLY * idle
        want(near, what, f"set server.tcp_idle_timeout_s = {idle:g}")
        what = f"server.edns_size = {server.edns_size} is out of range for {kind.title}"
        want(server.edns_size <= kind.largest_edns, what, f"use 512 to {kind.largest_edns}")


def _origin_of(server: Server) -> str:
    """The origin of a zone that is named or made for the run, with its final dot."""
    given = server.origin or (server.wildcard.origin if server.wildcard else ".")
    return f"{given.rstrip('.').lower()}."


def _origin(zone: Path) -> str:
    """The origin of a zone file; root has another user read the file."""
    if not (before := privileges.reading()):
        return zonefile.find_origin(zone)
    asked = call.words("cli.zones.zonefile.find_origin", path=zone)
    argv = [*before, sys.executable, "-m", "cli.call", *asked]
    environment = {**os.environ, "PYTHONPATH": str(programs.ROOT), "REPRISE_ERRORS": "json"}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        told = read_told(done.stderr) or (f"zone file {zone} cannot be read", "set server.origin")
        raise UsageError(*told)
    return done.stdout.removesuffix("\n")


def checked(said: Facts, experiment: Experiment, run: str, root: str) -> Facts:
    """The facts that another machine reports about itself, without any that could choose command lines:
    programs are those of Reprise's folder `root` or the system's, users are those of the packages, and the
    user's lines for a resolver are read here.
    """
    tables = as_dict(experiment)
    for key in ("binary", "command", "pid", "service"):
        if getattr(experiment.server, key) is not None:
            raise UsageError(f"server.{key} is for runs on this machine", "leave it out")
    names = (*packaged_programs(tables), *(privileges.TOOLS if said.user else ()))
    users = {name: said.users.get(name, "") for name in names if name in _USERS}
    usual = [(user, _USERS[name]) for name, user in users.items()]
    for user, other in usual:
        if other and not user:
            raise RepriseError(f"the controller's host has no user {other}", "install its package there")
    usual += [(said.user, privileges.USER if said.user else "")]
    odd = [user for user, other in usual if user != other]
    odd += [] if re.fullmatch(_ORIGIN, said.origin) else [said.origin]
    if odd:
        what = f"the controller's host reports {odd[0]!r}, which is not allowed"
        raise RepriseError(what, "look at that host")
    # Compared with that host's own name of the folder, in which links are resolved.
    installed = said.programs.get("reprise-controller") == f"{said.source_root}/bin/reprise-controller"
    folder = f"{root}/bin" if installed else f"{root}/build/release/bin"
    return dataclasses.replace(
        said,
        run=run,
        python=f"{root}/.venv/bin/python",
        source_root=root,
        programs={
            **{name: f"{folder}/{name}" for name in own_programs(tables)},
            **{name: _of_system(name, said.programs.get(name, "")) for name in names},
        },
        users=users,
        user_group=linux.group_number(said.user) if said.user else 0,
        **_users_lines(experiment),
        process=0,
        versions={},  # each host has its own
        versions_of={},
    )


def _of_system(name: str, path: str) -> str:
    """The path of a packaged program, if it is in one of the system's folders."""
    if path not in (f"{folder}/{name}" for folder in programs.SEARCH_PATH.split(":")):
        raise RepriseError(f"the controller's host has {name} at {path!r}", "install its package there")
    return path


def _users_lines(experiment: Experiment) -> dict[str, Any]:
    """The user's lines: for the server or resolver under test, for a packaged front, and the rule file's."""
    emulated, front, mutate = experiment.emulated, experiment.front, experiment.mutate
    path, key = experiment.server.config, "server.config"
    if emulated:
        path, key = emulated.resolver_config, "hierarchy.resolver_config"
    return {
        "config_lines": _lines(path, key),
        "front_lines": _lines(front.config if front else None, "front.config"),
        "rule_lines": _lines(mutate.rules if mutate else None, "mutate.rules"),
    }


def _lines(path: str | None, key: str) -> str:
    """Those of a file that a key of the experiment names."""
    try:
        return tables.read_small(Path(path)).decode("utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}: {why}", f"correct {key}") from None


def _packaged_user(name: str) -> str:
    """A packaged user, to whom a server drops; none where we are not root or the user is not there."""
    if os.geteuid() != 0 or not name:
        return ""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return ""
    return name


def raise_descriptors() -> int:
    """Raises this process's limit of descriptors, and so its children's, as far as it goes; returns what a
    process of the run may have.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = int(Path("/proc/sys/fs/nr_open").read_text(encoding="ascii"))
    for limit in (max(hard, min(most, _WANTED_DESCRIPTORS)), hard):
        with contextlib.suppress(OSError, ValueError):  # root may raise it, not in a user namespace
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return limit
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def host() -> dict[str, Any]:
    """The machine, for the manifest."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    model = re.search(r"^model name\s*: *(.*)", _read("/proc/cpuinfo") or "", re.MULTILINE)
    return {
        "name": platform.node(),
        "kernel": platform.release(),
        "system": linux.system()[0] or None,
        "cpu": model[1].strip() if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "descriptors": raise_descriptors(),
        "root": os.geteuid() == 0,
    }


def versions(experiment: Experiment) -> dict[str, str]:
    """Versions of Reprise, Python and the servers, as they name themselves."""
    found = {"reprise": VERSION, "python": platform.python_version()}
    server = experiment.server
    return {**found, **{kind: KINDS[kind].says(_binary(server, kind)) for kind in kinds(experiment)}}


def _binary(server: Server, kind: str) -> str:
    """The user's own build of a kind of server, "" where there is none."""
    return str(server.binary or "") if kind == server.kind else ""


def kinds(experiment: Experiment) -> list[str]:
    """The servers that an experiment starts, each kind once."""
    server, emulated = experiment.server, experiment.emulated
    found = (*emulated.resolvers, emulated.engine) if emulated else (server.kind, server.front)
    return [kind for kind in dict.fromkeys(found) if kind in KINDS]


def commit() -> str | None:
    """The commit of this source tree, with a plus where files differ; None where git cannot tell."""
    git = programs.find("git")
    if git is None or not (programs.ROOT / ".git").exists():
        return None
    argv = [git, "-c", f"safe.directory={programs.ROOT}", "-C", str(programs.ROOT), "describe", "--always"]
    argv += ["--exclude=*", "--abbrev=40", "--dirty=+"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
