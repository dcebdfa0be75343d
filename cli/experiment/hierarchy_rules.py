"""Rules of [hierarchy], and of what else an experiment with server.kind = "hierarchy" may say."""

from cli.errors import exclude, want
from cli.experiment import addresses, server_rules
from cli.experiment.schema import Experiment, Hierarchy


def check(experiment: Experiment) -> None:
    """The whole; an experiment with another server must not have the table."""
    emulated = experiment.emulated
    if emulated is None:
        kind, hint = f'server.kind = "{experiment.server.kind}"', 'use server.kind = "hierarchy"'
        exclude(experiment.hierarchy and "[hierarchy]", kind, hint=f"{hint} or leave the table out")
        return
    want(
        bool(emulated.resolvers),
        "hierarchy.resolver is empty",
        "use bind, unbound, knot-resolver, pdns-recursor or a list of them",
    )
    _check_zones(experiment, emulated)
    _check_numbers(experiment, emulated)
    _check_paths(emulated)
    want(
        experiment.server.port == 53,
        f"server.port = {experiment.server.port} is not for a hierarchy",
        "resolvers listen on port 53",
    )
    warm = emulated.cache == "warm" and 'hierarchy.cache = "warm"'
    exclude(warm, experiment.generate and "[generate]", hint="give a trace or a [synth] table")


def _check_zones(experiment: Experiment, emulated: Hierarchy) -> None:
    server = experiment.server
    want(
        any(one is not None for one in (emulated.zones, emulated.capture, emulated.synth)),
        "the hierarchy has no zones",
        "set hierarchy.zones = FOLDER or hierarchy.capture = FILE, or add a [hierarchy.synth] table",
    )
    exclude(emulated.zones and "hierarchy.zones", emulated.capture and "hierarchy.capture")
    want(
        emulated.capture is not None or emulated.dnssec == "keep",
        f'hierarchy.dnssec = "{emulated.dnssec}" is for zones built from hierarchy.capture',
        "use `reprise zones resign` for other folders",
    )
    want(
        not any(
            (
                *(server.zone, server.capture, server.root_like, server.wildcard),
                *(server.origin, server.addresses),
            )
        ),
        'server.zone, capture, root_like, wildcard, origin and addresses are not for kind = "hierarchy"',
        "its zones are hierarchy.zones or hierarchy.capture",
    )


def _check_numbers(experiment: Experiment, emulated: Hierarchy) -> None:
    resolvers, clients = len(emulated.resolvers), experiment.topology.clients
    want(
        resolvers * emulated.instances <= addresses.MOST_LINKS,
        f"{resolvers} resolvers and {emulated.instances} instances are too many",
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


def _check_paths(emulated: Hierarchy) -> None:
    exclude(
        emulated.engine == "nsd" and 'hierarchy.engine = "nsd"',
        emulated.form == "paper" and 'form = "paper"',
        hint='NSD has no views; use form = "colored" or "separate"',
    )
    strict = next((one for one in emulated.resolvers if one not in ("bind", "unbound")), "")
    accepts = emulated.validate and emulated.expired_signatures == "accept"
    exclude(
        accepts and 'hierarchy.expired_signatures = "accept"',
        strict and f'resolver = "{strict}"',
        hint='only BIND and unbound can accept them; use "keep", or hierarchy.validate = false',
    )
    want(
        emulated.resolver_config is None or len(set(emulated.resolvers)) == 1,
        "hierarchy.resolver_config is for resolvers of one kind",
        "leave it out or use one kind",
    )
    if emulated.rtt is None:
        return
    nft = emulated.data_path == "nft" and 'hierarchy.data_path = "nft"'
    exclude("[hierarchy.rtt]", nft, hint='only the proxies of data_path = "tun" can make packets wait')
    want(
        emulated.rtt.by is None,
        "hierarchy.rtt.by is for [rtt]",
        "a trace says nothing about the way behind the resolver; use hierarchy.rtt.table",
    )
    server_rules.check_rtt("hierarchy.rtt", emulated.rtt)
