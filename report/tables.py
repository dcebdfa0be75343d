"""Tables for a terminal: plain text, aligned, no colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report.printable import printable
from report.run import Json, as_dict


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset({1})) -> str:
    """Columns two blanks apart; those numbered in `right` are aligned to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max((len(row[at]) for row in rows if at < len(row)), default=0)
        for at in range(max(map(len, rows), default=0))
    ]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(widths[at]) if at in right else cell.ljust(widths[at]) for at, cell in enumerate(row)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def number(value: object) -> str:
    """Whole numbers with separators, others with three digits behind the point, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".") or "0"


def percent(share: object, digits: int = 2) -> str:
    """Rounded towards zero at the top: what is not all is never printed as 100 %."""
    if not isinstance(share, int | float):
        return "–"
    value = share * 100
    text = f"{value:.{digits}f}"
    if value < 100 and text == f"{100:.{digits}f}":
        text = f"{100 - 10**-digits:.{digits}f}"
    return f"{text} %"


def run_rows(summary: Json) -> list[tuple[str, str]]:
    """The lines of a run that are worth a place beside another run's."""
    queries, timing, latency = (
        as_dict(summary.get(key)) for key in ("queries", "timing_error_us", "latency_us")
    )
    rate, cpu, rss = (as_dict(summary.get(key)) for key in ("rate_error", "cpu_s", "peak_rss_bytes"))
    rows: list[tuple[str, Any]] = [
        ("trace", summary.get("trace")),
        ("clean", "yes" if summary.get("clean") else "no"),
        ("server", "not sound" if summary.get("server_faults") else "sound"),
        *((name.replace("_", " "), queries.get(name)) for name in queries),
        ("duration, s", summary.get("duration_s")),
        ("timing error |p50|, µs", timing.get("abs_p50")),
        ("timing error |p99|, µs", timing.get("abs_p99")),
        ("timing error |p99.9|, µs", timing.get("abs_p999")),
        ("timing error q1, µs", timing.get("q1")),
        ("timing error median, µs", timing.get("median")),
        ("timing error q3, µs", timing.get("q3")),
        ("seconds within 0.1 %", percent(rate.get("within_0_1_percent"))),
        ("latency median, µs", latency.get("median")),
        ("latency p99, µs", latency.get("p99")),
        *_connection_rows(summary),
        ("truncated", summary.get("truncated")),
        ("reply bytes", summary.get("reply_bytes")),
        ("packets a query", summary.get("packets_per_query")),
        *resolver_rows(summary),
        *front_rows(summary),
        *((f"CPU of the {role}, s", value) for role, value in cpu.items() if value is not None),
        *(
            (f"peak memory of the {role}, MB", value / 1e6)
            for role, value in rss.items()
            if value is not None
        ),
    ]
    return [(name, number(value)) for name, value in rows]


def resolver_rows(summary: Json) -> list[tuple[str, Any]]:
    """None for a run without a resolver under test."""
    part = as_dict(summary.get("resolver"))
    if part.get("upstream_queries") is None:
        return []
    return [
        ("upstream queries", part["upstream_queries"]),
        ("answered from the cache", percent(part.get("cache_hit_share"))),
        ("SERVFAIL", part.get("servfail")),
        ("SERVFAIL, of the answers", percent(part.get("servfail_share"))),
        ("packets to unmapped addresses", part.get("unmapped_packets")),
        ("unmapped, of what went upstream", percent(part.get("unmapped_share"))),
        ("lost on the data path", percent(as_dict(part.get("data_path")).get("lost_share"))),
    ]


def front_rows(summary: Json) -> list[tuple[str, Any]]:
    """None for a run without a front."""
    part = as_dict(summary.get("front"))
    if part.get("syn") is None:
        return []
    names = {
        "SYNs": part["syn"],
        "queries": part["queries"],
        "queries sent again by clients": part["retransmitted"],
        "replies": part["replies"],
        "segments of replies": part["segments"],
        "connections promoted": sum(part["promoted"].values()),
        "promoted, of the connections": percent(part["promoted_share"]),
        "not fully served": sum(part["not_promoted"].values()),
        "resets sent": part["reset"],
        "cookies refused": part["refused_cookies"],
        "segments that had to wait": part["waiting"],
        "evictions": part["evictions"],
        "expired": part["expired"],
        "late answers": part["late"],
        "packets not sent": part["unsent"],
        "replies cut to TC": part["truncated"],
        "most queries in flight": part["entries_peak"],
        "most, of the map": percent(part["entries_share"]),
        "bytes a query in flight": part["bytes_per_entry"],
        "state at most, bytes": part["state_peak_bytes"],
    }
    return [(f"front: {name}", value) for name, value in names.items()]


def front_reasons(summary: Json) -> list[list[str]]:
    """Connections promoted and reset, by reason."""
    part = as_dict(summary.get("front"))
    promoted, reset = (as_dict(part.get(name)) for name in ("promoted", "not_promoted"))
    return [
        [reason, number(promoted.get(reason, 0)), number(reset.get(reason, 0))]
        for reason in dict.fromkeys((*promoted, *reset))
    ]


def _connection_rows(summary: Json) -> list[tuple[str, Any]]:
    """None for a run without connections."""
    counts = as_dict(summary.get("connections"))
    if not counts.get("opened"):
        return []
    names = ("opened", "reused_queries", "peak_open", "closed_by_server", "resumed", "failed")
    times = as_dict(summary.get("connect_us_by_transport"))
    return [
        *((f"connections {name.replace('_', ' ')}", counts.get(name)) for name in names),
        *(
            (f"to connect over {name}, median, µs", as_dict(values).get("median"))
            for name, values in times.items()
        ),
    ]


def runs_table(summaries: Sequence[Json]) -> list[list[str]]:
    """Runs side by side, a heading row first; a value that a run does not have is a dash."""
    columns = [dict(run_rows(summary)) for summary in summaries]
    names = list(dict.fromkeys(name for column in columns for name in column))
    heading = ["", *(str(summary.get("run")) for summary in summaries)]
    return [heading, *([name, *(column.get(name, "–") for column in columns)] for name in names)]


def comparison_text(result: Json) -> str:
    """What `reprise compare` prints."""
    return "\n\n".join([*_comparison_parts(result), *_unexplained_part(result)])


def _comparison_parts(result: Json) -> list[str]:
    head = [
        ["before", result["before"]["name"]],
        ["after", result["after"]["name"]],
        ["pairs", number(result["pairs"])],
        ["compared", f"{number(result['compared'])} with an answer on both sides"],
    ]
    for side in ("before", "after"):
        if result[f"only_{side}"]:
            head.append([f"only {side}", number(result[f"only_{side}"])])
        head += [["problem", problem] for problem in result[side]["problems"]]
    numbers = frozenset({1, 2})
    parts = [table(head, frozenset()), table(share_rows(result), numbers), table(referral_rows(result))]
    if not result["classes"]:
        return [*parts, "no difference"]
    heading = ["class of difference", "pairs", "first", "for example"]
    return [*parts, table([heading, *class_rows(result)], numbers)]


def share_rows(result: Json) -> list[list[str]]:
    """What is equal: name, count, share."""
    shares = [
        ("equal bytes (but id)", result["equal_bytes"]),
        ("rcode equal", result["rcode_equal"]),
        *((f"flag {name} equal", share) for name, share in result["flags_equal"].items()),
        *((f"{name} equal", share) for name, share in result["sections_equal"].items()),
        ("signatures equal", result["signatures_equal"]),
        ("TTLs equal", result["ttls_equal"]),
    ]
    return [[name, number(share["count"]), percent(share["share"])] for name, share in shares]


def class_rows(result: Json) -> list[list[str]]:
    """Class, pairs that have it, pairs counted once, an example."""
    return [
        [row["class"], number(row["pairs"]), number(row["first"]), _example(row["example"])]
        for row in result["classes"]
    ]


def referral_rows(result: Json) -> list[list[str]]:
    """Referrals, with the one line that a faithful replay must show in full."""
    held = result["referrals"]
    rows = [
        ["referrals recorded", number(held["recorded"]), ""],
        ["  compared: whole on both sides", number(held["compared"]), ""],
        ["  same NS set", number(held["same_ns_set"]), percent(held["same_ns_set_share"])],
    ]
    if held["unchanged_delegation"] is None:
        return [*rows, ["  (no zone: unchanged delegations are not known)", "", ""]]
    unchanged, same = held["unchanged_delegation"], held["unchanged_same_ns_set"]
    changed, served = held["changed_delegation"], held["changed_answered_as_served"]
    return [
        *rows,
        ["  delegation unchanged since", number(unchanged), ""],
        ["    same NS set", number(same), percent(same / unchanged if unchanged else None)],
        ["  delegation changed", number(changed), f"{held['changed_owners']} owners"],
        ["    answered as the zone says", number(served), percent(served / changed if changed else None)],
        ["  not a delegation of the zone", number(held["not_a_delegation_of_the_zone"]), ""],
        ["  truncated on a side", number(held["truncated"]), ""],
    ]


def _example(example: Json) -> str:
    text = f"#{example['seq']} {example['qname']} {example['qtype']}"
    return f"{text}: {example['detail']}" if example["detail"] else text


def _unexplained_part(result: Json) -> list[str]:
    if not result["unexplained"]:
        return []
    rows = [
        [f"#{e['seq']} {e['qname']} {e['qtype']}", e["detail"], e["before"], e["after"]]
        for e in result["unexplained"]
    ]
    return ["unexplained, all of them:\n" + table(rows, frozenset())]
