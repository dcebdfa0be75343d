"""Names and records of zones that are made or signed here."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Settings:
    """What a synthetic hierarchy depends on: the same ones always give the same bytes."""

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
