"""A hierarchy shaped like the real one: registries, hosting providers, many small zones.

Shares are rough: 1 zone in 15 is a top-level domain; of the others two thirds lie with hosting providers of
very different size, a quarter on two servers of their own, and some below other zones (third level). Every
zone can be resolved: glue is complete, nothing is lame.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from cli.zones.world_model import ROOT, ROOT_SERVERS, Draft, Settings, Zone, below, start

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


def layout(settings: Settings) -> Draft:
    """Zones and servers; the contents come later."""
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
        _third_level(plan)
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


def _third_level(plan: _Plan) -> None:
    """A zone below a small one: on its parent's servers, or elsewhere."""
    source = plan.draft.source
    parent = plan.draft.zones[source.choice(plan.homes)]
    name = plan.draft.fresh_name(parent.name, 1, 2)
    servers = parent.servers if source.random() < _AT_PARENTS else _servers(plan, name)
    plan.draft.add(Zone(name, servers))
