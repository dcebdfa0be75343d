"""One normal form for record data, so that a zone's text and a message's bytes can be compared as strings.

Names are lower case and absolute, addresses as `ipaddress` writes them, keys and digests without spaces.
Types that the comparison does not look into keep their words (text) or hex (wire); they are only ever
compared with their own kind.
"""

from __future__ import annotations

import ipaddress

NAME_TYPES = frozenset({"NS", "CNAME", "DNAME", "PTR"})
KEY_TYPES = frozenset({"DS", "DNSKEY", "CDS", "CDNSKEY"})
# The types whose text and wire have the same normal form.
COMPARABLE = NAME_TYPES | KEY_TYPES | {"A", "AAAA", "SOA", "NSEC"}


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
