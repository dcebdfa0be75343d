"""Zones and name servers of a synthetic hierarchy, in one of two shapes; the contents come later.

The tree is shaped like the real hierarchy: registries, hosting providers, many small zones. Shares are rough:
1 zone in 15 is a top-level domain; of the others two thirds lie with hosting providers of very different
size, a quarter on two servers of their own, and some below other zones (third level). Every zone can be
resolved: glue is complete, nothing is lame.

The random shape is a hierarchy of hard cases, for tests of the emulation: what real zones do seldom happens
here often. Zones hang at any depth and skip levels. Name servers are drawn so that zone sets overlap in every
way: with parent, the grandparent, strangers; two names with one address; servers that hold a grandchild
without the child between; lame ones, by their own names or by aliases; unserved zones; zones with two
contents. Not every name can be resolved: the tests compare answers address by address.
"""

import itertools
import random
from dataclasses import dataclass, field, replace

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

# --- tree -------------------------------------------------------------------------------------------------

_TLDS = ("com", "net", "org")
_REGISTRY = "gtld-servers.net."
_LEAST_ZONES = 40  # before zones hang below small ones
_THIRD_LEVEL, _AT_PARENTS = 0.05, 0.75  # shares: of zones below small ones, of these on the parent's servers


@dataclass
class _Plan:
    """What the layout hands from step to step."""

    draft: Draft
    tlds: list[str] = field(default_factory=list)
    providers: list[tuple[str, ...]] = field(default_factory=list)  # their name servers
    sizes: list[float] = field(default_factory=list)  # popularity of each
    homes: list[str] = field(default_factory=list)  # second-level zones, where a third level may hang


def tree(settings: Settings) -> Draft:
    plan = _Plan(start(settings))
    _top_levels(plan, min(max(3, settings.zones // 15), 1200))
    _providers(plan, max(1, settings.zones // 60))
    while len(plan.draft.zones) < settings.zones:
        _small_zone(plan)
    return plan.draft


def _top_levels(plan: _Plan, count: int) -> None:
    """Top-level domains: at the shared registry, or with servers of their own below nic.TLD."""
    draft = plan.draft
    registry = tuple(draft.host(f"{letter}.{_REGISTRY}", 1.0) for letter in "abcd")
    draft.add(Zone(_REGISTRY, registry))
    for number in range(count):
        name = f"{_TLDS[number]}." if number < len(_TLDS) else draft.fresh_name(ROOT, 1, 2)
        if number < 2 or draft.source.random() < 0.3:
            servers = registry
        else:
            servers = tuple(draft.host(f"{letter}.nic.{name}", 1.0) for letter in "abc"[: 2 + number % 2])
        draft.add(Zone(name, servers))
        plan.tlds.append(name)
    assert "net." in draft.zones, ROOT_SERVERS


def _providers(plan: _Plan, count: int) -> None:
    """Hosting providers: a zone of their own that holds 2 to 4 name servers; sizes fall by Zipf's law."""
    for number in range(1, count + 1):
        home = plan.draft.fresh_name(plan.draft.source.choice(plan.tlds), 3, 4)
        hosts = _own_servers(plan.draft, home, 2 + number % 3)
        plan.draft.add(Zone(home, hosts))
        plan.providers.append(hosts)
        plan.sizes.append(1 / number)


def _small_zone(plan: _Plan) -> None:
    source = plan.draft.source
    if plan.homes and len(plan.draft.zones) > _LEAST_ZONES and source.random() < _THIRD_LEVEL:
        parent = plan.draft.zones[source.choice(plan.homes)]
        name = plan.draft.fresh_name(parent.name, 1, 2)
        servers = parent.servers if source.random() < _AT_PARENTS else _servers(plan, name)
        plan.draft.add(Zone(name, servers))
        return
    tld = source.choice(plan.tlds[: max(3, len(plan.tlds) // 4)] if source.random() < 0.7 else plan.tlds)
    name = plan.draft.fresh_name(tld)
    plan.draft.add(Zone(name, _servers(plan, name)))
    plan.homes.append(name)


def _servers(plan: _Plan, name: str) -> tuple[str, ...]:
    """At a provider, on its own servers, or on one of each."""
    chance = plan.draft.source.random()
    if chance < 0.66:
        return _provider(plan)
    if chance < 0.92:
        return _own_servers(plan.draft, name, 2)
    return (*_own_servers(plan.draft, name, 1), _provider(plan)[0])


def _provider(plan: _Plan) -> tuple[str, ...]:
    hosts = plan.draft.source.choices(plan.providers, weights=plan.sizes)[0]
    first = plan.draft.source.randrange(len(hosts))
    return tuple(itertools.islice(itertools.cycle(hosts), first, first + min(2, len(hosts))))


def _own_servers(draft: Draft, zone: str, count: int) -> tuple[str, ...]:
    return tuple(draft.host(below(f"ns{i}", zone)) for i in range(1, count + 1))


# --- random -----------------------------------------------------------------------------------------------

_DEPTH = 5
_FIRST = ("com.", "net.", "org.", r"o\.dd.", "MiXed.com.")


def hard(settings: Settings) -> Draft:
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
    servers = _drawn(draft, zone.name, pool)
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


def _drawn(draft: Draft, name: str, pool: list[str]) -> tuple[str, ...]:
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


SHAPES = {"tree": tree, "random": hard}
