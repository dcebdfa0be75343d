"""What the resolvers under test did, from the counters read before and after the replay, and whether what
they asked came to the meta-DNS-servers.

Both ends count on their own: the data path what it sent, the kernels of the meta-DNS-servers' hosts what
arrived and what was answered. The latter are read earlier before the replay and later after it, so that
nothing that is under way then looks lost.
"""

from collections import Counter
from collections.abc import Iterator

from report import events
from report.run import Json, Run, as_dict, as_int, as_number

_MOST_NAMED = 100  # addresses that no zone is served at
_DEFAULT_PERCENT = 1.0


def summarize(run: Run, rcodes: dict[str, int], asked_again: int) -> Json:
    """The summary's part; nulls where no resolver was under test. `asked_again` are the clients' queries that
    followed a truncated answer over TCP: like those refused or without RD, they say nothing about the cache.
    """
    path = balance(run)
    reader = run.told("reader")
    not_sought = max(rcodes.get("REFUSED", 0), as_int(reader.get("without_rd")))
    queries = growth(run, "queries") - asked_again - not_sought
    recursions = growth(run, "recursions")
    asked, over_tcp = growth(run, "udp_queries"), growth(run, "tcp_queries")  # from packets
    attempts = asked + growth(run, "tcp_connections")
    counted = all("tcp_queries" in after for _, after in run.resolvers)  # not so in older runs
    servfail, unmapped = rcodes.get("SERVFAIL", 0), growth(run, "unmapped_packets")
    packets = Counter[str]()  # to addresses that the hierarchy does not know
    for both in run.resolvers:
        before, after = (Counter(as_dict(one.get("unmapped"))) for one in both)
        packets += after - before
    found = {
        "upstream_queries": asked + over_tcp if counted else None,
        "cache_hit_share": round(max(0.0, 1 - recursions / queries), 6) if queries > 0 else None,
        "servfail": servfail,
        "servfail_share": share(servfail, sum(rcodes.values())),
        "unmapped_packets": unmapped,
        "unmapped_share": share(unmapped, attempts),
        "unmapped": [{"address": name, "packets": count} for name, count in packets.most_common(_MOST_NAMED)],
        "data_path": path,
    }
    return found if run.resolvers else {**dict.fromkeys(found), "unmapped": [], "data_path": path}


# --- the data path ----------------------------------------------------------------------------------------


def growth(run: Run, name: str) -> int:
    """Of a counter of the resolvers under test over the replay, all together."""
    return sum(max(0, as_int(after.get(name)) - as_int(before.get(name))) for before, after in run.resolvers)


def balance(run: Run) -> Json:
    """UDP datagrams at both ends; null where an end has not counted.

    Packets to unmapped addresses, and those that the delay line or a fault loses as it was asked to, are not
    to arrive.
    """
    names = {item.get("host") for item in run.processes("meta")}
    metas = [host for host in run.hosts if host.name in names]
    if not run.resolvers or not metas:
        return {"sent": None, "arrived": None, "answered": None, "lost_share": None}
    counted = all("udp_dropped" in after for _, after in run.resolvers)
    gone = ("udp_dropped",) if counted else ("unmapped_packets", "lost_packets")  # of an older version
    lost = sum(growth(run, name) for name in gone) + sum(host.udp_by_faults() for host in metas)
    sent = max(0, growth(run, "udp_queries") - lost)
    came = [f"{udp}{name}" for udp in ("Udp", "Udp6") for name in ("InDatagrams", "NoPorts", "InErrors")]
    arrived = sum(host.grown(*came) for host in metas)
    answered = sum(host.grown("UdpOutDatagrams", "Udp6OutDatagrams") for host in metas)
    missing = max(_missing(sent, arrived), _missing(arrived, answered))
    return {"sent": sent, "arrived": arrived, "answered": answered, "lost_share": round(missing, 6)}


def _missing(before: int, after: int) -> float:
    return max(0.0, 1 - after / before) if before else 0.0


def share(part: int, whole: int) -> float | None:
    """None where there is nothing that it could be a share of."""
    return round(part / whole, 6) if whole else None


def reasons(run: Run, resolver: Json) -> Iterator[str]:
    """`resolver` is that part of the summary: its shares over the experiment's limits."""
    path = as_dict(resolver.get("data_path"))
    sent, arrived, answered = (as_int(path.get(name)) for name in ("sent", "arrived", "answered"))
    came = f"{arrived:,} of {sent:,} queries came to the meta-DNS-servers"
    if _missing(sent, arrived) < _missing(arrived, answered):
        came = f"{arrived:,} queries came to the meta-DNS-servers, and {answered:,} answers left them"
    # A fault that loses packets on the way upstream is the reason for SERVFAIL.
    failed = None if events.lost_on_ways(run, "upstream") else resolver.get("servfail_share")
    packets = resolver.get("unmapped_packets")
    for found, name, words in (
        (path.get("lost_share"), "lost", f"the data path is broken: {came}"),
        (failed, "servfail", f"{resolver.get('servfail')} answers were SERVFAIL"),
        (resolver.get("unmapped_share"), "unmapped", f"{packets} packets went to addresses that no zone has"),
    ):
        given = as_number(run.setting(f"hierarchy.max_{name}_percent"))
        limit = _DEFAULT_PERCENT if given is None else given
        if found is not None and found > limit / 100:
            why = validation(run) if name == "servfail" else ""
            told = f"{words} ({found:.1%}, hierarchy.max_{name}_percent is {limit:g})"
            yield f"{told}: {why}" if why else told


def validation(run: Run) -> str:
    """Why resolvers may not accept signatures in this run, with what to do about it; "" without a reason."""
    if run.setting("hierarchy.validate") is False:
        return ""
    unproven = sum("unproven" in one for one in (run.hierarchy or {}).get("trusted", []))
    if unproven:
        zones = f"the zone plan has {unproven} zones whose answers cannot be validated"
        why = f"the resolver validates, and {zones}"
    elif run.built is not None and run.setting("hierarchy.dnssec") != "strip":
        why = "the resolver validates rebuilt zones, which may lack signatures or proofs"
    else:
        return ""
    return f"{why} (to see whether it is that, set hierarchy.validate = false)"
