"""Recorded answers against the replay's: pairs by sequence number, what is equal, and every difference by
class.

Of replies that are equal but for their id no more is looked into than whether they refer. Of those that
differ, each two messages are compared once, whatever the number of their pairs; messages are the same where
only the name asked differs, and it does not matter. Both sides are read twice, in windows, so that memory
does not grow with the number of queries: what the recorded replies say together is known before a pair is
judged.
"""

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.classify import CLASSES, NXDOMAIN, QCLASS_IN, Evidence
from report.errors import ReportError
from report.rafile import AnswerSet, Places, windows
from report.rqfile import Records
from report.verdicts import Pair, Seen, Tally, Verdicts, referral
from report.wire import FLAGS, HEADER_BYTES, Message, parse, question, rcode_name
from report.zone import Zone

SCHEMA = 1
Chosen = NDArray[np.bool_]
_DAMAGED = -1  # in place of an rcode
_MOST_KNOWN = 1 << 15  # kinds of replies


def compare(
    before: AnswerSet,
    after: AnswerSet,
    evidence: Evidence,
    seen: Sequence[Seen] = (),
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> dict[str, Any]:
    """compare.json, schema 1, of two sets with digests. Raises ReportError where they are not of one trace or
    nothing can be compared. `seen` are told each pair that differs, and how; `told` how many records there
    have been, of how many. `evidence`, which is that of `before`, is completed.
    """
    tally, zone = Tally(), evidence.zone
    of, done = 2 * (len(before) + len(after)), 0

    def read(*sides: AnswerSet) -> Iterator[tuple[Places, ...]]:
        nonlocal done
        for places in windows(sides):
            yield places
            done += sum(map(len, places))
            told(done, of)

    with _without_collector():
        first = _First(evidence, tally)
        equal = [first.equal(*both) for both in read(before, after)]
        tally.compared = tally.parsed = tally.equal_bytes
        evidence.complete = True
        if zone is not None and (gone := first.gone - evidence.sought):
            of += len(before)
            evidence.seek(gone, _denials(read(before)), zone)
        verdicts = Verdicts(evidence, tally)
        for (was, now), bits in zip(read(before, after), equal, strict=True):
            left, right = _common(was, now)
            others = np.unpackbits(bits, count=len(left)) == 0
            verdicts.judge(was[left[others]], now[right[others]], seen)
        verdicts.count()
    _check(before, after, tally)
    return _as_json(before, after, evidence, tally)


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


@dataclass
class _First:
    """The first reading of both sides: counts the pairs with equal queries and replies, and learns what the
    referrals of `before` say. `gone`: names of which is yet to be sought whether they are denied.
    """

    evidence: Evidence
    tally: Tally
    gone: set[str] = field(default_factory=set)
    _known: dict[int, Message | None] = field(default_factory=dict)  # by the number of what they say

    def equal(self, was: Places, now: Places) -> NDArray[np.uint8]:
        """A bit for each pair of a window, set where it is equal."""
        left, right = _common(was, now)
        one, other = was.rows[left], now.rows[right]
        same = (one["size"] > 0) & (one["size"] == other["size"])
        same &= (one["query"] == other["query"]) & (one["reply"] == other["reply"])
        tally = self.tally
        tally.queries = [tally.queries[0] + len(was), tally.queries[1] + len(now)]
        tally.recorded += int(np.count_nonzero(was.rows["size"]))
        tally.pairs += len(left)
        equal = np.zeros(len(was), np.bool_)
        equal[left] = same
        self._glance(was, equal)
        if self.evidence.zone is not None:
            denied = left[~same & _has(one, 0) & _has(other, NXDOMAIN)]
            self.gone |= _names(was[denied], self.evidence.zone)
        return np.packbits(same)

    def _glance(self, was: Places, equal: Chosen) -> None:
        """Counts rcodes and referrals of equal replies, of which only what these need is looked into; notes
        what referrals say.
        """
        tally, evidence, rows = self.tally, self.evidence, was.rows
        whole, bare = rows["size"] >= HEADER_BYTES, (rows["answers"] == 0) & (rows["authority"] == 0)
        rcodes = np.where(whole, rows["flags"] & 15, _DAMAGED).astype(np.int64)
        refers = _has(rows, 0) & (rows["flags"] & FLAGS["AA"] == 0) & (rows["answers"] == 0) & ~bare
        looked = np.flatnonzero((equal & whole & bare) | (refers & (equal | (not evidence.complete))))
        replies, kind = self._kinds(was[looked])
        found = [_DAMAGED if message is None else message.rcode for message in replies]
        rcodes[looked] = np.array(found, np.int64)[kind]
        counts = (np.bincount(kind, one, len(replies)) for one in (None, equal[looked]))
        for message, (count, of_equal) in zip(replies, zip(*counts, strict=True), strict=True):
            told = message and referral(message, message)
            if not told:
                continue
            if not evidence.complete and not told.cut:
                evidence.ns_sets[told.owner][told.recorded] += int(count)
            if of_equal:
                tally.referrals.add(told, evidence.zone, int(of_equal))
        tally.equal_bytes += int(np.count_nonzero(equal))
        values, first, sums = np.unique(rcodes[equal], return_index=True, return_counts=True)
        for at in np.argsort(first).tolist():
            if (rcode := int(values[at])) != _DAMAGED:
                tally.rcodes[rcode, rcode] += int(sums[at])

    def _kinds(self, places: Places) -> tuple[list[Message | None], NDArray[np.intp]]:
        """Of some replies one of each kind, and for each of them which kind it is of."""
        contents, first, kind = np.unique(places.rows["content"], return_index=True, return_inverse=True)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        numbers = contents.tolist()
        fresh = [at for at, one in enumerate(numbers) if one not in self._known]
        for at, answer in zip(fresh, places[first[fresh]], strict=True):
            self._known[numbers[at]] = parse(answer.reply)
        return [self._known[one] for one in numbers], kind


def _has(rows: Records, rcode: int) -> Chosen:
    """Of the header; OPT may have more of it."""
    found: Chosen = (rows["size"] >= HEADER_BYTES) & (rows["flags"] & 15 == rcode)
    return found


def _of_each_place(places: Places) -> Iterator[bytes]:
    """Of some replies one for each place of the name asked, or for each kind where that holds the name."""
    rows = places.rows
    _, first = np.unique(np.where(rows["place"], rows["place"], rows["content"]), return_index=True)
    return (one.reply for one in places[np.sort(first)])


def _names(places: Places, zone: Zone) -> set[str]:
    """What NXDOMAIN denies of the names that some replies are about: what is one label below the zone's
    origin, or the whole name if it is outside, unless the zone has it.
    """
    names = set[str]()
    for reply in _of_each_place(places):
        with contextlib.suppress(ValueError):  # a damaged question; other damage says nothing of its place
            (name, _, qclass), _ = question(reply)
            if qclass == QCLASS_IN:
                names.add(zone.top(name) or name)
    return names - zone.names


def _denials(read: Iterator[tuple[Places, ...]]) -> Iterator[bytes]:
    """Authoritative NXDOMAINs with records, of each kind one."""
    for (was,) in read:
        rows = was.rows
        denies = _has(rows, NXDOMAIN) & (rows["flags"] & FLAGS["AA"] != 0)
        denies &= (rows["answers"] > 0) | (rows["authority"] > 0)
        yield from _of_each_place(was[denies])


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


def _as_json(before: AnswerSet, after: AnswerSet, evidence: Evidence, tally: Tally) -> dict[str, Any]:
    zone = evidence.zone

    def equal(part: str) -> dict[str, Any]:
        return _share(tally.parsed - tally.differ[part], tally.parsed)

    drifting = sum(len(sets) > 1 for sets in evidence.ns_sets.values())  # within the trace itself
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
        "referrals": {**tally.referrals.as_json(zone is not None), "owners_drifting": drifting},
        "differing": tally.differing,
        "classes": [
            {
                "class": kind,
                "pairs": tally.classes[kind],
                "first": tally.primary[kind],  # each pair once, so that they sum to `differing`
                "details": dict(tally.details[kind].most_common(12)),
                "example": tally.examples[kind],
            }
            for kind in CLASSES
            if tally.classes[kind]
        ],
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
