"""How long a replay takes and about how much it writes, before it starts.

What a trace holds is told by the programs that look at it for the plan's checks: by its beginning, so that a
large one is not read twice. Where rules or the choice of sources still change it, the estimate is rough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cli.experiment.rules import instant, share
from cli.experiment.schema import Experiment, Replay
from cli.plan.planned import Plan

# Bytes, as formats.md has them or as they were measured.
_RECORD = 80  # a query in queries-*.rq
_ANSWER = 36  # one in answers-*.ra, beside its messages
_PACKETS = 160  # a query and its response in a capture, beside their messages
_MADE = 95  # a query in trace.pcap, trace.rps
_SAMPLE = 250  # a line of samples
_REPORT = 1_000_000  # manifest, logs, summary, plots and page
_QUERY, _RESPONSE = 45, 250  # messages, where the trace has none


@dataclass(frozen=True)
class Extent:
    """What a trace holds, as `reprise-controller --check trace` tells; zeros stand for what is not known."""

    queries: float
    span_s: float
    query_bytes: float = 0.0
    response_bytes: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """`seconds` is None and `size`, bytes of all results, infinity where nobody knows them. `rough`: rules
    change the trace, or it was not looked at with the sources that are left out.
    """

    seconds: float | None
    queries: float
    size: float
    rough: bool = False
    at_most: bool = False  # the seconds


def read(fields: Mapping[str, str]) -> Extent | None:
    """The extent in a program's words; None where they are others."""
    try:
        numbers = [float(fields[name]) for name in ("queries", "span_s", "query_bytes", "response_bytes")]
    except (KeyError, ValueError):
        return None
    fits = numbers[0] > 0 and all(math.isfinite(one) and one >= 0 for one in numbers)
    return Extent(*numbers) if fits else None


def of(plan: Plan, extent: Extent | None) -> Estimate:
    """The estimate for a plan. `extent`: of its trace, before it is changed."""
    experiment, sample = plan.experiment, plan.experiment.sample
    generated = experiment.generate is not None
    known = None if generated else extent
    if known is not None and (experiment.trace is None or experiment.mutate is not None):
        known = _chosen(known, experiment.replay)  # nobody has looked at what is played
    queries, seconds = _played(known, experiment.replay, generated)
    whole = extent or Extent(0, 0)
    messages = (whole.query_bytes or _QUERY) + (whole.response_bytes or _RESPONSE)
    each: float = _RECORD
    each += (_ANSWER + messages) if experiment.replay.answers else 0
    each += (_PACKETS + messages) if sample.capture else 0
    made = int(experiment.trace is None and not generated) + int(experiment.mutate is not None)
    sampled = 1 + (experiment.topology.clients if sample.clients else 0)
    samples = sampled * sample.hz * _SAMPLE * (seconds or 0.0)
    size = _REPORT + samples + each * queries + _MADE * made * whole.queries
    return Estimate(seconds, queries, size, _is_rough(experiment), experiment.replay.fast)


def _is_rough(experiment: Experiment) -> bool:
    replay = experiment.replay
    chosen = replay.collapse_retransmits or replay.skip_sources or share(replay.sample_sources) < 1
    return experiment.mutate is not None or (experiment.trace is None and bool(chosen))


def _chosen(whole: Extent, replay: Replay) -> Extent | None:
    """The part between `from` and `until`, of the chosen sources; None where it is given by dates."""
    begin, end = (instant(one) if one != "" else None for one in (replay.from_, replay.until))
    if (begin and begin.absolute) or (end and end.absolute):
        return None
    span = min(end.seconds if end else whole.span_s, whole.span_s) - (begin.seconds if begin else 0.0)
    part = max(0.0, span / whole.span_s) if whole.span_s > 0 else 1.0
    queries = whole.queries * part * share(replay.sample_sources)
    return replace(whole, queries=queries, span_s=whole.span_s * part)


def _played(extent: Extent | None, replay: Replay, generated: bool) -> tuple[float, float | None]:
    """Queries, and the seconds they take; with `fast` these are known where a time ends them."""
    lap = math.inf if extent is None else extent.queries
    total = math.inf if generated or replay.loop == 0 else lap * replay.loop
    if replay.limit > 0:
        total = min(total, replay.limit)
    if replay.fast:
        return total, replay.duration_s or None
    pace = replay.rate or (_pace(extent) * replay.speed if extent is not None else 0.0)
    seconds = total / pace if pace > 0 else math.inf
    if replay.duration_s > 0:
        seconds = min(seconds, replay.duration_s)
        total = min(total, seconds * pace) if pace > 0 else total
    return total, seconds if math.isfinite(seconds) else None


def _pace(extent: Extent) -> float:
    """Queries a second of the trace; a trace of one moment has any."""
    return extent.queries / max(extent.span_s, 1e-3)
