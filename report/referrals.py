"""Referrals counted: is the same NS set handed out wherever the delegation is unchanged?

"Unchanged" is decided without looking at the replay: the NS set in the recorded referral is the NS set that
the served zone holds for the same owner. Truncated referrals hold a part of their set and are counted apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from report.classify import Evidence, referral_owner
from report.wire import Message
from report.zone import Zone

MAX_LISTED = 10_000


@dataclass
class Referrals:
    """Counts of pairs whose recorded reply is a referral; `judge` adds one."""

    recorded: int = 0
    no_reply: int = 0
    truncated: int = 0
    same_ns_set: int = 0
    unchanged: int = 0
    unchanged_same: int = 0
    changed: int = 0
    changed_as_served: int = 0
    not_in_zone: int = 0
    owners_changed: set[str] = field(default_factory=set)
    broken: list[dict[str, Any]] = field(default_factory=list)

    def judge(self, seq: int, before: Message, after: Message | None, zone: Zone | None) -> None:
        owner = referral_owner(before)
        if owner is None:
            return
        self.recorded += 1
        if after is None:
            self.no_reply += 1
            return
        if before.flag("TC") or after.flag("TC"):
            self.truncated += 1
            return
        recorded = before.authority.sets[owner, "NS"]
        replayed = after.authority.sets.get((owner, "NS"), frozenset())
        self.same_ns_set += recorded == replayed
        if zone is None:
            return
        served = zone.get(owner, "NS")
        if recorded == served:
            self.unchanged += 1
            self.unchanged_same += recorded == replayed
            if recorded != replayed and len(self.broken) < MAX_LISTED:
                self.broken.append(_example(seq, before, owner, recorded, replayed))
        elif served:
            self.changed += 1
            self.changed_as_served += replayed == served
            self.owners_changed.add(owner)
        else:
            self.not_in_zone += 1

    def count_equal(
        self, owner: str, held: frozenset[str], truncated: bool, zone: Zone | None, count: int
    ) -> None:
        """A referral that the replay answered with the same bytes, so many times."""
        self.recorded += count
        if truncated:
            self.truncated += count
            return
        self.same_ns_set += count
        if zone is None:
            return
        served = zone.get(owner, "NS")
        if held == served:
            self.unchanged += count
            self.unchanged_same += count
        elif served:
            self.changed += count
            self.owners_changed.add(owner)
        else:
            self.not_in_zone += count

    def as_json(self, has_zone: bool) -> dict[str, Any]:
        compared = self.recorded - self.no_reply - self.truncated
        by_zone = {
            "unchanged_delegation": self.unchanged,
            "unchanged_same_ns_set": self.unchanged_same,
            "unchanged_different": self.broken,
            "changed_delegation": self.changed,
            "changed_owners": len(self.owners_changed),
            "changed_answered_as_served": self.changed_as_served,
            "not_a_delegation_of_the_zone": self.not_in_zone,
        }
        return {
            "recorded": self.recorded,
            "no_answer_in_replay": self.no_reply,
            "truncated": self.truncated,
            "compared": compared,
            "same_ns_set": self.same_ns_set,
            "same_ns_set_share": self.same_ns_set / compared if compared else None,
            **(by_zone if has_zone else dict.fromkeys(by_zone)),
        }


def drifting(evidence: Evidence) -> int:
    """Owners whose NS set changed within the trace itself."""
    held: dict[str, Counter[frozenset[str]]] = evidence.ns_sets
    return sum(len(sets) > 1 for sets in held.values())


def _example(
    seq: int, before: Message, owner: str, was: frozenset[str], now: frozenset[str]
) -> dict[str, Any]:
    return {
        "seq": seq,
        "qname": before.qname,
        "qtype": before.qtype,
        "owner": owner,
        "before": sorted(was),
        "after": sorted(now),
    }
