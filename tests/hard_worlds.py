"""Hierarchies of hard cases, for tests of the emulation: what real zones do seldom happens here often.

Zones hang at any depth and skip levels. Name servers are drawn so that zone sets overlap in every way: with
parent, the grandparent, strangers; two names with one address; servers that hold a grandchild without the
child between; lame ones, by their own names or by aliases; unserved zones; zones with two contents. Aliases
of every kind lead to every kind of target. Not every name can be resolved: the tests compare answers address
by address.
"""

import random
import re
from dataclasses import dataclass, field, replace

from cli.zones import world, world_tree
from cli.zones.world_model import (
    ROOT,
    ROOT_SERVERS,
    SERIAL,
    Record,
    Settings,
    address_records,
    below,
    enclosing,
    is_below,
    parent_of,
)
from cli.zones.world_tree import _PARENT_TTL, _SITE_TTL, Draft, Zone

_DEPTH = 5
_FIRST = ("com.", "net.", "org.", r"o\.dd.", "MiXed.com.")
_ROOTS = (ROOT, ROOT_SERVERS)


@dataclass(frozen=True)
class Service:
    """Who serves a zone besides what its apex says."""

    delegated: tuple[str, ...] = ()  # the parent's NS set, where it is not that of the apex
    serving: tuple[str, ...] = ()  # hosts that hold the zone, where they are not those of the apex
    sibling_glue: bool = True
    second: tuple[str, ...] = ()  # of those that serve, the hosts with another content


@dataclass
class Hard:
    """A hard hierarchy in the making."""

    draft: Draft
    services: dict[str, Service] = field(default_factory=dict)  # by zone
    aliases: dict[str, str] = field(default_factory=dict)  # name servers' names that are CNAMEs, and targets

    @property
    def source(self) -> random.Random:
        return self.draft.source

    @property
    def names(self) -> tuple[str, ...]:
        """Of name servers."""
        return (*self.draft.hosts, *self.aliases)

    def service(self, zone: str) -> Service:
        return self.services.get(zone, Service())

    def parent_servers(self, zone: Zone) -> tuple[str, ...]:
        return self.service(zone.name).delegated or zone.servers

    def holders(self, zone: Zone) -> tuple[str, ...]:
        return self.service(zone.name).serving or zone.servers


def make(settings: Settings) -> world.World:
    """The same settings make the same one."""
    hard = Hard(Draft(random.Random(f"{settings.seed} random")))
    draft = hard.draft
    for name in _FIRST:
        draft.add(Zone(name, ()))
    while len(draft.zones) < settings.zones:
        draft.add(Zone(_name(draft), ()))
    pool = _pool(draft)
    for name in sorted(draft.zones, key=lambda one: one.count(".")):
        if name not in _ROOTS:
            _serve(hard, name, pool)
    if settings.signed:
        world._secure(draft)
    records, names = _contents(hard)
    second = {name: _other_content(name, records[name]) for name in records if hard.service(name).second}
    texts = world._texts(draft, [*records.items(), *second.items()], settings.seed)
    first = dict(zip(records, texts, strict=False))
    others = dict(zip(second, texts[len(first) :], strict=True))
    return world.World(_files(hard, first, others), tuple(names))


# --- zones and name servers --------------------------------------------------------------------------------


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
    names = [name for name in draft.zones if name not in _ROOTS]
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


def _serve(hard: Hard, name: str, pool: list[str]) -> None:
    """Gives the zone its servers, as its parent and as the truth have them."""
    source = hard.source
    servers = _drawn(hard.draft, name, pool)
    zone = replace(hard.draft.zones[name], servers=servers)
    hard.draft.add(zone)
    service = Service(sibling_glue=source.random() < 0.7)
    chance = source.random()
    if chance < 0.10:  # the parent names one more, which does not have the zone
        service = replace(service, delegated=_some(source, (*servers, source.choice(pool))), serving=servers)
    elif chance < 0.18:  # one of several never got the zone
        service = replace(service, serving=servers[1:] or (source.choice(pool),))
    elif chance < 0.21:  # nobody who is asked has it
        service = replace(service, serving=(source.choice(pool),))
    elif chance < 0.26:  # the parent knows fewer
        service = replace(service, delegated=servers[:1])
    elif chance < 0.34:  # the parent names one more, by an alias in another zone
        alias = _alias(hard, source.choice(pool))
        service = replace(service, delegated=_some(source, (*servers, alias)), serving=servers)
    holders = service.serving or servers
    if source.random() < 0.1 and len(holders) > 1:
        service = replace(service, second=holders[1:])
    hard.services[name] = service


def _alias(hard: Hard, host: str) -> str:
    """Another name for a name server, one time in three by a step between."""
    home = hard.source.choice([name for name in hard.draft.zones if name not in _ROOTS])
    name = below(f"alias{len(hard.aliases)}", home)
    step = hard.source.random() < 0.3
    hard.aliases[name] = _alias(hard, host) if step else host
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


# --- records -----------------------------------------------------------------------------------------------


def _contents(hard: Hard) -> tuple[dict[str, list[Record]], list[str]]:
    """Zones' records but for signatures, and what clients ask for."""
    draft, zones = hard.draft, hard.draft.zones
    made = {zone.name: world_tree._apex(zone) for zone in zones.values()}
    for host, addresses in draft.hosts.items():
        made[enclosing(host, zones)] += address_records(host, addresses, _SITE_TTL)
    for host, target in hard.aliases.items():
        made[enclosing(host, zones)].append(Record(host, _SITE_TTL, "CNAME", target))
    for zone in zones.values():
        if zone.name != ROOT:
            _cut(hard, zone, made[enclosing(parent_of(zone.name), zones)])
    names = _sites(hard, [one for one in zones.values() if one.name not in _ROOTS], made)
    names = [name for name in names if "\\" not in name]  # no client asks for others
    hard.source.shuffle(names)
    return made, names


def _cut(hard: Hard, zone: Zone, parent: list[Record]) -> None:
    """NS, and glue, which for servers in sibling zones may be missing; within the zone itself it never is."""
    owner, servers, hosts = parent[0].owner, hard.parent_servers(zone), hard.draft.hosts
    parent += [Record(zone.name, _PARENT_TTL, "NS", server) for server in servers]
    for host in servers:
        needs_glue = is_below(host, owner) and enclosing(host, hard.draft.zones) != owner
        own = is_below(host, zone.name)
        if host in hosts and needs_glue and (hard.service(zone.name).sibling_glue or own):
            parent += address_records(host, hosts[host], _PARENT_TTL)


def _sites(hard: Hard, zones: list[Zone], made: dict[str, list[Record]]) -> list[str]:
    """A site each, then aliases, services and wildcards whose targets are anything."""
    source = hard.source
    asked: list[str] = []
    leaves = {zone.name for zone in zones} - {parent_of(name) for name in (*hard.draft.zones, *hard.names)}
    for number, zone in enumerate(zones):
        here = made[zone.name]
        if zone.name in leaves and zone.name not in hard.names and _free(hard, zone) and number % 9 == 0:
            here.append(Record(zone.name, _SITE_TTL, "DNAME", source.choice(zones).name))
            here += world_tree._web(source, zone.name)
            continue
        site = world_tree._site(source, zone.name, 1.0)
        here += [one._replace(data=one.data.replace("\\", "/")) if one.kind == "TXT" else one for one in site]
        here += _aliases(hard, zones, zone.name)
        if number % 6 == 0:
            here.append(world_tree._big(zone.name))
        owners = {one.owner for one in here if is_below(one.owner, zone.name)}
        asked += world_tree._asked(source, zone.name, owners)
    return asked


def _free(hard: Hard, zone: Zone) -> bool:
    """Nothing else lies below the zone's name."""
    others = (*hard.draft.zones, *hard.names)
    return not any(name != zone.name and is_below(name, zone.name) for name in others)


def _aliases(hard: Hard, zones: list[Zone], zone: str) -> list[Record]:
    source = hard.source

    def target() -> str:
        return _target(hard, zones)

    made = [Record(below(f"c{i}", zone), _SITE_TTL, "CNAME", target()) for i in range(4)]
    made += [Record(below(f"m{i}", zone), _SITE_TTL, "MX", f"{i} {target()}") for i in range(2)]
    made += [Record(zone, _SITE_TTL, "MX", f"20 {target()}")]
    made += [Record(below("_x._udp", zone), _SITE_TTL, "SRV", f"1 1 53 {target()}")]
    made += [Record(below("old", zone), _SITE_TTL, "DNAME", target())]
    if source.random() < 0.5:
        made.append(Record(below("*.wc", zone), _SITE_TTL, "CNAME", target()))
    if source.random() < 0.5:
        made.append(Record(below("*.wm.e", zone), _SITE_TTL, "MX", f"5 {target()}"))
        made.append(Record(below("a.wm.e", zone), _SITE_TTL, "TXT", '"stops the wildcard"'))
    if source.random() < 0.3:
        made.append(Record(below("ptr", zone), _SITE_TTL, "PTR", target()))
        made.append(Record(below("naptr", zone), _SITE_TTL, "NAPTR", f'1 1 "s" "x" "" {target()}'))
    return made


def _target(hard: Hard, zones: list[Zone]) -> str:
    """An apex, a name in a zone, one that does not exist, one of a wildcard, alias, server or the root."""
    source = hard.source
    if source.random() < 0.2:
        return source.choice(list(hard.draft.hosts))
    name = source.choice(zones).name
    labels = ("www", "c0", "c1", "nx", "q.wild", "q.wc", "www.old", "deep", "host.deep", "nx.m0", "mail")
    return source.choice((name, *(below(label, name) for label in labels)))


def _other_content(zone: str, first: list[Record]) -> list[Record]:
    """The same zone as an older copy: another serial, a name less, a name more, another address."""
    gone, changed = below("mail", zone), below("www", zone)
    kept = [one for one in first if one.owner != gone and (one.owner, one.kind) != (changed, "A")]
    soa = Record(zone, kept[0].ttl, "SOA", kept[0].data.replace(str(SERIAL), str(SERIAL - 1)))
    if any(one.owner == zone and one.kind == "DNAME" for one in kept):
        return [soa, *kept[1:]]  # there is nothing below
    return [
        soa,
        *kept[1:],
        Record(changed, _SITE_TTL, "A", "203.1.1.1"),
        Record(below("only2", zone), _SITE_TTL, "TXT", '"second"'),
    ]


# --- files -------------------------------------------------------------------------------------------------


def _files(hard: Hard, texts: dict[str, str], second: dict[str, str]) -> tuple[world.ZoneFile, ...]:
    """Each zone where it is served, and where with its second content; never both at one address."""
    files: list[world.ZoneFile] = []
    taken: set[str] = set()
    for zone in hard.draft.zones.values():
        hosts, others = hard.draft.hosts, hard.service(zone.name).second
        first = [one for host in hard.holders(zone) if host not in others for one in hosts[host]]
        rest = [one for host in others for one in hosts[host] if one not in first]
        for addresses, suffix, made in ((first, "", texts), (rest, "second", second)):
            if addresses or not suffix:
                file = _file_name(zone.name + suffix, taken)
                files.append(
                    world.ZoneFile(zone.name, file, tuple(dict.fromkeys(addresses)), made[zone.name])
                )
    return tuple(files)


def _file_name(zone: str, taken: set[str]) -> str:
    """A file for the zone that no other has, also where letters' case does not count."""
    stem = re.sub(r"[^a-z0-9._-]", "_", zone.lower()).strip(".") or "root"
    name, number = f"{stem}.zone", 2
    while name in taken:
        name, number = f"{stem}-{number}.zone", number + 1
    taken.add(name)
    return name
