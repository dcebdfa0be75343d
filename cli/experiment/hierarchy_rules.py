"""Rules of [hierarchy], and of what else an experiment with server.kind = "hierarchy" may say."""

from typing import get_args

from cli.errors import UsageError, exclude, want
from cli.experiment import addresses, server_rules
from cli.experiment.schema import Experiment, Hierarchy, Server
from cli.experiment.settings import TAKES_EXPIRED, Resolver


def check(experiment: Experiment) -> None:
    """The whole; an experiment with another server must not have the table."""
    emulated = experiment.emulated
    if emulated is None:
        kind, hint = f'server.kind = "{experiment.server.kind}"', 'use server.kind = "hierarchy"'
        exclude(experiment.hierarchy and "[hierarchy]", kind, hint=f"{hint} or leave the table out")
        return
    if not emulated.resolvers:
        what = "hierarchy.resolver is empty"
        raise UsageError(what, f"use {', '.join(get_args(Resolver))} or a list of them")
    _check_zones(experiment.server, emulated)
    _check_hosts(experiment.topology.clients, emulated)
    if experiment.server.port != 53:
        what = f"server.port = {experiment.server.port} is not for a hierarchy"
        raise UsageError(what, "resolvers listen on port 53")
    warm = emulated.cache == "warm" and 'hierarchy.cache = "warm"'
    exclude(warm, experiment.generate and "[generate]", hint="give a trace or a [synth] table")


def _check_zones(server: Server, emulated: Hierarchy) -> None:
    want(
        any(one is not None for one in (emulated.zones, emulated.capture, emulated.synth)),
        "the hierarchy has no zones",
        "set hierarchy.zones = FOLDER or hierarchy.capture = FILE, or add a [hierarchy.synth] table",
    )
    exclude(emulated.zones and "hierarchy.zones", emulated.capture and "hierarchy.capture")
    if emulated.capture is None and emulated.dnssec != "keep":
        what = f'hierarchy.dnssec = "{emulated.dnssec}" is for zones built from hierarchy.capture'
        raise UsageError(what, "use `reprise zones resign` for other folders")
    own = (server.zone, server.capture, server.root_like, server.wildcard, server.origin, server.addresses)
    want(
        not any(own),
        'server.zone, capture, root_like, wildcard, origin and addresses are not for kind = "hierarchy"',
        "its zones are hierarchy.zones or hierarchy.capture",
    )


def _check_hosts(clients: int, emulated: Hierarchy) -> None:
    resolvers = len(emulated.resolvers)
    if resolvers * emulated.instances > addresses.MOST_LINKS:
        what = f"{resolvers} resolvers and {emulated.instances} instances are too many"
        raise UsageError(what, f"their product may be {addresses.MOST_LINKS}")
    if clients > addresses.MOST_CLIENTS:
        what = f"topology.clients = {clients} is out of range with a hierarchy"
        raise UsageError(what, f"use 1 to {addresses.MOST_CLIENTS}")
    if resolvers > clients:
        what = f"{resolvers} resolvers have {clients} clients to ask them"
        raise UsageError(what, "set topology.clients at least as high")
    exclude(
        emulated.engine == "nsd" and 'hierarchy.engine = "nsd"',
        emulated.form == "paper" and 'form = "paper"',
        hint='NSD has no views; use form = "colored" or "separate"',
    )
    strict = next((one for one in emulated.resolvers if one not in TAKES_EXPIRED), "")
    accepts = emulated.validate and emulated.expired_signatures == "accept"
    exclude(
        accepts and 'hierarchy.expired_signatures = "accept"',
        strict and f'resolver = "{strict}"',
        hint=f"only {' and '.join(TAKES_EXPIRED.values())} can accept them; "
        'use "keep", or hierarchy.validate = false',
    )
    if emulated.resolver_config is not None and len(set(emulated.resolvers)) > 1:
        what = "hierarchy.resolver_config is for resolvers of one kind"
        raise UsageError(what, "leave it out or use one kind")
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
