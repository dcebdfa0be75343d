"""nftables rulesets as pure functions: the stateless rewriting of a hierarchy, and the guard of its hosts.

The rewriting is the same map as the proxies'. It happens where packets are made, in the output hook: the
kernel has chosen a way by the hosts' rules (any will do) and chooses again after the rewriting (chain type
`route`). Datagrams are whole there and are cut into fragments later, so that no fragment lacks its ports. The
kernel updates checksums, also half-made ones. Nothing is tracked: tables of connections would cost more
than all the rest.

The guard looks at what is about to leave (postrouting, after everything else): what neither goes over a link
of the experiment to an address of the experiment nor answers its clients is dropped and counted, link-local
and multicast addresses and the rest of the benchmark's prefix too. Of these only neighbor discovery passes,
on the experiment's links. What kernels send on their own is dropped and is no leak: errors (a late answer
meets a closed port), reports of groups, and neighbor discovery on other links. On a real host what goes to
the operator's management network passes too.

A real host gets packets that are none of the experiment's. Those to its addresses and to groups are counted
before and behind all other hooks, so that what its firewall drops of them, and groups that it is not in, are
known.

What faults lose is dropped where it comes to a host, before the host's kernel counts it: a way that loses
packets looks so to both ends. A fault is in force while a set of its name has elements, which end by
themselves.

Frames that a program writes to an interface itself (AF_PACKET) never come to postrouting. Where a program
does so, the same rules stand a second time at the interface's own egress hook (netdev).
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from report.transports import TRANSPORTS

NAT = "reprise"
GUARD = "reprise_guard"
FAULTS = "reprise_faults"
# Where clients of DNS ask, over any transport.
_PORTS = list(dict.fromkeys(str(one.port) for one in TRANSPORTS.values()))
_DNS_PORTS = ", ".join(sorted(_PORTS, key=int))
_ARMED = "armed"  # a set with both protocols while a guard is in force
_FIRST, _LAST = -(2**31), 2**31 - 1  # priorities of hooks
_UNMAPPED_NAMES = 4_096  # addresses that are told by name; later ones are only counted


class Pair(NamedTuple):
    """An address of each family, "" where there is none."""

    v4: str = ""
    v6: str = ""


def resolver_ruleset(toward: Mapping[str, Pair], sink: Pair) -> str:
    """A resolver's host: what goes to an OQDA leaves from it, toward `toward[OQDA]`.

    What goes elsewhere is counted and sent to `sink`, where a meta-DNS-server's host drops it. Dropped here
    it would be an error of the sending call: the resolver would know at once that nobody is there.
    """
    four = {oqda: pair.v4 for oqda, pair in toward.items() if ":" not in oqda and pair.v4}
    six = {oqda: pair.v6 for oqda, pair in toward.items() if ":" in oqda and pair.v6}
    return _table(
        NAT,
        f"""{_map("to4", "ipv4_addr : ipv4_addr", four)}{_map("to6", "ipv6_addr : ipv6_addr", six)}\
    set unmapped4 {{ type ipv4_addr; size {_UNMAPPED_NAMES}; flags dynamic; counter; }}
    set unmapped6 {{ type ipv6_addr; size {_UNMAPPED_NAMES}; flags dynamic; counter; }}
{_counters("udp_queries", "udp_dropped", "tcp_connections", "tcp_queries", "rewritten", "unmapped")}\
    chain upstream {{
        notrack
        meta l4proto udp counter name udp_queries
        tcp flags & (syn | ack) == syn counter name tcp_connections
        tcp flags psh counter name tcp_queries
        ip daddr @to4 counter name rewritten ip saddr set ip daddr ip daddr set ip daddr map @to4 accept
        ip6 daddr @to6 counter name rewritten ip6 saddr set ip6 daddr ip6 daddr set ip6 daddr map @to6 accept
        counter name unmapped
        meta l4proto udp counter name udp_dropped
        meta nfproto ipv4 update @unmapped4 {{ ip daddr }}
        meta nfproto ipv6 update @unmapped6 {{ ip6 daddr }}
        ip daddr set {sink.v4} accept
        ip6 daddr set {sink.v6} accept
    }}
    chain output {{
        type route hook output priority raw; policy accept;
        oifname != "lo" meta l4proto {{ tcp, udp }} th dport 53 th sport != 53 goto upstream
    }}
""",
    )


def meta_ruleset(resolvers: Sequence[Pair], answers_of: Sequence[Iterable[Pair]], sink: Pair) -> str:
    """A meta-DNS-server's host: what `answers_of[r]`'s addresses answer goes to resolver r, from the OQDA."""
    chains, maps = "", ""
    for at, (word, family) in enumerate((("ip", 4), ("ip6", 6))):
        jumps: dict[str, str] = {}
        for number, (resolver, own) in enumerate(zip(resolvers, answers_of, strict=True), 1):
            if not resolver[at]:
                continue
            chains += f"""    chain to{family}r{number} {{
        notrack
        counter name rewritten {word} saddr set {word} daddr {word} daddr set {resolver[at]} accept
    }}
"""
            jumps |= {pair[at]: f"goto to{family}r{number}" for pair in own if pair[at]}
        maps += _map(f"from{family}", f"ipv{family}_addr : verdict", jumps)
    return _table(
        NAT,
        f"""{_counters("rewritten", "unmapped4", "unmapped6")}{chains}{maps}    chain output {{
        type route hook output priority raw; policy accept;
        meta l4proto {{ tcp, udp }} th sport 53 ip saddr vmap @from4
        meta l4proto {{ tcp, udp }} th sport 53 ip6 saddr vmap @from6
    }}
    chain arriving {{
        type filter hook prerouting priority raw; policy accept;
        ip daddr {sink.v4} counter name unmapped4 drop
        ip6 daddr {sink.v6} counter name unmapped6 drop
    }}
""",
    )


@dataclass(frozen=True)
class Guarded:
    """What may leave a host: by `links` to `prefixes`, out of its service's `ports` by the links to `clients`
    to any address, and into `tunnels`, whose packets come by again when their proxy writes them back.

    A client may ask a server that is no host of the experiment: the `ports` of the addresses `asked`, by any
    link. What the host itself sends to the prefixes of its `management` may leave by any link, with what a
    kernel needs to find neighbors there; not what has an address of the experiment as its source.

    `sources`: further addresses of the experiment. `writes_frames`: a program there writes frames to the
    `links` itself.
    """

    links: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    clients: Sequence[str] = ()
    ports: Sequence[int] = ()
    tunnels: Sequence[str] = ()
    management: Sequence[str] = ()
    asked: Sequence[str] = ()
    sources: Sequence[str] = ()
    writes_frames: bool = False
    confirm_s: float = 0.0  # after so many seconds the guard ends unless it is confirmed; 0 = never

    @property
    def counted(self) -> dict[str, str]:
        """The guard's counters, each in the words of a reason why a run is not clean."""
        tried = "tried to leave the experiment"
        frames = {"frames": f"{tried} by a packet socket"} if self.writes_frames else {}
        ports = f"to ports {', '.join(_PORTS[:-1])} or {_PORTS[-1]}"
        return {"dns_ports": f"{ports} {tried}", "elsewhere": tried, **frames}


def guard_ruleset(host: Guarded) -> str:
    """The guard of a host. `discards4` and `discards6` count what the kernel counts as OutDiscards,
    `strangers` and `strangers_taken` what others sent to a real host and what of that it took, `groups` and
    `groups_taken` the same of multicast and broadcast packets. Where frames are written, packets that the
    other table let through pass in the first one again, whole or in fragments.
    """
    armed, unless_armed, passing = "", "", _passing(host)
    if host.confirm_s:
        ends = f"timeout {round(host.confirm_s * 1000)}ms"
        elements = f"elements = {{ ip {ends}, ip6 {ends} }}"
        armed = f"    set {_ARMED} {{ type ether_type; flags timeout; {elements}; }}\n"
        unless_armed = f"        meta protocol != @{_ARMED} accept\n"
    frames = f"""{armed}{_counters("frames")}    chain leaving {{
        type filter hook egress devices = {_names(host.links)} priority 0; policy accept;
        meta protocol != {{ ip, ip6 }} accept
{unless_armed}{passing}        counter name frames drop
    }}
"""
    packets = f"""{armed}\
{_counters("dns_ports", "elsewhere", "errors", "kernel", "discards4", "discards6")}    chain leaving {{
        type filter hook postrouting priority 300; policy accept;
{unless_armed}        oifname {_names(("lo", *host.tunnels))} accept
{passing}        ip protocol {{ icmp, udp }} counter name discards4
        meta nfproto ipv6 meta l4proto udp counter name discards6
        icmpv6 type != {{ {_NEIGHBORS}, nd-router-solicit }} counter name discards6
        icmp type != echo-request counter name errors drop
        ip protocol igmp counter name kernel drop
        icmpv6 type {{ {_KERNELS_OWN} }} counter name kernel drop
        icmpv6 type != echo-request counter name errors drop
        meta l4proto {{ tcp, udp }} th dport {{ {_DNS_PORTS} }} counter name dns_ports drop
        counter name elsewhere drop
    }}
{_strangers(host)}"""
    return (_table(GUARD, frames, "netdev") if host.writes_frames else "") + _table(GUARD, packets)


def guard_confirmation(host: Guarded) -> str:
    """The commands that make a guard last, in one transaction; they fail once it has ended."""
    families = ("inet", *(("netdev",) if host.writes_frames else ()))
    elements = [f"element {family} {GUARD} {_ARMED} {{ ip, ip6 }}" for family in families]
    return "; ".join(f"{word} {one}" for one in elements for word in ("delete", "add"))


def _strangers(host: Guarded) -> str:
    """Never more than the kernel's InReceives counts and no other of its counters explains, or else losses of
    the experiment would be taken for these. So no packets are counted that the kernel would route onward, and
    no fragments or options. A packet that is forwarded may have been local before its address was translated.
    """
    if not host.management:
        return ""
    own, asked = _by_family((*host.prefixes, *host.sources)), _by_family(host.asked)
    rules = [f"iifname {_names(('lo', *host.tunnels))} accept"]
    rules += [f"{word} daddr {{ {there} }} accept" for word, there in own.items()]
    rules += [f"{word} saddr {{ {there} }} accept" for word, there in asked.items()]
    rules += ["ip frag-off & 0x3fff != 0 accept", "exthdr frag exists accept"]
    hooks = (
        ("prerouting", _FIRST, "", "fib daddr type local "),
        ("input", _LAST, "_taken", "fib daddr type local "),
        ("forward", _FIRST, "_taken", ""),
    )
    chains = "".join(
        f"""    chain {hook} {{
        type filter hook {hook} priority {priority}; policy accept;
{_lines(rules)}        fib daddr type {{ multicast, broadcast }} counter name groups{taken} accept
        ip hdrlength > 5 accept
        {which}counter name strangers{taken}
    }}
"""
        for hook, priority, taken, which in hooks
    )
    return _counters("strangers", "strangers_taken", "groups", "groups_taken") + chains


@dataclass(frozen=True)
class Lossy:
    """A fault of a way at the host where it ends: of the packets from or to (`end` is "saddr" or "daddr") the
    `addresses`, what one of the `rules` matches is lost; with `devices` only of those that come by them.
    `window_ms`: how long what a rule adds to the set NAME_came stays there.
    """

    name: str
    end: str
    addresses: Sequence[str]
    rules: Sequence[str]
    devices: Sequence[str] = ()
    window_ms: int = 0


def faults_ruleset(devices: Sequence[str], faults: Sequence[Lossy]) -> str:
    """The faults of the ways that end at a host's devices, none of which is in force. Datagrams that a fault
    loses are counted once more, by NAME_udp.
    """
    parts, jumps = "", ""
    for one in faults:
        parts += f"    set {one.name} {{ type ether_type; flags timeout; }}\n"
        if one.window_ms:
            kind = f"type pkt_type; flags dynamic, timeout; timeout {one.window_ms}ms;"
            parts += f"    set {one.name}_came {{ {kind} }}\n"
        parts += f"""{_counters(one.name, f"{one.name}_udp")}    chain {one.name}_lost {{
        meta l4proto udp counter name {one.name}_udp
        counter name {one.name} drop
    }}
    chain {one.name} {{
{_lines(f"{rule} goto {one.name}_lost" for rule in one.rules)}    }}
"""
        by = f"iifname {_names(one.devices)} " if one.devices else ""
        for word, listed in _by_family(one.addresses).items():
            where = f"meta protocol @{one.name} {by}{word} {one.end} {{ {listed} }}"
            jumps += f"        {where} jump {one.name}\n"
    hook = f"type filter hook ingress devices = {_names(devices)} priority 0; policy accept;"
    return _table(FAULTS, f"{parts}    chain arriving {{\n        {hook}\n{jumps}    }}\n", "netdev")


def fault_begin(name: str, seconds: float) -> tuple[str, ...]:
    """The command that puts a fault in force for a time."""
    ends = f"timeout {max(1, round(seconds * 1000))}ms"  # 0 would be without end
    return ("nft", "add", "element", "netdev", FAULTS, name, f"{{ ip {ends}, ip6 {ends} }}")


_NEIGHBORS = "nd-neighbor-solicit, nd-neighbor-advert"
_GROUPS = "mld-listener-report, mld-listener-done, mld2-listener-report"
_KERNELS_OWN = f"{_NEIGHBORS}, nd-router-solicit, {_GROUPS}"


def _names(interfaces: Sequence[str]) -> str:
    return "{ " + ", ".join(f'"{name}"' for name in interfaces) + " }"


def _passing(host: Guarded) -> str:
    """What may leave. Whoever is asked, or the router to it, is a neighbor that has to be found. An answer
    has QR set: what only looks like one by its port is a query that leaves. Routers' advertisements come only
    to those who ask, and switches that look at reports of groups pass neighbor solicitations only to those
    who report.
    """
    own, asked, management = map(_by_family, (host.prefixes, host.asked, host.management))
    ports = ", ".join(str(port) for port in sorted(set(host.ports)))
    by_link = [f"{word} daddr {{ {there} }}" for word, there in own.items()]
    by_link.append(f"icmpv6 type {{ {_NEIGHBORS} }} ip6 hoplimit 255")
    rules = [f"oifname {_names(host.links)} {rule} accept" for rule in by_link if host.links]
    for word, there in asked.items():
        rules.append(f"{word} daddr {{ {there} }} meta l4proto {{ tcp, udp }} th dport {{ {ports} }} accept")
    rules += [f"icmpv6 type {{ {_NEIGHBORS} }} ip6 hoplimit 255 accept"] if asked else []
    answers = (f"udp sport {{ {ports} }} @th,80,1 1", f"tcp sport {{ {ports} }}")
    fragments = ("ip frag-off & 0x1fff != 0", "frag frag-off != 0")
    to_clients = (*answers, *fragments) if host.clients else ()
    rules += [f"oifname {_names(host.clients)} {one} accept" for one in to_clients]
    for word, there in management.items():
        others = f" {word} saddr != {{ {own[word]} }}" if word in own else ""
        rules.append(f"{word} daddr {{ {there} }}{others} accept")
    if management:
        rules.append(f"icmpv6 type {{ {_NEIGHBORS}, nd-router-solicit }} ip6 hoplimit 255 accept")
        rules.append(f"icmpv6 type {{ {_GROUPS} }} ip6 hoplimit 1 accept")
    return _lines(rules)


def _by_family(prefixes: Iterable[str]) -> dict[str, str]:
    """The prefixes as lists of sets, which may not overlap, by the words for those of a family."""
    every = [ipaddress.ip_network(one) for one in prefixes]
    four = ipaddress.collapse_addresses(one for one in every if isinstance(one, ipaddress.IPv4Network))
    six = ipaddress.collapse_addresses(one for one in every if isinstance(one, ipaddress.IPv6Network))
    found = {"ip": ", ".join(map(str, four)), "ip6": ", ".join(map(str, six))}
    return {word: listed for word, listed in found.items() if listed}


def _lines(rules: Iterable[str]) -> str:
    return "".join(f"        {rule}\n" for rule in rules)


def _counters(*names: str) -> str:
    return "".join(f"    counter {name} {{ }}\n" for name in names)


def _table(name: str, body: str, family: str = "inet") -> str:
    """A table that takes the place of one of its name, in one transaction: it may be loaded again."""
    named = f"table {family} {name}"
    return f"{named}\ndelete {named}\n{named} {{\n{body}}}\n"


def _map(name: str, kinds: str, entries: Mapping[str, str]) -> str:
    """A map with an entry a line; one without entries has no list of them."""
    listed = ",\n".join(f"            {key} : {value}" for key, value in entries.items())
    elements = f"        elements = {{\n{listed}\n        }}\n" if entries else ""
    return f"    map {name} {{\n        type {kinds}\n{elements}    }}\n"


def counters(listing: Mapping[str, Any], table: str) -> dict[str, int]:
    """Packets of a table's named counters in what `nft -j list counters` prints."""
    found = (one["counter"] for one in listing.get("nftables", []) if "counter" in one)
    return {str(one["name"]): int(one["packets"]) for one in found if one["table"] == table}
