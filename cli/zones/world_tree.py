"""The zones of a synthetic hierarchy, shaped like the real one, and the names that clients ask for in them.

Registries, hosting providers, many small zones. Shares are rough: 1 zone in 15 is a top-level domain; of the
others two thirds lie with hosting providers of very different size, a quarter on two servers of their own,
and some below other zones (third level). Every zone can be resolved: glue is complete, nothing is lame.

A zone has its apex, its name servers' addresses, the cuts of its children with their glue, and a small site:
web, mail, services, wildcards, aliases into other zones.
"""

import itertools
import random
from dataclasses import dataclass, field

from cli.zones.world_model import (
    ROOT,
    ROOT_SERVERS,
    SERIAL,
    Draft,
    Record,
    Zone,
    address_records,
    below,
    enclosing,
    is_below,
    parent_of,
    public4,
    public6,
)

# --- zones and name servers --------------------------------------------------------------------------------

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


def add_zones(draft: Draft, count: int) -> None:
    """Zones and their name servers, until there are so many."""
    plan = _Plan(draft)
    _top_levels(plan, min(max(3, count // 15), 1200))
    _providers(plan, max(1, count // 60))
    while len(draft.zones) < count:
        _small_zone(plan)


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


# --- records -----------------------------------------------------------------------------------------------

_PARENT_TTL = 172_800  # of NS and glue at the parent; the zone's own TTLs differ, as they mostly do
_SITE_TTL = 3_600
_SERVICES = 0.4  # chance of each service at a site
_BIG_STRINGS, _BIG_LENGTH = 15, 243  # a TXT record whose answer is close to 4,000 bytes, within 4,096


def contents(draft: Draft) -> tuple[dict[str, list[Record]], list[str]]:
    """Zones' records but for signatures, in the order of the zones, and what clients ask for."""
    zones = draft.zones
    made = {zone.name: _apex(zone) for zone in zones.values()}
    for host, addresses in draft.hosts.items():
        made[enclosing(host, zones)] += address_records(host, addresses, _SITE_TTL)
    for zone in zones.values():
        if zone.name != ROOT:
            _cut(draft, zone, made[enclosing(parent_of(zone.name), zones)])
    names = _sites(draft, [one for one in zones.values() if one.name not in (ROOT, ROOT_SERVERS)], made)
    draft.source.shuffle(names)
    return made, names


def _apex(zone: Zone) -> list[Record]:
    soa = (
        f"{zone.servers[0]} hostmaster.{'' if zone.name == ROOT else zone.name} {SERIAL} 1800 900 604800 900"
    )
    ttl = 518_400 if zone.name == ROOT else 86_400
    return [
        Record(zone.name, 86_400 if zone.name == ROOT else _SITE_TTL, "SOA", soa),
        *(Record(zone.name, ttl, "NS", server) for server in zone.servers),
    ]


def _cut(draft: Draft, zone: Zone, parent: list[Record]) -> None:
    """What the parent has of the zone: NS, and glue for servers below one of the parent's cuts."""
    owner = parent[0].owner
    parent += [Record(zone.name, _PARENT_TTL, "NS", server) for server in zone.servers]
    for host in zone.servers:
        if is_below(host, owner) and enclosing(host, draft.zones) != owner:
            parent += address_records(host, draft.hosts[host], _PARENT_TTL)


def _sites(draft: Draft, zones: list[Zone], made: dict[str, list[Record]]) -> list[str]:
    """Top-level domains hold little, all others a small site; returns names to ask for."""
    names = []
    for number, zone in enumerate(zones):
        if parent_of(zone.name) == ROOT:
            made[zone.name] += _web(draft.source, below("www.nic", zone.name))
            names.append(below("www.nic", zone.name))
            continue
        site = _site(draft.source, zone.name, _SERVICES)
        site += _aliases(draft.source, zone.name, draft.source.choice(zones).name, number)
        made[zone.name] += site
        if number % 10 == 3:
            made[zone.name].append(_big(zone.name))
            names.append(below("big", zone.name))
        names += _asked(draft.source, zone.name, {one.owner for one in site})
    return names


def _web(source: random.Random, owner: str) -> list[Record]:
    return [
        Record(owner, _SITE_TTL, "A", public4(source)),
        Record(owner, _SITE_TTL, "AAAA", public6(source)),
    ]


def _site(source: random.Random, zone: str, services: float) -> list[Record]:
    """Web and mail, and each of some services with the given chance."""
    optional = [
        Record(below("_sip._tcp", zone), _SITE_TTL, "SRV", f"0 5 5060 {below('www', zone)}"),
        Record(below("host.deep", zone), _SITE_TTL, "A", public4(source)),
        Record(below("*.wild", zone), _SITE_TTL, "A", public4(source)),
    ]
    return [
        *_web(source, zone),
        *_web(source, below("www", zone)),
        Record(zone, _SITE_TTL, "MX", f"10 {below('mail', zone)}"),
        Record(zone, _SITE_TTL, "TXT", f'"v=spf1 mx -all" "zone={zone}"'),
        Record(below("mail", zone), _SITE_TTL, "A", public4(source)),
        *(one for one in optional if source.random() < services),
    ]


def _aliases(source: random.Random, zone: str, other: str, number: int) -> list[Record]:
    """Aliases within the zone and into another one."""
    made = [Record(below("ftp", zone), _SITE_TTL, "CNAME", below("www", zone))]
    if source.random() < 0.3:
        made.append(Record(below("cdn", zone), 300, "CNAME", below("www", other)))
    if number % 7 == 2:
        made.append(Record(below("old", zone), _SITE_TTL, "DNAME", other))
    return made


def _big(zone: str) -> Record:
    text = " ".join(f'"{"x" * (_BIG_LENGTH - 3)}{number:03}"' for number in range(_BIG_STRINGS))
    return Record(below("big", zone), _SITE_TTL, "TXT", text)


def _asked(source: random.Random, zone: str, owners: set[str]) -> list[str]:
    """What exists; clients also ask for what does not."""
    wild = f"{source.randrange(1 << 20):x}."
    names = {name.replace("*.", wild) for name in owners if not name.startswith("old.")}
    return [*sorted(names), below(f"nx{source.randrange(1000)}", zone)]
