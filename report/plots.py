"""The plots of a run. Values in, finished plots out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from report import curves, events, server
from report.curves import LEVEL, MEGA, RATE, Answers, bin_size, mark, over_time, paint, per_second, time_axis
from report.figures import WIDE, Drawn, Words, drawing, plain_axis, whole_axis
from report.run import Json, Run
from report.server import Series
from report.tally import FEWEST_ANSWERS, Measured, Tally, by_round_trip
from report.transports import TRANSPORTS

_DASHED = {"linestyle": (0, (2, 2)), "linewidth": 1.2}


def draw_all(measured: Measured, summary: Json) -> list[Drawn]:
    """Every plot of the report, also where there is nothing to see: the plot then says so."""
    tally = measured.tally
    return [
        _rate(measured),
        curves.error_cdf({"timing error": tally.errors_of()}),
        _error_over_time(tally),
        *_latencies(tally),
        *_response_over_time(measured, summary),
        *curves.sources_cdf({"": tally.source_response.all()}),
        *_by_round_trip(measured),
        _rcodes(summary["rcode"]),
        _unanswered(measured),
        _server_cpu(measured),
        _server_memory(measured),
        *_kernel_memory(measured),
        *_connections(measured),
        *_server_counts(measured),
        *_resolvers(measured.run),
        *_cold(measured),
    ]


def _rate(measured: Measured) -> Drawn:
    tally, span = measured.tally, measured.tally.span_ns
    size = bin_size(span)
    caption = f"Queries due by the trace, queries sent and answers received, in bins of {size:g} s."
    caption += _of_faults(measured.run)
    words = Words("rate", "Rate of trace and replay", caption, "no query reached a querier")
    with drawing(words, WIDE, not tally.records) as (drawn, axes):
        paint(axes, "trace", per_second(tally.due, size, span), linewidth=4, alpha=0.35)
        paint(axes, "replay, sent", per_second(tally.sends, size, span), linewidth=1.2)
        paint(axes, "answers", per_second(tally.answers, size, span), **_DASHED)
        time_axis(axes, "rate [1/s]")
        _mark_faults(axes, measured.run)
    return drawn


def _error_over_time(tally: Tally) -> Drawn:
    caption = "Timing error in each bin of the schedule: where the replay fell behind, and for how long."
    words = Words("timing-time", "Timing error over time", caption, "no query was sent after the warm-up")
    with drawing(words, empty=not tally.error_slices) as (drawn, axes):
        size_ns = int(bin_size(tally.span_ns) * 1e9)
        numbers, found = tally.error_slices.bands(size_ns, (10, 250, 500, 750, 990))
        x, bands = (numbers + 0.5) * size_ns / 1e9, found / 1000
        axes.fill_between(x, bands[0], bands[4], alpha=0.18, linewidth=0, label="1 % to 99 %")
        axes.fill_between(x, bands[1], bands[3], alpha=0.35, linewidth=0, label="25 % to 75 %", color="C0")
        axes.plot(x, bands[2], label="median", color="C1", linewidth=1.2)
        time_axis(axes, "timing error [µs]", signed=True)
    return drawn


def _latencies(tally: Tally) -> list[Drawn]:
    found = {
        name.upper(): Answers(one, tally.response.get(name, one), tally.asked_over[name])
        for name, one in tally.latency.items()
    }
    return [curves.latency_cdf(found), curves.slowest({name: [one] for name, one in found.items()})]


def _cold(measured: Measured) -> list[Drawn]:
    """Of a resolver that began with an empty cache."""
    parts = curves.cold_parts(measured.tally, measured.run.cold_s)
    return [curves.slowest({name: [one] for name, one in parts}, "cold cache")] if parts else []


def _response_over_time(measured: Measured, summary: Json) -> list[Drawn]:
    """None for a replay without due times."""
    tally = measured.tally
    if not tally.response_slices:
        return []
    caption = (
        "Response time, from when a query was due by the trace, in each bin of the schedule. Gray: no "
        "answer came for 50 ms or longer; dotted lines: a server read its zones again."
    )
    words = Words("response-time", "Response time", caption + _of_faults(measured.run), "")
    with drawing(words, WIDE) as (drawn, axes):
        size_ns = int(bin_size(tally.span_ns) * 1e9)
        numbers, bands = tally.response_slices.bands(size_ns, (500, 990, 1000))
        x = (numbers + 0.5) * size_ns / 1e9
        gaps = np.flatnonzero(np.diff(numbers) > 1) + 1  # bins without an answer: no line over them
        for values, label in zip(bands, ("median", "p99", "slowest"), strict=True):
            y = np.maximum(values, 1) / MEGA
            axes.plot(np.insert(x, gaps, np.nan), np.insert(y, gaps, np.nan), label=label, linewidth=1.2)
        for one in summary["stalls"]["spans"]:
            axes.axvspan(one["at_s"], one["at_s"] + one["seconds"], color="#888888", alpha=0.25, linewidth=0)
        for event in events.of_servers(measured.run):
            mark(axes, event.at_s)
        _mark_faults(axes, measured.run)
        axes.set_yscale("log")
        time_axis(axes, "response time [ms]")
        axes.set_xlim(0, max(tally.span_ns, 1) / 1e9)
    return [drawn]


def _by_round_trip(measured: Measured) -> list[Drawn]:
    """Only where clients have a distance ([rtt]), and not the same one."""
    if not measured.run.experiment.get("rtt"):
        return []
    found, left_out = by_round_trip(measured.files)
    if len(found) < 2:
        return []
    held = [(place, one.spread()) for place, one in found]
    left = f" {left_out:,} answers of clients with fewer are left out." if left_out else ""
    caption = (
        "Latency by the client's round trip, the least time in which it had an answer, its handshake not "
        f"counted, of at least {FEWEST_ANSWERS} answers: boxes are quartiles with the median, whiskers "
        f"the percentiles 5 and 95.{left}"
    )
    words = Words("latency-rtt", "Latency by round trip", caption, "")
    return [curves.boxes(words, "round trip of the client [ms]", [("", held)])]


def _rcodes(counts: dict[str, int]) -> Drawn:
    """A bar for each with its share, the first on top."""
    words = Words("rcodes", "Response codes", "Answers by response code.", "no answer was received")
    with drawing(words, empty=not counts) as (drawn, axes):
        held = axes.barh(list(counts)[::-1], list(counts.values())[::-1], height=0.6)
        labels = [f"{one:,} ({one / sum(counts.values()):.2%})" for one in reversed(counts.values())]
        axes.bar_label(held, labels=labels, fontsize=8, padding=4)
        axes.set_xlabel("answers")
        axes.margins(x=0.28)
        axes.grid(visible=False, axis="y")
        plain_axis(axes, "x")
        whole_axis(axes.xaxis)
    return drawn


def _unanswered(measured: Measured) -> Drawn:
    tally = measured.tally
    size = bin_size(tally.span_ns)
    caption = f"Share of the queries due in each bin of {size:g} s that had no answer, for whatever reason."
    caption += _of_faults(measured.run)
    words = Words("unanswered", "Queries without an answer", caption, "every query was answered")
    with drawing(words, empty=not tally.unanswered.end_ns) as (drawn, axes):
        count = max(1, -(-tally.asked.end_ns // int(size * 1e9)))
        shares = tally.unanswered_share(int(size * 1e9), count) * 100
        axes.stairs(shares, np.arange(count + 1) * size, baseline=None, label="queries")
        time_axis(axes, "without an answer [%]")
        _mark_faults(axes, measured.run)
    return drawn


def _mark_faults(axes: Axes, run: Run) -> None:
    for one in events.of_faults(run):
        axes.axvspan(one.at_s, one.at_s + one.seconds, color="C3", alpha=0.15, linewidth=1)


def _of_faults(run: Run) -> str:
    return " Red: a fault that the experiment asked for." if events.of_faults(run) else ""


def _server_cpu(measured: Measured) -> Drawn:
    series = server.process_series(measured.run, "cpu_s")
    held = {one.name: server.rate_of(one).scaled(100) for one in series}
    if held:
        held["whole host"] = server.rate_of(server.host_series(measured.run, "host_cpu_s")).scaled(100)
    caption = "CPU time a second of each process tree of the server, and of the host it runs on."
    words = Words("server-cpu", "CPU of the server", caption, "the server was not sampled")
    styles = {"whole host": {**_DASHED, "color": "#888888"}}
    return over_time(words, "CPU [% of one core]", held, RATE, styles=styles)


def _server_memory(measured: Measured) -> Drawn:
    held = {one.name: one.scaled(1 / MEGA) for one in server.memory_series(measured.run)}
    caption = "Memory of each process tree of the server (shared pages counted once)."
    words = Words("server-memory", "Memory of the server", caption, "the server was not sampled")
    return over_time(words, "memory [MB]", held, LEVEL)


def _kernel_memory(measured: Measured) -> list[Drawn]:
    """No plot where the host's memory was not sampled."""
    names = {"tcp_mem_bytes": "buffers, TCP", "udp_mem_bytes": "buffers, UDP", "slab_bytes": "kernel objects"}
    held = {title: server.host_series(measured.run, name).scaled(1 / MEGA) for name, title in names.items()}
    caption = "Socket buffers and kernel objects of the server's whole machine."
    words = Words("kernel-memory", "Memory of the kernel", caption, "")
    return [over_time(words, "memory [MB]", shown, LEVEL)] if (shown := _not_zero(held)) else []


def _connections(measured: Measured) -> list[Drawn]:
    """Only where queries went over connections or the server had any: clients have the controller's, too. A
    front or a server elsewhere may hold all of the server's.
    """
    run = measured.run
    asked = any(one.stream and measured.tally.sent_over[one.name] for one in TRANSPORTS.values())
    servers = {
        f"server, {state.replace('_', '-')}": server.host_series(run, f"tcp_{state}")
        for state in server.TCP_STATES
    }
    clients = {
        f"{one.name}, {state.replace('_', '-')}": one
        for state in ("established", "time_wait")
        for one in server.client_series(run, f"tcp_{state}")
    }
    held = _not_zero({**servers, **clients}) if asked or _not_zero(servers) else {}
    caption = (
        "TCP connections by state, sampled once a second at the server's host and, where asked, the clients'."
        " Dotted: the last query was sent, and the replay closed what was open."
    )
    words, styles = Words("connections", "TCP connections", caption, ""), dict.fromkeys(clients, _DASHED)
    end_s = measured.tally.sends.end_ns / 1e9
    if not held:
        return []
    return [over_time(words, "connections", held, LEVEL, WIDE, counts=True, styles=styles, end_s=end_s)]


def _server_counts(measured: Measured) -> list[Drawn]:
    """No plot where no authoritative server of ours said what it has counted."""
    run, tally = measured.run, measured.tally
    if not run.server_counts:
        return []
    columns = {"queries": "queries", "tcp_queries": "over TCP", "answers": "answers"}
    counts = {
        f"server, {title}": server.rate_of(server.counts_series(run, column))
        for column, title in columns.items()
    }
    caption = "Each second, by the server's own counters, beside the queries that the replay sent."
    words = Words("server-counts", "The server's counts", caption, "no query was sent")
    with drawing(words, WIDE, not tally.records) as (drawn, axes):
        paint(axes, "replay, sent", per_second(tally.sends, 1, tally.span_ns), linewidth=4, alpha=0.35)
        for name, one in _not_zero(counts).items():
            paint(axes, name, one, linewidth=1.2, drawstyle=RATE)
        time_axis(axes, "rate [1/s]")
    return [drawn]


def _resolvers(run: Run) -> list[Drawn]:
    """No plot where none was under test, or of a run before they were looked at each second."""
    columns = {
        "queries": "queries",
        "recursions": "not answered from the cache",
        "udp_queries": "asked upstream over UDP",
        "tcp_queries": "asked upstream over TCP",
    }
    found = {
        (f"{one.name}, " if len(run.resolver_samples) > 1 else "") + title: server.rate_of(one)
        for column, title in columns.items()
        for one in server.resolver_series(run, column)
    }
    caption = "Each second, by the resolver's own counters; what it asked upstream, from its packets."
    words = Words("resolver", "Resolver", caption, "")
    return [over_time(words, "rate [1/s]", held, RATE, WIDE)] if (held := _not_zero(found)) else []


def _not_zero(held: Mapping[str, Series]) -> dict[str, Series]:
    return {name: one for name, one in held.items() if one.values.any()}
