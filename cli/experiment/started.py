"""The programs that an experiment starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.experiment.experiment import Experiment  # loaded when an experiment is read

_SERVERS = {"nsd": ("nsd", "nsd-checkzone"), "bind": ("named", "named-checkzone"), "address": ()}
_HIERARCHY_SERVERS = {"bind": "named", "unbound": "unbound", "knot-resolver": "kresd", "nsd": "nsd"}


def own_programs(experiment: Experiment) -> tuple[str, ...]:
    """Our programs that an experiment starts."""
    world, rtt = experiment.world, experiment.rtt
    mutator = experiment.trace is None or experiment.mutate is not None or world is not None
    mutator = mutator or (rtt is not None and rtt.by is not None)
    return (
        "reprise-controller",
        "reprise-querier",
        *(("reprise-mutator",) if mutator else ()),
        *(("reprise-sampler",) if experiment.own_server or experiment.sample.clients else ()),
        *(("reprise-zonebuilder",) if world else ()),
        *(("reprise-proxy",) if rtt or (world and world.data_path == "tun") else ()),
    )


def packaged_programs(experiment: Experiment) -> tuple[str, ...]:
    """The packaged programs that an experiment starts."""
    world = experiment.world
    capture = ("tcpdump",) if experiment.sample.capture else ()
    if world is not None:
        kinds = dict.fromkeys(_HIERARCHY_SERVERS[one] for one in (*world.resolvers, world.engine))
        return (*kinds, "nft", "ip", "sysctl", *capture)
    shaped = ("ip", "sysctl") if experiment.rtt else ()
    return (*_SERVERS[experiment.server.kind], *shaped, *capture)
