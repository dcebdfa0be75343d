"""Interfaces that split no segments for their hosts: a host sends each segment as a packet of its own."""

from __future__ import annotations

from cli.errors import want
from cli.experiment.schema import Experiment
from cli.plan import network
from cli.plan.planned import HostStep, Management


def setup(experiment: Experiment, management: Management | None) -> tuple[HostStep, ...]:
    """At both ends of the links between clients and servers."""
    if experiment.socket is None or experiment.socket.offload:
        return ()
    want(
        experiment.own_server and management is None,
        "socket.offload = false is for a server of ours on this machine",
        "leave it out",
    )
    servers = len(experiment.emulated.resolvers) if experiment.emulated else 1
    ends = [
        end
        for index in range(1, experiment.topology.clients + 1)
        for place in range(network.further(experiment.replay.peers, servers) + 1)
        for end in zip(
            (network.client(index), network.server(network.server_of(index, servers, place))),
            network.data_link(index, place),
            strict=True,
        )
    ]
    return tuple(
        HostStep(f"offload-{host}-{device}", host, (("ip", "link", "set", device, "gso_max_segs", "1"),))
        for host, device in ends
    )
