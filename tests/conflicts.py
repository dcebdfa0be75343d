"""Which groups of addresses must not share a view: computed again, pair by pair, from the files of a world.

Slow and simple where the planner is quick; the two share no code. With a condition left out the views are
wrong, and the questions of tests/worlds.py must show it.
"""

from collections import defaultdict
from dataclasses import dataclass

from cli.zones.world_model import is_below, lineage
from tests import worlds
from tests.worlds import Data

CONDITIONS = "abcef"
Zone = tuple[str, str]  # name, file


@dataclass(frozen=True)
class Group:
    """Addresses with the same zones, and the names that delegations lead there although they are not held."""

    zones: frozenset[Zone]
    names: frozenset[str]
    lame: frozenset[str]


def groups_of(data: Data, conditions: str = CONDITIONS) -> list[Group]:
    """f: delegations lead to name servers by aliases too."""
    made = []
    delegated = data.delegated if "f" in conditions else data.directly
    for addresses, zones in worlds.groups(data):
        names = frozenset(name for name, _ in zones)
        led = {cut for address in addresses for cut in delegated.get(address, ())}
        made.append(Group(frozenset(zones), names, frozenset(led - names)))
    return made


def _above(name: str, names: frozenset[str]) -> bool:
    """Whether one of the names is a proper ancestor."""
    return any(one in names for one in lineage(name) if one != name)


def changes(one: Group, other: Group, conditions: str) -> bool:
    """Whether zones of the other group would change answers that are given for the first.

    a: one lies below a zone of the first; b: the same zone differs; c: one has to do with a name that is
    delegated to the first but not held there; e: one lies above a zone of both, so that questions for its
    DS find a parent that the first does not have.
    """
    added = frozenset(name for name, _ in other.zones - one.zones)
    return (
        ("a" in conditions and any(_above(name, one.names) for name in added))
        or ("b" in conditions and not added.isdisjoint(one.names))
        or ("c" in conditions and any(_touches(name, cut) for name in added for cut in one.lame))
        or ("e" in conditions and any(_gets_parent(zone, one, added) for zone in one.names & other.names))
    )


def _touches(zone: str, cut: str) -> bool:
    return is_below(zone, cut) or is_below(cut, zone)


def _gets_parent(zone: str, one: Group, added: frozenset[str]) -> bool:
    return _above(zone, added) and not _above(zone, one.names)


def conflicts(groups: list[Group], conditions: str = CONDITIONS) -> dict[int, set[int]]:
    """Pairs of groups, by number, that need different views."""
    found: dict[int, set[int]] = defaultdict(set)
    for first, one in enumerate(groups):
        for second, other in enumerate(groups):
            if first != second and changes(one, other, conditions):
                found[first].add(second)
                found[second].add(first)
    return found


def colored(count: int, pairs: dict[int, set[int]]) -> list[int]:
    """A color for each, the busiest first."""
    colors: dict[int, int] = {}
    for one in sorted(range(count), key=lambda number: -len(pairs[number])):
        taken = {colors.get(other) for other in pairs[one]}
        colors[one] = next(color for color in range(count) if color not in taken)
    return [colors[one] for one in range(count)]


def views(data: Data, conditions: str) -> str:
    """Views by these conditions, matched by the address asked. Where zones of one name meet in a view, which
    only happens without (b), one of them is in it.
    """
    groups = worlds.groups(data)
    colors = colored(len(groups), conflicts(groups_of(data, conditions), conditions))
    members: dict[int, list[int]] = defaultdict(list)
    for number, color in enumerate(colors):
        members[color].append(number)
    first: dict[Zone, str] = {}
    texts = []
    for color, numbers in members.items():
        held = {name: (name, file) for number in numbers for name, file in groups[number][1]}
        zones = "".join(
            worlds.bind_zone(data.folder, one, first.setdefault(one, f"c{color}"), f"c{color}")
            for one in held.values()
        )
        match = "".join(f"{address}; " for number in numbers for address in groups[number][0])
        texts.append(f'view "c{color}" {{ match-clients {{ {match}}};\n{zones}}};\n')
    return "".join(texts)
