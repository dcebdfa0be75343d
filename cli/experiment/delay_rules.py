"""Rules of [rtt] tables that no type can say."""

from __future__ import annotations

import re

from cli.errors import exclude, want
from cli.experiment.schema import Experiment, Rtt

_NUMBER = r"\d+(\.\d+)?"
_DISTRIBUTION = rf"(normal|uniform|lognormal):{_NUMBER},{_NUMBER}"


def check_rtt(key: str, rtt: Rtt) -> None:
    """One table; `key` is its name. The files are the proxy's to check."""
    delays = (rtt.rtt_ms, rtt.table, rtt.by, rtt.distribution, rtt.observed)
    want(
        any(one is not None for one in delays) or rtt.jitter_ms > 0 or rtt.loss_percent > 0,
        f"[{key}] asks for nothing",
        f"set {key}.rtt_ms or another of its keys, or leave the table out",
    )
    for names in (("table", "by"), ("rtt_ms", "distribution", "observed")):
        given = [f"{key}.{name}" for name in names if getattr(rtt, name) is not None]
        exclude(*given, hint="give one of them")
    want(
        rtt.distribution is None or bool(re.fullmatch(_DISTRIBUTION, rtt.distribution, re.ASCII)),
        f"{key}.distribution = {rtt.distribution!r} is unknown",
        "use normal:MEAN,SD, uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA in ms",
    )


def check_clients(experiment: Experiment) -> None:
    """[rtt]: the path between the clients and the server."""
    if experiment.rtt is None:
        return
    check_rtt("rtt", experiment.rtt)
    want(
        experiment.own_server,
        "[rtt] needs the local network, which a server at an address is not in",
        "leave it out or use a server of your own",
    )
    by_source = experiment.rtt.by == "source"
    want(
        not by_source or experiment.replay.shows_trace_addresses,
        f'rtt.by = "source" and replay.source_mode = "{experiment.replay.source_mode}" exclude each other',
        'the server must see the trace\'s addresses: use source_mode = "addresses" or "packet"',
    )
    own, hint = by_source and 'rtt.by = "source"', "give a trace whose rows have round trips"
    exclude(own, experiment.generate and "[generate]", hint=hint)
