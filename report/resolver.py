"""What the resolvers under test did, from the counters read before and after the replay."""

from __future__ import annotations

from collections import Counter

from report import datapath
from report.datapath import growth, share
from report.run import Json, Run, as_dict, as_int

_MOST_NAMED = 100  # addresses that no zone is served at


def summarize(run: Run, rcodes: dict[str, int], asked_again: int) -> Json:
    """The summary's part; nulls where no resolver was under test. `asked_again` are the clients' queries that
    followed a truncated answer over TCP: like those refused or without RD, they say nothing about the cache.
    """
    path = datapath.balance(run)
    reader = run.told("reader")
    not_sought = max(rcodes.get("REFUSED", 0), as_int(reader.get("without_rd")))
    queries = growth(run, "queries") - asked_again - not_sought
    recursions = growth(run, "recursions")
    attempts = growth(run, "udp_queries") + growth(run, "tcp_connections")
    servfail, unmapped = rcodes.get("SERVFAIL", 0), growth(run, "unmapped_packets")
    found = {
        "upstream_queries": _upstream(run),
        "cache_hit_share": round(max(0.0, 1 - recursions / queries), 6) if queries > 0 else None,
        "servfail": servfail,
        "servfail_share": share(servfail, sum(rcodes.values())),
        "unmapped_packets": unmapped,
        "unmapped_share": share(unmapped, attempts),
        "unmapped": _unmapped(run),
        "data_path": path,
    }
    return found if run.resolvers else {**dict.fromkeys(found), "unmapped": [], "data_path": path}


def _upstream(run: Run) -> int | None:
    """Queries, counted from packets; None where an older run did not count those over TCP."""
    if any("tcp_queries" not in after for _, after in run.resolvers):
        return None
    return growth(run, "udp_queries") + growth(run, "tcp_queries")


def _unmapped(run: Run) -> list[Json]:
    """Addresses that resolvers went to and that the hierarchy does not know, the busiest first."""
    packets: Counter[str] = Counter()
    for before, after in run.resolvers:
        earlier = as_dict(before.get("unmapped"))
        for address, count in as_dict(after.get("unmapped")).items():
            packets[address] += max(0, as_int(count) - as_int(earlier.get(address)))
    return [
        {"address": address, "packets": count} for address, count in packets.most_common(_MOST_NAMED) if count
    ]
