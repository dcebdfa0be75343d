"""Rules of server.front and [front] that no type can say."""

from __future__ import annotations

from typing import get_args

from cli.errors import want
from cli.experiment.schema import AUTHORITATIVE, Experiment, Front, Stateless
from cli.experiment.settings import Proxy

_STATELESS = get_args(Stateless)
_OF = {  # the fronts that a key belongs to
    **dict.fromkeys(("timeout_ms", "early_ack", "axfr_detect", "loglevel", "truncate_udp"), _STATELESS),
    "fin_last": ("reference",),
    **dict.fromkeys(("promote", "entries"), ("bpf",)),
    "config": get_args(Proxy),
}


def check(experiment: Experiment) -> None:
    """What stands before the server, and its options."""
    kind = experiment.server.front
    given, default = experiment.front or Front(), Front()
    for key, owners in _OF.items():
        want(
            kind in owners or getattr(given, key) == getattr(default, key),
            f'front.{key} and server.front = "{kind}" exclude each other',
            "leave it out or use server.front = " + " or ".join(f'"{one}"' for one in owners),
        )
    if kind == "kernel":
        return
    want(
        experiment.own_server and experiment.emulated is None,
        f'server.front = "{kind}" and server.kind = "{experiment.server.kind}" exclude each other',
        f"a front stands before an authoritative server of the run: use server.kind = {AUTHORITATIVE}",
    )
    want(
        experiment.rtt is None or not experiment.has_front or experiment.replay.source_mode != "packet",
        f'server.front = "{kind}", [rtt] and replay.source_mode = "packet" exclude each other',
        "before a front the delay lines are at the clients, and that mode goes past them: use another",
    )
