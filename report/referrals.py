"""Referrals counted: is the same NS set handed out wherever the delegation is unchanged?

"Unchanged" is decided without looking at the replay: the NS set in the recorded referral is the NS set that
the served zone holds for the same owner. Truncated referrals hold a part of their set and are counted apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from report.classify import Evidence, referral_owner
from report.rafile import Answer
from report.wire import Message, parse
from report.zone import Zone

MAX_LISTED = 10_000


@dataclass(frozen=True)
class Referral:
    """A recorded referral with its NS set, and that of the replay's answer; None where there was no answer.
    `cut`: one of them is truncated.
    """

    owner: str
    recorded: frozenset[str]
    replayed: frozenset[str] | None
    cut: bool

    def broken(self, zone: Zone | None) -> bool:
        """The delegation is unchanged, and the replay's set is another."""
        if self.cut or zone is None or self.replayed is None:
            return False
        return self.recorded == zone.get(self.owner, "NS") != self.replayed


def referral(before: Message, after: Message | None) -> Referral | None:
    """The pair's, if the recorded reply is one."""
    owner = referral_owner(before)
    if owner is None:
        return None
    recorded = before.authority.sets[owner, "NS"]
    if after is None:
        return Referral(owner, recorded, None, False)
    replayed = after.authority.sets.get((owner, "NS"), frozenset())
    return Referral(owner, recorded, replayed, before.flag("TC") or after.flag("TC"))


@dataclass
class Referrals:
    """Counts of pairs whose recorded reply is a referral."""

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

    def add(self, one: Referral, zone: Zone | None, count: int) -> None:
        """So many pairs with the same referral."""
        self.recorded += count
        if one.replayed is None:
            self.no_reply += count
            return
        if one.cut:
            self.truncated += count
            return
        same = count * (one.recorded == one.replayed)
        self.same_ns_set += same
        if zone is None:
            return
        served = zone.get(one.owner, "NS")
        if one.recorded == served:
            self.unchanged += count
            self.unchanged_same += same
        elif served:
            self.changed += count
            self.changed_as_served += count * (one.replayed == served)
            self.owners_changed.add(one.owner)
        else:
            self.not_in_zone += count

    def note(self, answer: Answer, one: Referral) -> None:
        """A recorded answer whose referral is broken."""
        before = parse(answer.reply)
        if before is not None and len(self.broken) < MAX_LISTED and one.replayed is not None:
            self.broken.append(
                {
                    "seq": answer.seq,
                    "qname": before.qname,
                    "qtype": before.qtype,
                    "owner": one.owner,
                    "before": sorted(one.recorded),
                    "after": sorted(one.replayed),
                }
            )

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
