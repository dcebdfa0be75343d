"""Pairs of replies that differ: what is said of each, and everything that is counted over pairs. Each two
kinds of messages are looked at once, whatever the number of their pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from report.classify import (
    MALFORMED,
    NO_RECORDED,
    NO_REPLAYED,
    UNEXPLAINED,
    Evidence,
    Finding,
    classify,
    foremost,
    referral_owner,
)
from report.rafile import Answer, Places
from report.wire import FLAGS, Message, parse, rcode_name
from report.zone import Zone

MAX_LISTED = 10_000
MAX_TEXT = 160
Pair = tuple[Answer, Answer]
Seen = Callable[[Pair, list[Finding]], None]
_KEPT = 1 << 14  # verdicts; there may be twice as many
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd


@dataclass(frozen=True)
class Referral:
    """A recorded referral with its NS set, and that of the replay's answer; None where there was no answer.
    `cut`: one of them is truncated.
    """

    owner: str
    recorded: frozenset[str]
    replayed: frozenset[str] | None
    cut: bool

    def broken(self, zone: Zone | None) -> dict[str, Any] | None:
        """Both sets, where the delegation is unchanged and the replay's set is another."""
        if self.cut or zone is None or self.replayed is None:
            return None
        found = {"owner": self.owner, "before": sorted(self.recorded), "after": sorted(self.replayed)}
        return found if self.recorded == zone.get(self.owner, "NS") != self.replayed else None


def referral(before: Message, after: Message | None) -> Referral | None:
    """The pair's, if the recorded reply is one."""
    owner = referral_owner(before)
    if owner is None:
        return None
    recorded = before.authority.sets[owner, "NS"]
    replayed = after.authority.sets.get((owner, "NS"), frozenset()) if after else None
    cut = after is not None and (before.flag("TC") or after.flag("TC"))
    return Referral(owner, recorded, replayed, cut)


_BY_ZONE = (
    *("unchanged_delegation", "unchanged_same_ns_set", "unchanged_different", "changed_delegation"),
    *("changed_owners", "changed_answered_as_served", "not_a_delegation_of_the_zone"),
)


@dataclass
class Referrals:
    """Counts of pairs whose recorded reply is a referral: is the same NS set handed out wherever the
    delegation is unchanged?

    "Unchanged" is decided without looking at the replay: the NS set in the recorded referral is the NS set
    that the served zone holds for the same owner. Truncated referrals hold a part of their set and are
    counted apart.
    """

    counts: Counter[str] = field(default_factory=Counter)
    owners_changed: set[str] = field(default_factory=set)
    broken: list[dict[str, Any]] = field(default_factory=list)

    def add(self, one: Referral, zone: Zone | None, count: int) -> None:
        """So many pairs with the same referral."""
        self.counts["recorded"] += count
        if one.replayed is None or one.cut:
            self.counts["no_answer_in_replay" if one.replayed is None else "truncated"] += count
            return
        same = count * (one.recorded == one.replayed)
        self.counts["compared"] += count
        self.counts["same_ns_set"] += same
        if zone is None:
            return
        served = zone.get(one.owner, "NS")
        if one.recorded == served:
            self.counts["unchanged_delegation"] += count
            self.counts["unchanged_same_ns_set"] += same
        elif served:
            self.counts["changed_delegation"] += count
            self.counts["changed_answered_as_served"] += count * (one.replayed == served)
            self.owners_changed.add(one.owner)
        else:
            self.counts["not_a_delegation_of_the_zone"] += count

    def as_json(self, has_zone: bool) -> dict[str, Any]:
        counts = self.counts
        lists = {"unchanged_different": self.broken, "changed_owners": len(self.owners_changed)}
        always = ("recorded", "no_answer_in_replay", "truncated", "compared", "same_ns_set")
        return {
            **{name: counts[name] for name in always},
            "same_ns_set_share": counts["same_ns_set"] / counts["compared"] if counts["compared"] else None,
            **{name: lists.get(name, counts[name]) if has_zone else None for name in _BY_ZONE},
        }


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
    details: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)
    unexplained: list[dict[str, Any]] = field(default_factory=list)
    referrals: Referrals = field(default_factory=Referrals)


@dataclass(slots=True)
class _Verdict:
    """What is said of all pairs of some two messages. `rcodes` and `differ`, what is not equal, are of two
    whole ones, else None and empty.
    """

    rcodes: tuple[int, int] | None
    differ: list[str]
    answered: bool  # on both sides
    found: list[Finding]
    referral: Referral | None
    broken: dict[str, Any] | None  # the referral
    unexplained: list[Finding]
    pairs: int = 0


@dataclass
class Verdicts:
    """Those on the pairs so far; what they count is in the tally after count()."""

    evidence: Evidence
    tally: Tally
    _held: dict[tuple[int, ...], _Verdict] = field(default_factory=dict)

    def judge(self, was: Places, now: Places, seen: Sequence[Seen]) -> None:
        """Counts pairs that are not equal in every byte, and tells `seen` of them."""
        for at in range(0, len(was), _KEPT):
            part = slice(at, at + _KEPT)
            self._judge(was[part], now[part], seen)

    def _judge(self, was: Places, now: Places, seen: Sequence[Seen]) -> None:
        if len(self._held) >= _KEPT:
            self.count()
        same = was.rows["query"] == now.rows["query"]
        answered = (was.rows["size"] > 0) | (now.rows["size"] > 0)
        self.tally.other_query += int(np.count_nonzero(~same))
        self.tally.neither += int(np.count_nonzero(same & ~answered))
        was, now = was[same & answered], now[same & answered]
        # classify() asks for the place of a name where rcodes differ and where the replay refers to a cut.
        refers = now.rows["flags"] & (FLAGS["AA"] | 15) == 0
        matters = refers | ((was.rows["flags"] ^ now.rows["flags"]) & 15 != 0)
        places = np.where(matters, was.rows["place"], np.uint64(0))
        numbers = was.rows["content"], now.rows["content"], places
        mixed = (numbers[0] * _SPREAD + numbers[1]) * _SPREAD + numbers[2]
        _, first, kind, counts = np.unique(mixed, return_index=True, return_inverse=True, return_counts=True)
        keys = list(zip(*(one[first].tolist() for one in numbers), strict=True))
        by_time = np.argsort(first)
        fresh = [at for at in by_time.tolist() if keys[at] not in self._held]
        for at, old, new in zip(fresh, was[first[fresh]], now[first[fresh]], strict=True):
            self._held[keys[at]] = self._new(old, new)
        verdicts = [self._held[key] for key in keys]
        for one, count in zip(verdicts, counts.tolist(), strict=True):
            one.pairs += count
        wanted = np.array([bool(seen or one.broken or one.unexplained) for one in verdicts], np.bool_)[kind]
        pairs = zip(was[wanted], now[wanted], strict=True)
        for at, pair in zip(kind[wanted].tolist(), pairs, strict=True):
            self._list(verdicts[at], pair)
            for tell in seen:
                tell(pair, verdicts[at].found)

    def _list(self, verdict: _Verdict, pair: Pair) -> None:
        if verdict.unexplained and len(self.tally.unexplained) < MAX_LISTED:
            both = [parse(one.reply) for one in pair]
            self.tally.unexplained += [_example(pair[0], one, *both) for one in verdict.unexplained]
            del self.tally.unexplained[MAX_LISTED:]
        if verdict.broken and len(broken := self.tally.referrals.broken) < MAX_LISTED:
            broken.append({**asked(pair[0].seq, parse(pair[0].reply)), **verdict.broken})

    def _new(self, was: Answer, now: Answer) -> _Verdict:
        before, after = parse(was.reply), parse(now.reply)
        found = findings(was.reply, now.reply, self.evidence, (before, after))
        told = referral(before, after) if before and (after or not now.reply) else None
        for finding in found:
            if finding.kind not in self.tally.examples:
                self.tally.examples[finding.kind] = _example(was, finding, before, after)
        return _Verdict(
            (before.rcode, after.rcode) if before and after else None,
            _parts(before, after) if before and after else [],
            bool(was.reply and now.reply),
            found,
            told,
            told.broken(self.evidence.zone) if told else None,
            [one for one in found if one.kind == UNEXPLAINED],
        )

    def count(self) -> None:
        """Adds the verdicts to the tally, each so often as there were pairs, and forgets them."""
        for one in self._held.values():
            self.tally.compared += one.pairs * one.answered
            if one.rcodes is not None:
                self.tally.parsed += one.pairs
                self.tally.rcodes[one.rcodes] += one.pairs
            for name in one.differ:
                self.tally.differ[name] += one.pairs
            if one.referral is not None:
                self.tally.referrals.add(one.referral, self.evidence.zone, one.pairs)
            self.tally.differing += one.pairs
            for kind in {finding.kind for finding in one.found}:
                self.tally.classes[kind] += one.pairs
            self.tally.primary[foremost(one.found).kind] += one.pairs
            for finding in one.found:
                self.tally.details[finding.kind][finding.detail] += one.pairs
        self._held.clear()


def findings(
    was: bytes, now: bytes, evidence: Evidence, parsed: tuple[Message | None, Message | None] | None = None
) -> list[Finding]:
    """How two replies differ; one of them may be empty, where there was none. `parsed`: both, if they are."""
    before, after = parsed or (parse(was), parse(now))
    if not was or not now:
        return [Finding(NO_REPLAYED if was else NO_RECORDED, "")]
    if before is None or after is None:
        sides = [name for name, side in (("recorded", before), ("replayed", after)) if side is None]
        return [Finding(MALFORMED, " and ".join(sides))]
    return classify(before, after, evidence)


def _parts(before: Message, after: Message) -> list[str]:
    """Those that are not equal."""
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
    return differ


def asked(seq: int, query: Message | None) -> dict[str, Any]:
    """A query as examples name it."""
    return {"seq": seq, "qname": query.qname if query else "", "qtype": query.qtype if query else ""}


def _example(
    answer: Answer, finding: Finding, before: Message | None, after: Message | None
) -> dict[str, Any]:
    return {
        **asked(answer.seq, parse(answer.query) or before or after),
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
