"""What the fronts of statelessTCP counted: connections served, promoted and reset, and the state it took."""

from collections import Counter
from collections.abc import Iterator

from report.resolver import share
from report.run import Json, Run, as_dict, as_int, as_number

_COUNTS = (
    *("syn", "syn_ack", "handshake_ack", "queries", "retransmitted", "replies", "segments", "fin", "rst"),
    *("reset", "refused_cookies", "waiting", "evictions", "expired", "late", "unsent", "truncated"),
    *("malformed", "passed"),
)
_SIZES = ("entries_peak", "entries_limit", "memory_bytes")


def kind(run: Run) -> str | None:
    """The front's kind; None where the server itself answered clients."""
    named = run.setting("server.front")
    return None if named in (None, "kernel") else str(named)


def counts(run: Run) -> bool:
    """Whether the server has fronts of statelessTCP, which count what they do and end as they are told."""
    return kind(run) in ("reference", "bpf")


def summarize(run: Run, span_ns: int) -> Json:
    """The summary's part, of all fronts together, of a replay that lasted `span_ns`; nulls where there was
    none.

    Peaks and sizes of several fronts are added, which need not be at one instant; `entries_share` is that of
    the fullest map.
    """
    counted = kind(run) is not None and bool(run.fronts)
    reasons = {name: _reasons(run, name) for name in ("promoted", "not_promoted")}
    sums = {name: sum(as_int(one.get(name)) for one in run.fronts) for name in (*_COUNTS, *_SIZES)}
    shares = [share(as_int(one.get("entries_peak")), as_int(one.get("entries_limit"))) for one in run.fronts]
    state = sum(as_int(one.get("entries_peak")) * as_int(one.get("bytes_per_entry")) for one in run.fronts)
    lived = sum(float(one.get("entry_seconds") or 0) for one in run.fronts)
    entries = sums["queries"] - sums["retransmitted"] if lived else 0
    return {
        "kind": kind(run),
        "promotion": any(one.get("promotion") is True for one in run.fronts) if counted else None,
        **(sums if counted else dict.fromkeys(sums)),
        **{name: _time(run, name) for name in ("in_seconds", "out_seconds")},
        **reasons,
        "promoted_share": share(sum(reasons["promoted"].values()), sums["syn_ack"]),
        "entries_mean": round(lived / (span_ns / 1e9), 4) if lived and span_ns else None,
        "entry_life_us": round(lived * 1e6 / entries, 1) if entries > 0 else None,
        "entries_share": max((one for one in shares if one is not None), default=None),
        "state_peak_bytes": state if counted else None,
        "bytes_per_entry": max((as_int(one.get("bytes_per_entry")) for one in run.fronts), default=None),
    }


def _time(run: Run, name: str) -> float | None:
    """None where one of the fronts was not asked to measure it."""
    found = [as_number(one.get(name)) for one in run.fronts]
    return sum(one or 0.0 for one in found) if found and None not in found else None


def _reasons(run: Run, name: str) -> dict[str, int]:
    """Connections by reason, the commonest first; without those that never came up."""
    found: Counter[str] = Counter()
    for one in run.fronts:
        found.update({str(reason): as_int(count) for reason, count in as_dict(one.get(name)).items()})
    return {reason: count for reason, count in found.most_common() if count}


def problems(run: Run) -> Iterator[str]:
    """Why the run is not clean: answers that clients waited for, and that the front kept from them."""
    if not counts(run):
        return
    count = max(1, len(run.processes("front")))
    if len(run.fronts) < count:
        several = f"{count - len(run.fronts)} of {count} front-*.json are missing"
        yield f"{several if count > 1 else 'front.json is missing'}: the front was cut off"
    evicted = sum(as_int(one.get("evictions")) for one in run.fronts)
    late = sum(map(_late, run.fronts))
    unsent = sum(as_int(one.get("unsent")) for one in run.fronts)
    if evicted:
        yield f"the front dropped {evicted} queries that waited for answers: use front bpf or a lower rate"
    if late:
        yield f"the front dropped {late} answers that came after its timeout: raise front.timeout_ms"
    if unsent:
        yield f"the front could not send {unsent} packets: its log has the reason"


def _late(one: Json) -> int:
    """Answers to expired entries. A query that clients sent again is answered again, which is late too."""
    again, late, expired = (as_int(one.get(name)) for name in ("retransmitted", "late", "expired"))
    return min(max(0, late - again), expired)


def warnings(run: Run, summary: Json, stateless: int) -> Iterator[str]:
    """What the front's rules did to queries, which is a result; `summary` is this part of it. And that the
    kernel answered so many queries of a trace that go as stateless-tcp.
    """
    if summary["syn"] == 0:
        yield "the front took no connection: no query came over TCP"
    refused = sum(summary["not_promoted"].values())
    if refused:
        listed = ", ".join(f"{reason} {count}" for reason, count in summary["not_promoted"].items())
        what = "connections" if summary["kind"] == "bpf" else "segments"  # which clients may send again
        yield f"the front did not fully serve {refused} {what} ({listed})"
    if summary["expired"]:
        yield f"the server did not answer {summary['expired']} queries of the front in time"
    if summary["malformed"]:
        yield f"the front dropped {summary['malformed']} packets that contradict themselves"
    if stateless and run.setting("replay.transport") == "trace" and run.setting("server.front") == "kernel":
        yield (
            f"{stateless} queries of the trace went as stateless-tcp, which the kernel's TCP answered: "
            'server.front = "bpf" or "reference" answers them without TCP state'
        )
