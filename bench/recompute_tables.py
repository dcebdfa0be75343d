"""What recompute.py shows, divides and checks of each bench, and how figures of many runs become one."""

import pathlib
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from bench import recompute_connections as connections
from bench import recompute_runs as runs
from bench import recompute_stateless as stateless
from bench.recompute_runs import Bench, Run, Values, quantile

Fold = Callable[[list[Values]], Any]  # a figure of many runs; None: there is none


# --- figures of many runs ---------------------------------------------------------------------------------


def lowest(key: str) -> Fold:
    return lambda values: min(value[key] for value in values)


def highest(key: str) -> Fold:
    return lambda values: max(value[key] for value in values)


def total(key: str) -> Fold:
    return lambda values: sum(value[key] for value in values)


def median(key: str) -> Fold:
    return lambda values: statistics.median(value[key] for value in values)


def beyond(what: str, *limits: str) -> Fold:
    """By how much one figure exceeds the smallest sum of others, at the most."""

    def fold(values: list[Values]) -> Any:
        return max(
            value[what] - min(sum(value[name] for name in limit.split("+")) for limit in limits)
            for value in values
        )

    return fold


def least_share(part: str, whole: str) -> Fold:
    return lambda values: min(value[part] / value[whole] for value in values)


def reused(values: list[Values]) -> Any:
    """Share of queries that opened no connection."""
    return min(1 - value["sink_connections"] / value["sink_queries"] for value in values)


def pooled(share: float) -> Fold:
    """Of the absolute errors of all repeats together, in us."""

    def fold(values: list[Values]) -> float | None:
        errors = sorted(error for value in values for error in value["absolute"])
        return quantile(errors, share) / 1000 if errors else None

    return fold


def steady(values: list[Values]) -> float | None:
    """Share of the seconds with the trace's rate, where that is high."""
    seconds = [rate for value in values for rate in value["rates"]]
    return sum(rate <= 0.0002 for rate in seconds) / len(seconds) if seconds else None


def digests(values: list[Values]) -> float:
    return len({value["digest"] for value in values})


# --- the tables -------------------------------------------------------------------------------------------

# What a run's files say. Here the first line that fits, below all that fit, by regular expressions.
MEASURES: tuple[tuple[str, str, Callable[[Bench, pathlib.Path, Run], Values]], ...] = (
    ("tcp|tls", "hold", connections.hold),
    ("tcp|tls", "segments", connections.segments),
    ("udp|tcp|tls", ".*", runs.cost),
    ("timing", ".*", runs.timing),
    ("reader", ".*", runs.reading),
    ("mutate", "reference", runs.reading),
    ("mutate", ".*", runs.changing),
    ("zones", "reader", runs.own_reading),
    ("zones", "build", runs.building),
    ("hierarchy", ".*-reference", runs.cost),
    ("hierarchy", "plan", runs.planning),
    ("hierarchy", "server", runs.serving),
    ("hierarchy", "path", runs.data_path),
    ("hierarchy", "delay", runs.delay),
    ("stateless", "memory", stateless.memory),
    ("stateless", "flood", stateless.flood),
    ("stateless", ".*", stateless.cost),
)

_OURS, _FLOOR, _LARGE = "reprise.*", "floor|openssl", "coloured-10000"

# Shown: bench, row, tool, unit, name of the figure.
FIGURES: tuple[tuple[str, str, str, str, str], ...] = (
    ("udp", ".*", ".*", "s/M", "cost"),
    ("udp", ".*", ".*", "s/M process", "process"),
    ("udp", ".*", ".*", "s/M softirq", "softirq"),
    ("udp", ".*", _OURS, "s/M tree", "tree"),
    ("tcp|tls", "hold", ".*", "connections client", "client"),
    ("tcp|tls", "hold", ".*", "connections server", "server"),
    ("tcp|tls", "hold", ".*", "s held", "seconds"),
    ("tcp|tls", "hold", ".*", "bytes slab/socket", "slab"),
    ("tcp|tls", "hold", ".*", "descriptors/querier", "descriptors"),
    ("tcp|tls", "hold", ".*", "MB RSS of queriers", "memory"),
    ("tcp|tls", "hold", ".*", "bytes RSS/connection", "growth"),
    ("tcp|tls", "segments", ".*", "ms late at most", "most"),
    ("tcp|tls", "segments", ".*", "ms late p99", "usual"),
    ("tcp|tls", ".*", ".*", "us/query", "cost"),
    ("tcp|tls", ".*", ".*", "us process", "process"),
    ("tcp|tls", ".*", ".*", "us softirq", "softirq"),
    ("tcp|tls", ".*", _OURS, "us tree", "tree"),
    ("tcp|tls", ".*", ".*", "packets in/query", "packets"),
    ("tls", "early-data", ".*", "share early data", "early"),
    ("timing", ".*", ".*", "us abs p50", "p50"),
    ("timing", ".*", ".*", "us abs p99", "p99"),
    ("timing", ".*", ".*", "us median", "median"),
    ("timing", ".*", ".*", "s left out", "stolen"),
    ("reader|mutate|zones", ".*", ".*", "M/s", "speed"),
    ("mutate", ".*", ".*", "s wall", "wall"),
    ("zones", "build", ".*", "MB", "memory"),
    ("zones", "build", ".*", "zones", "zones"),
    ("hierarchy", ".*-reference", ".*", "s/M", "cost"),
    ("hierarchy", "plan", ".*", "s CPU", "cpu"),
    ("hierarchy", "plan", ".*", "colours", "colours"),
    ("hierarchy", "server", ".*", "s to start", "start"),
    ("hierarchy", "server", ".*", "MB", "memory"),
    ("hierarchy", "server", ".*", "us in the first view", "first"),
    ("hierarchy", "server", ".*", "us in the last view", "last"),
    ("hierarchy", "path", ".*", "queries/s", "rate"),
    ("hierarchy", "path", "tun", "s/M packets, proxy", "proxy"),
    ("hierarchy", "path", ".*", "us a query, all", "all"),
    ("hierarchy", "delay", ".*", "packets/s", "rate"),
    ("hierarchy", "delay", ".*", "us error, p50", "p50"),
    ("hierarchy", "delay", ".*", "us error, p99", "p99"),
    ("stateless", "memory", ".*", "bytes/query in flight", "bytes"),
    ("stateless", "memory", "tcp", "bytes, all slabs", "slab"),
    ("stateless", "memory", "bpf", "bytes/place of the map", "place"),
    ("stateless", "memory", "(?!tcp).*", "MB in all", "whole"),
    ("stateless", "flood", ".*", "share lost", "lost"),
    ("stateless", "flood", ".*", "k SYN/s sent", "sent"),
    ("stateless", "flood", ".*", "k packets/s in", "came"),
    ("stateless", "flood", ".*", "share dropped", "dropped"),
    ("stateless", "flood", "tcp.*", "k SYN cookies/s", "cookies"),
    ("stateless", "flood", "(?!tcp).*", "k SYN/s answered", "syn"),
    ("stateless", "flood", ".*", "sent again/query", "again"),
    ("stateless", "flood", ".*", "share of core", "used"),
    ("stateless", ".*", ".*", "us/query", "cost"),
)


class Ratio(NamedTuple):
    """One tool's figure over another's, repeat by repeat; {} in the name is ours."""

    bench: str
    ours: str
    other: str
    is_over: bool  # ours is divided by the other's; else the other's by ours
    name: str
    unit: str
    key: str
    other_row: str = ""  # of the other one, where it is a reference for several rows
    other_key: str = ""  # where another figure of it is taken


RATIOS = (
    Ratio("tcp|tls", _OURS, "floor", True, "{} / floor", "times", "cost"),
    Ratio("tcp|tls", _OURS, "openssl", True, "{} / openssl", "times", "cost"),
    Ratio("udp|tcp|tls", _OURS, "dnsperf", False, "dnsperf / {}", "times", "cost"),
    Ratio("udp", _OURS, "dnsperf", True, "{} tree / dnsperf -c 10", "times", "tree", "few-sockets", "cost"),
    Ratio("reader", "reprise", "tracestats", True, "{} / tracestats", "times", "speed", "pcap"),
    Ratio("mutate", "reprise", "tracestats", True, "{} / tracestats", "times", "speed", "reference"),
    Ratio("mutate", "reprise-jobs-2", "reprise", False, "{}", "times faster", "wall"),
    Ratio("zones", "reprise", "reader", True, "{} / reader", "times", "speed", "reader"),
    Ratio("hierarchy", "(coloured|paper).*", "", False, "last / first", "times", "ratio"),
    Ratio("hierarchy", "(coloured|paper).*", "dnsperf", True, "{} planning / dnsperf -c 10", "times", "cpu",
          "plan-reference", "cost"),
    Ratio("hierarchy", "(coloured|paper).*", "dnsperf", True, "{} start / dnsperf -c 10", "times", "start",
          "plan-reference", "cost"),
    Ratio("hierarchy", "tun", "dnsperf", True, "{} / dnsperf -c 10", "times", "proxy",
          "path-reference", "cost"),
    Ratio("stateless", "(?!tcp$).*", "tcp", True, "{} / tcp", "times", "cost"),
    Ratio("stateless", "reference-axfr", "reference", True, "{} / reference", "times", "cost"),
    Ratio("stateless", "bpf-no-axfr", "bpf", True, "{} / bpf", "times", "cost"),
)  # fmt: skip


class Check(NamedTuple):
    """A promise: on figures of the runs of each row and tool, or on a ratio by its name."""

    bench: str
    row: str
    tool: str
    name: str  # {row} and {tool}; {count} of its seconds; in a check on a ratio the tool is ours
    fold: Fold | str
    want: float | str  # a number or the name of a figure
    least: bool  # the value must not be lower than wanted; otherwise not higher
    claim: bool = False  # on speed or timing, which a quick bench makes none of
    by: tuple[str, ...] = ("row", "tool")  # runs that are checked together have these in common
    absolute: tuple[str, str] = ("", "")  # a figure that is printed beside the ratio, and its unit


CHECKS = (
    Check("udp", "few-sockets", "reprise", "{row}: dnsperf's processor time over {tool}'s",
          "dnsperf / reprise", 1.25, True, True),
    Check("udp", "many-sources", "reprise", "{row}: dnsperf's processor time over {tool}'s",
          "dnsperf / reprise", 1.2, True, True),
    Check("udp", "fast-mode", "reprise-xdp", "{row}: dnsperf's processor time over {tool}'s",
          "dnsperf / reprise-xdp", 4.0, True, True),
    Check("udp", "fast-mode", "reprise-ring", "{row}: dnsperf's processor time over {tool}'s",
          "dnsperf / reprise-ring", 1.6, True, True),
    Check("udp", ".*", _OURS, "{row}: {tool}: controller and distributor over dnsperf -c 10",
          "{} tree / dnsperf -c 10", 0.10, False, True, absolute=("tree", "s/M")),
    Check("udp", ".*", "(?!kxdpgun).*", "{row}: {tool}: share of queries answered",
          lowest("share"), 0.999, True),
    Check("udp", ".*", "(?!kxdpgun).*",
          "{row}: {tool}: answers beyond what the sink sent and the interface received",
          beyond("answers", "sink_queries4+sink_queries6", "arrived"), 0, False),
    Check("udp", "many-sources", "reprise", "{row}: {tool}: source addresses at the server",
          lowest("sink_sources"), "wanted", True),
    Check("timing", ".*", "reprise", "{row}: {tool}: p50 of the absolute error in us",
          pooled(0.5), 30.0, False, True),
    Check("timing", ".*", "reprise", "{row}: {tool}: p99 of the absolute error in us",
          pooled(0.99), 100.0, False, True),
    Check("timing", ".*", "reprise-spin", "{row}: {tool}: p50 of the absolute error in us",
          pooled(0.5), 5.0, False, True),
    Check("timing", ".*", "reprise",
          "{row}: {tool}: share of {count} seconds within 0.02 % of the trace's rate",
          steady, 0.99, True, True),
    Check("timing", ".*", ".*", "{row}: {tool}: packets that the capture dropped",
          highest("dropped"), 0, False),
    Check("timing", ".*", _OURS, "{row}: {tool}: queries not in the capture", highest("missing"), 0, False),
    Check("reader", ".*", "reprise", "{row}: queries a second of processor time over tracestats' packets",
          "{} / tracestats", 0.25, True, True, absolute=("speed", "M/s")),
    Check("reader", ".*", ".*", "{row}: {tool}: queries miscounted", total("wrong"), 0, False),
    Check("mutate", "stream", "reprise", "{row}: queries a second of processor time over tracestats' packets",
          "{} / tracestats", 0.13, True, True, absolute=("speed", "M/s")),
    Check("mutate", "rules", "reprise", "{row}: queries a second of processor time over tracestats' packets",
          "{} / tracestats", 0.09, True, True, absolute=("speed", "M/s")),
    Check("mutate", "text", "reprise", "{row}: queries a second of processor time over tracestats' packets",
          "{} / tracestats", 0.07, True, True, absolute=("speed", "M/s")),
    Check("mutate", ".*", "reprise-jobs-2", "{row}: one thread's time over that of two",
          "reprise-jobs-2", 1.7, True, True),
    Check("mutate", ".*", ".*", "{row}: queries miscounted", total("wrong"), 0, False, by=("row",)),
    Check("mutate", "(?!reference).*", ".*", "{row}: different outputs", digests, 1, False, by=("row",)),
    Check("zones", "build", "reprise", "responses a second of processor time over queries of the reader",
          "{} / reader", 0.05, True, True, absolute=("speed", "M/s")),
    Check("zones", "build", "reprise", "memory for a million responses, MB",
          median("memory"), 400.0, False, True),
    Check("zones", ".*", ".*", "{row}: miscounted", total("wrong"), 0, False),
    Check("hierarchy", "plan", _LARGE, "planning 10000 zones over a million queries of dnsperf -c 10",
          "{} planning / dnsperf -c 10", 3.5, False, True, absolute=("cpu", "s")),
    Check("hierarchy", "server", _LARGE,
          "BIND's start with 10000 zones over a million queries of dnsperf -c 10",
          "{} start / dnsperf -c 10", 1.7, False, True, absolute=("start", "s")),
    Check("hierarchy", "server", _LARGE, "BIND with 10000 zones, MB", median("memory"), 200.0, False, True),
    Check("hierarchy", "path", "tun", "TUN path, a packet in the proxies over a query of dnsperf -c 10",
          "{} / dnsperf -c 10", 1.0, False, True, absolute=("proxy", "s/M")),
    Check("hierarchy", "delay", "tun", "delay's error in us, p50", median("p50"), 100.0, False, True),
    Check("hierarchy", "delay", "tun", "delay's error in us, p99", median("p99"), 500.0, False, True),
    Check("hierarchy", "server", _LARGE,
          "BIND with 10000 zones, a query in the last view over one in the first",
          median("ratio"), 1.2, False, True),
    Check("hierarchy", "plan", ".*", "{tool}: zones in no group", total("missing"), 0, False),
    Check("hierarchy", "server", ".*", "{tool}: queries without an answer", total("lost"), 0, False),
    Check("hierarchy", "path", ".*", "path {tool}: packets that did not pass the link",
          total("lost"), 0, False),
    Check("hierarchy", "delay", ".*", "delay: packets lost", total("lost"), 0, False),
    Check("tcp", "one-query", "reprise", "{row}: reprise's processor time over a bare loop's",
          "reprise / floor", 1.2, False, True, absolute=("cost", "us")),
    Check("tls", "full|resumed", "reprise", "{row}: reprise's processor time over OpenSSL's own",
          "reprise / openssl", 1.2, False, True, absolute=("cost", "us")),
    Check("tcp|tls", "(?!hold|segments).*", ".*", "{row}: {tool}: share of queries answered",
          lowest("share"), 0.999, True),
    Check("tcp|tls", "(?!hold|segments).*", ".*", "{row}: {tool}: answers beyond those that the sink sent",
          beyond("answers", "sink_queries"), 0, False),
    Check("tcp|tls", "(?!hold|segments|persistent).*", ".*",
          "{row}: {tool}: queries without a connection of their own",
          beyond("sink_queries", "sink_connections"), 0, False),
    Check("tcp|tls", "persistent", "(?!dnsperf).*", "{row}: {tool}: share of queries on open connections",
          reused, 0.7, True),
    Check("tcp", "one-query", "(?!dnsperf).*", "{row}: {tool}: source addresses at the server",
          lowest("sink_sources"), "wanted", True),
    Check("tcp", "(?!one-query).*", "reprise-many", "{row}: {tool}: source addresses at the server",
          lowest("sink_sources"), "wanted", True),
    Check("tcp|tls", "full", "(?!dnsperf).*", "{row}: {tool}: resumed handshakes",
          highest("sink_resumed"), 0, False),
    Check("tcp|tls", "resumed", "(?!dnsperf).*", "{row}: {tool}: share of connections resumed",
          least_share("sink_resumed", "sink_connections"), "resumed", True),
    Check("tcp|tls", "early-data", "(?!dnsperf).*", "{row}: {tool}: connections with early data",
          lowest("sink_early_data"), 1, True),
    Check("tcp|tls", "hold", ".*", "{row}: {tool}: s with all connections established on both sides",
          lowest("seconds"), "length", True),
    Check("tcp|tls", "hold", ".*", "{row}: {tool}: most connections open at the sink",
          lowest("peak"), "wanted", True),
    Check("tcp|tls", "hold", ".*", "{row}: {tool}: connections opened anew", highest("anew"), 0, False),
    Check("tcp|tls", "hold", ".*", "{row}: {tool}: connections that ended otherwise than by the client",
          highest("bad"), 0, False),
    Check("tcp|tls", "hold", ".*", "{row}: {tool}: unanswered", highest("unanswered"), 0, False),
    Check("tcp|tls", "segments", ".*", "{row}: {tool}: queries not in the capture",
          highest("missing"), 0, False),
    Check("tcp|tls", "segments", ".*", "{row}: {tool}: queries not in one segment of their own",
          highest("broken"), 0, False),
    Check("tcp|tls", "segments", ".*", "{row}: {tool}: packets that the capture dropped",
          highest("dropped"), 0, False),
    Check("tcp|tls", "segments", "one-query", "{row}: {tool}: connections without exactly one SYN and query",
          highest("odd"), 0, False),
    Check("tcp|tls", "segments", "persistent", "{row}: {tool}: queries for each SYN",
          lowest("shared"), 5, True),
    Check("tcp|tls", "segments", "persistent",
          "{row}: {tool}: share of queries sent before the answer to the one before",
          lowest("pipelined"), 0.5, True),
    Check("tcp|tls", "segments", ".*", "{row}: {tool}: queries in seconds without steal",
          lowest("clean"), 1, True, True),
    Check("tcp|tls", "segments", ".*", "{row}: {tool}: 99th percentile of their lateness in ms",
          highest("usual"), connections.STALL_NS / 10**6, False, True),
    Check("tcp|tls", "segments", ".*", "{row}: {tool}: queries held back for an acknowledgement",
          highest("held"), 0, False, True),
    Check("stateless", "rates-bind-5000", "bpf",
          "{row}: {tool}: server's processor time over that of the kernel's TCP (goal 0.55)",
          "bpf / tcp", 0.65, False, True, absolute=("cost", "us")),
    Check("stateless", "memory", "bpf", "{row}: {tool}: bytes for a query in flight",
          highest("bytes"), 110, False, True),
    Check("stateless", "flood", "bpf", "{row}: {tool}: share of queries lost", highest("lost"), 0.01, False,
          True),
    Check("stateless", "flood", ".*", "{row}: {tool}: thousand packets a second that reached the server",
          lowest("came"), 190, True, True),
    Check("stateless", "flood", ".*",
          "{row}: {tool}: share of packets that found the server's interface full",
          highest("dropped"), 0.05, False),
    Check("stateless", "rates.*", ".*", "rates: {tool}: share of queries answered in each run",
          lowest("share"), 0.99, True, True, by=("tool",)),
    Check("stateless", "(rates|sizes).*", "tcp", "{tool}: answers without a connection of their own",
          beyond("answers", "opened"), 0, False, by=("tool",)),
    Check("stateless", "(rates|sizes).*", "bpf|reference.*",
          "{tool}: answers that did not come by the front", highest("unseen"), 0, False, by=("tool",)),
    Check("stateless", "(rates|sizes).*", "bpf|reference.*",
          "{tool}: connections of the kernel's TCP that were not promoted",
          highest("kernel's"), 0, False, by=("tool",)),
    Check("stateless", "memory", ".*", "{row}: {tool}: queries that were not held", highest("missing"), 0,
          False),
)  # fmt: skip
