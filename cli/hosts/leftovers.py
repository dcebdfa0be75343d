"""What takes packets on an interface before the server's TCP and UDP do: programs and rules that a killed
front left behind, and those of others. A run would measure them too.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cli import programs
from cli.errors import RepriseError

# Of proxy/stateless: the preference of its filters (bpf_front.cc), the table of its rules and the preference
# of those that only note where accept_ra became 2 (redirect.cc).
_PREFERENCE, _TABLE, _NOTES = 0x5354, "53053", 3
_MODES = {1: "xdpdrv", 2: "xdpgeneric", 3: "xdpoffload"}


@dataclass(frozen=True)
class Leftover:
    """What it is, the command that removes it, and whether a front of ours made it."""

    what: str
    command: str
    ours: bool = False

    @property
    def hint(self) -> str:
        return f"remove it: {self.command}"


def interfaces() -> list[str]:
    return [str(one["ifname"]) for one in read("ip", "-j", "link")]


def found(interface: str) -> list[Leftover]:
    """What is on an interface, ours first; our rules are listed for any interface."""
    every = [*_filters(interface), *_programs(interface), *_rules(interface)]
    return sorted(dict.fromkeys(every), key=lambda one: not one.ours)


def ours() -> list[Leftover]:
    """What fronts left on any interface."""
    return list(dict.fromkeys(one for name in interfaces() for one in found(name) if one.ours))


def _filters(interface: str) -> Iterator[Leftover]:
    for side in ("ingress", "egress"):
        for one in read("tc", "-j", "filter", "show", "dev", interface, side):
            preference = one.get("pref")
            if preference == _PREFERENCE:
                yield _of_front("bpf", interface, f"{interface} has programs of a front")
            else:
                yield Leftover(
                    f"{interface} has a tc filter ({side}, preference {preference})",
                    f"tc filter del dev {interface} {side} pref {preference}",
                )


def _programs(interface: str) -> Iterator[Leftover]:
    for one in read("ip", "-j", "link", "show", "dev", interface):
        if "xdp" in one:
            mode = _MODES.get(one["xdp"].get("mode"), "xdp")
            yield Leftover(f"{interface} has an XDP program", f"ip link set dev {interface} {mode} off")


def _rules(interface: str) -> Iterator[Leftover]:
    """A front's notes, which do nothing, are told only where nothing else of it is left: `--undo` removes
    them too, whichever interface they are for.
    """
    every = [(family, one) for family in ("-4", "-6") for one in read("ip", family, "-j", "rule")]
    tables = [one for _, one in every if str(one.get("table")) == _TABLE]
    notes = [one for _, one in every if "nop" in one and one["priority"] == _NOTES]
    for one in tables or notes:
        name = str(one.get("iif", interface))
        yield _of_front("reference", name, f"this host has routing rules of a front on {name}")
    for family, one in every:
        if one.get("iif") == interface and one not in (*tables, *notes):
            command = f"ip {family} rule del pref {one['priority']}"
            yield Leftover(f"a routing rule, preference {one['priority']}, is for {interface}", command)


def _of_front(kind: str, interface: str, what: str) -> Leftover:
    try:
        program = programs.own("reprise-proxy")
    except RepriseError:  # not built here
        program = "reprise-proxy"
    return Leftover(what, f"{program} stateless --front {kind} --interface {interface} --undo", ours=True)


def read(*argv: str) -> list[dict[str, Any]]:
    """What a tool prints as JSON; nothing where it fails, as for an interface that is not there. Raises
    RepriseError where the tool is missing.
    """
    tool, *words = argv
    done = subprocess.run([programs.packaged(tool), *words], capture_output=True, text=True, check=False)
    try:
        return [one for one in json.loads(done.stdout) if one]
    except ValueError:
        return []
