"""The local topology with a hierarchy behind the resolvers under test, as values.

Each resolver's host has a link to each meta-DNS-server's host. A resolver asks from an address of its own on
its loopback; what it asks goes to a meta address, one for each slot and resolver. In the namespaces of a run
both kinds of host have a way out, as a real host has: an interface that leads nowhere, so that what would
leak comes as far as the guard, which drops and counts it. Not where the server's way out is that to the
client (the trace's own addresses as sources).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from cli.experiment.addresses import META4, META6
from cli.plan import network
from cli.plan.network import Address, Host, Link, Network, Route

OUTSIDE = "outside"


def meta(index: int) -> str:
    """Name of the host of the meta-DNS-server instance number `index`, from 1."""
    return f"meta{index}"


def resolver_link(resolver: int) -> str:
    """Name of the link to a resolver's host at a meta-DNS-server's; the other end has the latter's name."""
    return f"resolver{resolver}"


def upstream(resolver: int) -> tuple[str, str]:
    """The addresses from which resolver number `resolver` asks."""
    return f"198.19.254.{resolver}", f"fd00:198:19:fe::{resolver:x}"


def link_addresses(resolver: int, instance: int, instances: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Both ends (the resolver's first) of the link between a resolver and an instance, without prefixes."""
    number = (resolver - 1) * instances + instance - 1
    four, six = (
        (f"198.19.253.{2 * number + end}" for end in (0, 1)),
        (f"fd00:198:19:fd::{4 * number + end:x}" for end in (1, 2)),
    )
    one, other = zip(four, six, strict=True)
    return one, other


def hierarchy(base: Network, resolvers: int, instances: int, listen_queue: int) -> Network:
    """The local topology `base` with meta-DNS-servers behind its servers."""
    pairs = [(r, i) for r in range(1, resolvers + 1) for i in range(1, instances + 1)]
    metas = [meta(index) for index in range(1, instances + 1)]
    return dataclasses.replace(
        base,
        hosts=(*base.hosts, *(Host(name) for name in metas)),
        links=(*base.links, *(_link(resolver, instance, instances) for resolver, instance in pairs)),
        addresses=(
            *base.addresses,
            *(
                Address(network.server(resolver), "lo", network.whole(address))
                for resolver in range(1, resolvers + 1)
                for address in upstream(resolver)
            ),
        ),
        routes=(*base.routes, *(route for one in pairs for route in _routes(*one, instances))),
        sysctls=(*base.sysctls, *(one for name in metas for one in network.sysctls(name, listen_queue))),
    )


def with_ways_out(base: Network, hosts: Iterable[str]) -> Network:
    """The network with an interface that leads nowhere as the hosts' way out."""
    names = list(hosts)
    return dataclasses.replace(
        base,
        links=(*base.links, *(Link(name, name, OUTSIDE, "nowhere", (), ()) for name in names)),
        routes=(
            *base.routes,
            *(Route(name, to, interface=OUTSIDE) for name in names for to in ("0.0.0.0/0", "::/0")),
        ),
    )


def _link(resolver: int, instance: int, instances: int) -> Link:
    here, there = link_addresses(resolver, instance, instances)
    return Link(
        network.server(resolver),
        meta(instance),
        meta(instance),
        resolver_link(resolver),
        (f"{here[0]}/31", f"{here[1]}/126"),
        (f"{there[0]}/31", f"{there[1]}/126"),
    )


def _routes(resolver: int, instance: int, instances: int) -> tuple[Route, ...]:
    """A meta-DNS-server knows the way back to each resolver; the other way depends on the plan of zones,
    see `hierarchy.py`, and is complete here where there is one instance.
    """
    here, there = link_addresses(resolver, instance, instances)
    back = tuple(
        Route(meta(instance), network.whole(address), via)
        for address, via in zip(upstream(resolver), here, strict=True)
    )
    if instance != 1:
        return back
    to = tuple(
        Route(network.server(resolver), prefix, via)
        for prefix, via in zip((META4, META6), there, strict=True)
    )
    return (*back, *to)
