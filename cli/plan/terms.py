"""What programs name otherwise than the experiment does, for their error messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from cli.experiment.schema import Experiment, Rtt
from cli.plan import mutation
from cli.plan.planned import Facts, File, Terms
from cli.plan.replay_options import SETTINGS
from cli.servers import kinds

_EXPERIMENT = {
    "--server": "server.addresses",
    "--server-port": "server.port",
    "--port": "replay.ports",
    "--generate": "generate.name",
    "--generate-sources": "generate.sources",
    "--generate-rd": "generate.rd",
    "--cpus": "replay.cpus",
    "--queriers": "topology.queriers",
    mutation.RULE_FILE: "[mutate]",
    "--skip-bad": "hierarchy.skip_bad = true",
    SETTINGS: "the settings",
}
_FRONT = {
    "--front": "server.front",
    "--port": "server.port",
    "--timeout": "front.timeout_ms",
    "--early-ack": "front.early_ack = true",
    "--no-early-ack": "front.early_ack = false",
    "--axfr-detect": "front.axfr_detect",
    "--loglevel": "front.loglevel",
    "--fin-last": "front.fin_last = true",
    "--no-promote": "front.promote = false",
    "--entries": "front.entries",
    "--truncate-udp": "front.truncate_udp",
}
EXPERIMENT, SYNTH, RTT, WORLD_RTT, FRONT, OWN_LINES = (
    "experiment",
    "synth",
    "rtt",
    "hierarchy.rtt",
    "front",
    "resolvers",
)


def of(experiment: Experiment) -> dict[str, Terms]:
    """The terms of a plan, by the names under which steps, checks and processes have them."""
    found = {EXPERIMENT: Terms(_EXPERIMENT)}
    if experiment.synth is not None:
        kept = {"see --help": "see reprise trace synth --help", "--help": "--help", "--output": "--output"}
        found[SYNTH] = Terms(kept, "synth.")
    if experiment.has_front:
        found[FRONT] = Terms(_FRONT)
    emulated = experiment.emulated
    for name, rtt in ((RTT, experiment.rtt), (WORLD_RTT, emulated.rtt if emulated else None)):
        if rtt is not None:
            found[name] = Terms(_rtt(name))
    return found


def of_lines(files: Iterable[File], experiment: Experiment, facts: Facts) -> dict[str, Terms]:
    """Places in the configurations of servers under test and fronts, as places in the user's files."""
    emulated = experiment.emulated is not None
    own = kinds.KINDS.get(experiment.server.kind)
    begins = own.config_file if own else "resolver-"
    key = "hierarchy.resolver_config" if emulated else "server.config"
    before = kinds.KINDS.get(experiment.server.front)
    names: dict[str, str] = {}
    for file in files:
        name = file.path.rpartition("/")[2]
        if name.startswith(begins) and file.content is not None:
            names |= kinds.users_lines(name, file.content, facts.config_lines, key)
        if before is not None and name == before.config_file and file.content is not None:
            names |= kinds.users_lines(before.quoted_as, file.content, facts.front_lines, "front.config")
    return {OWN_LINES: Terms(names)}


def _rtt(table: str) -> dict[str, str]:
    names = [one.name for one in dataclasses.fields(Rtt)]
    return {
        option: f"{table}.{name}"
        for name in names
        for option in (_option(name), _option(name if name == "rtt_ms" else f"rtt_{name}"))
    }


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
