"""Recorded answers against the replay's: pairs by sequence number, what is equal, and every difference by
class.

Replies that are equal but for their id are not parsed. The rest is parsed, compared and forgotten, so that
memory grows with the index of the files only.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
from report.wire import FLAGS, HEADER_BYTES, Message, delegation, header, parse, question
from report.zone import Zone

SCHEMA = 1
MAX_LISTED = 10_000
MAX_TEXT = 160
NXDOMAIN = 3
Pair = tuple[Answer, Answer]


@dataclass
class Tally:
    """Everything counted over the pairs."""

    pairs: int = 0
    neither: int = 0
    other_query: int = 0
    compared: int = 0
    equal_bytes: int = 0
    parsed: int = 0
    rcode_equal: int = 0
    rcodes: Counter[str] = field(default_factory=Counter)
    flags_equal: Counter[str] = field(default_factory=Counter)
    sections_equal: Counter[str] = field(default_factory=Counter)
    signatures_equal: int = 0
    ttls_equal: int = 0
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
    compared. `seen` is told each pair that differs, and how. `evidence`: that of `before`, if it is gathered.
    """
    evidence = evidence or gather(before, zone)
    tally = Tally()
    for pair in pairs(before, after):
        if found := _judge(tally, pair, zone, evidence):
            seen(pair, found)
    _check(before, after, tally)
    _add_equal(tally)
    return _as_json(before, after, zone, evidence, tally)


def gather(before: AnswerSet, zone: Zone | None) -> Evidence:
    """A first pass over the recorded replies: what referrals and denials they hold."""
    evidence = Evidence()
    for answer in before:
        if len(answer.reply) < HEADER_BYTES:
            continue
        _, flags, _, answers, authority, _ = header(answer.reply)
        if flags & 15 == NXDOMAIN and flags & FLAGS["AA"]:
            if zone is None:
                continue
            with contextlib.suppress(ValueError):
                evidence.deny(question(answer.reply), zone)
        elif _may_refer(flags, answers, authority) and not flags & FLAGS["TC"]:
            with contextlib.suppress(ValueError):
                evidence.learn(delegation(answer.reply))
    return evidence


def _may_refer(flags: int, answers: int, authority: int) -> bool:
    return not flags & (15 | FLAGS["AA"]) and not answers and authority > 0


def pairs(before: AnswerSet, after: AnswerSet) -> Iterator[Pair]:
    """By sequence number, ascending; those on one side only are counted by `_check`."""
    _, left, right = np.intersect1d(before.seqs, after.seqs, assume_unique=True, return_indices=True)
    yield from zip(before.chosen(left), after.chosen(right), strict=True)


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
    """The findings for a pair; none where it is equal in every byte, or is no pair."""
    was, now = pair
    tally.pairs += 1
    if was.query[2:] != now.query[2:]:
        tally.other_query += 1
        return []
    if not was.reply and not now.reply:
        tally.neither += 1
        return []
    if was.reply and now.reply:
        tally.compared += 1
        if was.reply[2:] == now.reply[2:]:
            _count_equal(tally, was, zone)
            return []
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


def _count_equal(tally: Tally, answer: Answer, zone: Zone | None) -> None:
    """Most are not looked into; `_add_equal` adds what is true of all."""
    tally.equal_bytes += 1
    if len(answer.reply) < HEADER_BYTES:
        return
    _, flags, _, answers, authority, _ = header(answer.reply)
    rcode = flags & 15
    if _may_refer(flags, answers, authority):
        try:
            found = delegation(answer.reply)
        except ValueError:
            return
        if found is not None:
            tally.referrals.count_equal(*found, bool(flags & FLAGS["TC"]), zone)
    elif not answers + authority:  # OPT may have more of the rcode
        message = parse(answer.reply)
        if message is None:
            return
        rcode = message.rcode
    tally.rcodes[rcode_name(rcode)] += 1


def _add_equal(tally: Tally) -> None:
    """Equal bytes are equal in every part, also where they cannot be parsed."""
    count = tally.equal_bytes
    tally.parsed += count
    tally.rcode_equal += count
    tally.signatures_equal += count
    tally.ttls_equal += count
    tally.flags_equal.update(dict.fromkeys(FLAGS, count))
    tally.sections_equal.update(dict.fromkeys(("answer", "authority", "additional"), count))


def _count_parts(tally: Tally, before: Message, after: Message) -> None:
    tally.parsed += 1
    tally.rcode_equal += before.rcode == after.rcode
    names = (rcode_name(before.rcode), rcode_name(after.rcode))
    tally.rcodes[names[0] if names[0] == names[1] else " -> ".join(names)] += 1
    tally.flags_equal.update(name for name in FLAGS if before.flag(name) == after.flag(name))
    both = [(name, part, after.sections[name]) for name, part in before.sections.items()]
    tally.sections_equal.update(name for name, was, now in both if was.sets == now.sets)
    tally.signatures_equal += all(was.signatures == now.signatures for _, was, now in both)
    tally.ttls_equal += all(
        was.ttls[key] == now.ttls[key] for _, was, now in both for key in was.ttls.keys() & now.ttls.keys()
    )


def _note(
    tally: Tally, answer: Answer, found: list[Finding], before: Message | None, after: Message | None
) -> None:
    tally.differing += 1
    kinds = {finding.kind for finding in found}
    tally.classes.update(kinds)
    tally.primary[foremost(found).kind] += 1
    for finding in set(found):
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
        "rcode_equal": _share(tally.rcode_equal, tally.parsed),
        "rcodes": dict(tally.rcodes.most_common()),
        "flags_equal": {name: _share(tally.flags_equal[name], tally.parsed) for name in FLAGS},
        "sections_equal": {
            name: _share(tally.sections_equal[name], tally.parsed)
            for name in ("answer", "authority", "additional")
        },
        "signatures_equal": _share(tally.signatures_equal, tally.parsed),
        "ttls_equal": _share(tally.ttls_equal, tally.parsed),
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
