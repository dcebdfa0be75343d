"""How long a replay takes, what it writes and how much memory it needs, before it starts.

What a trace holds is told by the programs that look at it for the plan's checks: by its beginning, so that a
large one is not read twice. What is written grows with the queries. Where rules or the choice of queries
still change these, the estimate is rough.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from cli.experiment.rules import share
from cli.experiment.schema import Experiment
from cli.plan.planned import Plan

# Bytes of results, as they were measured.
_RUN = 1_400_000  # logs, samples, manifest, summary, plots and page
_RECORD = 80  # a query in queries-*.rq
_MADE = 90  # one in a trace that is made or changed
_MESSAGES = 400  # one with its response, in answers and in a capture
# Bytes of memory, as they were measured.
_CONTROLLER, _SOURCE = 140e6, 18
_QUERIER = 35e6
_CONNECTION = 33e3  # of the kernel and the queriers, both ends on this machine
_REPORTING, _REPORTED = 110e6, 7  # by queries


class Extent(NamedTuple):
    """What a trace holds, as `--check` of controller and mutator tells."""

    queries: float
    span_s: float


class Estimate(NamedTuple):
    """`seconds` is None where they are not known, and the bytes of all results are infinite. Memory is in
    bytes, beside the server's own. `rough`: what is played is not what was looked at.
    """

    seconds: float | None
    size: float
    memory: float
    rough: bool


def read(fields: Mapping[str, str]) -> Extent | None:
    """The extent in a program's words; None where it is not known."""
    try:
        found = Extent(float(fields["queries"]), float(fields["span_s"]))
    except (KeyError, ValueError):
        return None
    return found if all(map(math.isfinite, found)) and found.queries > 0 and found.span_s >= 0 else None


def of(plan: Plan, extent: Extent | None, alone: bool = True) -> Estimate:
    """The estimate for a plan. `extent`: of its trace, before it is changed; `alone`: all is on this machine,
    which otherwise makes the report only.
    """
    experiment, replay = plan.experiment, plan.experiment.replay
    queries, seconds = _played(extent, experiment)
    written = any(one.id == "mutate" for one in plan.prepare)
    made = (experiment.trace is None and experiment.generate is None) + written
    size = queries * (_RECORD + _MESSAGES * (replay.answers + experiment.sample.capture))
    size += (extent.queries if extent else 0) * _MADE * made
    memory = _REPORTING + _REPORTED * (queries if math.isfinite(queries) else 0)
    memory = max(memory, _replaying(plan)) if alone else memory
    chosen = replay.collapse_retransmits or replay.skip_sources or replay.from_ or replay.until
    changed = experiment.mutate is not None or chosen or share(replay.sample_sources) < 1
    # The controller looks at a trace of the user's with all settings and rules, at others by whole.
    rough = written or (experiment.trace is None and bool(changed))
    return Estimate(seconds, _RUN + size, memory, rough)


def _replaying(plan: Plan) -> float:
    """Of sources only such as the experiment itself makes are known."""
    experiment = plan.experiment
    made = experiment.generate.sources if experiment.generate else (experiment.synth or {}).get("clients", 0)
    sources = made if experiment.trace is None and isinstance(made, int) else 0
    queriers = sum(
        int(one.argv[one.argv.index("--queriers") + 1]) for one in plan.processes if one.role == "distributor"
    )
    connections = sources if experiment.connections_only else 0
    return _CONTROLLER + _SOURCE * sources + queriers * _QUERIER + connections * _CONNECTION


def _played(extent: Extent | None, experiment: Experiment) -> tuple[float, float | None]:
    """Queries, and the seconds they take; with `fast` these are known where a time ends them."""
    replay, known = experiment.replay, None if experiment.generate else extent
    total = known.queries * replay.loop if known and replay.loop else math.inf
    total = min(total, replay.limit or math.inf)
    if replay.fast:
        return total, replay.duration_s or None
    pace = experiment.rate or (known.queries / max(known.span_s, 1e-3) * replay.speed if known else 0.0)
    seconds = min(total / pace if pace > 0 else math.inf, replay.duration_s or math.inf)
    return min(total, seconds * pace) if pace > 0 else total, seconds if math.isfinite(seconds) else None
