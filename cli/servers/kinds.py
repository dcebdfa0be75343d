"""The servers that Reprise starts, by the names that experiments give them, and the programs that an
experiment starts; a key that it does not have has the default of schema.py.

A configuration is written for the release that the program itself reports, and the server's own checker reads
it before the server starts. Uses Python's own library alone: the bootstrap reads it.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli import programs
from cli.errors import UsageError
from cli.experiment.tables import get
from cli.servers import bind, dnsdist, knot, kresd, nsd, pdns, recursor, unbound
from cli.servers.kind import ServerKind

KINDS = {
    "nsd": nsd.KIND,
    "bind": bind.KIND,
    "knot": knot.KIND,
    "pdns": pdns.KIND,
    "unbound": unbound.KIND,
    "knot-resolver": kresd.KIND,
    "pdns-recursor": recursor.KIND,
    "dnsdist": dnsdist.KIND,
}
programs.PACKAGES.update(
    {name: one.packages[0] for one in KINDS.values() for name in (one.program, *one.tools)}
)
# A server of the user's own, which a command line of the experiment starts: how it is set up is the user's
# matter. It runs without root from the beginning, in a folder of its own.
COMMAND = ServerKind(
    "a server of server.command",
    program="command",
    over_tls=False,
    idle_step_s=0.001,  # that of a front before it counts
)
STARTED = {**KINDS, "command": COMMAND}  # with what is no package
# Why a server did not start: what one kind says, a complaint about an address, or one about its
# configuration, from the file's name on. What is deprecated is no reason to end.
REASON = "|".join((
    *(one.reason for one in KINDS.values() if one.reason),
    r"\S.*(?i:address (?:already )?in use).*",
    r"[\w-]+\.conf:\d+: (?!in (?:main chunk|function)\b|.* is (?:deprecated|obsolete)).+",
))  # fmt: skip


def users_lines(name: str, config: str, lines: str, key: str) -> dict[str, str]:
    """Places in the configuration `name` that hold one of the user's lines, each with that line's place in
    the file that `key` names. They are found by their text, from the end, where the user's lines are: BIND's
    are split up.
    """
    found: dict[str, str] = {}
    theirs: dict[str, list[int]] = {}
    for number, text in enumerate(lines.splitlines(), 1):
        theirs.setdefault(text.strip(), []).append(number)
    for number, text in reversed([*enumerate(config.splitlines(), 1)]):
        if same := theirs.get(text.strip()):
            found[f"{name}:{number}:"] = f"{key}:{same.pop()}:"
    return found


def command_program(line: str) -> str:
    """The path of the program that a command line starts."""
    name = shlex.split(line)[0]
    found = programs.find(name) if "/" not in name or Path(name).is_absolute() else None
    if found is None:
        hint = "correct server.command: give the name of an installed program, or the whole path of yours"
        raise UsageError(f"no program {name}", hint)
    return found


def command_arguments(line: str, given: Mapping[str, str]) -> tuple[str, ...]:
    """The words behind the program, with what is given in the place of {NAME}."""
    words = shlex.split(line)[1:]
    return tuple(re.sub(r"(?<!\$)\{(\w+)\}", lambda one: given.get(one[1], one[0]), word) for word in words)


Tables = Mapping[str, Any]  # of an experiment, see tables.py, as they stand in the file or as resolved


def front(tables: Tables) -> str:
    return str(get(tables, "server.front", "kernel"))


def own_programs(tables: Tables) -> tuple[str, ...]:
    kind, rtt = get(tables, "server.kind"), get(tables, "rtt") is not None
    emulated = kind == "hierarchy"
    mutator = get(tables, "trace") is None or get(tables, "mutate") is not None or emulated
    mutator = mutator or get(tables, "rtt.by") is not None
    watched = get(tables, "server.pid") or get(tables, "server.service")
    sampler = kind != "address" or watched or get(tables, "sample.clients", False)
    tun = emulated and get(tables, "hierarchy.data_path", "tun") == "tun"
    return (
        "reprise-controller",
        "reprise-querier",
        *(("reprise-mutator",) if mutator else ()),
        *(("reprise-sampler",) if sampler else ()),
        *(("reprise-zonebuilder",) if emulated or get(tables, "server.capture") else ()),
        *(("reprise-proxy",) if rtt or tun or front(tables) in ("reference", "bpf") else ()),
    )


def packaged_programs(tables: Tables) -> tuple[str, ...]:
    capture = ("tcpdump",) if get(tables, "sample.capture", False) else ()
    kind = str(get(tables, "server.kind", "nsd"))
    if kind == "hierarchy":
        resolver = get(tables, "hierarchy.resolver", "bind")
        resolvers = resolver if isinstance(resolver, list | tuple) else [resolver]
        kinds = map(str, (*resolvers, get(tables, "hierarchy.engine", "bind")))
        named = dict.fromkeys(KINDS[one].program for one in kinds if one in KINDS)
        return (*named, "nft", "ip", "sysctl", *capture)
    shaped: tuple[str, ...] = ("ip", "sysctl") if get(tables, "rtt") is not None else ()
    faulty = ("nft",) if get(tables, "fault") else ()
    shaped = shaped or (("ip",) if get(tables, "socket.offload", True) is False else ())
    own = STARTED.get(kind)
    packaged = (KINDS[name].program for name in (kind, front(tables)) if name in KINDS)
    return (*packaged, *(own.zone_checker[:1] if own else ()), *shaped, *faulty, *capture)
