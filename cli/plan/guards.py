"""The guards of an experiment's hosts: who has one, its ruleset, and the steps that load and drop it.

A guard is the first step of a host's set-up and the last undo, so that it is in force while any process of
the experiment runs. In the namespaces of `reprise run` the hosts of a hierarchy have one; there is no way out
of the others.

Real hosts (those with a management network, see `Management`) have a default route and are reached by ssh, so
that servers and queriers have a guard too, and the operator must not be locked out. There the guard lets
through what goes to the management prefixes, and everything after a while, unless a connection made after it
was loaded confirms it in time. The kernel sees to that: the guard is in force while a set of it has elements.
They end by themselves unless the confirmation replaces them by lasting ones, in one transaction. (The timeout
of elements that are there cannot be changed before Linux 6.12.)
"""

import dataclasses
import ipaddress
from collections.abc import Iterator
from typing import Any

from cli.errors import UsageError, want
from cli.experiment.schema import AUTHORITATIVE, Experiment
from cli.plan import delay, front, hierarchy_hosts, network
from cli.plan.network import Network
from cli.plan.planned import RESULTS, RUN, Figure, File, HostStep, Management, shell
from cli.servers import nftables

_TUNNELS = (hierarchy_hosts.TUN, delay.TUN)
_FILE = f"{RUN}/guard-{{}}.nft"  # of a host
_SHORTEST = {4: 8, 6: 16}  # bits of a management prefix
_UNDO_S = 60.0  # after which a guard that nobody confirms drops itself
_DROP = "; ".join(hierarchy_hosts.drop_table(nftables.GUARD, family) for family in ("netdev", "inet"))
_THERE = f"nft list table inet {nftables.GUARD} > /dev/null 2>&1"
_CONFIRM = (
    f'nft "$1" 2> /dev/null && exit 0; if {_THERE}; then {_DROP}; '
    'echo "the guard was not confirmed within $2 s and has been dropped; load it again" >&2; '
    'else echo "there is no guard to confirm; load it first" >&2; fi; exit 1'
)
Hosts = dict[str, nftables.Guarded]


def check(experiment: Experiment, management: Management) -> None:
    """What cannot be a management network. Throws UsageError."""
    kind, mode = experiment.topology.kind, experiment.replay.source_mode
    what = f'topology.kind = "{kind}" is for a run from this machine'
    want(kind == "local", what, "leave it out, or run it without --inventory")
    what = "a server at a loopback address has no host that could be guarded"
    hint = f'name an address that all clients reach, or use server.kind = "hierarchy", {AUTHORITATIVE}'
    want(experiment.own_server or experiment.elsewhere, what, hint)
    own = [ipaddress.ip_network(one) for one in _prefixes(experiment)]
    for text in experiment.server.addresses if experiment.elsewhere else ():
        inside = next((one for one in own if ipaddress.ip_address(text) in one), None)
        what = f"server address {text} lies in {inside}, which are addresses of the experiment"
        want(inside is None, what, "give the server another address")
    what = f'replay.source_mode = "{mode}" takes all routes of its hosts, also those to the operator'
    want(not experiment.replay.shows_trace_addresses, what, 'use source_mode = "ports" or "mapped"')
    what = "there is no management prefix"
    want(bool(management.prefixes), what, "name the network that you reach hosts from")
    own += [ipaddress.ip_network(one) for one in sources(experiment)]
    for text in management.prefixes:
        try:
            prefix = ipaddress.ip_network(text)
        except ValueError:
            prefix = None
        if prefix is None or "/" not in text or prefix.is_multicast:
            what = f"management prefix {text} is not ADDRESS/BITS with the host bits zero"
            raise UsageError(what, "write it like 192.0.2.0/24 or 2001:db8:1::/64")
        shortest = _SHORTEST[prefix.version]
        what = f"management prefix {text} is so large that the guard would let the experiment's packets out"
        hint = f"name the networks that you reach the hosts from, of {shortest} bits or more"
        want(prefix.prefixlen >= shortest, what, hint)
        for one in own:
            what = f"management prefix {text} overlaps {one}, which are addresses of the experiment"
            want(not one.overlaps(prefix), what, "reach the hosts by other addresses")


def files(hosts: Hosts) -> tuple[File, ...]:
    return tuple(File(_FILE.format(host), nftables.guard_ruleset(guarded)) for host, guarded in hosts.items())


def steps(host: str, guarded: nftables.Guarded) -> Iterator[HostStep]:
    """Load the guard, before all other steps; confirm one that will end by itself, over a new connection."""
    yield HostStep(f"guard-{host}", host, (("nft", "-f", _FILE.format(host)),), (shell(_DROP),))
    if guarded.confirm_s:
        confirm = shell(_CONFIRM, nftables.guard_confirmation(guarded), f"{guarded.confirm_s:g}")
        yield HostStep(f"guard-{host}-confirm", host, (confirm,), new_connection=True)


def counters(hosts: Hosts) -> tuple[HostStep, ...]:
    listing = 'set -C; nft -j list counters > "$1"'
    return tuple(
        HostStep(f"guard-{host}-counters", host, (shell(listing, f"{RESULTS}/guard-{host}.json"),))
        for host in hosts
    )


def figures(hosts: Hosts) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            f"guard-{host}.json",
            host,
            f"{nftables.GUARD}.{name}",
            f"{words} (guard's counter {name})",
            f"the guard of {host} could not be read",
            "nft",
            leak=True,
        )
        for host, guarded in hosts.items()
        for name, words in guarded.counted.items()
    )


def of(experiment: Experiment, net: Network, management: Management | None) -> Hosts:
    """What may leave each guarded host."""
    emulated = experiment.emulated
    if emulated is None and management is None:
        return {}
    clients = dict.fromkeys(network.client(n) for n in range(1, experiment.topology.clients + 1))
    rewrites = emulated is not None and emulated.data_path == "tun"  # by proxies, which write to the links
    interfaces = management.interfaces if management else {}

    def by(host: str, links: list[str]) -> list[str]:
        """What may leave by links may leave by the machine's interface."""
        return [interfaces[host]] if links and host in interfaces else links

    found: Hosts = {}
    for host in [one.name for one in net.hosts if one.name not in clients and one.name != network.CONTROLLER]:
        others = {link: other for link, _, other, _ in net.ends(host) if other != host}
        facing = [link for link, other in others.items() if other in clients]
        found[host] = nftables.Guarded(
            by(host, [*others]), clients=by(host, facing), ports=experiment.ports, writes_frames=rewrites
        )
    tunnels = (*_TUNNELS, *front.tunnels(experiment))
    every: dict[str, Any] = {"prefixes": _prefixes(experiment), "tunnels": tunnels}
    if management is not None:
        asked = experiment.server.addresses if experiment.elsewhere else ()
        for host in clients:
            links = by(host, ["data", "control"])
            found[host] = nftables.Guarded(links, ports=experiment.ports, asked=asked)
        own = sources(experiment)
        every |= {"management": management.prefixes, "sources": own, "confirm_s": _UNDO_S}
    return {host: dataclasses.replace(one, **every) for host, one in found.items()}


def _prefixes(experiment: Experiment) -> tuple[str, ...]:
    """All addresses of the experiment's hosts."""
    return network.own_prefixes(experiment.topology.clients, bool(experiment.emulated))


def sources(experiment: Experiment) -> tuple[str, ...]:
    """Addresses of the experiment's sources that are not the trace's."""
    if experiment.replay.source_mode != "mapped":
        return ()
    clients = experiment.topology.clients
    return tuple(one for index in range(1, clients + 1) for one in network.source_prefixes(index, clients))
