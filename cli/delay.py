"""Delay lines of an experiment: what the proxies are told about round trips, jitter and loss."""

from __future__ import annotations

from cli.experiment import Rtt
from cli.planned import RESULTS

SOURCES = f"{RESULTS}/rtts.tsv"  # by = "source": the trace's round trips as a table


def options(rtt: Rtt) -> tuple[str, ...]:
    """The delay options of reprise-proxy, for every subcommand."""
    table = SOURCES if rtt.by == "source" else rtt.table
    drawn = rtt.distribution or rtt.observed
    return (
        *(("--rtt-ms", f"{rtt.rtt_ms:g}") if rtt.rtt_ms is not None else ()),
        *(("--rtt-table", table) if table else ()),
        *(("--rtt-distribution", drawn) if drawn else ()),
        *(("--jitter-ms", f"{rtt.jitter_ms:g}") if rtt.jitter_ms else ()),
        *(("--loss-percent", f"{rtt.loss_percent:g}") if rtt.loss_percent else ()),
        *(("--seed", str(rtt.seed)) if rtt.seed != 1 else ()),
        *(("--realtime",) if rtt.realtime else ()),
    )
