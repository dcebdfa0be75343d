"""What of a plan each machine needs: its part of folders and files, and of what the steps have made.

A machine that runs servers or proxies has all that was prepared but for keys; others have what their command
lines name. A private key is on no machine that does not use it. Contents come from where the steps ran; which
files they become, and whose, is said here by the plan.
"""

import dataclasses
import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

from cli.executor.machine import Text
from cli.hosts import files
from cli.hosts.inventory import Target, passed_on
from cli.plan.planned import RESULTS, RUN, Plan

_NAMED = re.compile(r"@(?:run|results)@(?:/[^\s\"'\\,;:=]*)?")
_PLAIN_ROLES = ("controller", "distributor", "sampler", "capture")
_MADE = dict[Text, tuple[int, Text]]  # see changes.made
OF_ALL = ("logs/undo.log",)  # results that every machine may have
_CLOSED, _OPEN = 0o600, 0o644  # only the owner, or everybody, may read a file


def part(plan: Plan, hosts: Iterable[str]) -> Plan:
    """The plan with the folders and files of some hosts, and without steps."""
    named, whole = _needs(plan, set(hosts))
    parents = {str(parent) for path in named for parent in PurePosixPath(path).parents}
    always = {RESULTS, f"{RESULTS}/logs"}
    return dataclasses.replace(
        plan,
        folders=tuple(one for one in plan.folders if whole or one.path in named | parents | always),
        files=tuple(one for one in plan.files if whole or one.path in named),
        prepare=(),
    )


def _needs(plan: Plan, hosts: set[str]) -> tuple[set[str], bool]:
    """Paths that are named in what the hosts carry out, and whether they need everything."""
    processes = [one for one in plan.processes if one.host in hosts]
    steps = [one for one in (*plan.setup, *plan.later) if one.host in hosts]
    words = [word for one in processes for word in (*one.argv, *one.files, *one.env.values())]
    words += [word for one in steps for argv in (*one.apply, *one.undo) for word in argv]
    named = {found for word in words for found in _NAMED.findall(word)}
    return named, any(one.role not in _PLAIN_ROLES for one in processes)


def results(plan: Plan, hosts: Iterable[str]) -> Callable[[str], bool]:
    """Whether a result's name is one that a machine with these hosts may use: it is named in what they carry
    out, or is that of their logs and records. The controller's machine also has what is no other host's.
    """
    own = set(hosts)
    every = {one.host for one in plan.processes}
    mine, theirs = _results(plan, own), _results(plan, every - own)
    home = any(one.id == plan.main and one.host in own for one in plan.processes)
    return lambda name: matches(name, mine) or (home and not matches(name, theirs))


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _results(plan: Plan, own: set[str]) -> list[str]:
    named, _ = _needs(plan, own)
    processes = [one for one in plan.processes if one.host in own]
    found = [path.removeprefix(f"{RESULTS}/").replace("@turn@", "*") for path in named if path != RESULTS]
    clients = [one.host for one in processes if one.role == "distributor"]
    found += [f"{kind}-{host}-*" for host in clients for kind in ("queries", "answers", "hedges")]
    found += [f"logs/{one.id}.log" for one in processes]
    found += [f"logs/{one.id}.log" for one in (*plan.setup, *plan.later) if one.host in own]
    found += [f"logs/{PurePosixPath(path).name}" for one in processes for path in one.files]
    return [*found, *OF_ALL]


def _is_others_key(name: str, hosts: set[str]) -> bool:
    """Whether it is a key that hosts have no use for unless they name it: of a link, or of another server."""
    server = name.removesuffix("/server.key").rpartition("/")[2]
    return name.startswith(f"{RUN}/tls/") or (name.endswith("/server.key") and server not in hosts)


def wanted(
    plan: Plan, hosts: Iterable[str], made: Mapping[str, tuple[int, str]]
) -> list[tuple[str, int, str]]:
    """Which of the files `made` hosts get: names as in the plan, modes and owners."""
    own = set(hosts)
    named, whole = _needs(plan, own)
    placed = {one.path for one in plan.files}  # which every machine puts in place itself
    owners = {plan.user, *(one.owner for one in plan.folders)}
    found = []
    for name, (mode, owner) in sorted(made.items()):
        place, _, rest = name.partition("/")
        given = name in named or (whole and place == RUN and not _is_others_key(name, own))
        if given and place in (RUN, RESULTS) and files.is_below(rest) and name not in placed:
            closed = mode & 0o044 == 0
            found.append((name, _CLOSED if closed else _OPEN, owner if owner in owners else ""))
    return found


def send(plan: Plan, home: Target, to: Target) -> None:
    """Copies what the steps have made on `home` and another machine needs, with owners by their names."""
    listed = wanted(plan, to.hosts, home.ask(_MADE, "changes.made", run=plan.run))
    names = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name, _, _ in listed)
    head = json.dumps(listed).encode() + b"\n"
    there, here = home.call("changes.send", run=plan.run), to.call("changes.put", run=plan.run)
    what, hint = f"prepared files from {home.name} to {to.name}", "check that both have enough free memory"
    passed_on(there, here, what, hint, names, head)
