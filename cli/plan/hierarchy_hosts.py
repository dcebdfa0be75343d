"""The hosts of a hierarchy behind the resolvers under test: the local topology, as values, and what they need
beside addresses and links, as steps with their undo.

Each resolver's host has a link to each meta-DNS-server's host. A resolver asks from an address of its own on
its loopback; what it asks goes to a meta address, one for each slot and resolver. In the namespaces of a run
both kinds of host have a way out, as a real host has: an interface that leads nowhere, so that what would
leak comes as far as the guard, which drops and counts it. Not where the server's way out is that to the
client (the trace's own addresses as sources).

The same steps hold for network namespaces and for real hosts. Each may be carried out twice, and after its
undo rules, routes, addresses, tables and settings are as they were. The guards come before, see guards.py.
No marks are used: a host's own packets come from `lo` in the eyes of routing rules, and those that the proxy
writes back come from the TUN device, so that they take the main table.
"""

import dataclasses
from collections.abc import Iterable

from cli.experiment.addresses import META4, META6
from cli.plan import host_settings, network
from cli.plan.host_settings import FAMILIES
from cli.plan.network import Address, Host, Link, Network, Route
from cli.plan.planned import RUN, HostStep, shell
from cli.servers import nftables

OUTSIDE = "outside"
PLAN = f"{RUN}/plan"  # written by the planner, which runs as nobody
SERVED = f"{RUN}/served"  # root's files, made from the plan
WORLD = f"{RUN}/world"
TUN = "reprise0"
TABLE = "53100"  # a number that no one else is likely to use
_OWN, _PATH = "90", "100"  # priorities of rules
_LAST = "4294967295"  # the metric of a route that is taken where no other is left
_NO_REVERSE_PATHS = "for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done"


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


# --- what the hosts need beside them ------------------------------------------------------------------------


def steps(
    resolvers: list[tuple[int, str]], metas: list[tuple[int, str]], data_path: str, instances: int
) -> tuple[HostStep, ...]:
    """All steps; `resolvers` and `metas` are numbers and hosts."""
    found: list[HostStep] = []
    for number, host in metas:
        undo = "s/^addr replace/addr del/; s/ nodad$//"
        found.append(_batch("addresses", host, f"{SERVED}/meta-{number}.ip", undo))
        found += _path(host, data_path, f"{SERVED}/nft-meta-{number}.nft")
        here, _ = link_addresses(1, number, instances)
        found.append(_table(host, data_path, here, ("", "")))
        found.append(_rules(host, "sport", own_replies=False))
    for number, host in resolvers:
        if instances > 1:
            undo = "s/^route replace/route del/"
            found.append(_batch("routes", host, f"{SERVED}/resolver-{number}.ip", undo))
        found += _path(host, data_path, f"{SERVED}/nft-resolver-{number}.nft")
        _, there = link_addresses(number, 1, instances)
        found.append(_table(host, data_path, there, upstream(number)))
        found.append(_rules(host, "dport", own_replies=True))
    return tuple(found)


def drop_table(name: str, family: str = "inet") -> str:
    """The shell's line that drops a table of nftables, if it is there."""
    return f"if nft list table {family} {name} > /dev/null 2>&1; then nft delete table {family} {name}; fi"


def _batch(ident: str, host: str, file: str, undo: str) -> HostStep:
    """Ten thousand addresses are one batch, made with the plan; `undo` has sed put it in other words."""
    undone = f"""sed '{undo}' "$1" | ip -force -batch - 2> /dev/null || true"""
    return HostStep(f"{ident}-{host}", host, (("ip", "-batch", file),), (shell(undone, file),))


def _path(host: str, data_path: str, ruleset: str) -> list[HostStep]:
    """Packets come from addresses that no route would send back to where they came from, and the kernel
    forwards those of the proxy.
    """
    forward = host_settings.FORWARD if data_path == "tun" else ()
    settings = host_settings.settings(f"settings-{host}", host, shell(_NO_REVERSE_PATHS), *forward)
    if data_path == "nft":
        drop = shell(drop_table(nftables.NAT))
        return [settings, HostStep(f"nft-{host}", host, (("nft", "-f", ruleset),), (drop,))]
    # No addresses: whatever the kernel would send there on its own is none of the proxy's business.
    return [settings, host_settings.tun(f"tun-{host}", host, TUN, (f"net.ipv4.conf.{TUN}.rp_filter=0",))]


def _table(host: str, data_path: str, via: tuple[str, str], source: tuple[str, str]) -> HostStep:
    """Where packets of the data path go: into the device, or toward the other side by any link (nftables
    makes the kernel choose again). The last resort stays when the device or the link goes: without it queries
    would fall through to the main table, and might leave.
    """
    routes = [
        (
            family,
            (
                "default",
                *(("dev", TUN) if data_path == "tun" else ("via", gate)),
                *(("src", own) if own else ()),
            ),
        )
        for family, gate, own in zip(FAMILIES, via, source, strict=True)
    ]
    routes += [(family, ("unreachable", "default", "metric", _LAST)) for family in FAMILIES]
    return host_settings.routes(f"table-{host}", host, TABLE, routes)


def _rules(host: str, port: str, own_replies: bool) -> HostStep:
    """Which of the host's own packets the data path takes. A resolver's answers to its clients are not among
    them, also where a client asks from port 53.
    """
    rules = [
        f"{family} rule {{}} pref {priority} iif lo ipproto {protocol} {which} 53 lookup {table}"
        for family in FAMILIES
        for protocol in ("udp", "tcp")
        for priority, which, table in (
            *(((_OWN, "sport", "main"),) if own_replies else ()),
            (_PATH, port, TABLE),
        )
    ]
    return host_settings.rules(f"rules-{host}", host, rules)
