"""One normal form for record data, so that a zone's text and a message's bytes can be compared as strings.

Names are lower case and absolute, addresses as `ipaddress` writes them, keys and digests without spaces.
Types that the comparison does not look into keep their words (text) or hex (wire); they are only ever
compared with their own kind.
"""

from __future__ import annotations

import base64
import functools
import ipaddress
import struct

import dns.rdatatype

NAME_TYPES = frozenset({"NS", "CNAME", "DNAME", "PTR"})
KEY_TYPES = frozenset({"DS", "DNSKEY", "CDS", "CDNSKEY"})
# The types whose text and wire have the same normal form.
COMPARABLE = NAME_TYPES | KEY_TYPES | {"A", "AAAA", "SOA", "NSEC"}


@functools.cache
def type_name(number: int) -> str:
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(number))


def absolute(name: str, origin: str) -> str:
    """A master file's name, completed with the origin (which ends with a dot) and in lower case."""
    name = name.lower()
    if name == "@":
        return origin
    if name.endswith(".") and not name.endswith("\\."):
        return name
    return f"{name}." if origin == "." else f"{name}.{origin}"


def from_words(kind: str, words: list[str], origin: str) -> str:
    """Normal form of a master file's record data. ValueError or IndexError where the words do not fit the
    type.
    """
    if kind in NAME_TYPES:
        return absolute(words[0], origin)
    if kind in ("A", "AAAA"):
        return str(ipaddress.ip_address(words[0]))
    if kind in KEY_TYPES:
        rest = "".join(words[3:])
        return f"{words[0]} {words[1]} {words[2]} {rest.lower() if kind in ('DS', 'CDS') else rest}"
    if kind == "SOA":
        return " ".join([absolute(words[0], origin), absolute(words[1], origin), *words[2:7]])
    if kind == "NSEC":
        return " ".join([absolute(words[0], origin), *sorted(word.upper() for word in words[1:])])
    return " ".join(words)


def key_text(kind: str, data: bytes) -> str:
    """DS, DNSKEY and their CDS forms: three numbers, then digest or key."""
    if kind in ("DS", "CDS"):
        tag, algorithm, digest = struct.unpack_from(">HBB", data)
        return f"{tag} {algorithm} {digest} {data[4:].hex()}"
    flags, protocol, algorithm = struct.unpack_from(">HBB", data)
    return f"{flags} {protocol} {algorithm} {base64.b64encode(data[4:]).decode()}"


def bitmap_types(bitmap: bytes) -> list[str]:
    """Types of an NSEC bitmap, RFC 4034 section 4.1.2; a window that does not fit ends the list."""
    types = []
    at = 0
    while at + 2 <= len(bitmap):
        window, size = bitmap[at], bitmap[at + 1]
        for index, octet in enumerate(bitmap[at + 2 : at + 2 + size]):
            types += [type_name(window * 256 + index * 8 + bit) for bit in range(8) if octet & (0x80 >> bit)]
        at += 2 + size
    return sorted(types)
