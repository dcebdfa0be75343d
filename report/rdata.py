"""One normal form for record data, so that a zone's text and a message's bytes can be compared as strings.

Names are lower case and absolute, keys and digests without spaces. Of types that the comparison does not look
into messages have hex; they are only ever compared with their own kind.
"""

from __future__ import annotations

import dns.rdata
import dns.rdatatype

NAME_TYPES = frozenset({"NS", "CNAME", "DNAME", "PTR"})
KEY_TYPES = frozenset({"DS", "DNSKEY", "CDS", "CDNSKEY"})
# The types whose text and wire have the same normal form.
COMPARABLE = NAME_TYPES | KEY_TYPES | {"A", "AAAA", "SOA", "NSEC"}


def normal(data: dns.rdata.Rdata) -> str:
    """The normal form of record data of one of the types COMPARABLE."""
    kind, words = dns.rdatatype.to_text(data.rdtype), data.to_text().split(" ")
    if kind in KEY_TYPES:
        return " ".join([*words[:3], "".join(words[3:])])
    if kind == "NSEC":
        return " ".join([words[0].lower(), *sorted(words[1:])])
    return " ".join(words).lower()
