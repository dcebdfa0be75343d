"""Rules of [[fault]] tables that no type can say."""

import re
from itertools import combinations

from cli.errors import UsageError, exclude, want
from cli.experiment.schema import Experiment, Fault

EFFECTS = ("loss", "drop", "rate", "stall", "reload", "restart")
_OF_WAYS = EFFECTS[:3]
_LEAST_UDP, _MOST_UDP = 64, 1_472  # more than the latter is in fragments
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)Mb/s", re.ASCII)


def effects(fault: Fault) -> list[str]:
    """What it does; one that is good has one effect."""
    return [one for one in EFFECTS if getattr(fault, one) not in (None, False)]


def size_of(drop: str) -> int:
    """The N of `udp>N`; 0 for fragments, and -1 for what is neither."""
    found = re.fullmatch(r"udp>(\d{1,5})", drop, re.ASCII)
    return int(found[1]) if found else 0 if drop == "fragments" else -1


def bytes_of(rate: str) -> int:
    """A rate in bytes a second; 0 where it is none."""
    found = _RATE.fullmatch(rate)
    return round(float(found[1]) * 125_000) if found else 0


def check(experiment: Experiment) -> None:
    for number, fault in enumerate(experiment.fault, 1):
        _check_one(f"fault {number}", fault, experiment)
    for (one, first), (other, second) in combinations(enumerate(experiment.fault, 1), 2):
        apart = first.at + first.for_ < second.at or second.at + second.for_ < first.at
        if _same(first, second) and not apart:
            what = f"fault {one} and fault {other} are at {first.target} at the same time"
            raise UsageError(what, "let one begin when the other is over")


def _same(one: Fault, other: Fault) -> bool:
    """Whether they may not be at the same time: at a server none may."""
    apart = one.servers and other.servers and not set(one.servers) & set(other.servers)
    same = one.target == other.target and (one.target == "server" or effects(one) == effects(other))
    return same and not apart


def _check_one(name: str, fault: Fault, experiment: Experiment) -> None:
    want(bool(effects(fault)), f"{name} does nothing", f"give it one of {', '.join(EFFECTS)}")
    what, *others = effects(fault)
    exclude(f"{name}: {what}", *others, hint="make a [[fault]] of each")
    of_server = what not in _OF_WAYS
    other = of_server != (fault.target == "server") and f'target = "{fault.target}"'
    hint = 'use target = "server"' if of_server else 'use target = "link" or "upstream"'
    exclude(f"{name}: {what}", other, hint=hint)
    if of_server and fault.direction != "both":
        raise UsageError(f"{name}: {what} has no direction", "leave direction out")
    want(what != "reload" or fault.for_ == 0, f"{name}: reload takes the time it takes", "leave for out")
    if what not in ("reload", "restart") and fault.for_ <= 0:
        raise UsageError(f"{name} has no length", "set for to its seconds")
    want(
        fault.drop is None or fault.drop == "fragments" or _LEAST_UDP <= size_of(fault.drop) <= _MOST_UDP,
        f"{name}: drop = {fault.drop!r} is unknown",
        f'use "fragments" or "udp>N" with N from {_LEAST_UDP} to {_MOST_UDP}',
    )
    if fault.rate is not None and bytes_of(fault.rate) == 0:
        raise UsageError(f"{name}: rate = {fault.rate!r} is no rate", 'write it like "10Mb/s"')
    server, count = experiment.server, experiment.servers
    for unknown in (one for one in fault.servers if not 1 <= one <= count):
        hint = f"use 1 to {count}" if count > 1 else "leave servers out"
        raise UsageError(f"{name}: there is no server {unknown}", hint)
    kind = f'server.kind = "{server.kind}"'
    hint = "faults are those of servers and networks of the run: use another kind"
    exclude(f"{name}: [[fault]]", not experiment.own_server and kind, hint=hint)
    upstream = fault.target == "upstream" and f'{name}: target = "upstream"'
    hint = 'only resolvers ask upstream: use server.kind = "hierarchy" or target = "link"'
    exclude(upstream, not experiment.emulated and kind, hint=hint)
    anew = what in ("reload", "restart") and f"{name}: {what}"
    exclude(anew, experiment.emulated and kind, hint="a resolver's counters would begin anew; use stall")
    nagle = experiment.socket and experiment.socket.nagle is not None and "socket.nagle"
    hint = "it is set once, on the sockets that the server has opened: leave one of them out"
    exclude(fault.restart and f"{name}: restart", nagle, hint=hint)
    link = fault.target == "link" and f'{name}: target = "link"'
    packet = experiment.replay.source_mode == "packet" and 'replay.source_mode = "packet"'
    hint = "packets read below the network stack are never lost: use another source mode"
    exclude(link, packet, hint=hint)
    lost = link and fault.direction != "answers" and f"{name}: queries lost on the link"
    hint = 'the front takes TCP before it could be lost: use direction = "answers"'
    exclude(lost, experiment.has_front and f'server.front = "{server.front}"', hint=hint)
