"""Times in which queries were sent and no answer came, and what the servers' logs say of that moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from report.run import Json, Run, as_dict, as_list
from report.tally import Rate

MOST_TOLD = 100
_SHORTEST = 5  # steps
_FEWEST = 10  # queries sent in that time
_NEAR_S = 1.0  # between an event and a stall that it may explain


@dataclass(frozen=True)
class Stall:
    """No answer came from `at_s` after the start, for `seconds`, while `sent` queries were sent."""

    at_s: float
    seconds: float
    sent: int


@dataclass(frozen=True)
class Event:
    """A line of a server's log, `at_s` seconds from the start of the replay; of a fault, how long it was."""

    at_s: float
    process: str
    text: str
    seconds: float = 0.0


def find(sent: Rate, answered: Rate) -> list[Stall]:
    """At least 50 ms without an answer in which at least ten queries were sent, between the first answer and
    the last query. Where the clients stood still themselves, nothing was sent either, and it is none.
    """
    at, counts = sent.steps()
    came, _ = answered.steps()
    if not len(came) or not len(at):
        return []
    ends = np.append(came[1:], max(int(at[-1]), int(came[-1])) + 1)
    gaps = ends - came - 1
    so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    within = so_far[np.searchsorted(at, ends, side="left")] - so_far[np.searchsorted(at, came, side="right")]
    found = np.flatnonzero((gaps >= _SHORTEST) & (within >= _FEWEST))
    step_s = Rate.STEP_NS / 1e9
    return [
        Stall(round((int(came[one]) + 1) * step_s, 2), round(int(gaps[one]) * step_s, 2), int(within[one]))
        for one in found
    ]


def events(run: Run) -> list[Event]:
    """What the servers' logs say of reloads and transfers, in the order of time; none without a start."""
    start = run.told("start").get("real_ns")
    if not isinstance(start, int):
        return []
    told = map(as_dict, as_list(run.manifest.get("server_events")))
    found = [
        Event(round((one["real_ns"] - start) / 1e9, 3), str(one["process"]), str(one["text"])) for one in told
    ]
    return sorted(found, key=lambda one: one.at_s)


def summarize(found: list[Stall], happened: list[Event]) -> Json:
    """The part `stalls` of summary.json."""
    longest = sorted(found, key=lambda one: -one.seconds)[:MOST_TOLD]
    return {
        "count": len(found),
        "longest_s": max((one.seconds for one in found), default=0.0),
        "total_s": round(sum((one.seconds for one in found), 0.0), 2),
        "spans": [
            {"at_s": one.at_s, "seconds": one.seconds, "sent": one.sent, "events": list(_near(one, happened))}
            for one in sorted(longest, key=lambda one: one.at_s)
        ],
    }


def _near(stall: Stall, happened: list[Event]) -> Iterator[str]:
    for one in happened:
        begin, end = stall.at_s - _NEAR_S, stall.at_s + stall.seconds + _NEAR_S
        if begin <= one.at_s + one.seconds and one.at_s <= end:
            yield f"{one.process}: {one.text}"
