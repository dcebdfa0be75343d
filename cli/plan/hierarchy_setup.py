"""What the hosts of a hierarchy need beside addresses and links, as steps with their undo.

The same steps hold for network namespaces and for real hosts. Each may be carried out twice, and after its
undo rules, routes, addresses, tables and settings are as they were. The guards come before, see guards.py.
No marks are used: a host's own packets come from `lo` in the eyes of routing rules, and those that the proxy
writes back come from the TUN device, so that they take the main table.
"""

from __future__ import annotations

from cli.plan import hierarchy_network, host_settings
from cli.plan.host_settings import FAMILIES
from cli.plan.planned import RUN, HostStep, shell
from cli.servers import nftables

PLAN = f"{RUN}/plan"  # written by the planner, which runs as nobody
SERVED = f"{RUN}/served"  # root's files, made from the plan
WORLD = f"{RUN}/world"
TUN = "reprise0"
TABLE = "53100"  # a number that no one else is likely to use
_OWN, _PATH = "90", "100"  # priorities of rules
_LAST = "4294967295"  # the metric of a route that is taken where no other is left
_NO_REVERSE_PATHS = "for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done"


def steps(
    resolvers: list[tuple[int, str]], metas: list[tuple[int, str]], data_path: str, instances: int
) -> tuple[HostStep, ...]:
    """All steps; `resolvers` and `metas` are numbers and hosts."""
    found: list[HostStep] = []
    for number, host in metas:
        undo = "s/^addr replace/addr del/; s/ nodad$//"
        found.append(_batch("addresses", host, f"{SERVED}/meta-{number}.ip", undo))
        found += _path(host, data_path, f"{SERVED}/nft-meta-{number}.nft")
        here, _ = hierarchy_network.link_addresses(1, number, instances)
        found.append(_table(host, data_path, here, ("", "")))
        found.append(_rules(host, "sport", own_replies=False))
    for number, host in resolvers:
        if instances > 1:
            undo = "s/^route replace/route del/"
            found.append(_batch("routes", host, f"{SERVED}/resolver-{number}.ip", undo))
        found += _path(host, data_path, f"{SERVED}/nft-resolver-{number}.nft")
        _, there = hierarchy_network.link_addresses(number, 1, instances)
        found.append(_table(host, data_path, there, hierarchy_network.upstream(number)))
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
    if data_path == "nft":
        rules = HostStep(f"nft-{host}", host, (("nft", "-f", ruleset),), (shell(drop_table(nftables.NAT)),))
        return [_settings(host, forwarding=False), rules]
    # No addresses: whatever the kernel would send there on its own is none of the proxy's business.
    device = host_settings.tun(f"tun-{host}", host, TUN, (f"net.ipv4.conf.{TUN}.rp_filter=0",))
    return [_settings(host, forwarding=True), device]


def _settings(host: str, forwarding: bool) -> HostStep:
    """Packets come from addresses that no route would send back to where they came from, and the kernel
    forwards those of the proxy.
    """
    forward = host_settings.forward() if forwarding else ()
    return host_settings.settings(f"settings-{host}", host, shell(_NO_REVERSE_PATHS), *forward)


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
