"""Why two replies to one query differ: every difference gets a class, by evidence and not by resemblance.

`before` is the recorded reply, `after` the replay's. A class that blames the zone is given only where the
replay's data are exactly what the served zone holds and the recorded data are not, and never where both sides
served that zone; a difference whose evidence is missing is `unexplained`. A pair may fall into several
classes (a delegation changed and a signature was refreshed).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

import dns.name

from report.wire import COMPARABLE, FLAGS, Key, Message, Section, last_labels, rcode_name
from report.zone import Zone, within

# The classes in the order of precedence where each pair is counted once.
CLASSES = (
    UNEXPLAINED := "unexplained",
    NO_RECORDED := "no answer recorded",
    NO_REPLAYED := "no answer in replay",
    MALFORMED := "malformed",
    CHAOS := "server identity (class CH, NSID, COOKIE)",
    FAILURE := "SERVFAIL (validation, resolution or the server failed)",
    POLICY := "server policy",
    CHILD := "child zone served by the recorded server",
    ADDED := "TLD added since",
    REMOVED := "TLD removed since",
    TRUNCATION := "truncation differs (size)",
    CUT := "truncated on both sides",
    DELEGATION := "delegation changed",
    SIGNER := "delegation signer changed (DS)",
    GLUE := "glue differs",
    APEX := "zone apex data changed (SOA, NS, DNSKEY)",
    DENIAL := "denial of existence changed (NSEC)",
    DATA := "zone data changed",
    SIGNATURE := "signature refreshed",
    EDNS := "EDNS differs (size, options)",
    TTL := "TTL differs",
    ENCODING := "order or encoding only",
)
_OF_ZONE = frozenset((CHILD, ADDED, REMOVED, DELEGATION, SIGNER, APEX, DENIAL, DATA, SIGNATURE))
SERVFAIL, NXDOMAIN = 2, 3
POLICY_RCODES = frozenset({1, 4, 5, 9, 16})  # FORMERR, NOTIMP, REFUSED, NOTAUTH, BADVERS
POLICY_TYPES = frozenset({"ANY", "AXFR", "IXFR"})  # RFC 8482 leaves ANY to the server; transfers to its rules
QCLASS_IN, QCLASS_CH = 1, 3
Rdatas = Set[str]
IDENTITY_OPTIONS = frozenset({3, 10})  # NSID, COOKIE


@dataclass(frozen=True)
class Finding:
    """One difference: its class and what exactly, short enough for a table."""

    kind: str
    detail: str


def foremost(found: Sequence[Finding]) -> Finding:
    """The one by which a pair is counted once."""
    return min(found, key=lambda one: CLASSES.index(one.kind))


@dataclass
class Evidence:
    """The served zone, None where nobody knows it, and what the recorded replies say taken together;
    `complete` before anything is classified. `ns_sets`: of whole referrals, by their owners. `sought` are
    names of which it is known whether the replies deny them. `same_zone`: the replies are of a server of the
    same zone.
    """

    zone: Zone | None = None
    ns_sets: defaultdict[str, Counter[frozenset[str]]] = field(default_factory=lambda: defaultdict(Counter))
    sought: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    complete: bool = False
    same_zone: bool = False

    def seek(self, names: set[str], replies: Iterable[bytes], zone: Zone) -> None:
        """Which of these names are denied by authoritative NXDOMAINs, each for the name itself or, in the
        zone, what is one label below the origin.
        """
        wires = {dns.name.from_text(name).to_digestable(): name for name in names}
        depths = {zone.depth if zone.top(name) else None for name in names}
        for reply in replies:
            for depth in depths:
                if name := wires.get(last_labels(reply, depth).lower()):
                    self.denied.add(name)
        self.sought |= names


def referral_owner(message: Message) -> str | None:
    """The owner of the NS set of a referral (RFC 1034 section 4.3.2: not authoritative, no answer); None for
    others.
    """
    if message.rcode or message.flag("AA") or message.answer.sets:
        return None
    owners = [owner for owner, kind in message.authority.sets if kind == "NS"]
    return owners[0] if len(owners) == 1 else None


def classify(before: Message, after: Message, evidence: Evidence) -> list[Finding]:
    """All findings for a pair of replies whose bytes differ, each once; never empty."""
    found = list(_whole_reply(before, after, evidence)) or _parts(before, after, evidence)
    if evidence.same_zone:
        text = "{}: not as in the zone that both served"
        found = [
            replace(one, kind=UNEXPLAINED, detail=text.format(one.detail)) if one.kind in _OF_ZONE else one
            for one in found
        ]
    return list(dict.fromkeys(found))


def _parts(before: Message, after: Message, evidence: Evidence) -> list[Finding]:
    found = [*_flags(before, after), *_edns(before, after)]
    if before.flag("TC") != after.flag("TC"):
        # What is missing from a truncated reply says nothing; what changed while complete still does.
        limit = after.edns.payload if after.edns else 512
        was, now = ("truncated" if message.flag("TC") else "whole" for message in (before, after))
        found.append(Finding(TRUNCATION, f"{was} -> {now}, the server's limit is {limit}"))
    elif before.flag("TC"):
        found += _cut(before, after)
    else:
        found += _sections(before, after, evidence)
    return found or [Finding(ENCODING, "the same content")]


def _whole_reply(before: Message, after: Message, evidence: Evidence) -> Iterator[Finding]:
    """Causes that explain everything in the reply at once."""
    if before.qclass == QCLASS_CH:
        yield Finding(CHAOS, f"{before.qname} {before.qtype}")
    elif "" in (before.qname, after.qname):
        yield Finding(POLICY, f"no question: {_rcodes(before, after)}")
    elif before.qclass != QCLASS_IN or after.qclass != QCLASS_IN:
        yield Finding(POLICY, f"class {before.qclass}: {_rcodes(before, after)}")
    elif before.rcode != after.rcode and SERVFAIL in (before.rcode, after.rcode):
        yield Finding(FAILURE, _rcodes(before, after))
    elif before.rcode != after.rcode and {before.rcode, after.rcode} & POLICY_RCODES:
        yield Finding(POLICY, _rcodes(before, after))
    elif before.opcode or after.opcode:
        yield Finding(POLICY, f"opcode {before.opcode}")
    elif before.qtype in POLICY_TYPES and before.answer.sets and after.answer.sets:
        yield Finding(POLICY, f"{before.qtype} is answered as the server likes")
    elif evidence.zone is not None:
        yield from _by_zone(before, after, evidence.zone, evidence)
    elif before.rcode != after.rcode:
        yield Finding(UNEXPLAINED, f"{_rcodes(before, after)}, no zone to explain it")


def _rcodes(before: Message, after: Message) -> str:
    return f"{rcode_name(before.rcode)} -> {rcode_name(after.rcode)}"


def _by_zone(before: Message, after: Message, zone: Zone, evidence: Evidence) -> Iterator[Finding]:
    child = _child_zone(before, after, zone)
    top = zone.top(before.qname) or before.qname
    if child is not None:
        yield child
    elif before.rcode != after.rcode:
        kind = None
        if (before.rcode, after.rcode) == (NXDOMAIN, 0) and not before.answer.sets and top in zone.names:
            known = zone.cut(before.qname) is not None or after.answer.sets
            kind = ADDED if known and top not in evidence.ns_sets else None
        elif (before.rcode, after.rcode) == (0, NXDOMAIN) and not zone.exists(top):
            kind = REMOVED if top not in evidence.denied else None
        if kind and not evidence.same_zone and _as_served(after, zone):
            yield Finding(kind, top)
        else:
            yield Finding(UNEXPLAINED, _rcodes(before, after))


def _child_zone(before: Message, after: Message, zone: Zone) -> Finding | None:
    """The recorded server was authoritative below a cut of the served zone, and the replay refers to that
    cut.
    """
    cut, owner = zone.cut(before.qname), referral_owner(before)
    if cut is None or referral_owner(after) != cut:
        return None
    refers = _is_served(after, zone, after.authority, (cut, "NS"))
    below = owner is not None and owner != cut and within(owner, cut)
    # Authoritative data from within the cut: a denial by the parent has a SOA that is above it.
    owners = {one for section in (before.answer, before.authority) for one, _ in section.sets}
    own = before.flag("AA") and owners and all(within(one, cut) for one in owners)
    return Finding(CHILD, cut) if refers and (below or own) else None


def _as_served(message: Message, zone: Zone) -> bool:
    """What it answers and says of authority is the zone's, as far as that can be compared."""
    sections = (message.answer, message.authority)
    keys = [(section, key) for section in sections for key in section.sets if key[1] in COMPARABLE]
    return all(_is_served(message, zone, section, key) for section, key in keys)


def _is_served(message: Message, zone: Zone, section: Section, key: Key) -> bool:
    """An RRset is the zone's; truncated messages hold a part of it."""
    held, served = section.sets[key], zone.get(*key)
    return held <= served if message.flag("TC") else held == served


def _flags(before: Message, after: Message) -> Iterator[Finding]:
    """TC is truncation's; AA changes with what the data are, so only the server's own bits are policy."""
    for name in ("RD", "RA", "AD", "CD", "AA"):
        was, now = (int(message.flag(name)) for message in (before, after))
        if was != now:
            yield Finding(UNEXPLAINED if name == "AA" else POLICY, f"{name} is {was} -> {now}")
    known = sum(FLAGS.values()) | 0xF80F  # QR, opcode and rcode are compared elsewhere
    if (before.flags ^ after.flags) & ~known:
        yield Finding(POLICY, "the reserved flag differs")


def _edns(before: Message, after: Message) -> Iterator[Finding]:
    was, now = before.edns, after.edns
    if was == now:
        return
    if was is None or now is None:
        yield Finding(POLICY, "EDNS is " + ("gone" if now is None else "new"))
        return
    if was.payload != now.payload:
        yield Finding(EDNS, f"size {was.payload} -> {now.payload}")
    if (was.version, was.do) != (now.version, now.do):
        yield Finding(EDNS, "version or DO")
    codes = sorted({code for code, _ in was.options ^ now.options})
    if codes:
        kind = CHAOS if set(codes) <= IDENTITY_OPTIONS else EDNS
        yield Finding(kind, "EDNS options " + ", ".join(map(str, codes)))


def _cut(before: Message, after: Message) -> Iterator[Finding]:
    """What a server keeps in a truncated reply is its own choice, and clients do not use it (RFC 2181,
    section 9).
    """
    for name, was in before.sections.items():
        now = after.sections[name]
        if (was.sets, was.signatures) != (now.sets, now.signatures):
            kinds = {kind for _, kind in was.sets.keys() ^ now.sets.keys()} or {"records"}
            yield Finding(CUT, f"{', '.join(sorted(kinds))} in {name} on one side only")


def _sections(before: Message, after: Message, evidence: Evidence) -> Iterator[Finding]:
    for name, was in before.sections.items():
        now = after.sections[name]
        if was == now:
            continue
        judge = _Judge(before, after, evidence, name)
        for key in sorted(was.sets.keys() | now.sets.keys()):
            old, new = was.sets.get(key), now.sets.get(key)
            if old != new:
                yield judge.difference(key, old, new)
            elif was.ttls[key] != now.ttls[key]:
                yield Finding(TTL, f"{key[1]} {was.ttls[key]} -> {now.ttls[key]}")
        for key in sorted(was.signatures.keys() | now.signatures.keys()):
            yield from judge.signature(key, was, now)


@dataclass(frozen=True)
class _Judge:
    """Judges RRsets that differ, of one section of a pair."""

    before: Message
    after: Message
    evidence: Evidence
    section: str

    def signature(self, key: Key, was: Section, now: Section) -> Iterator[Finding]:
        """A signature on one side only follows its RRset; with that on both sides or on none it has no
        explanation.
        """
        old, new = was.signatures.get(key), now.signatures.get(key)
        if old == new:
            return
        if old is None or new is None:
            if (key in was.sets) == (key in now.sets):
                yield Finding(UNEXPLAINED, f"signature of {key[1]} is {'new' if old is None else 'gone'}")
        elif (zone := self.evidence.zone) and new <= zone.signatures.get(key, frozenset()):
            yield Finding(SIGNATURE, key[1])
        else:
            yield Finding(UNEXPLAINED, f"signature of {key[1]} is not the served zone's")

    def difference(self, key: Key, old: Rdatas | None, new: Rdatas | None) -> Finding:
        change = "new" if old is None else "gone" if new is None else "changed"
        text = f"{key[1]} in {self.section} {change}"
        if (zone := self.evidence.zone) is None:
            return Finding(UNEXPLAINED, f"{text}, no zone to explain it")
        if key[1] not in COMPARABLE:
            return Finding(UNEXPLAINED, f"{text}, a type that is not compared with the zone")
        served = zone.get(*key)
        if new is not None and new != served:
            return Finding(UNEXPLAINED, f"{text} and not the served zone's")
        if key[1] in ("A", "AAAA") and self.section == "additional":
            return self._glue(key[0], text, old, served)
        if key[1] == "NSEC":
            return Finding(DENIAL if self._denial_changed(zone) else UNEXPLAINED, text)
        return self._by_served(zone, key, text, old, new)

    def _by_served(self, zone: Zone, key: Key, text: str, old: Rdatas | None, new: Rdatas | None) -> Finding:
        if new is None and (served := zone.get(*key)):  # the zone has it and the replay's reply does not
            if old == served and self.section != "answer":
                return Finding(POLICY, f"{text}: the server leaves optional records out")
            return Finding(UNEXPLAINED, f"{text} though the served zone has it")
        beside = self.section != "answer" and key[0] == zone.origin
        # A DS that appears where the recorded reply denied it (NSEC) or had none is new in the zone.
        in_zone = key[1] in ("DS", "NS") or key[0] == self.before.qname
        if old is None and new is not None and (beside or not in_zone):
            return Finding(POLICY, f"{text}: the server adds optional records")
        return Finding(self._changed_data(zone, *key), text)

    def _changed_data(self, zone: Zone, owner: str, kind: str) -> str:
        """The zone's data are not what was recorded; which data. Of a delegation the trace itself must say
        another set than the zone, in all its referrals or until a change.
        """
        if owner == zone.origin:
            return APEX
        if kind == "NS":
            recorded = self.evidence.ns_sets.get(owner, Counter())
            return DELEGATION if any(held != zone.get(owner, "NS") for held in recorded) else UNEXPLAINED
        return SIGNER if kind == "DS" else DATA

    def _denial_changed(self, zone: Zone) -> bool:
        """A recorded NSEC that the served zone does not have, or a denial made needless or needed by a
        changed DS.
        """
        recorded = {key: held for key, held in self.before.authority.sets.items() if key[1] == "NSEC"}
        if any(zone.get(*key) != held for key, held in recorded.items()):
            return True
        signers = [{key for key in m.authority.sets if key[1] == "DS"} for m in (self.before, self.after)]
        return signers[0] != signers[1]

    def _glue(self, owner: str, text: str, old: Rdatas | None, served: Rdatas) -> Finding:
        """Addresses beside an NS set: changed in the zone, gone with their name, or as many as fit."""
        if old is not None and old != served:
            return Finding(UNEXPLAINED if self.evidence.same_zone else GLUE, text)
        was, now = (_targets(message) for message in (self.before, self.after))
        if (owner in was) != (owner in now):
            return Finding(GLUE, text + " with its name server")
        return Finding(GLUE, text if old is None else text + ": as many as fit or are asked for")


def _targets(message: Message) -> set[str]:
    """Names of all NS sets in the reply."""
    return {
        target
        for section in (message.answer, message.authority)
        for (_, kind), held in section.sets.items()
        if kind == "NS"
        for target in held
    }
