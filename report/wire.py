"""DNS messages as values to compare: RRsets by owner and type, signatures and TTLs apart.

Replies are untrusted bytes. Everything is read through one cursor that cannot run past the end, and what does
not parse is the value None, never an exception to the caller. Much faster than a general library, which
counts when a trace has millions of replies, since only the types the comparison asks about are decoded.
"""

from __future__ import annotations

import base64
import ipaddress
import struct
from dataclasses import dataclass

from report.rdata import KEY_TYPES, NAME_TYPES, bitmap_types, key_text, type_name

HEADER = struct.Struct(">HHHHHH")
FIXED_RR = struct.Struct(">HHIH")
FLAGS = {"AA": 0x0400, "TC": 0x0200, "RD": 0x0100, "RA": 0x0080, "AD": 0x0020, "CD": 0x0010}
SOA_NUMBERS = struct.Struct(">IIIII")
FIXED_BEFORE_NAME = {"MX": 2, "SRV": 6}  # bytes before the name that may be compressed
OPT = 41
RRSIG = 46
MAX_POINTERS = 128
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


class _ShortError(Exception):
    """The bytes end before the message does, or a name is no name."""


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise _ShortError
        self.at += size
        return self.data[self.at - size : self.at]

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def name(self) -> str:
        """A name, compressed or not (RFC 1035 section 4.1.4); the cursor ends behind its bytes here."""
        labels: list[str] = []
        at, end = self.at, None
        for _ in range(MAX_POINTERS):
            size = self._octet(at)
            if size >= 0xC0:
                end = end or at + 2
                at = (size & 0x3F) << 8 | self._octet(at + 1)
            elif size >= 0x40:
                raise _ShortError
            elif size == 0:
                self.at = end or at + 1
                return ".".join(labels) + "." if labels else "."
            else:
                labels.append(self._label(at + 1, size))
                at += 1 + size
        raise _ShortError

    def _octet(self, at: int) -> int:
        if at >= len(self.data):
            raise _ShortError
        return self.data[at]

    def _label(self, at: int, size: int) -> str:
        raw = self.data[at : at + size]
        if len(raw) < size:
            raise _ShortError
        text = raw.lower().decode("latin-1")  # bytes: only ASCII has case, RFC 4343
        if text.isascii() and text.replace("-", "").replace("_", "").isalnum():
            return text
        return "".join(_escaped(char) for char in text)


def _escaped(char: str) -> str:
    """Presentation form, RFC 1035 section 5.1."""
    if char in '."();@$\\':
        return "\\" + char
    return char if "!" <= char <= "~" else f"\\{ord(char):03d}"


def parse(data: bytes) -> Message | None:
    """None where the bytes are no whole message. Bytes behind the message are ignored."""
    try:
        return _parse(data)
    except (_ShortError, struct.error, ValueError):
        return None


def _parse(data: bytes) -> Message:
    cursor = _Cursor(data)
    _, flags, questions, *counts = cursor.unpack(HEADER)
    question = ("", "", 0)
    for _ in range(questions):
        name = cursor.name()
        kind, qclass = cursor.unpack(struct.Struct(">HH"))
        question = question if question[0] else (name, type_name(kind), qclass)
    edns: list[tuple[Edns, int]] = []
    answer, authority, additional = (_section(cursor, count, edns) for count in counts)
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


def _section(cursor: _Cursor, count: int, edns: list[tuple[Edns, int]]) -> Section:
    sets: dict[Key, set[str]] = {}
    ttls: dict[Key, int] = {}
    signatures: dict[Key, set[str]] = {}
    for _ in range(count):
        owner = cursor.name()
        kind, rclass, ttl, size = cursor.unpack(FIXED_RR)
        end = cursor.at + size
        if kind == OPT:
            edns.append(_edns(rclass, ttl, cursor.take(size)))
        elif kind == RRSIG:
            covered, value = _signature(cursor.take(size))
            signatures.setdefault((owner, covered), set()).add(value)
        else:
            key = (owner, type_name(kind))
            sets.setdefault(key, set()).add(_rdata(cursor, key[1], size))
            ttls[key] = min(ttl, ttls.get(key, ttl))
        if cursor.at != end:
            raise _ShortError
    return Section(_frozen(sets), ttls, _frozen(signatures))


def _frozen(sets: dict[Key, set[str]]) -> dict[Key, frozenset[str]]:
    return {key: frozenset(values) for key, values in sets.items()}


def _edns(payload: int, ttl: int, data: bytes) -> tuple[Edns, int]:
    """RFC 6891: class is the payload size, the TTL holds the rcode's upper bits, version and DO."""
    options = set()
    cursor = _Cursor(data)
    while cursor.at < len(data):
        code, size = cursor.unpack(struct.Struct(">HH"))
        options.add((code, cursor.take(size).hex()))
    return Edns(payload, ttl >> 16 & 255, bool(ttl & 0x8000), frozenset(options)), ttl >> 24


def _signature(data: bytes) -> tuple[str, str]:
    """Covered type and the signature itself, which no two signings share."""
    cursor = _Cursor(data)
    covered = cursor.unpack(struct.Struct(">H"))[0]
    cursor.take(16)
    cursor.name()
    return type_name(covered), base64.b64encode(data[cursor.at :]).decode()


def _rdata(cursor: _Cursor, kind: str, size: int) -> str:
    """The normal form of report.rdata; types not listed there as hex, with the names in them made whole."""
    end = cursor.at + size
    if kind in NAME_TYPES:
        text = cursor.name()
    elif kind in ("A", "AAAA") and size in (4, 16):
        text = str(ipaddress.ip_address(cursor.take(size)))
    elif kind in KEY_TYPES and size >= 4:
        text = key_text(kind, cursor.take(size))
    elif kind == "SOA":
        text = " ".join([cursor.name(), cursor.name(), *map(str, cursor.unpack(SOA_NUMBERS))])
    elif kind == "NSEC":
        text = " ".join([cursor.name(), *bitmap_types(cursor.take(max(0, end - cursor.at)))])
    elif kind in FIXED_BEFORE_NAME:
        text = f"{cursor.take(FIXED_BEFORE_NAME[kind]).hex()} {cursor.name()}"
    else:
        text = cursor.take(size).hex()
    return text
