"""Faults that an experiment asked for, as they happened."""

from __future__ import annotations

import re

import numpy as np

from report.run import Json, Run, as_dict, as_list
from report.stalls import Event
from report.tally import Rate

_WAYS = ("link", "upstream")
_NEAR_S = 1.0  # before and after a fault, queries may have no answer because of it


def of_run(run: Run) -> list[Event]:
    """In the order of time."""
    return [Event(one["at_s"], "fault", str(one["text"]), one["seconds"]) for one in _told(run)]


def _told(run: Run) -> list[Json]:
    return [as_dict(one) for one in as_list(run.manifest.get("faults"))]


def summarize(run: Run) -> list[Json]:
    """The part `faults` of summary.json."""
    return [
        {
            "at_s": one["at_s"],
            "seconds": one["seconds"],
            "text": str(one["text"]),
            "packets": sum(host.by_fault(f"fault{one['number']}") for host in run.hosts)
            if _target(one) in _WAYS
            else None,
        }
        for one in _told(run)
    ]


def _target(one: Json) -> str:
    """The first word of its text."""
    return re.split(r"\W", str(one["text"]), maxsplit=1)[0]


def at_ways(run: Run, *targets: str) -> bool:
    """Whether ways lost packets as they were asked to."""
    return any(_target(one) in (targets or _WAYS) for one in _told(run))


def unanswered(run: Run, found: Rate) -> int:
    """Queries without an answer, by their due times in `found`, due at about the time of a fault."""
    steps, counts = found.steps()
    at_s = steps * (Rate.STEP_NS / 1e9)
    near = np.zeros(len(steps), bool)
    for one in _told(run):
        near |= (at_s >= one["at_s"] - _NEAR_S) & (at_s <= one["at_s"] + one["seconds"] + _NEAR_S)
    return int(counts[near].sum())
