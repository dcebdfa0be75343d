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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.classify import (
    CLASSES,
    NXDOMAIN,
    QCLASS_IN,
    Evidence,
    referral_owner,
)
from report.digests import Digested
from report.errors import ReportError
from report.rafile import AnswerSet, Places, windows
from report.referrals import Referral, drifting
from report.verdicts import Pair, Seen, Tally, Verdicts, Window
from report.wire import FLAGS, HEADER_BYTES, Delegation, parse, question, rcode_name
from report.zone import Zone

SCHEMA = 1
Chosen = NDArray[np.bool_]
_DAMAGED = -1  # in place of an rcode


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

    def read(*sides: Digested) -> Iterator[tuple[Places, ...]]:
        nonlocal done
        for places in windows([one.answers for one in sides]):
            yield places
            done += sum(map(len, places))
            told(done, of)

    with _without_collector():
        equal, gone = _equal(read(before, after), before, after, zone, evidence, tally)
        if zone is not None and gone:
            of += len(before.answers)
            evidence.seek(gone, _denials(read(before), before), zone)
        verdicts = Verdicts(zone, evidence, tally)
        for (was, now), bits in zip(read(before, after), equal, strict=True):
            left, right = _common(was, now)
            others = np.unpackbits(bits, count=len(left)) == 0
            sides = was[left[others]], now[right[others]]
            verdicts.judge(Window(*sides, before.rows(sides[0]), after.rows(sides[1])), seen)
        verdicts.count()
    _check(before.answers, after.answers, tally)
    return _as_json(before.answers, after.answers, zone, evidence, tally)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """The garbage collector would go through all that is kept of messages, again and again, and finds
    nothing: it holds no cycles.
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
) -> tuple[list[NDArray[np.uint8]], set[str]]:
    """Counts the pairs with equal queries and replies, and learns what the referrals of `before` say. Returns
    a bit for each pair of each window, set where it is equal, and names that are yet to be sought.
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
    return bits, gone - evidence.sought


def _has(rows: NDArray[np.void], rcode: int) -> Chosen:
    """Of the header; OPT may have more of it."""
    found: Chosen = (rows["size"] >= HEADER_BYTES) & (rows["flags"] & 15 == rcode)
    return found


def _kinds(
    places: Places, rows: NDArray[np.void], chosen: NDArray[np.intp]
) -> tuple[Iterator[bytes], NDArray[np.intp]]:
    """Of some replies one of each kind, in their order, and for each of them which that is."""
    _, first, kind = np.unique(rows["content"][chosen], return_index=True, return_inverse=True)
    order = np.argsort(first)
    return (one.reply for one in places[chosen[first[order]]]), np.argsort(order)[kind]


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
    if (message := parse(reply)) is None:
        return None
    owner = referral_owner(message)
    told = None if owner is None else (owner, message.authority.sets[owner, "NS"])
    return told, message.flag("TC")


def _of_each_place(places: Places, rows: NDArray[np.void], chosen: NDArray[np.intp]) -> Iterator[bytes]:
    """Of some replies one for each place of the name asked, or for each kind where that holds the name."""
    held = rows[chosen]
    _, first = np.unique(np.where(held["place"], held["place"], held["content"]), return_index=True)
    return (one.reply for one in places[chosen[np.sort(first)]])


def _names(places: Places, rows: NDArray[np.void], chosen: NDArray[np.intp], zone: Zone) -> set[str]:
    """What NXDOMAIN denies of the names that some replies are about: what is one label below the zone's
    origin, or the whole name if it is outside, unless the zone has it.
    """
    names = set[str]()
    for reply in _of_each_place(places, rows, chosen):
        with contextlib.suppress(ValueError):  # a damaged question; other damage says nothing of its place
            (name, _, qclass), _ = question(reply)
            if qclass == QCLASS_IN:
                names.add(zone.top(name) or name)
    return names - zone.names


def _denials(read: Iterator[tuple[Places, ...]], before: Digested) -> Iterator[bytes]:
    """Authoritative NXDOMAINs with records, of each kind one."""
    for (was,) in read:
        rows = before.rows(was)
        denies = _has(rows, NXDOMAIN) & (rows["flags"] & FLAGS["AA"] != 0)
        denies &= (rows["answers"] > 0) | (rows["authority"] > 0)
        yield from _of_each_place(was, rows, np.flatnonzero(denies))


# --- the result --------------------------------------------------------------------------------------------


def _check(before: AnswerSet, after: AnswerSet, tally: Tally) -> None:
    if tally.pairs == 0:
        raise ReportError(
            f"{before.name} and {after.name} have no query in common", "name a trace and its replay"
        )
    if tally.other_query * 2 > tally.pairs:
        raise ReportError(
            f"{before.name} and {after.name} hold different queries under the same numbers",
            "name a trace and its own replay, read from the same ports and without rules of [mutate]",
        )
    if tally.compared == 0:
        empty = after if tally.recorded else before
        raise ReportError(f"{empty.name} holds no answers", "name a trace or a run that does")


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
