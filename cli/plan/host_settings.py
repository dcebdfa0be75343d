"""Settings, devices and routes of a host for packets with foreign addresses, each with the way back.

A write to `ip_forward` or `all.forwarding` changes that of every interface, and IPv6 forwarding makes the
kernel drop default routes that it learned from router advertisements, for good, unless accept_ra is 2. So all
of these settings are kept in a file and put back: forwarding first, twice, because the setting of `all`
overwrites the others' where it changes, and accept_ra last. Interfaces that are gone by then do not matter.

What the host's kernel has counted is kept as the texts of the kernel and its tools, so that any counter can
be looked up later; report/hosts.py says what they mean.
"""

from collections.abc import Sequence

from cli.errors import want
from cli.experiment.schema import Experiment
from cli.plan import network
from cli.plan.network import Network
from cli.plan.planned import RESULTS, RUN, HostStep, Management, shell

Command = tuple[str, ...]
FAMILIES = ("-4", "-6")
MACHINE = "machine"  # stands for all hosts where they share the machine's own network
BEFORE = "-before"
_NET = " ".join(f"/proc/net/{one}" for one in ("softnet_stat", "snmp", "snmp6", "netstat"))
_NFTABLES = "nft -j list counters"
_TOOLS = ("readlink /proc/self/ns/net", "ip -s -s -j link show", "tc -s -j qdisc show")

_KEPT = (
    r"^net\.ipv4\.(ip_forward|ip_early_demux|conf\..*\.(forwarding|rp_filter)) "
    r"|^net\.ipv6\.conf\..*\.(forwarding|accept_ra) "
)
_KEEP = 'test -e "$1" || { sysctl -a 2> /dev/null | grep -E "$2" > "$1.new" && mv "$1.new" "$1"; }'
_RESTORE = (
    'test -e "$1" || exit 0; '
    '{ grep forw "$1"; grep forw "$1"; grep -v forw "$1"; } | sysctl -e -q -p - && rm -f "$1"'
)
_KEEP_ROUTERS = (
    'for file in /proc/sys/net/ipv6/conf/*/accept_ra; do test "$(cat "$file")" != 1 || echo 2 > "$file"; done'
)
FORWARD: tuple[Command, ...] = (
    shell(_KEEP_ROUTERS),
    ("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"),
)


def settings(ident: str, host: str, *commands: Command, kept: str = _KEPT) -> HostStep:
    """Changes settings by the commands, after those that match `kept` were put into a file, once; where they
    were not, the undo has nothing to put back.
    """
    file = f"{RUN}/sysctl-{ident}"
    return HostStep(ident, host, (shell(_KEEP, file, kept), *commands), (shell(_RESTORE, file),))


def tun(
    ident: str, host: str, device: str, settings: tuple[str, ...], queue: tuple[str, ...] = ()
) -> HostStep:
    """A device that outlives its proxy, so that one that died can be started again."""
    there = f"ip link show dev {device} > /dev/null 2>&1"
    return HostStep(
        ident,
        host,
        (
            shell(f"{there} || ip tuntap add dev {device} mode tun"),
            ("ip", "link", "set", "dev", device, "addrgenmode", "none"),
            ("ip", "link", "set", "dev", device, *queue, "up"),
            ("sysctl", "-q", "-w", *settings),
        ),
        (shell(f"{there} || exit 0; ip link del dev {device}"),),
    )


def routes(ident: str, host: str, table: str, listed: Sequence[tuple[str, Sequence[str]]]) -> HostStep:
    return HostStep(
        ident,
        host,
        tuple(("ip", family, "route", "replace", *route, "table", table) for family, route in listed),
        tuple(
            shell(f"ip {family} route del {' '.join(route)} table {table} 2> /dev/null || true")
            for family, route in listed
        ),
    )


def rules(ident: str, host: str, came: str, listed: Sequence[tuple[str, str, int, str]]) -> HostStep:
    """Rules of routing for UDP and TCP that comes by the interface `came` ("lo": of the host itself): each
    with its priority, "sport" or "dport", the port, and the table.
    """
    found = [
        (f"ip {family} rule", f"pref {priority} iif {came} ipproto {protocol} {end} {port} lookup {table}")
        for family in FAMILIES
        for protocol in ("udp", "tcp")
        for priority, end, port, table in listed
    ]
    return HostStep(
        ident,
        host,
        tuple(shell(f"{ip} del {rule} 2> /dev/null; {ip} add {rule}") for ip, rule in found),
        tuple(shell(f"{ip} del {rule} 2> /dev/null || true") for ip, rule in found),
    )


def unsegmented(experiment: Experiment, net: Network, management: Management | None) -> tuple[HostStep, ...]:
    """Interfaces at both ends of the links between clients and servers split no segments for their hosts: a
    host sends each segment as a packet of its own.
    """
    if experiment.socket is None or experiment.socket.offload:
        return ()
    what = "socket.offload = false is for a server of ours on this machine"
    want(experiment.own_server and management is None, what, "leave it out")
    clients = {network.client(index) for index in range(1, experiment.topology.clients + 1)}
    links = (one for one in net.links if one.a in clients)
    ends = [end for one in links for end in ((one.a, one.a_if), (one.b, one.b_if))]
    return tuple(
        HostStep(f"offload-{host}-{device}", host, (("ip", "link", "set", device, "gso_max_segs", "1"),))
        for host, device in ends
    )


def counters(net: Network, when: str = "") -> tuple[HostStep, ...]:
    """Steps that write counters-HOST`when`.txt of every host into the results.

    What nftables counted is subtracted from what the kernel's counters say. So nftables is read last before
    the replay and first after it: a packet that comes between two readings may look like a loss, but no loss
    is hidden.
    """
    hosts = [host.name for host in net.hosts] or [MACHINE]
    parts = [f"tail -v -n +1 /proc/sys/kernel/random/boot_id {_NET}", _of_tool(_NFTABLES)]
    parts = [*(parts if when == BEFORE else reversed(parts)), *map(_of_tool, _TOOLS)]
    line = f'set -C; {{ {"; ".join(parts)}; }} > "$1"'
    return tuple(
        HostStep(f"counters-{host}{when}", host, (shell(line, f"{RESULTS}/counters-{host}{when}.txt"),))
        for host in hosts
    )


def _of_tool(tool: str) -> str:
    return f"echo; echo '==> {tool} <=='; {tool}; echo"
