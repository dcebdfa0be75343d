"""How long a replay takes and how much it writes, before it starts.

What a trace holds is told by the programs that look at it for the plan's checks: by its beginning, so that a
large one is not read twice. Where rules or the choice of queries still change it, the estimate is rough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cli.experiment.rules import share
from cli.experiment.schema import Experiment, Replay
from cli.plan import network
from cli.plan.planned import Plan

# Bytes, as formats.md has them or as they were measured.
_RECORD = 80  # a query in queries-*.rq
_ANSWER = 32 + 4  # one in answers-*.ra, beside its messages
_QUERY, _RESPONSE = 45, 250  # messages, where the trace does not tell
_PACKETS, _SEGMENTS = 120, 270  # of a query and its response in a capture, beside the messages
_SYNTHESIZED = 95  # a query in trace.pcap
_CHANGED = 80  # one in trace.rps
_SAMPLE = 250  # a line of samples
_HOST = 100_000  # logs, counters and ends of files of a host
_REPORT = 1_100_000  # manifest, summary, plots and page
# Bytes of memory, as they were measured.
_CONTROLLER, _SOURCE = 140e6, 18
_QUERIER = 35e6
_CONNECTION = 33e3  # of the kernel and the queriers, both ends on this machine
_REPORTING, _REPORTED = 110e6, 7  # by queries


@dataclass(frozen=True)
class Extent:
    """What a trace holds, as `reprise-controller --check trace` tells; zeros stand for what is not known."""

    queries: float
    span_s: float
    query_bytes: float = 0.0
    response_bytes: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """`seconds` is None where they are not known. `hosts`: bytes that each host of the plan writes; infinity
    where they are not known. `rough`: what is played is not what was looked at.
    """

    seconds: float | None
    queries: float
    hosts: Mapping[str, float]
    rough: bool = False
    at_most: bool = False  # the seconds
    replaying: float = 0.0  # bytes of memory, beside the server's own

    @property
    def reporting(self) -> float:
        """Bytes of memory where the report is made."""
        return _REPORTING + _REPORTED * (self.queries if math.isfinite(self.queries) else 0.0)

    @property
    def whole(self) -> float:
        """Bytes of all results, where they are in the end."""
        return sum(self.hosts.values()) + _REPORT

    def on(self, hosts: Iterable[str]) -> float:
        return sum(self.hosts.get(host, 0.0) for host in hosts)


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
    experiment, replay = plan.experiment, plan.experiment.replay
    queries, seconds = _played(extent, replay, experiment.generate is not None, experiment.rate)
    known = extent or Extent(0, 0)
    messages = (known.query_bytes or _QUERY) + (known.response_bytes or _RESPONSE)
    clients = [network.client(index) for index in range(1, experiment.topology.clients + 1)]
    host = _HOST + experiment.sample.hz * _SAMPLE * (seconds or 0.0)
    hosts = dict.fromkeys((network.CONTROLLER, *clients, *(one.name for one in plan.network.hosts)), host)
    for name in clients:
        hosts[name] += (_RECORD + (_ANSWER + messages if replay.answers else 0)) * queries / len(clients)
    if experiment.sample.capture:
        server = network.SERVER if experiment.own_server else network.CONTROLLER
        hosts[server] += ((_SEGMENTS if experiment.connections_only else _PACKETS) + messages) * queries
    made = _SYNTHESIZED if experiment.trace is None and experiment.generate is None else 0
    hosts[network.CONTROLLER] += known.queries * (made + (_CHANGED if experiment.mutate else 0))
    return Estimate(seconds, queries, hosts, _is_rough(experiment), replay.fast, _memory(plan))


def _memory(plan: Plan) -> float:
    """Of sources only such as the experiment itself makes are known."""
    experiment = plan.experiment
    made = experiment.generate.sources if experiment.generate else (experiment.synth or {}).get("clients", 0)
    sources = made if experiment.trace is None and isinstance(made, int) else 0
    queriers = sum(
        int(one.argv[one.argv.index("--queriers") + 1]) for one in plan.processes if one.role == "distributor"
    )
    connections = sources if experiment.connections_only else 0
    return _CONTROLLER + _SOURCE * sources + queriers * _QUERIER + connections * _CONNECTION


def _is_rough(experiment: Experiment) -> bool:
    """The controller looks at a trace of the user's with all settings, at others by whole."""
    replay = experiment.replay
    chosen = replay.collapse_retransmits or replay.skip_sources or share(replay.sample_sources) < 1
    chosen = chosen or replay.from_ != "" or replay.until != ""
    return experiment.mutate is not None or (experiment.trace is None and bool(chosen))


def _played(
    extent: Extent | None, replay: Replay, generated: bool, rate: float
) -> tuple[float, float | None]:
    """Queries, and the seconds they take; with `fast` these are known where a time ends them."""
    known = None if generated else extent
    total = math.inf if known is None or replay.loop == 0 else known.queries * replay.loop
    if replay.limit > 0:
        total = min(total, replay.limit)
    if replay.fast:
        return total, replay.duration_s or None
    pace = rate or (known.queries / max(known.span_s, 1e-3) * replay.speed if known else 0.0)
    seconds = total / pace if pace > 0 else math.inf
    if replay.duration_s > 0:
        seconds = min(seconds, replay.duration_s)
        total = min(total, seconds * pace) if pace > 0 else total
    return total, seconds if math.isfinite(seconds) else None
