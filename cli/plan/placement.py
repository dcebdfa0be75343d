"""A plan on real hosts: each host of the plan is a machine with one interface in the experiment's network.

The machines keep their own addresses and routes. Those of the plan (its links' ends, the service addresses,
the ways to them) are added by steps with their undo, so that no command line differs from that of a local
run: only names of interfaces do. All of the machines' interfaces must lie in one LAN, because a link's ends
are neighbors.

Kernel settings are those of a local run that leave the way to the operator alone, and are put back.
"""

import dataclasses
import re
from collections.abc import Iterator

from cli.errors import want
from cli.plan import host_settings
from cli.plan.network import Network
from cli.plan.planned import HostStep, Management, shell

KIND = "hosts"
_LEFT_ALONE = ("net/ipv4/ip_forward", "net/ipv6/", "net/ipv4/tcp_child_ehash_entries")
_REACHES = (
    'n=0; until ping -n -q -c 1 -W 1 "$1" > /dev/null 2>&1; do n=$((n + 1)); test $n -lt 5 || '
    '{ echo "no answer from $1 by $2: the interfaces of all hosts must be in one LAN" >&2; exit 1; }; done'
)


def placed(network: Network, management: Management | None) -> Network:
    """The network as one of real hosts, where there are interfaces for it."""
    if management is None or not management.interfaces:
        return network
    missing = [host.name for host in network.hosts if host.name not in management.interfaces]
    want(not missing, f"there is no machine for {', '.join(missing)}", "add it to the inventory")
    return dataclasses.replace(network, kind=KIND)


def setup(network: Network, management: Management | None) -> Iterator[HostStep]:
    """Settings, addresses and routes of every host; then each looks whether it reaches its neighbors."""
    if management is None or network.kind != KIND:
        return
    for host in network.hosts:
        yield from _placed(network, host.name, management.interfaces[host.name])
    for host in network.hosts:
        yield _reaches(network, host.name, management.interfaces[host.name])


def _placed(network: Network, host: str, interface: str) -> Iterator[HostStep]:
    chosen = [one for one in network.sysctls if one.host == host and not one.key.startswith(_LEFT_ALONE)]
    values = {one.key.replace("/", "."): one.value for one in chosen}
    write = ("sysctl", "-e", "-q", "-w", *(f"{key}={value}" for key, value in values.items()))
    kept = "|".join(map(re.escape, values))
    yield host_settings.settings(f"network-settings-{host}", host, write, kept=f"^({kept}) ")
    found = [(one, interface) for _, addresses, _, _ in network.ends(host) for one in addresses]
    found += [(one.address, one.interface) for one in network.addresses if one.host == host]
    add = [
        ("ip", "addr", "replace", address, "dev", device, *(("nodad",) if ":" in address else ()))
        for address, device in found
    ]
    remove = tuple(shell('ip addr del "$1" dev "$2" 2> /dev/null || true', *one) for one in found)
    up = ("ip", "link", "set", "dev", interface, "up")
    yield HostStep(f"network-addresses-{host}", host, (up, *add), remove)
    routes = [one.words for one in network.routes if one.host == host]
    lead = tuple(("ip", "route", "replace", *words) for words in routes)
    remove = tuple(shell('ip route del "$@" 2> /dev/null || true', *words) for words in routes)
    yield HostStep(f"network-routes-{host}", host, lead, remove)


def _reaches(network: Network, host: str, interface: str) -> HostStep:
    """The other ends of its links, IPv4 and IPv6."""
    others = [one.partition("/")[0] for *_, there in network.ends(host) for one in there]
    looks = tuple(shell(_REACHES, one, interface) for one in others)
    return HostStep(f"network-neighbors-{host}", host, looks, after_all=True)
