"""What a synthetic hierarchy is: zones, name servers, addresses; and the pieces that make them up.

Everything depends on the seed alone, so that the same options always give the same bytes.
"""

import ipaddress
import random
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

ROOT = "."
ROOT_SERVERS = "root-servers.net."
LETTERS = {  # of the root servers, as in the hints that resolvers come with
    "a": ("198.41.0.4", "2001:503:ba3e::2:30"),
    "b": ("170.247.170.2", "2801:1b8:10::b"),
    "c": ("192.33.4.12", "2001:500:2::c"),
    "d": ("199.7.91.13", "2001:500:2d::d"),
    "e": ("192.203.230.10", "2001:500:a8::e"),
    "f": ("192.5.5.241", "2001:500:2f::f"),
    "g": ("192.112.36.4", "2001:500:12::d0d"),
    "h": ("198.97.190.53", "2001:500:1::53"),
    "i": ("192.36.148.17", "2001:7fe::53"),
    "j": ("192.58.128.30", "2001:503:c27::2:30"),
    "k": ("193.0.14.129", "2001:7fd::1"),
    "l": ("199.7.83.42", "2001:500:9f::42"),
    "m": ("202.12.27.33", "2001:dc3::35"),
}
SERIAL = 2026010100

_SYLLABLES = tuple(f"{consonant}{vowel}" for consonant in "bdfgklmnprstvz" for vowel in "aeio")
# First bytes of IPv4 without a special range (RFC 6890), the benchmark range or most root servers.
_FIRST_BYTES = [n for n in range(11, 224) if n not in (100, 127, 169, 170, 172, 192, 193, 198, 199, 202, 203)]
_V6_BLOCKS = (0x2400, 0x2600, 0x2804, 0x2A00, 0x2C0F)


@dataclass(frozen=True)
class Settings:
    """What a world depends on."""

    zones: int = 100
    seed: int = 1
    signed: bool = False


class Record(NamedTuple):
    """A line of a zone file."""

    owner: str
    ttl: int
    kind: str
    data: str


def text_of(records: Iterable[Record]) -> str:
    """The zone file; a record that came twice (two cuts with one server's glue) is written once."""
    return "".join(f"{one.owner} {one.ttl} {one.kind} {one.data}\n" for one in dict.fromkeys(records))


def records_of(text: str) -> Iterator[Record]:
    """The reverse, of what BIND's tools write in full style."""
    for line in text.splitlines():
        if not line.startswith(";"):
            owner, ttl, _, kind, *data = line.split(None, 4)  # an APL record may be empty
            yield Record(owner.lower(), int(ttl), kind, "".join(data))


def address_records(host: str, addresses: Iterable[str], ttl: int) -> list[Record]:
    return [Record(host, ttl, "AAAA" if ":" in one else "A", one) for one in addresses]


@dataclass(frozen=True)
class Zone:
    """A zone and who serves it. Names are absolute; `servers` are the apex NS."""

    name: str
    servers: tuple[str, ...]
    security: str = ""  # "", "nsec" or "nsec3"
    ds: bool = True  # a signed zone's DS is in a signed parent


@dataclass
class Draft:
    """A world in the making. `hosts` are name servers with their addresses."""

    source: random.Random
    zones: dict[str, Zone] = field(default_factory=dict)
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    used: set[str] = field(default_factory=lambda: {one for pair in LETTERS.values() for one in pair})

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
        """A name below `parent` that no zone has."""
        while True:
            name = below(word(self.source, low, high), parent)
            if name not in self.zones:
                return name

    def _fresh(self, maker: Callable[[random.Random], str]) -> str:
        while (address := maker(self.source)) in self.used:
            pass
        self.used.add(address)
        return address


def start(source: random.Random) -> Draft:
    """A world that has the root zone, its servers, and what their names hang from."""
    draft = Draft(source)
    letters = tuple(f"{letter}.{ROOT_SERVERS}" for letter in LETTERS)
    draft.hosts.update(zip(letters, LETTERS.values(), strict=True))
    for name in (ROOT, ROOT_SERVERS):
        draft.add(Zone(name, letters))
    return draft


def public4(source: random.Random) -> str:
    """An IPv4 address that looks like a public server's."""
    middle = f"{source.randrange(256)}.{source.randrange(256)}"
    return f"{source.choice(_FIRST_BYTES)}.{middle}.{source.randint(1, 254)}"


def public6(source: random.Random) -> str:
    """An IPv6 address that looks like a public server's."""
    block = source.choice(_V6_BLOCKS)
    text = (
        f"{block:x}:{source.randrange(1 << 16):x}:{source.randrange(1 << 16):x}::{source.randint(1, 0xFFF):x}"
    )
    return str(ipaddress.IPv6Address(text))


def word(source: random.Random, low: int, high: int) -> str:
    """A label that can be read aloud."""
    return "".join(source.choices(_SYLLABLES, k=source.randint(low, high)))


def below(label: str, parent: str) -> str:
    """`label` as a name directly under `parent`."""
    return f"{label}." if parent == ROOT else f"{label}.{parent}"


def parent_of(name: str) -> str:
    """The name without its first label; escaped dots do not end a label."""
    at = 0
    while name[at] != ".":
        at += 2 if name[at] == "\\" else 1
    return name[at + 1 :] or ROOT


def lineage(name: str) -> Iterator[str]:
    """The name itself, then all names above it up to the root."""
    while name != ROOT:
        yield name
        name = parent_of(name)
    yield ROOT


def enclosing(name: str, zones: Container[str]) -> str:
    """The closest of `zones` (a set or dict that holds the root) at or above the name."""
    return next(one for one in lineage(name) if one in zones)


def is_below(name: str, ancestor: str) -> bool:
    """Whether a name is the ancestor or below it."""
    return ancestor in (ROOT, name) or name.endswith("." + ancestor)
