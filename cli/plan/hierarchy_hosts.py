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
from collections.abc import Iterator, Sequence

from cli.experiment.addresses import META4, META6
from cli.experiment.schema import Hierarchy
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
    four, six = (2 * number, 2 * number + 1), (4 * number + 1, 4 * number + 2)
    one, other = ((f"198.19.253.{four[end]}", f"fd00:198:19:fd::{six[end]:x}") for end in (0, 1))
    return one, other


def hierarchy(
    base: Network, resolvers: int, instances: int, listen_queue: int, outside: Sequence[str] = ()
) -> Network:
    """The network with the meta-DNS-servers' hosts; to those `outside` an interface that leads nowhere is the
    way out.
    """
    pairs = [(r, i) for r in range(1, resolvers + 1) for i in range(1, instances + 1)]
    metas = [meta(index) for index in range(1, instances + 1)]
    return dataclasses.replace(
        base,
        hosts=(*base.hosts, *(Host(name) for name in metas)),
        links=(
            *base.links,
            *(_link(*one, instances) for one in pairs),
            *(Link(name, name, OUTSIDE, "nowhere", (), ()) for name in outside),
        ),
        addresses=(
            *base.addresses,
            *(
                Address(network.server(resolver), "lo", network.whole(address))
                for resolver in range(1, resolvers + 1)
                for address in upstream(resolver)
            ),
        ),
        routes=(
            *base.routes,
            *(route for one in pairs for route in _routes(*one, instances)),
            *(Route(name, to, interface=OUTSIDE) for name in outside for to in ("0.0.0.0/0", "::/0")),
        ),
        sysctls=(*base.sysctls, *(one for name in metas for one in network.sysctls(name, listen_queue))),
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


def steps(emulated: Hierarchy) -> Iterator[HostStep]:
    """All steps, without the guards'."""
    instances = emulated.instances
    for number in range(1, instances + 1):
        host, undo = meta(number), "s/^addr replace/addr del/; s/ nodad$//"
        yield _batch("addresses", host, f"{SERVED}/meta-{number}.ip", undo)
        here, _ = link_addresses(1, number, instances)
        yield from _path(host, f"meta-{number}", emulated.data_path, here)
    for number, host in enumerate(network.servers(len(emulated.resolvers)), 1):
        if instances > 1:
            undo = "s/^route replace/route del/"
            yield _batch("routes", host, f"{SERVED}/resolver-{number}.ip", undo)
        _, there = link_addresses(number, 1, instances)
        yield from _path(host, f"resolver-{number}", emulated.data_path, there, upstream(number))


def drop_table(name: str, family: str = "inet") -> str:
    """The shell's line that drops a table of nftables, if it is there."""
    return f"if nft list table {family} {name} > /dev/null 2>&1; then nft delete table {family} {name}; fi"


def _batch(ident: str, host: str, file: str, undo: str) -> HostStep:
    """Ten thousand addresses are one batch, made with the plan; `undo` has sed put it in other words."""
    undone = f"""sed '{undo}' "$1" | ip -force -batch - 2> /dev/null || true"""
    return HostStep(f"{ident}-{host}", host, (("ip", "-batch", file),), (shell(undone, file),))


def _path(
    host: str, name: str, data_path: str, via: tuple[str, str], own: tuple[str, str] = ("", "")
) -> Iterator[HostStep]:
    """What sends a host's packets into the data path: a meta-DNS-server's answers, or the queries of a
    resolver, which asks from its `own` addresses.

    Packets come from addresses that no route would send back to where they came from, and the kernel forwards
    those of the proxy. The table says where packets of the data path go: into the device, or toward the other
    side by any link (nftables makes the kernel choose again). The last resort stays when the device or the
    link goes: without it queries would fall through to the main table, and might leave. A resolver's answers
    to its clients are not among what the rules choose, also where a client asks from port 53.
    """
    forward = host_settings.FORWARD if data_path == "tun" else ()
    yield host_settings.settings(f"settings-{host}", host, shell(_NO_REVERSE_PATHS), *forward)
    ways = [("via", gate) for gate in via]
    if data_path == "nft":
        load = ("nft", "-f", f"{SERVED}/nft-{name}.nft")
        yield HostStep(f"nft-{host}", host, (load,), (shell(drop_table(nftables.NAT)),))
    else:
        # No addresses: whatever the kernel would send there on its own is none of the proxy's business.
        yield host_settings.tun(f"tun-{host}", host, TUN, (f"net.ipv4.conf.{TUN}.rp_filter=0",))
        ways = [("dev", TUN)] * 2
    routes: list[tuple[str, tuple[str, ...]]] = [
        (family, ("default", *way, *(("src", one) if one else ())))
        for family, way, one in zip(FAMILIES, ways, own, strict=True)
    ]
    routes += [(family, ("unreachable", "default", "metric", _LAST)) for family in FAMILIES]
    yield host_settings.routes(f"table-{host}", host, TABLE, routes)
    rules = [(_PATH, "sport", 53, TABLE)]
    if any(own):
        rules = [(_OWN, "sport", 53, "main"), (_PATH, "dport", 53, TABLE)]
    yield host_settings.rules(f"rules-{host}", host, "lo", rules)
