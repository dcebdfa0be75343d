"""A hierarchy of hard cases, for tests of the emulation: what real zones do seldom happens here often.

Zones hang at any depth and skip levels. Name servers are drawn so that zone sets overlap in every way: with
parent, the grandparent, strangers; two names with one address; servers that hold a grandchild without the
child between; lame ones, by their own names or by aliases; unserved zones; zones with two contents. Not
every name can be resolved: the tests compare answers address by address.
"""

from __future__ import annotations

import random
from dataclasses import replace

from cli.zones.world_model import (
    ROOT,
    ROOT_SERVERS,
    Draft,
    Settings,
    Zone,
    below,
    enclosing,
    parent_of,
    start,
)

_DEPTH = 5
_FIRST = ("com.", "net.", "org.", r"o\.dd.", "MiXed.com.")


def layout(settings: Settings) -> Draft:
    """Zones and servers; the contents come later."""
    draft = start(settings)
    for name in _FIRST:
        draft.add(Zone(name, ()))
    while len(draft.zones) < settings.zones:
        draft.add(Zone(_name(draft), ()))
    pool = _pool(draft)
    for name in sorted(draft.zones, key=lambda one: one.count(".")):
        if name not in (ROOT, ROOT_SERVERS):
            draft.add(_served(draft, draft.zones[name], pool))
    return draft


def _name(draft: Draft) -> str:
    """A new zone's name, one time in eight with a label between it and its parent."""
    parents = [name for name in draft.zones if name.count(".") < _DEPTH and name != ROOT_SERVERS]
    parent = ROOT if draft.source.random() < 0.1 else draft.source.choice(parents)
    if draft.source.random() < 0.12:
        parent = below(draft.source.choice(("x", "y")), parent)
    return draft.fresh_name(parent, 1, 2)


def _pool(draft: Draft) -> list[str]:
    """Name servers all over the tree; some have an address of another's or names at a zone's apex."""
    source = draft.source
    pool: list[str] = []
    names = [name for name in draft.zones if name not in (ROOT, ROOT_SERVERS)]
    for _ in range(max(6, len(names) * 3 // 4)):
        home = source.choice(names)
        name = home if source.random() < 0.08 else below(source.choice(("ns", "dns", "ns.a")), home)
        if name in draft.hosts:
            continue
        draft.host(name, 0.6)
        if pool and source.random() < 0.25:
            draft.hosts[name] = (*draft.hosts[source.choice(pool)], *draft.hosts[name][1:])
        if source.random() < 0.1:
            draft.hosts[name] = draft.hosts[name][-1:]
        draft.hosts[name] = tuple(dict.fromkeys(draft.hosts[name]))
        pool.append(name)
    return pool


def _served(draft: Draft, zone: Zone, pool: list[str]) -> Zone:
    """The zone with its servers, as its parent and as the truth have them."""
    source = draft.source
    servers = _servers(draft, zone.name, pool)
    zone = replace(zone, servers=servers, sibling_glue=source.random() < 0.7)
    chance = source.random()
    if chance < 0.10:  # the parent names one more, which does not have the zone
        zone = replace(zone, delegated=_some(source, (*servers, source.choice(pool))), serving=servers)
    elif chance < 0.18:  # one of several never got the zone
        zone = replace(zone, serving=servers[1:] or (source.choice(pool),))
    elif chance < 0.21:  # nobody who is asked has it
        zone = replace(zone, serving=(source.choice(pool),))
    elif chance < 0.26:  # the parent knows fewer
        zone = replace(zone, delegated=servers[:1])
    elif chance < 0.34:  # the parent names one more, by an alias in another zone
        alias = _alias(draft, source.choice(pool))
        zone = replace(zone, delegated=_some(source, (*servers, alias)), serving=servers)
    if source.random() < 0.1 and len(zone.holders) > 1:
        zone = replace(zone, second=zone.holders[1:])
    return zone


def _alias(draft: Draft, host: str) -> str:
    """Another name for a name server, one time in three by a step between."""
    home = draft.source.choice([name for name in draft.zones if name not in (ROOT, ROOT_SERVERS)])
    name = below(f"alias{len(draft.aliases)}", home)
    step = draft.source.random() < 0.3
    draft.aliases[name] = _alias(draft, host) if step else host
    return name


def _servers(draft: Draft, name: str, pool: list[str]) -> tuple[str, ...]:
    source = draft.source
    parent = enclosing(parent_of(name), draft.zones)
    above = enclosing(parent_of(parent), draft.zones) if parent != ROOT else ROOT
    chance = source.random()
    if chance < 0.22:
        chosen = [*draft.zones[parent].servers[:3]]
    elif chance < 0.32:
        chosen = [*draft.zones[above].servers[:2]]
    elif chance < 0.42:
        chosen = [*draft.zones[parent].servers[:1], source.choice(pool)]
    elif chance < 0.55:
        chosen = [draft.host(below(f"own{i}", name), 0.5) for i in range(source.randint(1, 2))]
    else:
        chosen = source.choices(pool, k=source.randint(1, 3))
    return _some(source, tuple(chosen))


def _some(source: random.Random, names: tuple[str, ...]) -> tuple[str, ...]:
    """Without repetition, in any order."""
    unique = list(dict.fromkeys(names))
    source.shuffle(unique)
    return tuple(unique)
