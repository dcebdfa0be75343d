"""How long a replay takes and how much it writes, before it starts.

What a trace holds is told by the programs that look at it for the plan's checks: by its beginning, so that a
large one is not read twice. Where rules or the choice of sources still change it, the estimate is rough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cli.experiment.rules import instant, share
from cli.experiment.schema import Experiment, Replay
from cli.plan import network
from cli.plan.planned import Plan

# Bytes, as formats.md has them or as they were measured.
_RECORD = 80  # a query in queries-*.rq
_ANSWER = 32 + 4  # one in answers-*.ra, beside its messages
_SYNTHESIZED = 95  # a query in trace.pcap
_CHANGED = 80  # one in trace.rps
_SAMPLE = 250  # a line of samples
_HOST = 100_000  # logs, counters and ends of files of a host
_REPORT = 800_000  # manifest, summary, plots and page
_QUERY = 45  # messages, where the trace has none: queries, responses of a signed root zone and of others
_SIGNED, _RESPONSE = 600, 250
# Packets of a query and its response in a capture, beside the messages: headers and acknowledgments, and what
# a connection of its own adds.
_PACKETS = {"trace": 120, "udp": 120, "tcp": 205, "tls": 270, "stateless-tcp": 870}
_CONNECTION = {"tcp": 665, "tls": 6_000}


@dataclass(frozen=True)
class Extent:
    """What a trace holds, as `reprise-controller --check trace` tells; zeros stand for what is not known."""

    queries: float
    span_s: float
    query_bytes: float = 0.0
    response_bytes: float = 0.0


@dataclass(frozen=True)
class Needs:
    """Bytes that the hosts of the plan write, and what comes to them where the results are in the end."""

    hosts: Mapping[str, float]
    report: float = _REPORT

    @property
    def whole(self) -> float:
        """Bytes of all results; infinity where they are not known."""
        return sum(self.hosts.values()) + self.report

    def on(self, hosts: Iterable[str]) -> float:
        return sum(self.hosts.get(host, 0.0) for host in hosts)


@dataclass(frozen=True)
class Estimate:
    """`seconds` is None where nobody knows them; `least` is what is needed anyway. `rough`: rules change the
    trace, or it was not looked at with the sources that are left out.
    """

    seconds: float | None
    queries: float
    needs: Needs
    least: Needs
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
    experiment = plan.experiment
    generated = experiment.generate is not None
    known = None if generated else extent
    if known is not None and (experiment.trace is None or experiment.mutate is not None):
        known = _chosen(known, experiment.replay)  # nobody has looked at what is played
    queries, seconds = _played(known, experiment.replay, generated)
    whole = extent or Extent(0, 0)
    query = whole.query_bytes or _QUERY
    signed = experiment.own_server and experiment.server.zone is None and experiment.emulated is None
    guess = _SIGNED if signed else _RESPONSE
    usual, least = (
        Needs(_hosts(plan, _Load(queries, seconds or 0.0, query + response, whole.queries)))
        for response in (whole.response_bytes or guess, whole.response_bytes or query)
    )
    return Estimate(seconds, queries, usual, least, _is_rough(experiment), experiment.replay.fast)


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


@dataclass(frozen=True)
class _Load:
    """What is played, the bytes of a query with its response, and the queries of the trace itself."""

    queries: float
    seconds: float
    messages: float
    of_trace: float


def _hosts(plan: Plan, load: _Load) -> dict[str, float]:
    """Bytes by host; those of the machine's own network are the controller's."""
    experiment = plan.experiment
    sample = experiment.sample
    clients = [network.client(index) for index in range(1, experiment.topology.clients + 1)]
    samples = sample.hz * _SAMPLE * load.seconds
    found = dict.fromkeys((one.name for one in plan.network.hosts), _HOST + samples)
    each = _RECORD + (_ANSWER + load.messages if experiment.replay.answers else 0)
    for name in clients:
        found[name] = _HOST + (samples if sample.clients else 0) + each * load.queries / len(clients)
    if sample.capture:
        server = network.SERVER if experiment.own_server else network.CONTROLLER
        found[server] = found.get(server, _HOST) + (_packets(experiment) + load.messages) * load.queries
    found[network.CONTROLLER] = found.get(network.CONTROLLER, 0.0) + _made(experiment, load.of_trace)
    return found


def _made(experiment: Experiment, queries: float) -> float:
    """Bytes of the traces that are made for the run and kept with it."""
    synthesized = experiment.trace is None and experiment.generate is None
    return queries * ((_SYNTHESIZED if synthesized else 0) + (_CHANGED if experiment.mutate else 0))


def _packets(experiment: Experiment) -> float:
    """Bytes of a capture for each query, beside its messages."""
    transport = experiment.replay.transport
    own = _CONNECTION.get(transport, 0) if experiment.replay.queries_per_connection == 1 else 0
    return _PACKETS[transport] + own
