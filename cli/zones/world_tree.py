"""The zones of a synthetic hierarchy, shaped like the real one, and the names that clients ask for in them.

Registries, hosting providers, many small zones. Shares are rough: 1 zone in 15 is a top-level domain; of the
others two thirds lie with hosting providers of very different size, a quarter on two servers of their own,
and some below other zones (third level). Every zone can be resolved: glue is complete, nothing is lame.

A zone has its apex, its name servers' addresses, the cuts of its children with their glue, and a small site:
web, mail, services, wildcards, aliases into other zones.
"""

import ipaddress
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cli.zones.world_model import (
    LETTERS,
    ROOT,
    ROOT_SERVERS,
    SERIAL,
    Record,
    address_records,
    below,
    enclosing,
    is_below,
    parent_of,
)

# --- zones and name servers --------------------------------------------------------------------------------

_TLDS = ("com", "net", "org")
_REGISTRY = "gtld-servers.net."
_LEAST_ZONES = 40  # before zones hang below small ones
_THIRD_LEVEL, _AT_PARENTS = 0.05, 0.75  # shares: of zones below small ones, of these on the parent's servers
_SYLLABLES = tuple(f"{consonant}{vowel}" for consonant in "bdfgklmnprstvz" for vowel in "aeio")
# First bytes of IPv4 without a special range (RFC 6890), the benchmark range or most root servers.
_FIRST_BYTES = [n for n in range(11, 224) if n not in (100, 127, 169, 170, 172, 192, 193, 198, 199, 202, 203)]
_V6_BLOCKS = (0x2400, 0x2600, 0x2804, 0x2A00, 0x2C0F)
_ROOTS: dict[str, tuple[str, ...]] = {f"{one}.{ROOT_SERVERS}": pair for one, pair in LETTERS.items()}


@dataclass(frozen=True)
class Zone:
    """A zone and who serves it. Names are absolute; `servers` are the apex NS."""

    name: str
    servers: tuple[str, ...]
    security: str = ""  # "", "nsec" or "nsec3"
    ds: bool = True  # a signed zone's DS is in a signed parent


_ROOT_ZONES = tuple(Zone(name, tuple(_ROOTS)) for name in (ROOT, ROOT_SERVERS))


@dataclass
class Draft:
    """A hierarchy in the making: at first the root zone, its servers, and what their names hang from. `hosts`
    are name servers with their addresses.
    """

    source: random.Random
    zones: dict[str, Zone] = field(default_factory=lambda: {one.name: one for one in _ROOT_ZONES})
    hosts: dict[str, tuple[str, ...]] = field(default_factory=_ROOTS.copy)
    used: set[str] = field(default_factory=lambda: {one for pair in LETTERS.values() for one in pair})
    tlds: list[str] = field(default_factory=list)
    providers: list[tuple[str, ...]] = field(default_factory=list)  # their name servers
    sizes: list[float] = field(default_factory=list)  # sums of their popularity
    homes: list[str] = field(default_factory=list)  # second-level zones, where a third level may hang

    def add(self, zone: Zone) -> None:
        self.zones[zone.name] = zone

    def host(self, name: str, v6_share: float = 0.8) -> str:
        """A name server with an IPv4 address of its own, mostly an IPv6 one too."""
        addresses = [self._fresh(public4)]
        if self.source.random() < v6_share:
            addresses.append(self._fresh(public6))
        self.hosts[name] = tuple(addresses)
        return name

    def fresh_name(self, parent: str, low: int = 2, high: int = 4) -> str:
        """A name below `parent` that no zone has, with a label that can be read aloud."""
        while True:
            label = "".join(self.source.choices(_SYLLABLES, k=self.source.randint(low, high)))
            if (name := below(label, parent)) not in self.zones:
                return name

    def _fresh(self, maker: Callable[[random.Random], str]) -> str:
        while (address := maker(self.source)) in self.used:
            pass
        self.used.add(address)
        return address


def public4(source: random.Random) -> str:
    """An IPv4 address that looks like a public server's."""
    middle = f"{source.randrange(256)}.{source.randrange(256)}"
    return f"{source.choice(_FIRST_BYTES)}.{middle}.{source.randint(1, 254)}"


def public6(source: random.Random) -> str:
    """An IPv6 address that looks like a public server's."""
    block = source.choice(_V6_BLOCKS)
    middle = f"{source.randrange(1 << 16):x}:{source.randrange(1 << 16):x}"
    return str(ipaddress.IPv6Address(f"{block:x}:{middle}::{source.randint(1, 0xFFF):x}"))


def add_zones(draft: Draft, count: int) -> None:
    """Zones and their name servers, until there are so many."""
    _top_levels(draft, min(max(3, count // 15), 1200))
    _providers(draft, max(1, count // 60))
    while len(draft.zones) < count:
        _small_zone(draft)


def _top_levels(draft: Draft, count: int) -> None:
    """Top-level domains: at the shared registry, or with servers of their own below nic.TLD."""
    registry = tuple(draft.host(f"{letter}.{_REGISTRY}", 1.0) for letter in "abcd")
    draft.add(Zone(_REGISTRY, registry))
    for number in range(count):
        name = f"{_TLDS[number]}." if number < len(_TLDS) else draft.fresh_name(ROOT, 1, 2)
        if number < 2 or draft.source.random() < 0.3:
            servers = registry
        else:
            servers = tuple(draft.host(f"{letter}.nic.{name}", 1.0) for letter in "abc"[: 2 + number % 2])
        draft.add(Zone(name, servers))
        draft.tlds.append(name)


def _providers(draft: Draft, count: int) -> None:
    """Hosting providers: a zone of their own that holds 2 to 4 name servers; sizes fall by Zipf's law."""
    for number in range(1, count + 1):
        home = draft.fresh_name(draft.source.choice(draft.tlds), 3, 4)
        hosts = _own_servers(draft, home, 2 + number % 3)
        draft.add(Zone(home, hosts))
        draft.providers.append(hosts)
        draft.sizes.append(sum(draft.sizes[-1:]) + 1 / number)


def _small_zone(draft: Draft) -> None:
    source, tlds = draft.source, draft.tlds
    if draft.homes and len(draft.zones) > _LEAST_ZONES and source.random() < _THIRD_LEVEL:
        parent = draft.zones[source.choice(draft.homes)]
        name = draft.fresh_name(parent.name, 1, 2)
        servers = parent.servers if source.random() < _AT_PARENTS else _servers(draft, name)
    else:
        those = tlds[: max(3, len(tlds) // 4)] if source.random() < 0.7 else tlds
        name = draft.fresh_name(source.choice(those))
        servers = _servers(draft, name)
        draft.homes.append(name)
    draft.add(Zone(name, servers))


def _servers(draft: Draft, name: str) -> tuple[str, ...]:
    """At a provider, on its own servers, or on one of each."""
    chance = draft.source.random()
    if chance < 0.66:
        return _provider(draft)
    if chance < 0.92:
        return _own_servers(draft, name, 2)
    return (*_own_servers(draft, name, 1), _provider(draft)[0])


def _provider(draft: Draft) -> tuple[str, ...]:
    hosts = draft.source.choices(draft.providers, cum_weights=draft.sizes)[0]
    first = draft.source.randrange(len(hosts))
    return (hosts * 2)[first : first + 2]  # none has fewer


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
    below_root = "" if zone.name == ROOT else zone.name
    soa = f"{zone.servers[0]} hostmaster.{below_root} {SERIAL} 1800 900 604800 900"
    soa_ttl, ttl = (_SITE_TTL, 86_400) if below_root else (86_400, 518_400)
    return [
        Record(zone.name, soa_ttl, "SOA", soa),
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
    return address_records(owner, (public4(source), public6(source)), _SITE_TTL)


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
