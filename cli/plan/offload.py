"""Interfaces that split no segments for their hosts: a host sends each segment as a packet of its own."""

from __future__ import annotations

from cli.errors import want
from cli.experiment.schema import Experiment
from cli.plan import network
from cli.plan.network import Network
from cli.plan.planned import HostStep, Management


def setup(experiment: Experiment, net: Network, management: Management | None) -> tuple[HostStep, ...]:
    """At both ends of the links between clients and servers."""
    if experiment.socket is None or experiment.socket.offload:
        return ()
    want(
        experiment.own_server and management is None,
        "socket.offload = false is for a server of ours on this machine",
        "leave it out",
    )
    clients = {network.client(index) for index in range(1, experiment.topology.clients + 1)}
    links = (one for one in net.links if one.a in clients)
    ends = [end for one in links for end in ((one.a, one.a_if), (one.b, one.b_if))]
    return tuple(
        HostStep(f"offload-{host}-{device}", host, (("ip", "link", "set", device, "gso_max_segs", "1"),))
        for host, device in ends
    )
