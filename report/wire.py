"""DNS messages as values to compare: RRsets by owner and type, signatures and TTLs apart.

Replies are untrusted bytes. What dnspython cannot read is the value None, never an exception to the caller. A
trace has millions of replies, most of them like others: what was read last is kept by its bytes.
"""

from __future__ import annotations

import base64
import functools
from collections import defaultdict
from dataclasses import dataclass

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.wire

from report.rdata import COMPARABLE, NAME_TYPES, normal

FLAGS = {"AA": 0x0400, "TC": 0x0200, "RD": 0x0100, "RA": 0x0080, "AD": 0x0020, "CD": 0x0010}
BEFORE_NAME = {"MX": 2, "SRV": 6}  # bytes before the name that may be compressed
KEPT = 1 << 14  # messages, names, data
Key = tuple[str, str]  # owner, type


@dataclass(frozen=True)
class Section:
    """`sets` and `ttls` by (owner, type); `signatures` by (owner, covered type)."""

    sets: dict[Key, frozenset[str]]
    ttls: dict[Key, int]
    signatures: dict[Key, frozenset[str]]


@dataclass(frozen=True)
class Edns:
    """The OPT record; options are (code, value in hex)."""

    payload: int
    version: int
    do: bool
    options: frozenset[tuple[int, str]]


@dataclass(frozen=True)
class Message:
    """A message but its id. `qname` is '' where there is no question."""

    flags: int
    rcode: int
    qname: str
    qtype: str
    qclass: int
    answer: Section
    authority: Section
    additional: Section
    edns: Edns | None
    size: int

    @property
    def opcode(self) -> int:
        return self.flags >> 11 & 15

    def flag(self, name: str) -> bool:
        return bool(self.flags & FLAGS[name])

    @property
    def sections(self) -> dict[str, Section]:
        return {"answer": self.answer, "authority": self.authority, "additional": self.additional}


def parse(data: bytes) -> Message | None:
    """None where the bytes are not a whole message. Bytes behind the message are ignored."""
    return _parse(bytes(2) + data[2:]) if len(data) >= 12 else None


@functools.lru_cache(KEPT)
def _parse(data: bytes) -> Message | None:
    try:
        return _read(data)
    except (dns.exception.DNSException, ValueError):
        return None


def _read(data: bytes) -> Message:
    parser = dns.wire.Parser(data)
    _, flags, questions, *counts = parser.get_struct("!HHHHHH")
    question = ("", "", 0)
    for _ in range(questions):
        name = _name(parser)
        kind, qclass = parser.get_struct("!HH")
        question = question if question[0] else (name, _type(kind), qclass)
    edns: list[tuple[Edns, int]] = []
    answer, authority, additional = (_section(parser, count, edns) for count in counts)
    extended = edns[0][1] << 4 if edns else 0
    return Message(
        flags,
        extended | flags & 15,
        *question,
        answer,
        authority,
        additional,
        edns[0][0] if edns else None,
        len(data),
    )


def _section(parser: dns.wire.Parser, count: int, edns: list[tuple[Edns, int]]) -> Section:
    sets: dict[Key, set[str]] = defaultdict(set)
    ttls: dict[Key, int] = {}
    signatures: dict[Key, set[str]] = defaultdict(set)
    for _ in range(count):
        owner = _name(parser)
        kind, rclass, ttl, size = parser.get_struct("!HHIH")
        with parser.restrict_to(size):
            if kind == dns.rdatatype.OPT:
                edns.append(_edns(rclass, ttl, parser))
            elif kind == dns.rdatatype.RRSIG:
                covered, value = _signature(parser)
                signatures[owner, covered].add(value)
            else:
                key = (owner, _type(kind))
                sets[key].add(_rdata(parser, key[1]))
                ttls[key] = min(ttl, ttls.get(key, ttl))
    return Section(frozen(sets), ttls, frozen(signatures))


def frozen(sets: dict[Key, set[str]]) -> dict[Key, frozenset[str]]:
    return {key: frozenset(values) for key, values in sets.items()}


@functools.cache
def _type(number: int) -> str:
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(number))


def _name(parser: dns.wire.Parser) -> str:
    return _text(parser.get_name(decompress=True).labels)


@functools.lru_cache(KEPT)
def _text(labels: tuple[bytes, ...]) -> str:
    """In lower case: only ASCII has case (RFC 4343), other bytes are written as numbers."""
    return dns.name.Name(labels).to_text().lower()


def _edns(payload: int, ttl: int, parser: dns.wire.Parser) -> tuple[Edns, int]:
    """RFC 6891: class is the payload size, the TTL holds the rcode's upper bits, version and DO."""
    options = set()
    while parser.remaining():
        code, size = parser.get_struct("!HH")
        options.add((code, parser.get_bytes(size).hex()))
    return Edns(payload, ttl >> 16 & 255, bool(ttl & 0x8000), frozenset(options)), ttl >> 24


def _signature(parser: dns.wire.Parser) -> tuple[str, str]:
    """Covered type and the signature itself, which no two signings share."""
    covered = parser.get_uint16()
    parser.get_bytes(16)
    parser.get_name(decompress=True)
    return _type(covered), base64.b64encode(parser.get_remaining()).decode()


def _rdata(parser: dns.wire.Parser, kind: str) -> str:
    """The normal form of report.rdata, names made whole."""
    if kind in NAME_TYPES:
        return _name(parser)
    if kind == "SOA":
        return " ".join([_name(parser), _name(parser), *map(str, parser.get_struct("!IIIII"))])
    if kind in BEFORE_NAME:
        return f"{parser.get_bytes(BEFORE_NAME[kind]).hex()} {_name(parser)}"
    return _plain(kind, parser.get_remaining())


@functools.lru_cache(KEPT)
def _plain(kind: str, data: bytes) -> str:
    """Of a type whose bytes mean the same in every message: as in a zone, or as hex."""
    number = dns.rdatatype.from_text(kind)
    try:
        if kind in COMPARABLE:
            return normal(dns.rdata.from_wire(dns.rdataclass.IN, number, data, 0, len(data)))
    except dns.exception.DNSException:
        pass
    return data.hex()
