"""Options that say what is played, when, and as whom, for the plan."""

import dataclasses
from typing import Any

from cli.experiment import rules
from cli.experiment.schema import Experiment
from cli.experiment.settings import ReplaySettings, SocketSettings, TlsSettings
from cli.experiment.tables import line
from cli.plan import network
from cli.plan.planned import RUN, File
from cli.programs import flags

SETTINGS = f"{RUN}/settings.toml"


def trace_or_generator(experiment: Experiment, trace: str) -> tuple[str, ...]:
    """What the controller plays: the trace's path, or the generator."""
    generate = experiment.generate
    if generate is None:
        return (trace,)
    return flags(
        generate=f"{generate.name}/{generate.type}",
        generate_sources=generate.sources,
        generate_rd=experiment.wants_recursion,
    )


def file(experiment: Experiment, name: str) -> File:
    """The settings that differ from the controller's defaults; `name`: of our own server's certificate."""
    replay = _changed(experiment.replay, ReplaySettings())
    if experiment.rate:
        replay["rate"] = experiment.rate
    if experiment.replay.shows_trace_addresses:  # the testbed's own addresses cannot be sources
        own = network.own_prefixes(experiment.topology.clients, bool(experiment.emulated))
        replay["skip_sources"] = (*experiment.replay.skip_sources, *own)
    tables = {"replay": replay}
    if experiment.over_tls:
        changed = _changed(experiment.tls_settings, TlsSettings())
        tables["tls"] = {**({"name": name} if experiment.own_server else {}), **changed, "ca": None}
    if experiment.socket is not None:
        tables["socket"] = _changed(experiment.socket, SocketSettings())
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(line(name, one) for name, one in values.items() if one is not None)]
    return File(SETTINGS, content="\n".join(lines) + "\n")


def _changed(values: object, defaults: Any) -> dict[str, Any]:
    """What differs from the defaults, of the settings that the controller knows."""
    usual = dataclasses.asdict(defaults)
    return {key.rstrip("_"): found for key in usual if (found := getattr(values, key)) != usual[key]}


def authority(experiment: Experiment, own: str) -> tuple[str, ...]:
    """Whose certificates are trusted for the server; `own`: for our own server. A path, so not in the file:
    it need not be UTF-8.
    """
    path = (experiment.tls and experiment.tls.ca) or (own if experiment.own_server else "")
    return ("--set", f"tls.ca={path}") if path and experiment.over_tls else ()


def peers(experiment: Experiment) -> tuple[str, ...]:
    """Addresses of our own servers that hedged queries go to, beside those that all clients ask."""
    own = (network.SERVICE_V4, network.SERVICE_V6)
    addresses = [str(rules.peer(text)[0]) for text in experiment.replay.peers]
    return tuple(dict.fromkeys(one for one in addresses if one not in own))
