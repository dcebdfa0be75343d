"""Rules of server.front and [front] that no type can say."""

from __future__ import annotations

from cli.errors import want
from cli.experiment.schema import AUTHORITATIVE, Experiment, Front

_ONLY = {  # the front that a key belongs to
    "fin_last": "reference",
    "promote": "bpf",
    "entries": "bpf",
    "truncate_udp": "bpf",
}


def check(experiment: Experiment) -> None:
    """What answers the clients' TCP, and its options."""
    kind = experiment.server.front
    if not experiment.has_front:
        want(
            experiment.front is None,
            '[front] and server.front = "kernel" exclude each other',
            'use server.front = "reference" or "bpf", or leave the table out',
        )
        return
    want(
        experiment.own_server and experiment.emulated is None,
        f'server.front = "{kind}" and server.kind = "{experiment.server.kind}" exclude each other',
        f"a front stands before an authoritative server of the run: use server.kind = {AUTHORITATIVE}",
    )
    want(
        experiment.rtt is None,
        f'server.front = "{kind}" and [rtt] exclude each other',
        "a front answers handshakes itself, where no delay line sees them: leave [rtt] out",
    )
    given, default = experiment.front or Front(), Front()
    for key, owner in _ONLY.items():
        want(
            owner == kind or getattr(given, key) == getattr(default, key),
            f'front.{key} and server.front = "{kind}" exclude each other',
            f'leave it out or use server.front = "{owner}"',
        )
