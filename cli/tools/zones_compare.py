"""In what two answers of a name server differ, but for TTLs, order and the times of signatures."""

import itertools
from collections.abc import Iterable

import dns.flags
import dns.message
import dns.name
import dns.rdatatype
import dns.rrset

CLASSES = ("rcode", "aa", "answer", "servers", "glue", "authority")
_DENIAL = ("SOA", "NSEC", "NSEC3", "RRSIG")

Record = tuple[str, str, str]  # owner, type, data
# Names have no case.
_LOWER = ("NS", "CNAME", "DNAME", "PTR", "SOA", "MX", "SRV", "NAPTR", "RP", "AFSDB", "KX", "MINFO")


def records(section: Iterable[dns.rrset.RRset]) -> frozenset[Record]:
    """Owners, types and data; names in lower case. Of signatures, only what they cover and the signer: they
    are made anew from time to time, by some servers for each answer.
    """
    found = set()
    for rrset in section:
        owner, kind = rrset.name.to_text().lower(), dns.rdatatype.to_text(rrset.rdtype)
        for one in rrset:
            text = one.to_text()
            if kind == "RRSIG":
                covered, algorithm, labels, *_, signer, _ = text.split(None, 8)
                text = f"{covered} {algorithm} {labels} {signer.lower()}"
            found.add((owner, kind, text.lower() if kind in _LOWER else text))
    return frozenset(found)


def normalized(text: str) -> str:
    """A name in lower case, as dnspython escapes it."""
    return dns.name.from_text(text).to_text().lower()


def differing(recorded: dns.message.Message, got: dns.message.Message) -> tuple[str, ...]:
    """Those of CLASSES in which the answers differ."""
    wanted, given = records(recorded.answer), records(got.answer)
    cuts = referral(recorded)
    found = (
        recorded.rcode() != got.rcode(),
        bool((recorded.flags ^ got.flags) & dns.flags.AA),
        not wanted <= given
        or any(kind != "RRSIG" for _, kind, _ in given - wanted),  # DO may not be recorded
        cuts != referral(got),
        not needed_glue(recorded, cuts) <= records(got.additional),
        not denial(recorded) <= denial(got),
    )
    return tuple(itertools.compress(CLASSES, found))


def referral(message: dns.message.Message) -> frozenset[Record]:
    """The NS records of a referral; none of another answer."""
    is_referral = not message.answer and not message.flags & dns.flags.AA
    return frozenset(one for one in records(message.authority) if is_referral and one[1] == "NS")


def needed_glue(message: dns.message.Message, cuts: frozenset[Record]) -> frozenset[Record]:
    """Addresses of servers whose names lie in the zone that is referred to."""
    inside = {target for cut, _, target in cuts if f".{target}".endswith(f".{cut}")}
    return frozenset(
        one for one in records(message.additional) if one[0] in inside and one[1] in ("A", "AAAA")
    )


def denial(message: dns.message.Message) -> frozenset[Record]:
    """The SOA record and the proof of a negative answer; nothing for other answers."""
    found = frozenset(one for one in records(message.authority) if one[1] in _DENIAL)
    is_negative = message.flags & dns.flags.AA and any(one[1] == "SOA" for one in found)
    return found if is_negative else frozenset()
