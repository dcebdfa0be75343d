"""The contents of a synthetic hierarchy's zones, and the names that clients ask for in them.

A zone's apex, its name servers' addresses, the cuts of its children with their glue, and a small site: web,
mail, services, wildcards, aliases into other zones. Zones of the random shape have aliases of every kind to
every kind of target instead.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field

from cli.zones.world_model import (
    ROOT,
    ROOT_SERVERS,
    SERIAL,
    Draft,
    Record,
    Settings,
    Zone,
    address_records,
    below,
    enclosing,
    is_below,
    parent_of,
    public4,
    public6,
)

_PARENT_TTL = 172_800  # of NS and glue at the parent; the zone's own TTLs differ, as they mostly do
_SITE_TTL = 3_600
_SERVICES = 0.4  # chance of each service at a site of the tree shape
_BIG_STRINGS, _BIG_LENGTH = 15, 243  # a TXT record whose answer is close to 4,000 bytes, within 4,096


@dataclass
class Contents:
    """Zones' records by name of the zone, those of second contents, and what clients ask for."""

    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    second: dict[str, list[Record]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


def contents(draft: Draft, settings: Settings) -> Contents:
    """Everything but signatures. The root comes first."""
    made = Contents()
    for zone in draft.zones.values():
        made.records[zone.name] = _apex(zone)
    for host, addresses in draft.hosts.items():
        made.records[enclosing(host, draft.zones)] += address_records(host, addresses, _SITE_TTL)
    for host, target in draft.aliases.items():
        made.records[enclosing(host, draft.zones)].append(Record(host, _SITE_TTL, "CNAME", target))
    for zone in draft.zones.values():
        if zone.name != ROOT:
            _cut(draft, zone, made.records[enclosing(parent_of(zone.name), draft.zones)])
    sites = [one for one in draft.zones.values() if one.name not in (ROOT, ROOT_SERVERS)]
    if settings.shape == "random":
        _hard_sites(draft, sites, made)
    else:
        _sites(draft, sites, made)
    for zone in sites:
        if zone.second:
            made.second[zone.name] = _other_content(zone, made.records[zone.name])
    made.names = [name for name in made.names if "\\" not in name]  # no client asks for others
    draft.source.shuffle(made.names)
    return made


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
    """What the parent has of the zone: NS, and glue for servers below one of the parent's cuts.

    Glue for servers in sibling zones may be missing; glue within the zone itself never is.
    """
    owner = parent[0].owner
    parent += [Record(zone.name, _PARENT_TTL, "NS", server) for server in zone.parent_servers]
    for host in zone.parent_servers:
        needs_glue = is_below(host, owner) and enclosing(host, draft.zones) != owner
        if host in draft.hosts and needs_glue and (zone.sibling_glue or is_below(host, zone.name)):
            parent += address_records(host, draft.hosts[host], _PARENT_TTL)


def _sites(draft: Draft, zones: list[Zone], made: Contents) -> None:
    """Tree shape: top-level domains hold little, all others a small site."""
    for number, zone in enumerate(zones):
        if parent_of(zone.name) == ROOT:
            made.records[zone.name] += _web(draft.source, below("www.nic", zone.name))
            made.names.append(below("www.nic", zone.name))
            continue
        site = _site(draft.source, zone.name, _SERVICES)
        site += _aliases(draft.source, zone.name, draft.source.choice(zones).name, number)
        made.records[zone.name] += site
        if number % 10 == 3:
            made.records[zone.name].append(_big(zone.name))
            made.names.append(below("big", zone.name))
        made.names += _asked(draft.source, zone.name, {one.owner for one in site})


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
    quotable = zone.replace("\\", "/")
    return [
        *_web(source, zone),
        *_web(source, below("www", zone)),
        Record(zone, _SITE_TTL, "MX", f"10 {below('mail', zone)}"),
        Record(zone, _SITE_TTL, "TXT", f'"v=spf1 mx -all" "zone={quotable}"'),
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


def _hard_sites(draft: Draft, zones: list[Zone], made: Contents) -> None:
    """Random shape: a site, then aliases, services and wildcards whose targets are anything."""
    source = draft.source
    leaves = {zone.name for zone in zones} - {parent_of(name) for name in (*draft.zones, *draft.names)}
    for number, zone in enumerate(zones):
        here = made.records[zone.name]
        if zone.name in leaves and zone.name not in draft.names and _free(draft, zone) and number % 9 == 0:
            here.append(Record(zone.name, _SITE_TTL, "DNAME", source.choice(zones).name))
            here += _web(source, zone.name)
            continue
        here += [*_site(source, zone.name, 1.0), *_hard_aliases(draft, zones, zone.name)]
        if number % 6 == 0:
            here.append(_big(zone.name))
        made.names += _asked(source, zone.name, {one.owner for one in here if is_below(one.owner, zone.name)})


def _free(draft: Draft, zone: Zone) -> bool:
    """Nothing else lies below the zone's name."""
    others = (*draft.zones, *draft.names)
    return not any(name != zone.name and is_below(name, zone.name) for name in others)


def _hard_aliases(draft: Draft, zones: list[Zone], zone: str) -> list[Record]:
    source = draft.source

    def target() -> str:
        return _target(draft, zones)

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


def _target(draft: Draft, zones: list[Zone]) -> str:
    """An apex, a name in a zone, one that does not exist, one of a wildcard, alias, server or the root."""
    source = draft.source
    if source.random() < 0.2:
        return source.choice(list(draft.hosts))
    name = source.choice(zones).name
    labels = ("www", "c0", "c1", "nx", "q.wild", "q.wc", "www.old", "deep", "host.deep", "nx.m0", "mail")
    return source.choice((name, *(below(label, name) for label in labels)))


def _other_content(zone: Zone, first: list[Record]) -> list[Record]:
    """The same zone as an older copy: another serial, a name less, a name more, another address."""
    gone, changed = below("mail", zone.name), below("www", zone.name)
    kept = [one for one in first if one.owner != gone and (one.owner, one.kind) != (changed, "A")]
    soa = Record(zone.name, kept[0].ttl, "SOA", kept[0].data.replace(str(SERIAL), str(SERIAL - 1)))
    if any(one.owner == zone.name and one.kind == "DNAME" for one in kept):
        return [soa, *kept[1:]]  # there is nothing below
    return [
        soa,
        *kept[1:],
        Record(changed, _SITE_TTL, "A", "203.1.1.1"),
        Record(below("only2", zone.name), _SITE_TTL, "TXT", '"second"'),
    ]
