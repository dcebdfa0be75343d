"""results folder -> summary.json, schema 1. Every key is always there; docs in docs/formats.md.

Null means that nothing was there to measure; parts that a run does not have (a resolver) are 0 or null
and keep their keys, so that readers of the schema need not ask which version wrote
it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from report import busy, clean, events, front, resolver, server, timing
from report.distribution import Distribution
from report.rqfile import SKIP_REASONS, TRANSPORTS, UNASKED, Status, sums_of
from report.run import Json, Run, as_int, as_list, over_laps
from report.tally import Measured
from report.testbed import look_at, per_host
from report.wire import rcode_name

SCHEMA = 1
ROLES = ("controller", "querier", "proxy", "server", "front", "packets", "meta")
_SAMPLED = ("server", "front", "meta")  # roles whose CPU is that of the replay


def summarize(measured: Measured) -> Json:
    run, found = measured.run, measured.tally
    queries = count_queries(measured)
    by_number = Counter(dict(sorted(found.rcodes.items())))  # of the same count by their numbers
    rcodes = {rcode_name(code): count for code, count in by_number.most_common()}
    skipped, spoiled = skip_reasons(measured), events.unanswered_at_faults(run, found.unanswered)
    # Those left out by choice are not among the queries that were to be asked.
    asked = queries["read"] - sum(count for why, count in skipped.items() if why not in UNASKED)
    laps = over_laps(run)
    of_resolver = resolver.summarize(run, rcodes, found.fallbacks)
    of_front = front.summarize(run, found.span_ns)
    testbed = look_at(run, measured.files)
    because = clean.reasons(measured, queries, testbed, of_resolver)
    rest = sums_of(measured.files, "")
    summary = {
        "schema": SCHEMA,
        "run": run.name,
        "trace": run.played,
        "clean": not because,
        "unclean_because": because,
        "server_faults": clean.server_faults(run, queries, rcodes, spoiled),
        "queries": queries,
        "answered_share": queries["answered"] / asked if asked else None,
        "skipped": skipped,
        "sources": as_int(run.controller.get("sources")) or len(found.sources),
        "duration_s": found.last_ns / 1e9,
        "transport": {name: found.sent_over[name] for name in TRANSPORTS},
        "warmup_s": measured.warmup_ns / 1e9,
        "timing_error_us": found.errors_of().errors(),
        "timing_error_us_by_transport": {
            name: one.errors() for name in TRANSPORTS if (one := found.errors_of(transport=name)).count
        },
        "interarrival_error_us": found.interarrival.errors(),
        "rate_error": timing.rate_error(found, measured.warmup_ns, server.steal_spans(run)),
        "latency_us": Distribution.of(found.latency.values()).spread(),
        "latency_us_by_transport": _spreads(found.latency),
        "response_us": Distribution.of(found.response.values()).spread(),
        "response_us_by_transport": _spreads(found.response),
        "response_us_by_source": found.source_response.all().spread(),
        "stalls": events.summarize_stalls(
            events.stalls(found.sends, found.answers), [*events.of_faults(run), *events.of_servers(run)]
        ),
        "faults": events.summarize_faults(run),
        "steady": timing.steady(run, found, measured.warmup_ns),
        **_connections(measured),
        "rcode": rcodes,
        "truncated": found.truncated,
        "truncated_by_transport": {
            name: found.truncated_over[name]
            for name in TRANSPORTS
            if name in found.latency or found.truncated_over[name]
        },
        "dependent_waits": rest["waited"],
        "hedges": {"sent": rest["hedged"], "won": rest["hedges_won"]},
        "tcp_fallbacks": found.fallbacks,
        "reply_bytes": found.reply_bytes,
        "packets_per_query": _packets_per_query(run, queries["sent"]),
        "server_counts": server.counts(run, found.last_ns),
        "resolver": of_resolver,
        "front": of_front,
        "warnings": [
            *map(str, as_list(run.controller.get("warnings"))),
            *clean.warnings(run, rcodes, skipped),
            *front.warnings(run, of_front, found.sent_over["stateless-tcp"]),
            *testbed.remarks,
            *([] if clean.unanswered(queries) else run.replaced),
        ],
        "trace_notes": [  # as the mutator says it, if it changed the trace first, and the controller
            *map(str, as_list((run.mutation or {}).get("losses"))),
            *(f"{laps}: {one}" if laps else str(one) for one in as_list(run.told("reader").get("notes"))),
        ],
        "rules": run.rules,
        **_cpu(measured),
        "peak_rss_bytes": _memory(measured),
        "server_memory": server.memory_in_use(run, found.span_ns),
        "hosts": per_host(run, found),
        "leaked_packets": run.manifest.get("leaked_packets"),
    }
    return {**summary, **busy.summarize(run, summary)}


def _connections(measured: Measured) -> Json:
    """`peak_open` adds the queriers' peaks, which need not be at one instant: an upper bound."""
    found = measured.tally
    counts = sums_of(measured.files, "connections")
    counts["opened"] = counts["opened"] or found.opened  # a querier that was cut off counted nothing
    counts["reused_queries"] = counts["reused_queries"] or found.reused_queries
    return {
        "connections": {**counts, "failures": clean.failures(measured.files)},
        "connect_us_by_transport": _spreads(found.connect),
        "latency_us_by_connection": {"fresh": found.fresh.spread(), "reused": found.reused.spread()},
        "sockets": server.sockets(measured.run, found.sends.end_ns),
    }


def count_queries(measured: Measured) -> dict[str, int]:
    """Ends from the records; what never reached a querier from the controller. `lost` is what has no end on
    record.

    Where the controller wrote nothing, the records are all that is known to have been read.
    """
    found = measured.tally
    ends = found.ends
    told = measured.run.told("queries")
    reader_skipped = sum(reader_skips(measured).values())
    skipped = int(ends[Status.SKIPPED]) + reader_skipped
    read = as_int(told.get("read")) or found.records + reader_skipped
    named = {status.name.lower(): int(ends[status]) for status in Status if status != Status.SKIPPED}
    counted = sums_of(measured.files, "counts")
    known = {"received", "sent", "skipped", *named}  # these the records tell
    return {
        "read": read,
        "sent": found.sent,
        **named,
        "skipped": skipped,
        "lost": max(0, read - skipped - sum(named.values())),
        **{name: count for name, count in counted.items() if name not in known},
        "retried": found.retried,
    }


def reader_skips(measured: Measured) -> dict[str, int]:
    """Reasons of queries that never reached a querier; the queriers' own are in their records."""
    told = measured.run.told("skipped")
    return {str(reason): count for reason, count in told.items() if as_int(count) > 0}


def skip_reasons(measured: Measured) -> dict[str, int]:
    """All skipped queries by reason; sums to queries.skipped."""
    found = Counter(reader_skips(measured))
    for reason, count in sorted(measured.tally.skipped.items()):
        found[SKIP_REASONS.get(reason, f"reason_{reason}")] += count
    return dict(found)


def _spreads(found: Mapping[str, Distribution]) -> Json:
    return {name: found[name].spread() for name in TRANSPORTS if name in found}


def _packets_per_query(run: Run, sent: int) -> float | None:
    """Packets in and out at the servers' hosts for each query sent; null without samples, and for a server on
    loopback, whose packets are not counted. Counts all the hosts' packets.
    """
    received, transmitted = (server.total_growth(run, f"{way}_packets") for way in ("rx", "tx"))
    if server.ran_before(run) or not sent or received is None or transmitted is None:
        return None
    return round((received + transmitted) / sent, 4) or None


def _by_role(
    measured: Measured, key: str, sampled: Callable[[Run, str], float | None]
) -> dict[str, tuple[float | None, float | None]]:
    """What programs say of themselves or, of servers, what was sampled; and sums over the manifest's
    processes.
    """
    run = measured.run
    told: dict[str, Iterable[object]] = {
        "controller": [run.controller.get(key)],
        "querier": [file.statistics.get(key) for file in measured.files],
        **{role: [sampled(run, role)] for role in _SAMPLED},
    }
    listed: dict[str, list[object]] = {role: [] for role in ROLES}
    for item in run.processes():
        role = str(item.get("role")).replace("distributor", "querier")
        if role in listed:
            listed[role].append(item.get(key))
    return {role: (_sum(told.get(role, ())), _sum(listed[role])) for role in ROLES}


def _cpu(measured: Measured) -> Json:
    """CPU by role: of servers, that of the replay; what they needed to start and to end is kept apart.

    The manifest's accounts hold what a process waited for. NSD does not wait for its children, and queriers
    that close 10,000 connections may outlive their distributor: what they say may be more.
    """
    whole = {
        role: max((value for value in both if value is not None), default=None)
        for role, both in _by_role(measured, "cpu_s", server.used_cpu).items()
    }
    end_ns = measured.tally.last_ns
    spent = {role: server.spent_cpu(measured.run, end_ns, role) for role in _SAMPLED}
    during = {role: whole[role] if spent.get(role) is None else spent[role] for role in ROLES}
    if len(server.of_servers(measured.run)) == 1:  # of several, only the first one's packets are measured
        for role in ("server", "front"):  # without clients' packets that these were charged for
            others = server.spent_cpu(measured.run, end_ns, role, "elsewhere_s") or 0.0
            if (charged := during[role]) is not None:
                during[role] = max(0.0, charged - others)
        during["packets"] = server.spent_cpu(measured.run, end_ns, "server", "uncharged_s") or None
    sent = measured.tally.sent
    return {
        "cpu_s": {role: None if value is None else round(value, 6) for role, value in during.items()},
        "cpu_us_per_query": {
            role: None if value is None or not sent else round(value / sent * 1e6, 3)
            for role, value in during.items()
        },
        "cpu_outside_s": {
            role: round(max(0.0, (whole[role] or 0.0) - value), 6) if value is not None else None
            for role, value in spent.items()
        },
    }


def _memory(measured: Measured) -> dict[str, int | None]:
    """Sums of the processes' peaks. Queriers and controller say their own; the server's is sampled."""
    sums = {
        role: own or listed
        for role, (own, listed) in _by_role(measured, "max_rss_bytes", server.peak_memory).items()
    }
    return {role: None if value is None else int(value) for role, value in sums.items()}


def _sum(values: Iterable[object]) -> float | None:
    """None where there is nothing to add, which is not 0."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return round(sum(numbers), 6) if numbers else None
