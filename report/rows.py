"""The rows of a run's tables: one list for the terminal, the comparison of runs and the page."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from report.run import Json, as_dict, as_list, as_number, value_at
from report.tables import micro, number, percent
from report.transports import UNPLAYED

# Parts of a summary that a run may not have, and what is null there then.
_MEASURED = {"front": "queries", "resolver": "upstream_queries", "server_counts": "queries"}
_SKIPPED = {  # reasons of controller.json and of records, of which the others are words already
    "from": "before replay.from",
    "notify": "NOTIFY",
    "update": "UPDATE",
    "no_ipv4_server": "over IPv4, where the server has no address",
    "no_ipv6_server": "over IPv6, where the server has no address",
    "source_prefix": "from skipped prefixes",
    "source_unusable": "from sources that no answer can reach",
    "sample": "from sources outside the sample",
    "transport": f"over {UNPLAYED}",
    "retransmit": "sent again by their clients",
    "duration": "after replay.duration_s",
    "oversize": "too long",
    "no_address": "without an address for their source",
}
_FAULTS_TOLD = 5
_NOTHING = ("0", "–", "0.00 %")
_SPOILED = {
    "timing_error_us": "timing error",
    "rate_error": "rates",
    "latency_us": "latency",
    "response_us": "response time",
    "cpu_us_per_query": "CPU per query",
}


@dataclass(frozen=True)
class Row:
    """A row. `path`: keys of summary.json, joined by points, "" = all of it; a last key `*` stands for each
    key or item without a row of its own, whose words are {} in `title`. `text` makes the value what is
    printed, "" = no row. `where`: `run` (terminal), `runs` (comparison), and of the page `tiles`, `answers`,
    `counts`, `connections`, `resolver`, `front`; with `?` behind it only where the value is not 0.
    """

    path: str
    title: str
    text: Callable[[Any], str]
    where: str


def rows_of(summary: Json, where: str) -> list[tuple[str, str]]:
    """Title, without the table's name before it, and text of each row of a table."""
    shown = ((name, text) for name, (text, always) in _all(summary, where) if always or text not in _NOTHING)
    return [(re.sub(f"^{where}:? ", "", name), text) for name, text in shown]


def spoiled(summary: Json) -> str:
    """The figures that are partly those of a busy machine, in words."""
    return ", ".join(_SPOILED[part] for part in as_list(summary.get("busy_spoils")))


def runs_table(summaries: Sequence[Json]) -> list[list[str]]:
    """Runs side by side; a value that a run does not have is a dash."""
    columns = [dict(_all(summary, "runs")) for summary in summaries]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, ("–", False)) for column in columns]) for name in names]
    return [
        [name, *(text for text, _ in cells)]
        for name, cells in rows
        if any(always or text not in _NOTHING for text, always in cells)
    ]


def _all(summary: Json, where: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Title, text, and whether a table has the row whatever its value."""
    for row, title, _, value in _values(summary, where):
        if text := row.text(value):
            yield title, (text, where in row.where.split())


@dataclass(frozen=True)
class Figure:
    """A number of a summary, and how a table prints it."""

    title: str
    value: float
    text: Callable[[Any], str]


def figures(summary: Json) -> dict[str, Figure]:
    """Every number of the comparison of runs, by its path in summary.json."""
    return {
        path: Figure(title, value, row.text)
        for row, title, path, value in _values(summary, "runs")
        if as_number(value) is not None
    }


def _values(summary: Json, where: str) -> Iterator[tuple[Row, str, str, Any]]:
    """Rows of a table, with their titles, paths and values."""
    for row in ROWS:
        if where in row.where.replace("?", "").split():
            for key, value in _at(summary, row.path):
                yield row, row.title.format(key.replace("_", " ")), row.path.replace("*", key), value


def _at(summary: Json, path: str) -> Iterator[tuple[str, Any]]:
    """Last key and value; none of a part that the run does not have."""
    part, (parent, _, last) = path.partition(".")[0], path.rpartition(".")
    if part in _MEASURED and as_dict(summary.get(part)).get(_MEASURED[part]) is None:
        return
    inner = value_at(summary, parent) if parent else summary
    if last != "*":
        yield last, as_dict(inner).get(last) if last else summary
    elif isinstance(inner, list):
        yield from (("", item) for item in inner)
    else:
        own = {row.path for row in ROWS}
        for key, value in as_dict(inner).items():
            if value is not None and path[:-1] + key not in own:
                yield key, value


def named(counts: object, sign: str = " ") -> str:
    """Counts with what they are of, such as "long 9, split 1"."""
    return ", ".join(f"{name}{sign}{count:,}" for name, count in as_dict(counts).items())


def _by_reason(counts: object) -> str:
    why = named(counts)
    return number(sum(as_dict(counts).values())) + (f" ({why})" if why else "")


def _megabytes(size: object) -> str:
    return number(size / 1e6 if isinstance(size, int | float) else None)


def _median(values: object) -> str:
    return number(as_dict(values).get("median"))


def _if_known(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """No row without a value."""
    return lambda value: "" if value is None else text(value)


def skip_reasons(summary: Json) -> list[tuple[str, int]]:
    """Why queries were skipped, in words, and how many."""
    return [(_SKIPPED.get(why, why), count) for why, count in as_dict(summary.get("skipped")).items()]


def _skipped(summary: Json) -> str:
    why = ", ".join(f"{count:,} {words}" for words, count in skip_reasons(summary))
    count = as_dict(summary.get("queries")).get("skipped")
    return number(count) + (f" ({why})" if why and count else "")


def _rcodes(counts: object) -> str:
    known = as_dict(counts)
    answers = sum(known.values())
    return ", ".join(f"{name} {count:,} ({percent(count / answers, 1)})" for name, count in known.items())


def _opened(counts: object) -> str:
    opened, reused = (as_dict(counts).get(name) or 0 for name in ("opened", "reused_queries"))
    return f"{opened:,} opened, {reused:,} queries on open ones" if opened else ""


def _unmapped(part: Json) -> str:
    first, more = part["unmapped"][:3], part["unmapped"][3:]
    named = ", ".join(one["address"] for one in first) + (" and so on" if more else "")
    count = part["unmapped_packets"]
    return f"{count:,}" + (f", to {named}" if named else "") if count else ""


def _unsteady(found: object) -> str:
    moved = ((name, one["change"]) for name, one in as_dict(found).items() if one["steady"] is False)
    return ", ".join(f"{name.replace('_', ' ')} {change:+.0%}" for name, change in moved)


def _stalls(part: object) -> str:
    told = as_dict(part)
    if not told.get("spans"):
        return ""
    longest = max(told["spans"], key=lambda one: one["seconds"])
    known = f" ({'; '.join(longest['events'])})" if longest["events"] else ""
    once = f"for {longest['seconds']:g} s, from {longest['at_s']:g} s on{known}"
    if told["count"] == 1:
        return f"once, {once}"
    return f"{number(told['count'])} times, {number(told['total_s'])} s in all, the longest {once}"


def _faults(part: object) -> str:
    """The first ones in words; no row without any."""
    told = [
        f"{one['text']} at {one['at_s']:g} s"
        + (f" for {one['seconds']:g} s" if one["seconds"] else "")
        + (f", {one['packets']:,} packets lost" if one["packets"] is not None else "")
        for one in as_list(part)
    ]
    more = f"; {len(told) - _FAULTS_TOLD} more" if len(told) > _FAULTS_TOLD else ""
    return "; ".join(told[:_FAULTS_TOLD]) + more


def _verdict(summary: Json) -> str:
    """Whether the testbed was sound and, if it was, whether the server was."""
    clean = summary.get("clean")
    told = "; ".join(map(str, summary.get("server_faults" if clean else "unclean_because", [])))
    if not clean:
        return f"no: {told}"
    return f"yes, but of the server: {told}" if told else "yes"


def _percentiles(path: str, title: str, **names: str) -> list[Row]:
    """Of runs beside each other; `names`: of the percentiles, by their keys."""
    return [Row(f"{path}.{key}", f"{title} {name}, µs", number, "runs") for key, name in names.items()]


ABSOLUTE_NAMES = {"abs_p50": "|p50|", "abs_p99": "|p99|", "abs_p999": "|p99.9|"}
_UPPER = {"median": "median", "p90": "p90", "p99": "p99", "p999": "p99.9"}
_in_mb = _if_known(lambda size: f"{_megabytes(size)} MB")

ROWS = (
    Row("trace", "trace", str, "run runs"),
    Row("clean", "clean", lambda clean: "yes" if clean else "no", "runs"),
    Row("server_faults", "server", lambda faults: "not sound" if faults else "sound", "runs"),
    Row("busy", "machine", lambda reasons: "busy" if reasons else "not busy", "runs"),
    Row("queries.read", "queries read", number, "tiles"),
    Row("answered_share", "answered", percent, "tiles"),
    Row("queries.read", "read", number, "run runs"),
    Row("queries.answered", "answered", number, "run runs"),
    Row("answered_share", "answered, of what was asked", percent, "runs"),
    Row("queries.timed_out", "timed out", number, "run? runs"),
    Row("queries.send_failed", "send failed", number, "run? runs"),
    Row("queries.connection_failed", "connection failed", number, "run? runs"),
    Row("queries.skipped", "skipped", number, "runs"),
    Row("", "skipped", _skipped, "run?"),
    Row("queries.lost", "lost", number, "run? runs"),
    Row("queries.*", "{}", number, "runs counts"),
    Row("queries.late", "answers after the timeout", number, "runs counts"),
    Row("queries.sent_late", "sent late, over replay.late_ms", number, "runs counts"),
    Row("queries.send_unsure", "sending took over 50 µs", number, "runs counts"),
    Row("dependent_waits", "waited for an answer", number, "runs? counts?"),
    Row("hedges.*", "hedges {}", number, "runs? counts?"),
    Row("server_counts.queries", "the server's count: queries", number, "runs counts"),
    Row("server_counts.tcp_queries", "the server's count: queries over TCP", number, "runs? counts?"),
    Row("server_counts.answers", "the server's count: answers", number, "runs counts"),
    Row("sources", "sources", number, "counts"),
    Row("transport.*", "sent over {}", number, "counts?"),
    Row("rcode", "rcodes", _rcodes, "run"),
    Row("duration_s", "first query to last event", lambda span: f"{number(span)} s", "tiles"),
    Row("duration_s", "duration, s", number, "runs"),
    Row("timing_error_us.abs_p50", "timing error, |p50|", micro, "run tiles"),
    Row("timing_error_us.abs_p99", "timing error, |p99|", micro, "run tiles"),
    *_percentiles("timing_error_us", "timing error", **ABSOLUTE_NAMES, q1="q1", median="median", q3="q3"),
    Row("rate_error.within_0_1_percent", "seconds within 0.1 %", percent, "runs"),
    Row("latency_us.median", "latency, median", micro, "run tiles"),
    Row("latency_us.p99", "latency, p99", micro, "run tiles"),
    Row("latency_us.p999", "latency, p99.9", _if_known(micro), "run tiles"),
    Row("response_us.p99", "response time, p99", _if_known(micro), "run tiles"),
    Row("truncated", "truncated answers", number, "run? tiles?"),
    Row("cpu_us_per_query.server", "CPU of the server per query", _if_known(micro), "run tiles"),
    Row("cpu_us_per_query.front", "CPU of the front per query", _if_known(micro), "run tiles"),
    Row("peak_rss_bytes.server", "memory of the server, at most", _in_mb, "run tiles"),
    Row("peak_rss_bytes.front", "memory of the front, at most", _in_mb, "run tiles"),
    Row("connections.peak_open", "connections at once, at most", number, "run? tiles?"),
    Row("steady", "not steady over the replay", _unsteady, "run counts"),
    Row("faults", "faults", _faults, "run? counts?"),
    Row("stalls", "no answer came", _stalls, "run counts"),
    Row("stalls.longest_s", "longest time without an answer, s", number, "runs?"),
    Row("response_us_by_source.median", "response time, median source, µs", number, "runs"),
    *_percentiles("latency_us", "latency", **_UPPER),
    *_percentiles("response_us", "response time", **_UPPER),
    Row("connections", "connections", _opened, "run"),
    Row("connections.peak_open", "connections peak open", number, "runs? connections?"),
    Row("connections.failures", "ended badly", partial(named, sign=": "), "run"),
    Row("connections.failed", "connections that never carried a query", number, "runs? connections?"),
    Row("connections.*", "connections {}", number, "runs? connections?"),
    Row("tcp_fallbacks", "queries asked again over TCP", number, "runs? connections?"),
    Row("sockets.server.*", "{} at the server", number, "connections?"),
    Row("sockets.clients.*", "{} at the clients", number, "connections?"),
    Row("connect_us_by_transport.*", "to connect over {}, median, µs", _median, "runs"),
    Row("truncated", "truncated", number, "runs"),
    Row("truncated_by_transport.*", "truncated over {}", number, "runs"),
    Row("truncated_by_transport.*", "truncated answers over {}", number, "answers"),
    Row("reply_bytes", "reply bytes", number, "runs"),
    Row("packets_per_query", "packets a query", number, "runs"),
    Row("resolver.upstream_queries", "upstream queries", number, "run runs resolver"),
    Row("resolver.cache_hit_share", "answered from the cache", percent, "run runs resolver"),
    Row("resolver.servfail", "SERVFAIL", number, "run? runs resolver"),
    Row("resolver.servfail_share", "SERVFAIL, of the answers", percent, "run? runs resolver"),
    Row("resolver", "packets to unmapped addresses", _unmapped, "run"),
    Row("resolver.unmapped_packets", "packets to unmapped addresses", number, "runs resolver"),
    Row("resolver.unmapped_share", "unmapped, of what went upstream", percent, "run? runs resolver"),
    Row("resolver.data_path.lost_share", "lost on the data path", percent, "run? runs resolver"),
    Row("front.kind", "front", str, "run runs"),
    Row("front.syn", "front: SYNs", number, "runs front"),
    Row("front.queries", "front: queries", number, "run runs front"),
    Row("front.retransmitted", "front: queries sent again by clients", number, "runs front"),
    Row("front.replies", "front: replies", number, "runs front"),
    Row("front.segments", "front: segments of replies", number, "runs front"),
    Row("front.promoted", "front: connections promoted", _by_reason, "run? runs front"),
    Row("front.promoted_share", "front: promoted, of the connections", percent, "runs front"),
    Row("front.not_promoted", "front: not fully served", _by_reason, "run? runs front"),
    Row("front.reset", "front: resets sent", number, "runs front"),
    Row("front.refused_cookies", "front: cookies refused", number, "runs front"),
    Row("front.waiting", "front: segments that had to wait", number, "runs front"),
    Row("front.evictions", "front: evictions", number, "runs front"),
    Row("front.expired", "front: expired", number, "runs front"),
    Row("front.late", "front: late answers", number, "runs front"),
    Row("front.unsent", "front: packets not sent", number, "runs front"),
    Row("front.truncated", "front: replies cut to TC", number, "runs front"),
    Row("front.entries_peak", "front: most queries in flight", number, "run runs front"),
    Row("front.entries_mean", "front: queries in flight, mean", _if_known(number), "run runs front"),
    Row("front.entry_life_us", "front: life of an entry, mean", _if_known(micro), "runs front"),
    Row("front.entries_share", "front: most, of the map", percent, "runs front"),
    Row("front.bytes_per_entry", "front: bytes a query in flight", number, "runs front"),
    Row("front.state_peak_bytes", "front: state at most, bytes", number, "runs front"),
    Row("front.in_seconds", "front: program for what comes in, s", _if_known(number), "runs front"),
    Row("front.out_seconds", "front: program for answers, s", _if_known(number), "runs front"),
    Row("cpu_us_per_query.server", "CPU of the server per query, µs", number, "runs"),
    Row("cpu_us_per_query.front", "CPU of the front per query, µs", number, "runs?"),
    Row("peak_rss_bytes.server", "peak memory of the server, MB", _megabytes, "runs"),
    Row("peak_rss_bytes.front", "peak memory of the front, MB", _megabytes, "runs?"),
    Row("server_memory.process", "memory in use, server, MB", _megabytes, "runs?"),
    Row("server_memory.kernel", "memory in use, kernel, MB more", _megabytes, "runs?"),
    Row("cpu_us_per_query.*", "CPU of the {} per query, µs", number, "runs"),
    Row("cpu_s.*", "CPU of the {}, s", number, "runs"),
    Row("peak_rss_bytes.*", "peak memory of the {}, MB", _megabytes, "runs"),
    Row("busy.*", "busy machine", str, "run"),
    Row("", "figures affected", spoiled, "run"),
    Row("warnings.*", "warning", str, "run"),
    Row("trace_notes.*", "of the trace", str, "run"),
    Row("", "clean", _verdict, "run"),
)
