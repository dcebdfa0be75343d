"""Recorded answers against the replay's: pairs by sequence number, what is equal, and every difference by
class.

Of replies that are equal but for their id no more is looked into than whether they refer. Of those that
differ, each two messages are compared once, whatever the number of their pairs; messages are the same where
only the name asked differs, and it does not matter. Both sides are read twice, in windows, so that memory
does not grow with the number of queries: what the recorded replies say together is known before a pair is
judged.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from report.classify import (
    CLASSES,
    MALFORMED,
    NO_RECORDED,
    NO_REPLAYED,
    NXDOMAIN,
    QCLASS_IN,
    UNEXPLAINED,
    Evidence,
    Finding,
    classify,
    foremost,
)
from report.digests import Digested
from report.errors import ReportError
from report.rafile import Answer, AnswerSet, Places, windows
from report.rcodes import rcode_name
from report.referrals import Referral, Referrals, drifting, referral
from report.wire import FLAGS, HEADER_BYTES, Delegation, Message, delegation, header, parse
from report.zone import Zone

SCHEMA = 1
MAX_LISTED = 10_000
MAX_TEXT = 160
Pair = tuple[Answer, Answer]
Seen = Callable[[Pair, list[Finding]], None]
Chosen = NDArray[np.bool_]
_KEPT = 1 << 14  # verdicts
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd
_DAMAGED = -1  # in place of an rcode


@dataclass
class Tally:
    """Everything counted over the pairs. `queries` and `recorded`: different sequence numbers of both sides,
    and replies of the first.
    """

    queries: list[int] = field(default_factory=lambda: [0, 0])
    recorded: int = 0
    pairs: int = 0
    neither: int = 0
    other_query: int = 0
    compared: int = 0
    equal_bytes: int = 0
    parsed: int = 0
    rcodes: Counter[tuple[int, int]] = field(default_factory=Counter)
    differ: Counter[str] = field(default_factory=Counter)  # by what is not equal, of those parsed
    differing: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    primary: Counter[str] = field(default_factory=Counter)
    details: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)
    unexplained: list[dict[str, Any]] = field(default_factory=list)
    referrals: Referrals = field(default_factory=Referrals)


def compare(
    before: Digested,
    after: Digested,
    zone: Zone | None,
    seen: Seen | None = None,
    evidence: Evidence | None = None,
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> dict[str, Any]:
    """compare.json, schema 1. Raises ReportError where the two are not of one trace or nothing can be
    compared. `seen` is told each pair that differs, and how; `told` how many records there have been, of how
    many. `evidence` of `before` is completed.
    """
    tally, evidence = Tally(), evidence or Evidence()
    of, done = 2 * (len(before.answers) + len(after.answers)), 0

    def both() -> Iterator[tuple[Places, ...]]:
        nonlocal done
        for sides in windows((before.answers, after.answers)):
            yield sides
            done += sum(map(len, sides))
            told(done, of)

    with _without_collector():
        equal = _equal(both(), before, after, zone, evidence, tally)
        verdicts = _Verdicts(zone, evidence, tally)
        for (was, now), bits in zip(both(), equal, strict=True):
            left, right = _common(was, now)
            others = np.unpackbits(bits, count=len(left)) == 0
            sides = was[left[others]], now[right[others]]
            verdicts.judge(_Window(*sides, before.rows(sides[0]), after.rows(sides[1])), seen)
        verdicts.count()
    _check(before.answers, after.answers, tally)
    return _as_json(before.answers, after.answers, zone, evidence, tally)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """The garbage collector would go through all messages that are kept, again and again, and finds nothing:
    they hold no cycles.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def pairs(before: AnswerSet, after: AnswerSet) -> Iterator[Pair]:
    """The answers to queries that both sides have, by sequence number, ascending."""
    for was, now in windows((before, after)):
        left, right = _common(was, now)
        yield from zip(was[left], now[right], strict=True)


def _common(was: Places, now: Places) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the sequence numbers are that both have."""
    _, left, right = np.intersect1d(was.seqs, now.seqs, assume_unique=True, return_indices=True)
    return left, right


# --- equal pairs ------------------------------------------------------------------------------------------


def _equal(
    both: Iterator[tuple[Places, ...]],
    before: Digested,
    after: Digested,
    zone: Zone | None,
    evidence: Evidence,
    tally: Tally,
) -> list[NDArray[np.uint8]]:
    """Counts the pairs with equal queries and replies, and completes the evidence by what the replies of
    `before` say. Returns a bit for each pair of each window, set where it is equal.
    """
    bits, gone = [], set[str]()
    for was, now in both:
        left, right = _common(was, now)
        rows = before.rows(was)
        one, other = rows[left], after.rows(now[right])
        same = (one["size"] > 0) & (one["size"] == other["size"])
        same &= (one["query"] == other["query"]) & (one["reply"] == other["reply"])
        bits.append(np.packbits(same))
        tally.queries = [tally.queries[0] + len(was), tally.queries[1] + len(now)]
        tally.recorded += int(np.count_nonzero(rows["size"]))
        tally.pairs += len(left)
        equal = np.zeros(len(was), np.bool_)
        equal[left] = same
        _glance(tally, was, rows, equal, zone, evidence)
        if zone is not None:
            gone |= _names(was, rows, left[~same & _has(one, 0) & _has(other, NXDOMAIN)], zone)
    tally.compared = tally.parsed = tally.equal_bytes
    evidence.complete = True
    if zone is not None and (names := gone - evidence.sought):
        evidence.seek(names, _denials(before), zone)
    return bits


def _has(rows: NDArray[np.void], rcode: int) -> Chosen:
    """Of the header; OPT may have more of it."""
    found: Chosen = (rows["size"] >= HEADER_BYTES) & (rows["flags"] & 15 == rcode)
    return found


def _kinds(
    places: Places, rows: NDArray[np.void], chosen: NDArray[np.intp]
) -> tuple[Iterator[bytes], NDArray[np.intp]]:
    """Of some replies one of each kind, and for each of them which that is."""
    _, first, kind = np.unique(rows["content"][chosen], return_index=True, return_inverse=True)
    return (one.reply for one in places[chosen[first]]), kind


def _glance(
    tally: Tally,
    was: Places,
    rows: NDArray[np.void],
    equal: Chosen,
    zone: Zone | None,
    evidence: Evidence,
) -> None:
    """Counts rcodes and referrals of equal replies, of which only what these need is looked into; notes what
    referrals say.
    """
    whole, bare = rows["size"] >= HEADER_BYTES, (rows["answers"] == 0) & (rows["authority"] == 0)
    rcodes = np.where(whole, rows["flags"] & 15, _DAMAGED).astype(np.int64)
    replies, kind = _kinds(was, rows, looked := np.flatnonzero(equal & whole & bare))
    found = [_DAMAGED if message is None else message.rcode for message in map(parse, replies)]
    rcodes[looked] = np.array(found, np.int64)[kind]
    refers = _has(rows, 0) & (rows["flags"] & FLAGS["AA"] == 0) & (rows["answers"] == 0) & ~bare
    looked = np.flatnonzero(refers & (equal | (not evidence.complete)))
    replies, kind = _kinds(was, rows, looked)
    told = [_delegation(reply) for reply in replies]
    rcodes[looked[np.array([one is None for one in told], np.bool_)[kind]]] = _DAMAGED
    counts = (np.bincount(kind, one, len(told)) for one in (None, equal[looked]))
    for one, (count, of_equal) in zip(told, zip(*counts, strict=True), strict=True):
        told_of, truncated = one or (None, False)
        if told_of is None:
            continue
        if not evidence.complete and not truncated:
            evidence.learn(told_of, int(count))
        if of_equal:
            owner, held = told_of
            tally.referrals.add(Referral(owner, held, held, truncated), zone, int(of_equal))
    tally.equal_bytes += int(np.count_nonzero(equal))
    values, first, sums = np.unique(rcodes[equal], return_index=True, return_counts=True)
    for at in np.argsort(first).tolist():
        if (rcode := int(values[at])) != _DAMAGED:
            tally.rcodes[rcode, rcode] += int(sums[at])


def _delegation(reply: bytes) -> tuple[Delegation | None, bool] | None:
    """What a reply refers to, and whether it is truncated; None where it is damaged."""
    try:
        return delegation(reply), bool(header(reply)[1] & FLAGS["TC"])
    except ValueError:
        return None


def _of_each_place(places: Places, rows: NDArray[np.void], chosen: NDArray[np.intp]) -> Iterator[bytes]:
    """Of some replies one for each place of the name asked, or for each kind where that holds the name."""
    held = rows[chosen]
    _, first = np.unique(np.where(held["place"], held["place"], held["content"]), return_index=True)
    return (one.reply for one in places[chosen[first]])


def _names(places: Places, rows: NDArray[np.void], chosen: NDArray[np.intp], zone: Zone) -> set[str]:
    """What NXDOMAIN denies of the names that some replies are about: what is one label below the zone's
    origin, or the whole name if it is outside, unless the zone has it.
    """
    messages = [message for message in map(parse, _of_each_place(places, rows, chosen)) if message]
    names = {zone.top(one.qname) or one.qname for one in messages if one.qclass == QCLASS_IN}
    return names - zone.names


def _denials(before: Digested) -> Iterator[bytes]:
    """Authoritative NXDOMAINs with records, of each kind one."""
    for (was,) in windows((before.answers,)):
        rows = before.rows(was)
        denies = _has(rows, NXDOMAIN) & (rows["flags"] & FLAGS["AA"] != 0)
        denies &= (rows["answers"] > 0) | (rows["authority"] > 0)
        yield from _of_each_place(was, rows, np.flatnonzero(denies))


# --- pairs that differ ------------------------------------------------------------------------------------


class _Window(NamedTuple):
    """Pairs with the rows of both sides."""

    was: Places
    now: Places
    before: NDArray[np.void]
    after: NDArray[np.void]

    def chosen(self, chosen: Any) -> _Window:
        return _Window(self.was[chosen], self.now[chosen], self.before[chosen], self.after[chosen])

    def pairs(self) -> Iterator[Pair]:
        return zip(self.was, self.now, strict=True)


def _places(window: _Window) -> NDArray[np.uint64]:
    """Of the names, 0 where it does not matter: classify() asks for it where rcodes differ and where the
    replay refers to a cut.
    """
    flags = window.before["flags"], window.after["flags"]
    refers = (flags[1] & (FLAGS["AA"] | 15) == 0) & (window.after["answers"] == 0)
    return np.where(refers | ((flags[0] ^ flags[1]) & 15 != 0), window.before["place"], np.uint64(0))


@dataclass
class _Verdict:
    """What is said of all pairs of some two messages; None is a reply that is missing or damaged."""

    before: Message | None
    after: Message | None
    answered: bool  # on both sides
    found: list[Finding]
    referral: Referral | None
    broken: bool  # the referral
    unexplained: list[Finding]
    pairs: int = 0


@dataclass
class _Verdicts:
    """Those on the pairs so far; what they count is in the tally after count()."""

    zone: Zone | None
    evidence: Evidence
    tally: Tally
    _held: dict[tuple[int, ...], _Verdict] = field(default_factory=dict)

    def judge(self, window: _Window, seen: Seen | None) -> None:
        """Counts pairs that are not equal in every byte, and tells `seen` of them."""
        if len(self._held) >= _KEPT:
            self.count()
        asked = window.before["query"] == window.after["query"]
        answered = (window.before["size"] > 0) | (window.after["size"] > 0)
        self.tally.other_query += int(np.count_nonzero(~asked))
        self.tally.neither += int(np.count_nonzero(asked & ~answered))
        window = window.chosen(asked & answered)
        numbers = window.before["content"], window.after["content"], _places(window)
        mixed = (numbers[0] * _SPREAD + numbers[1]) * _SPREAD + numbers[2]
        _, first, kind, counts = np.unique(mixed, return_index=True, return_inverse=True, return_counts=True)
        keys = list(zip(*(one[first].tolist() for one in numbers), strict=True))
        by_time = np.argsort(first)
        fresh = [at for at in by_time.tolist() if keys[at] not in self._held]
        for at, pair in zip(fresh, window.chosen(first[fresh]).pairs(), strict=True):
            self._held[keys[at]] = self._new(pair)
        verdicts = [self._held[key] for key in keys]
        for one, count in zip(verdicts, counts.tolist(), strict=True):
            one.pairs += count
        wanted = np.array([bool(seen or one.broken or one.unexplained) for one in verdicts], np.bool_)[kind]
        which = kind[wanted].tolist()
        for at, pair in zip(which, window.chosen(wanted).pairs(), strict=True):
            self._list(verdicts[at], pair)
            if seen:
                seen(pair, verdicts[at].found)

    def _list(self, verdict: _Verdict, pair: Pair) -> None:
        if verdict.unexplained and len(self.tally.unexplained) < MAX_LISTED:
            both = (parse(one.reply) for one in pair)
            self.tally.unexplained += [_example(pair[0], one, *both) for one in verdict.unexplained]
            del self.tally.unexplained[MAX_LISTED:]
        if verdict.broken and verdict.referral:
            self.tally.referrals.note(pair[0], verdict.referral)

    def _new(self, pair: Pair) -> _Verdict:
        was, now = pair
        before, after = parse(was.reply), parse(now.reply)
        found = _judged(was.reply, now.reply, before, after, self.zone, self.evidence)
        told = None
        if before is not None and (after is not None or not now.reply):
            told = referral(before, after)
        for finding in found:
            if finding.kind not in self.tally.examples:
                self.tally.examples[finding.kind] = _example(was, finding, before, after)
        return _Verdict(
            before,
            after,
            bool(was.reply and now.reply),
            found,
            told,
            told is not None and told.broken(self.zone),
            [one for one in dict.fromkeys(found) if one.kind == UNEXPLAINED],
        )

    def count(self) -> None:
        """Adds the verdicts to the tally, each so often as there were pairs, and forgets them."""
        for one in self._held.values():
            self.tally.compared += one.pairs * one.answered
            if one.before is not None and one.after is not None:
                _count_parts(self.tally, one.before, one.after, one.pairs)
            if one.referral is not None:
                self.tally.referrals.add(one.referral, self.zone, one.pairs)
            _count(self.tally, one.found, one.pairs)
        self._held.clear()


def _check(before: AnswerSet, after: AnswerSet, tally: Tally) -> None:
    if tally.pairs == 0:
        raise ReportError(
            f"{before.name} and {after.name} have no query in common", "name a trace and its replay"
        )
    if tally.other_query * 2 > tally.pairs:
        raise ReportError(
            f"{before.name} and {after.name} hold different queries under the same numbers",
            "name a trace and its own replay, read from the same ports",
        )
    if tally.compared == 0:
        empty = after if tally.recorded else before
        raise ReportError(f"{empty.name} holds no answers", "name a trace or a run that does")


def findings(was: bytes, now: bytes, zone: Zone | None, evidence: Evidence) -> list[Finding]:
    """How two replies differ; one of them may be empty, where there was none."""
    return _judged(was, now, parse(was), parse(now), zone, evidence)


def _judged(
    was: bytes,
    now: bytes,
    before: Message | None,
    after: Message | None,
    zone: Zone | None,
    evidence: Evidence,
) -> list[Finding]:
    if not was or not now:
        return [Finding(NO_REPLAYED if was else NO_RECORDED, "")]
    if before is None or after is None:
        sides = [name for name, side in (("recorded", before), ("replayed", after)) if side is None]
        return [Finding(MALFORMED, " and ".join(sides))]
    return classify(before, after, zone, evidence)


def _count_parts(tally: Tally, before: Message, after: Message, pairs: int) -> None:
    tally.parsed += pairs
    tally.rcodes[before.rcode, after.rcode] += pairs
    both = [(name, was, after.sections[name]) for name, was in before.sections.items()]
    differ = [name for name, bit in FLAGS.items() if (before.flags ^ after.flags) & bit]
    differ += [name for name, was, now in both if was.sets != now.sets]
    if any(was.signatures != now.signatures for _, was, now in both):
        differ.append("signatures")
    if any(
        was.ttls[key] != now.ttls[key]
        for _, was, now in both
        if was.ttls != now.ttls
        for key in was.ttls.keys() & now.ttls.keys()
    ):
        differ.append("TTLs")
    for name in differ:
        tally.differ[name] += pairs


def _count(tally: Tally, found: list[Finding], pairs: int) -> None:
    tally.differing += pairs
    for kind in {finding.kind for finding in found}:
        tally.classes[kind] += pairs
    tally.primary[foremost(found).kind] += pairs
    for finding in dict.fromkeys(found):
        tally.details.setdefault(finding.kind, Counter())[finding.detail] += pairs


def _example(
    answer: Answer, finding: Finding, before: Message | None, after: Message | None
) -> dict[str, Any]:
    query = parse(answer.query) or before or after
    return {
        "seq": answer.seq,
        "qname": query.qname if query else "",
        "qtype": query.qtype if query else "",
        "detail": finding.detail,
        "before": describe(before),
        "after": describe(after),
    }


def describe(message: Message | None) -> str:
    """One line for a table: rcode, flags, and what the sections hold."""
    if message is None:
        return "none"
    parts = [rcode_name(message.rcode), *(name for name in FLAGS if message.flag(name))]
    for name, section in message.sections.items():
        held = Counter(kind for (_, kind), values in section.sets.items() for _ in values)
        if held:
            parts.append(f"{name}: " + " ".join(f"{count} {kind}" for kind, count in sorted(held.items())))
    text = ", ".join(parts)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _as_json(
    before: AnswerSet, after: AnswerSet, zone: Zone | None, evidence: Evidence, tally: Tally
) -> dict[str, Any]:
    def equal(part: str) -> dict[str, Any]:
        return _share(tally.parsed - tally.differ[part], tally.parsed)

    changed = sum(count for (was, now), count in tally.rcodes.items() if was != now)
    rcodes = Counter(
        {" -> ".join(map(rcode_name, dict.fromkeys(both))): count for both, count in tally.rcodes.items()}
    )
    return {
        "schema": SCHEMA,
        "before": _side(before, tally.queries[0]),
        "after": _side(after, tally.queries[1]),
        "zone": None if zone is None else {"origin": zone.origin, "serial": zone.serial},
        "pairs": tally.pairs,
        "only_before": tally.queries[0] - tally.pairs,
        "only_after": tally.queries[1] - tally.pairs,
        "different_query": tally.other_query,
        "no_answer_on_either_side": tally.neither,
        "compared": tally.compared,
        "equal_bytes": _share(tally.equal_bytes, tally.compared),
        "parsed": tally.parsed,
        "rcode_equal": _share(tally.parsed - changed, tally.parsed),
        "rcodes": dict(rcodes.most_common()),
        "flags_equal": {name: equal(name) for name in FLAGS},
        "sections_equal": {name: equal(name) for name in ("answer", "authority", "additional")},
        "signatures_equal": equal("signatures"),
        "ttls_equal": equal("TTLs"),
        "referrals": {**tally.referrals.as_json(zone is not None), "owners_drifting": drifting(evidence)},
        "differing": tally.differing,
        "classes": [_class_row(tally, kind) for kind in CLASSES if tally.classes[kind]],
        "unexplained": tally.unexplained,
    }


def _side(side: AnswerSet, queries: int) -> dict[str, Any]:
    return {
        "name": side.name,
        "kind": side.kind,
        "queries": queries,
        "duplicates": len(side) - queries,
        "problems": side.problems,
    }


def _share(count: int, of: int) -> dict[str, Any]:
    return {"count": count, "share": count / of if of else None}


def _class_row(tally: Tally, kind: str) -> dict[str, Any]:
    """`pairs` have the class among others; `first` counts each pair once, so that it sums to `differing`."""
    return {
        "class": kind,
        "pairs": tally.classes[kind],
        "first": tally.primary[kind],
        "details": dict(tally.details[kind].most_common(12)),
        "example": tally.examples[kind],
    }
