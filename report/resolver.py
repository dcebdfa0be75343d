"""What the resolvers under test did, from the counters read before and after the replay."""

from __future__ import annotations

from collections import Counter

from report.run import Json, Run, as_dict

_MOST_NAMED = 100  # addresses that no zone is served at


def summarize(run: Run, rcodes: dict[str, int]) -> Json:
    """The summary's part; nulls where no resolver was under test."""
    if not run.resolvers:
        return {
            "upstream_queries": None,
            "cache_hit_share": None,
            "servfail": None,
            "unmapped_packets": None,
            "unmapped": [],
        }
    queries, recursions = _growth(run, "queries"), _growth(run, "recursions")
    return {
        "upstream_queries": _growth(run, "udp_queries") + _growth(run, "tcp_connections"),
        "cache_hit_share": round(1 - recursions / queries, 6) if queries else None,
        "servfail": rcodes.get("SERVFAIL", 0),
        "unmapped_packets": _growth(run, "unmapped_packets"),
        "unmapped": _unmapped(run),
    }


def _growth(run: Run, name: str) -> int:
    """Of a counter over the replay, all resolvers together."""
    return sum(
        max(0, _number(after.get(name)) - _number(before.get(name))) for before, after in run.resolvers
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _unmapped(run: Run) -> list[Json]:
    """Addresses that resolvers went to and that the hierarchy does not know, the busiest first."""
    packets: Counter[str] = Counter()
    for before, after in run.resolvers:
        earlier = as_dict(before.get("unmapped"))
        for address, count in as_dict(after.get("unmapped")).items():
            packets[address] += max(0, _number(count) - _number(earlier.get(address)))
    return [
        {"address": address, "packets": count} for address, count in packets.most_common(_MOST_NAMED) if count
    ]


def warnings(run: Run) -> list[str]:
    """What makes a clean run say less than it seems to."""
    return [str(one) for one in (run.manifest or {}).get("warnings", [])]
