"""DNS messages as values to compare: RRsets by owner and type, signatures and TTLs apart.

Replies are untrusted bytes. What dnspython cannot read is the value None, never an exception to the caller. A
trace has millions of replies, most of them like others: what many of them hold is kept by its bytes.
"""

import functools
import struct
from dataclasses import dataclass

import dns.exception
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype

FLAGS = {"AA": 0x0400, "TC": 0x0200, "RD": 0x0100, "RA": 0x0080, "AD": 0x0020, "CD": 0x0010}
BEFORE_NAME = {"MX": 2, "SRV": 6}  # bytes before the name that may be compressed
NAME_TYPES = frozenset({"NS", "CNAME", "DNAME", "PTR"})
KEY_TYPES = frozenset({"DS", "DNSKEY", "CDS", "CDNSKEY"})
# The types whose text and wire have the same normal form; others have hex, and are only compared with their
# own kind.
COMPARABLE = NAME_TYPES | KEY_TYPES | {"A", "AAAA", "SOA", "NSEC"}
_RCODES = {one.value: one.name for one in dns.rcode.Rcode}
KEPT = 1 << 14  # questions and data
Key = tuple[str, str]  # owner, type


@dataclass(frozen=True)
class Section:
    """`sets` and `ttls` by (owner, type); `signatures` by (owner, covered type)."""

    sets: dict[Key, frozenset[str]]
    ttls: dict[Key, int]
    signatures: dict[Key, frozenset[bytes]]


@dataclass(frozen=True)
class Edns:
    """The OPT record; options are (code, value in hex)."""

    payload: int
    version: int
    do: bool
    options: frozenset[tuple[int, str]]
    upper_rcode: int


@dataclass(frozen=True)
class Message:
    """A message but its id. `qname` is '' where there is no question."""

    flags: int
    qname: str
    qtype: str
    qclass: int
    answer: Section
    authority: Section
    additional: Section
    edns: Edns | None

    @property
    def rcode(self) -> int:
        return (self.edns.upper_rcode if self.edns else 0) << 4 | self.flags & 15

    @functools.cached_property
    def sections(self) -> dict[str, Section]:
        return {"answer": self.answer, "authority": self.authority, "additional": self.additional}

    @property
    def opcode(self) -> int:
        return self.flags >> 11 & 15

    def flag(self, name: str) -> bool:
        return bool(self.flags & FLAGS[name])


def rcode_name(rcode: int) -> str:
    """The registry's mnemonic, or RCODEn as in RFC 3597's manner for what has none."""
    return _RCODES.get(rcode, f"RCODE{rcode}")


def parse(data: bytes) -> Message | None:
    """None where the bytes are not a whole message. Bytes behind the message are ignored."""
    try:
        return _read(data)
    except (dns.exception.DNSException, ValueError):
        return None


_HEADER, _FIXED, _PAIR = (struct.Struct(one) for one in ("!HHHHHH", "!HHIH", "!HH"))
_SIGNED = struct.Struct("!H16x")  # the covered type, and what stands before the signer's name
_TIMES = struct.Struct("!IIIII")
_POINTERS = 64  # in a name
_LONGEST = 255
HEADER_BYTES = 12


class _Cursor:
    """A place in a message. Raises ValueError where something would reach over the end, and for names that
    are none. dnspython reads the same; a name takes it twenty times as long, and a trace has millions.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at, self.end = data, at, len(data)
        self._names: dict[int, tuple[str, int]] = {}  # text and bytes, by where they begin

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        self.at += form.size
        if self.at > self.end:
            raise ValueError("cut")
        return form.unpack_from(self.data, self.at - form.size)

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > self.end:
            raise ValueError("cut")
        return self.data[self.at - size : self.at]

    def name(self) -> str:
        """In lower case, absolute: only ASCII has case (RFC 4343), other bytes are written as numbers."""
        at = self.at
        if at + 1 < self.end and self.data[at] >= 192:  # as most owners are
            known = self._names.get((self.data[at] & 63) << 8 | self.data[at + 1])
            if known is not None:
                self.at += 2
                return known[0]
        (text, _), self.at = self._name_at(at, self.end, 0)
        return text or "."

    def _name_at(self, at: int, end: int, depth: int) -> tuple[tuple[str, int], int]:
        """Labels up to the root, or to a pointer to what stands before (RFC 1035 section 4.1.4)."""
        data, begin, labels, tail = self.data, at, [], ("", 1)
        while True:
            size = data[at] if at < end else 64
            if size == 0:
                at += 1
                break
            if size < 64 and at + size < end:
                labels.append((at, _label(data[at + 1 : at + 1 + size]), size + 1))
                at += size + 1
                continue
            if size < 192 or at + 1 >= end or depth > _POINTERS:
                raise ValueError("no name")
            target = (size & 63) << 8 | data[at + 1]
            if target >= begin:
                raise ValueError("no name")
            tail = self._names.get(target) or self._name_at(target, len(data), depth + 1)[0]
            at += 2
            break
        for where, label, size in reversed(labels):
            tail = self._names[where] = f"{label}.{tail[0]}", tail[1] + size
        if tail[1] > _LONGEST:
            raise ValueError("no name")
        return tail, at


@functools.lru_cache(1 << 16)
def _label(data: bytes) -> str:
    return dns.name.Name((data,)).to_text().lower()


def end_of_question(data: bytes) -> int:
    """Where the only question ends; 0 where there is another number of them, or a name that is not plain."""
    at = HEADER_BYTES
    if data[4:6] != b"\0\1":
        return 0
    while at < len(data) and (size := data[at]):
        if size >= 64:
            return 0
        at += size + 1
    return at + 5 if at < HEADER_BYTES + _LONGEST and at + 5 <= len(data) else 0


def last_labels(data: bytes, count: int | None) -> bytes:
    """The end of the name in the only question, so many labels or all of them; b"" where there is none."""
    end = end_of_question(data) - 4
    places, at = [], HEADER_BYTES
    while at < end:
        places.append(at)
        at += data[at] + 1
    return data[places[0 if count is None else max(0, len(places) - 1 - count)] : end] if places else b""


def question(data: bytes) -> tuple[tuple[str, str, int], int]:
    """Name, type and class that a message is about, ("", "", 0) for none, and where its records begin.
    Raises ValueError where the question is damaged.
    """
    if end := end_of_question(data):
        return _question(data[HEADER_BYTES:end]), end
    cursor = _Cursor(data)
    asked = ("", "", 0)
    for _ in range(cursor.unpack(_HEADER)[2]):
        one = _asked(cursor)
        asked = asked if asked[0] else one
    return asked, cursor.at


def _read(data: bytes) -> Message:
    asked, begin = question(data)
    _, flags, _, *counts = _HEADER.unpack_from(data)
    cursor = _Cursor(data, begin)
    edns: list[Edns] = []
    answer, authority, additional = (_section(cursor, count, edns) for count in counts)
    return Message(flags, *asked, answer, authority, additional, edns[0] if edns else None)


@functools.lru_cache(KEPT)
def _question(data: bytes) -> tuple[str, str, int]:
    """A question without pointers. Raises ValueError where its name is none."""
    return _asked(_Cursor(data))


def _asked(cursor: _Cursor) -> tuple[str, str, int]:
    name = cursor.name()
    kind, qclass = cursor.unpack(_PAIR)
    return name, _type(kind), qclass


def _section(cursor: _Cursor, count: int, edns: list[Edns]) -> Section:
    sets: dict[Key, frozenset[str]] = {}
    ttls: dict[Key, int] = {}
    signatures: dict[Key, frozenset[bytes]] = {}
    end = cursor.end
    for _ in range(count):
        owner = cursor.name()
        kind, rclass, ttl, size = cursor.unpack(_FIXED)
        cursor.end = cursor.at + size
        if cursor.end > end:
            raise ValueError("cut")
        if kind == dns.rdatatype.OPT:
            edns.append(_edns(rclass, ttl, cursor))
        elif kind == dns.rdatatype.RRSIG:
            key = owner, _type(*cursor.unpack(_SIGNED))
            cursor.name()
            own = cursor.take(cursor.end - cursor.at)  # no two signings share it
            signatures[key] = signatures.get(key, frozenset()) | {own}
        else:
            key = _key(owner, kind)
            value = _single(_rdata(cursor, key[1]))
            sets[key] = sets[key] | value if key in sets else value
            ttls[key] = min(ttl, ttls.get(key, ttl))
        if cursor.at != cursor.end:
            raise ValueError("more in a record than its type has")
        cursor.end = end
    return Section(sets, ttls, signatures)


# Messages that are kept share what many of them hold.


@functools.lru_cache(1 << 16)
def _key(owner: str, kind: int) -> Key:
    return owner, _type(kind)


@functools.lru_cache(1 << 16)
def _single(value: str) -> frozenset[str]:
    return frozenset((value,))


@functools.cache
def _type(number: int) -> str:
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(number))


def _edns(payload: int, ttl: int, cursor: _Cursor) -> Edns:
    """RFC 6891: class is the payload size, the TTL holds the rcode's upper bits, version and DO."""
    options = set()
    while cursor.at < cursor.end:
        code, size = cursor.unpack(_PAIR)
        options.add((code, cursor.take(size).hex()))
    return Edns(payload, ttl >> 16 & 255, bool(ttl & 0x8000), frozenset(options), ttl >> 24)


def _rdata(cursor: _Cursor, kind: str) -> str:
    """As normal(), names made whole."""
    if kind in NAME_TYPES:
        return cursor.name()
    if kind == "SOA":
        return " ".join([cursor.name(), cursor.name(), *map(str, cursor.unpack(_TIMES))])
    if kind in BEFORE_NAME:
        return f"{cursor.take(BEFORE_NAME[kind]).hex()} {cursor.name()}"
    return _plain(kind, cursor.take(cursor.end - cursor.at))


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


def normal(data: dns.rdata.Rdata) -> str:
    """One form for record data of the types COMPARABLE, from a zone's text or a message's bytes: names in
    lower case and absolute, keys and digests without spaces.
    """
    kind, words = dns.rdatatype.to_text(data.rdtype), data.to_text().split(" ")
    if kind in KEY_TYPES:
        return " ".join([*words[:3], "".join(words[3:])])
    if kind == "NSEC":
        return " ".join([words[0].lower(), *sorted(words[1:])])
    return " ".join(words).lower()
