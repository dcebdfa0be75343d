"""What happened while the replay went on: times without an answer, what the servers' logs say of reloads and
transfers, and the faults that the experiment asked for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from report.run import Json, Run, as_dict, as_list
from report.tally import Rate

MOST_TOLD = 100
_SHORTEST = 5  # steps
_FEWEST = 10  # queries sent in that time
_NEAR_S = 1.0  # between an event and a stall that it may explain, or a query that has no answer because of it
_STEP_S = Rate.STEP_NS / 1e9
_WAYS = ("link", "upstream")


@dataclass(frozen=True)
class Event:
    """A line of a server's log, or a fault, by the time since the start of the replay; how long it was."""

    at_s: float
    process: str
    text: str
    seconds: float = 0.0


# --- stalls -----------------------------------------------------------------------------------------------


def stalls(sent: Rate, answered: Rate) -> list[Json]:
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
    return [
        {"at_s": round((begin + 1) * _STEP_S, 2), "seconds": round(gap * _STEP_S, 2), "sent": count}
        for begin, gap, count in zip(*(one[found].tolist() for one in (came, gaps, within)), strict=True)
    ]


def summarize_stalls(found: Sequence[Json], happened: Sequence[Event]) -> Json:
    """The part `stalls` of summary.json: the longest of them with what happened at about that time."""
    longest = sorted(found, key=lambda one: -one["seconds"])[:MOST_TOLD]
    return {
        "count": len(found),
        "longest_s": max((one["seconds"] for one in found), default=0.0),
        "total_s": round(sum((one["seconds"] for one in found), 0.0), 2),
        "spans": [
            {**one, "events": [f"{event.process}: {event.text}" for event in happened if _near(one, event)]}
            for one in sorted(longest, key=lambda one: one["at_s"])
        ],
    }


def _near(stall: Json, event: Event) -> bool:
    begin, end = stall["at_s"] - _NEAR_S, stall["at_s"] + stall["seconds"] + _NEAR_S
    return bool(begin <= event.at_s + event.seconds and event.at_s <= end)


def of_servers(run: Run) -> list[Event]:
    """What the servers' logs say, in the order of time; none without a start."""
    start = run.told("start").get("real_ns")
    if not isinstance(start, int):
        return []
    told = map(as_dict, as_list(run.manifest.get("server_events")))
    found = [
        Event(round((one["real_ns"] - start) / 1e9, 3), str(one["process"]), str(one["text"])) for one in told
    ]
    return sorted(found, key=lambda one: one.at_s)


# --- faults -----------------------------------------------------------------------------------------------


def of_faults(run: Run) -> list[Event]:
    return [Event(one["at_s"], "fault", str(one["text"]), one["seconds"]) for one in run.faults]


def summarize_faults(run: Run) -> list[Json]:
    """The part `faults` of summary.json."""
    return [
        {
            "at_s": one["at_s"],
            "seconds": one["seconds"],
            "text": str(one["text"]),
            "packets": sum(host.filtered(f"reprise_faults.fault{one['number']}") for host in run.hosts)
            if _target(one) in _WAYS
            else None,
        }
        for one in run.faults
    ]


def _target(fault: Json) -> str:
    """The first word of its text."""
    return re.split(r"\W", str(fault["text"]), maxsplit=1)[0]


def lost_on_ways(run: Run, *targets: str) -> bool:
    """Whether ways lost packets as they were asked to."""
    return any(_target(one) in (targets or _WAYS) for one in run.faults)


def unanswered_at_faults(run: Run, found: Rate) -> int:
    """Queries without an answer, by their due times in `found`, due at about the time of a fault."""
    steps, counts = found.steps()
    at_s = steps * _STEP_S
    near = np.zeros(len(steps), bool)
    for one in run.faults:
        near |= (at_s >= one["at_s"] - _NEAR_S) & (at_s <= one["at_s"] + one["seconds"] + _NEAR_S)
    return int(counts[near].sum())
