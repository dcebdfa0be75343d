"""Rules of [hierarchy], and of what else an experiment with server.kind = "hierarchy" may say."""

from __future__ import annotations

from cli.errors import want
from cli.experiment import addresses, delay_rules
from cli.experiment.schema import Experiment, Hierarchy


def check(experiment: Experiment) -> None:
    """The whole; an experiment with another server must not have the table."""
    world = experiment.world
    if world is None:
        want(
            experiment.hierarchy is None,
            f'[hierarchy] and server.kind = "{experiment.server.kind}" exclude each other',
            'use server.kind = "hierarchy" or leave the table out',
        )
        return
    want(
        bool(world.resolvers),
        "hierarchy.resolver is empty",
        "use bind, unbound, knot-resolver or a list of them",
    )
    _check_zones(experiment, world)
    _check_numbers(experiment, world)
    _check_paths(world)
    _check_others(experiment, world)


def _check_zones(experiment: Experiment, world: Hierarchy) -> None:
    server = experiment.server
    want(
        world.zones is not None or world.synth is not None,
        "the hierarchy has no zones",
        "set hierarchy.zones = FOLDER or add a [hierarchy.synth] table",
    )
    want(
        server.zone is None and server.root_like is None and server.origin is None and not server.addresses,
        'server.zone, root_like, origin and addresses are not for server.kind = "hierarchy"',
        "its zones are hierarchy.zones",
    )


def _check_numbers(experiment: Experiment, world: Hierarchy) -> None:
    resolvers, clients = len(world.resolvers), experiment.topology.clients
    want(
        resolvers * world.instances <= addresses.MOST_LINKS,
        f"{resolvers} resolvers and {world.instances} instances are too many",
        f"their product may be {addresses.MOST_LINKS}",
    )
    want(
        clients <= addresses.MOST_CLIENTS,
        f"topology.clients = {clients} is out of range with a hierarchy",
        f"use 1 to {addresses.MOST_CLIENTS}",
    )
    want(
        resolvers <= clients,
        f"{resolvers} resolvers have {clients} clients to ask them",
        "set topology.clients at least as high",
    )


def _check_paths(world: Hierarchy) -> None:
    want(
        world.engine != "nsd" or world.form != "paper",
        'hierarchy.engine = "nsd" and form = "paper" exclude each other',
        'NSD has no views; use form = "coloured" or "separate"',
    )
    want(
        world.expired_signatures != "accept" or "knot-resolver" not in world.resolvers,
        'hierarchy.expired_signatures = "accept" and resolver = "knot-resolver" exclude each other',
        'only BIND and unbound can accept them; use "keep", or hierarchy.validate = false',
    )
    want(
        world.resolver_config is None or len(set(world.resolvers)) == 1,
        "hierarchy.resolver_config is for resolvers of one kind",
        "leave it out or use one kind",
    )
    if world.rtt is None:
        return
    want(
        world.data_path == "tun",
        f'[hierarchy.rtt] and hierarchy.data_path = "{world.data_path}" exclude each other',
        'only the proxies of data_path = "tun" can make packets wait',
    )
    want(
        world.rtt.by is None,
        "hierarchy.rtt.by is for [rtt]",
        "a trace says nothing about the way behind the resolver; use hierarchy.rtt.table",
    )
    delay_rules.check_rtt("hierarchy.rtt", world.rtt)


def _check_others(experiment: Experiment, world: Hierarchy) -> None:
    want(
        not experiment.over_tls,
        'server.kind = "hierarchy" and TLS exclude each other',
        "resolvers under test are asked by UDP and TCP; leave [tls] out",
    )
    want(
        experiment.server.port == 53,
        f"server.port = {experiment.server.port} is not for a hierarchy",
        "resolvers listen on port 53",
    )
    want(
        world.cache == "cold" or experiment.generate is None,
        'hierarchy.cache = "warm" and [generate] exclude each other',
        "give a trace or a [synth] table",
    )
