"""Recorded answers against the replay's: pairs by sequence number, what is equal, and every difference by
class.

Of replies that are equal but for their id no more is looked into than whether they refer. The rest is parsed,
compared and forgotten, so that memory grows with the index of the files only.
"""

from __future__ import annotations

import contextlib
import gc
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.classify import (
    CLASSES,
    MALFORMED,
    NO_RECORDED,
    NO_REPLAYED,
    UNEXPLAINED,
    Evidence,
    Finding,
    classify,
    foremost,
)
from report.errors import ReportError
from report.rafile import Answer, AnswerSet
from report.rcodes import rcode_name
from report.referrals import Referrals, drifting
from report.wire import FLAGS, HEADER_BYTES, Delegation, Message, delegation, header, parse
from report.zone import Zone

SCHEMA = 1
MAX_LISTED = 10_000
MAX_TEXT = 160
NXDOMAIN = 3
Pair = tuple[Answer, Answer]
Places = NDArray[np.intp]


@dataclass
class Tally:
    """Everything counted over the pairs."""

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
    before: AnswerSet,
    after: AnswerSet,
    zone: Zone | None,
    seen: Callable[[Pair, list[Finding]], None] = lambda _pair, _found: None,
    evidence: Evidence | None = None,
) -> dict[str, Any]:
    """compare.json, schema 1. Raises ReportError where the two are not of one trace or nothing can be
    compared. `seen` is told each pair that differs, and how. `evidence` of `before` is completed.
    """
    tally, evidence = Tally(), evidence or Evidence()
    with _without_collector():
        left, right = _unequal(before, after, zone, evidence, tally)
        for was, now in zip(before.chosen(left), after.chosen(right), strict=True):
            if found := _judge(tally, (was, now), zone, evidence):
                seen((was, now), found)
    _check(before, after, tally)
    return _as_json(before, after, zone, evidence, tally)


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


def pairs(before: AnswerSet, after: AnswerSet) -> tuple[Places, Places]:
    """The positions of queries that both sides have, by sequence number, ascending."""
    _, left, right = np.intersect1d(before.seqs, after.seqs, assume_unique=True, return_indices=True)
    return left, right


def _unequal(
    before: AnswerSet, after: AnswerSet, zone: Zone | None, evidence: Evidence, tally: Tally
) -> tuple[Places, Places]:
    """Counts the pairs with equal queries and replies, and returns the positions of the others; completes the
    evidence by what the replies of `before` say.
    """
    left, right = pairs(before, after)
    tally.pairs = len(left)
    others, referrals = array("q"), Counter[tuple[Delegation, bool]]()
    for at, (was, now) in enumerate(zip(before.chosen(left), after.chosen(right), strict=True)):
        flags, rcode, referral = _glance(was.reply, zone, evidence)
        if was.reply[2:] != now.reply[2:] or was.query[2:] != now.query[2:] or not was.reply:
            others.append(at)
            continue
        tally.equal_bytes += 1
        if rcode is not None:
            tally.rcodes[rcode, rcode] += 1
        if referral is not None:
            referrals[referral, flags & FLAGS["TC"] != 0] += 1
    for (referral, truncated), count in referrals.items():
        tally.referrals.count_equal(*referral, truncated, zone, count)
    tally.compared = tally.parsed = tally.equal_bytes
    if not evidence.complete:
        for answer in before.chosen(np.setdiff1d(np.arange(len(before.seqs)), left, assume_unique=True)):
            _glance(answer.reply, zone, evidence)
        evidence.complete = True
    rest = np.frombuffer(others, np.int64)
    return left[rest], right[rest]


def _glance(reply: bytes, zone: Zone | None, evidence: Evidence) -> tuple[int, int | None, Delegation | None]:
    """Flags, rcode and referral of a reply, of which only what these need is looked into; None for what it
    has not, or what is damaged. Notes what referrals and denials say.
    """
    if len(reply) < HEADER_BYTES:
        return 0, None, None
    _, flags, _, answers, authority, _ = header(reply)
    if answers + authority == 0:  # OPT may have more of the rcode
        message = parse(reply)
        return flags, message.rcode if message else None, None
    rcode, referral = flags & 15, None
    if rcode == NXDOMAIN and flags & FLAGS["AA"] and zone is not None and not evidence.complete:
        evidence.deny(reply, zone)
    elif not answers and not flags & (15 | FLAGS["AA"]):
        try:
            referral = delegation(reply)
        except ValueError:
            return flags, None, None
        if referral is not None and not evidence.complete and not flags & FLAGS["TC"]:
            evidence.learn(referral)
    return flags, rcode, referral


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
        empty = before if not any(answer.reply for answer in before) else after
        raise ReportError(f"{empty.name} holds no answers", "name a trace or a run that does")


def _judge(tally: Tally, pair: Pair, zone: Zone | None, evidence: Evidence) -> list[Finding]:
    """The findings for a pair that is not equal in every byte; none where it is no pair."""
    was, now = pair
    if was.query[2:] != now.query[2:]:
        tally.other_query += 1
        return []
    if not was.reply and not now.reply:
        tally.neither += 1
        return []
    tally.compared += bool(was.reply and now.reply)
    before, after = parse(was.reply), parse(now.reply)
    if before is not None and after is not None:
        _count_parts(tally, before, after)
    if before is not None and (after is not None or not now.reply):
        tally.referrals.judge(was.seq, before, after, zone)
    found = findings(was.reply, now.reply, zone, evidence)
    _note(tally, was, found, before, after)
    return found


def findings(was: bytes, now: bytes, zone: Zone | None, evidence: Evidence) -> list[Finding]:
    """How two replies differ; one of them may be empty, where there was none."""
    if not was or not now:
        return [Finding(NO_REPLAYED if was else NO_RECORDED, "")]
    before, after = parse(was), parse(now)
    if before is None or after is None:
        sides = [name for name, side in (("recorded", before), ("replayed", after)) if side is None]
        return [Finding(MALFORMED, " and ".join(sides))]
    return classify(before, after, zone, evidence)


def _count_parts(tally: Tally, before: Message, after: Message) -> None:
    tally.parsed += 1
    tally.rcodes[before.rcode, after.rcode] += 1
    if changed := before.flags ^ after.flags:
        tally.differ.update(name for name, bit in FLAGS.items() if changed & bit)
    both = [(name, was, after.sections[name]) for name, was in before.sections.items()]
    tally.differ.update(name for name, was, now in both if was.sets != now.sets)
    tally.differ["signatures"] += any(was.signatures != now.signatures for _, was, now in both)
    tally.differ["TTLs"] += any(
        was.ttls[key] != now.ttls[key]
        for _, was, now in both
        if was.ttls != now.ttls
        for key in was.ttls.keys() & now.ttls.keys()
    )


def _note(
    tally: Tally, answer: Answer, found: list[Finding], before: Message | None, after: Message | None
) -> None:
    tally.differing += 1
    kinds = {finding.kind for finding in found}
    for kind in kinds:
        tally.classes[kind] += 1
    tally.primary[foremost(found).kind] += 1
    for finding in dict.fromkeys(found):
        tally.details.setdefault(finding.kind, Counter())[finding.detail] += 1
        if finding.kind not in tally.examples:
            tally.examples[finding.kind] = _example(answer, finding, before, after)
        if finding.kind == UNEXPLAINED and len(tally.unexplained) < MAX_LISTED:
            tally.unexplained.append(_example(answer, finding, before, after))


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
        "before": _side(before),
        "after": _side(after),
        "zone": None if zone is None else {"origin": zone.origin, "serial": zone.serial},
        "pairs": tally.pairs,
        "only_before": len(before.seqs) - tally.pairs,
        "only_after": len(after.seqs) - tally.pairs,
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


def _side(side: AnswerSet) -> dict[str, Any]:
    return {
        "name": side.name,
        "kind": side.kind,
        "queries": len(side.seqs),
        "duplicates": side.duplicates,
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
