"""What the kernels of the hosts counted during the replay, and what that says of the run.

Of each host there are two texts, from before and after the replay (see cli/plan/host_settings.py). What the
testbed itself lost makes a run unclean, by host and counter. What the server under test did not take in time
is a result and no loss of the testbed's: it is a remark.

softnet_stat is the machine's, whichever host reads it. Packets that it dropped are counted again by the
interface that they had come to, and so the interfaces tell which host lost them; the rest was not the run's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import kernel

_HEADING = re.compile(r"^==> (?P<name>.+) <==$", re.MULTILINE)
_MACHINE = "machine"  # all hosts of a run that uses the machine's own network
_CONTROLLER = "controller"  # no query or answer comes there, only TCP that is sent again
_NOWHERE = {"outside", "nowhere"}  # the ends of a hierarchy's way out, behind its guards
_SIDES = {"rx": "receiving", "tx": "sending"}
_ERRORS = {side: kernel.errors(side) for side in _SIDES}
_TORN = "Ip ReasmFails"
_OTHERS = "otherhost"
_PROGRAMS = "clsact"  # no queue, but where a front's BPF programs drop what they have answered
_TAKEN = (
    *("InDelivers", "InHdrErrors", "InAddrErrors", "InNoRoutes", "InTooBigErrors", "InTruncatedPkts"),
    *("InUnknownProtos", "InDiscards", "ForwDatagrams", "OutForwDatagrams", "ReasmReqds"),
)
# What nftables drops by design, by the kernel's counter that includes it, see cli/servers/nftables.py.
_PLANNED = {
    "IpInReceives": "reprise.unmapped4",
    "Ip6InReceives": "reprise.unmapped6",
    "IpOutDiscards": "reprise_guard.discards4",
    "Ip6OutDiscards": "reprise_guard.discards6",
}


@dataclass(frozen=True)
class Interface:
    """One interface at one moment; `lost` by side, rx or tx, and counter. `multicast`: frames that came to a
    group, where the interface counts them.
    """

    up: bool
    carrier: bool
    is_tunnel: bool
    carrier_changes: int
    multicast: int
    lost: Mapping[str, Counter[str]]


@dataclass(frozen=True)
class Counted:
    """One host's counters at one moment; `protocols` by names such as UdpRcvbufErrors and Udp6InDatagrams.
    `network`: the machine and the network namespace on it, "" where that is not known.
    """

    machine: str
    network: str
    softnet_dropped: int
    protocols: Counter[str]
    interfaces: Mapping[str, Interface]
    queues: Counter[str]  # drops by "KIND of INTERFACE"
    filters: Counter[str]  # nftables' counters by "TABLE.NAME"


@dataclass(frozen=True)
class Host:
    name: str
    before: Counted
    after: Counted

    def grown(self, *names: str) -> int:
        return sum(max(0, self.after.protocols[name] - self.before.protocols[name]) for name in names)

    def filtered(self, key: str) -> int:
        """Growth of a counter of nftables."""
        return self.after.filters[key] - self.before.filters[key]

    def planned(self, name: str) -> int:
        """How many of a counter's packets were dropped by design."""
        return self.filtered(_PLANNED.get(name, ""))

    def udp_by_faults(self) -> int:
        """Datagrams that all faults lost here; in a run of an older version all packets."""
        names = [one for one in self.after.filters if one.startswith("reprise_faults.")]
        names = [one for one in names if one.endswith("_udp")] or names
        return sum(map(self.filtered, names))

    def not_taken(self, name: str) -> int:
        """Packets of one of the guard's counters at a real host, `strangers` or `groups`, that it dropped."""
        key = f"reprise_guard.{name}"
        return max(0, self.filtered(key) - self.filtered(f"{key}_taken"))

    def multicast(self) -> int:
        """Frames to groups that interfaces counted in the meantime."""
        then, now = self.before.interfaces, self.after.interfaces
        return sum(max(0, now[one].multicast - then[one].multicast) for one in now.keys() & then.keys())

    def lost(self, interface: str, side: str) -> Counter[str]:
        """Packets lost at an interface in the meantime, by counter; a new interface counts from 0."""
        now, known = self.after.interfaces[interface].lost[side], self.before.interfaces
        then = known[interface].lost[side] if interface in known else Counter[str]()
        return now - then if then.total() <= now.total() else +now


@dataclass
class Findings:
    """What the counters say: links that went down, packets lost, and what is good to know."""

    links: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    hosts_with_links_down: set[str] = field(default_factory=set)


# --- reading ----------------------------------------------------------------------------------------------


def read(folder: Path, problems: list[str]) -> tuple[Host, ...]:
    """The hosts of a run whose counters were read before and after."""
    found = []
    for path in sorted({*folder.glob("counters-*.txt")} - {*folder.glob("*-before.txt")}):
        earlier = path.with_stem(f"{path.stem}-before")
        if not earlier.exists():
            problems.append(f"{earlier.name} is missing")
            continue
        try:
            pair = [parse(one.read_text("utf-8", errors="replace")) for one in (earlier, path)]
        except (ValueError, KeyError, IndexError, TypeError):
            problems.append(f"{path.name} is damaged")
            continue
        found.append(Host(path.stem.removeprefix("counters-"), *pair))
    return apart(found)


def apart(found: Sequence[Host]) -> tuple[Host, ...]:
    """Without the controller's where another host on its machine has the same counters."""
    others = {one.after.network for one in found if one.name != _CONTROLLER} - {""}
    return tuple(one for one in found if one.name != _CONTROLLER or one.after.network not in others)


def parse(text: str) -> Counted:
    """Raises ValueError, KeyError, IndexError or TypeError where the text is not whole."""
    parts = _HEADING.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    tools = {name.split()[0]: body for name, body in sections.items()}  # what each of them printed
    links, queues = (json.loads(tools[name]) for name in ("ip", "tc"))
    listed = json.loads(tools["nft"])["nftables"] if tools.get("nft", "").strip() else []
    counters = (one["counter"] for one in listed if "counter" in one)
    softnet = sections["/proc/net/softnet_stat"].splitlines()  # of each processor, in hexadecimal
    machine = sections["/proc/sys/kernel/random/boot_id"].strip()
    network = sections.get("readlink /proc/self/ns/net", "").strip()
    return Counted(
        machine=machine,
        network=network and f"{machine} {network}",
        softnet_dropped=sum(int(line.split()[1], 16) for line in softnet if line.strip()),
        protocols=Counter({
            **snmp(sections["/proc/net/snmp"]),
            **snmp6(sections.get("/proc/net/snmp6", "")),
            **snmp(sections.get("/proc/net/netstat", "")),
        }),
        interfaces={str(one["ifname"]): _interface(one) for one in links},
        queues=Counter({
            f"{one['kind']} of {one['dev']}": int(one["drops"])
            for one in queues
            if "drops" in one and one["kind"] != _PROGRAMS
        }),
        filters=Counter({f"{one['table']}.{one['name']}": int(one["packets"]) for one in counters}),
    )  # fmt: skip


def snmp(text: str) -> dict[str, int]:
    """Counters of pairs of lines, names above values, such as "IpInReceives"."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {
        names[0].rstrip(":") + name: int(value)
        for names, values in zip(lines[::2], lines[1::2], strict=True)
        for name, value in zip(names[1:], values[1:], strict=True)
    }


def snmp6(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: int(value) for name, value in pairs}


def _interface(link: Mapping[str, Any]) -> Interface:
    flags, statistics = link["flags"], link["stats64"]
    has_one_other_end = "link_index" in link  # a veth, its peer on another host
    return Interface(
        up="UP" in flags,
        carrier="LOWER_UP" in flags,
        is_tunnel=link.get("link_type") == "none",
        carrier_changes=int(statistics["tx"].get("carrier_changes", 0)),
        multicast=int(statistics["rx"].get("multicast", 0)),
        lost={
            side: Counter({
                name: int(statistics[side].get(name, 0))
                for name in names
                if name != _OTHERS or has_one_other_end
            })
            for side, names in _ERRORS.items()
        },
    )  # fmt: skip


# --- what it means ----------------------------------------------------------------------------------------


def judge(
    hosts: Iterable[Host],
    under_test: set[str],
    told: Mapping[str, int],
    unread: Mapping[str, int],
    taken: Mapping[str, int],
    torn: bool = False,
) -> Findings:
    """`under_test`: hosts of the server under test. By host, `told`: replies that queriers know they have
    lost; `unread`: packets that proxies know they have not read; `taken`: packets that queriers took from an
    interface, which the stack then drops, those of IPv6 without a counter. `torn`: faults of the experiment
    lost fragments.
    """
    all_hosts = list(hosts)
    findings = Findings()
    for host in all_hosts:
        links = list(_links(host))
        findings.links += links
        findings.hosts_with_links_down |= {host.name} if links else set()
        mild = host.name == _MACHINE  # its counters are of all that goes on there
        lost, dropped = (sum(one.values()) if mild else one.get(host.name, 0) for one in (told, taken))
        misdirected = host.grown("IpInAddrErrors", "Ip6InAddrErrors")
        known = {kernel.REPLIES: lost, kernel.MISDIRECTED: dropped}
        known[_TORN] = host.grown("IpReasmFails", "Ip6ReasmFails") if torn else 0
        found = [
            *_at_links(host, unread.get(host.name, 0)),
            *_undelivered(host, max(0, dropped - misdirected)),
            *_counted(host, host.name in under_test, known),
        ]
        found.sort(key=lambda one: one[0])
        findings.losses += [] if mild else [words for warns, words in found if not warns]
        findings.remarks += [words for warns, words in found if warns or mild]
    findings.links.sort(key=lambda text: "was taken down" not in text)  # the cause before its effects
    findings.remarks += _softnet_of_others(all_hosts)
    return findings


def _links(host: Host) -> Iterator[str]:
    """A TUN device loses its carrier with its proxy, whose end is told elsewhere."""
    for name, then in host.before.interfaces.items():
        now = host.after.interfaces.get(name)
        if name in _NOWHERE or not then.carrier:
            continue
        if now is None:
            yield f"link {name} of {host.name} was removed during the replay"
        elif not now.up:
            yield f"link {name} of {host.name} was taken down during the replay"
        elif now.is_tunnel:
            continue
        elif not now.carrier:
            yield f"link {name} of {host.name} lost its carrier during the replay"
        elif now.carrier_changes > then.carrier_changes:
            yield f"link {name} of {host.name} was down for a while during the replay"


def _at_links(host: Host, unread: int) -> Iterator[tuple[bool, str]]:
    """What interfaces and their queues lost, none of it only a warning."""
    for name, one in host.after.interfaces.items():
        if name in _NOWHERE:
            continue
        for side, doing in _SIDES.items():
            lost = host.lost(name, side)
            count = lost.total()
            if one.is_tunnel and side == "tx":
                count, unread = max(0, count - unread), max(0, unread - count)
            if count:
                counters = " + ".join(lost)
                yield False, f"{host.name}: interface {name} lost {count:,} packets on {doing} ({counters})"
    for name, count in (host.after.queues - host.before.queues).items():
        yield False, f"{host.name}: queue {name} dropped {count:,} packets (tc -s qdisc)"


def _undelivered(host: Host, dropped: int) -> Iterator[tuple[bool, str]]:
    """Packets that came and that no other counter explains: those that may be the run's, and as a warning
    (True) those that are not, see _strangers in cli/servers/nftables.py. Who is a member of a group only that
    guard knows. `dropped`: by design, after a querier took them.
    """
    line = kernel.counter(kernel.UNDELIVERED)
    assert line is not None
    found: dict[str, int] = {}
    least = ""
    is_guarded = "reprise_guard.groups" in host.after.filters
    for family, extra in (("Ip", "IpExt"), ("Ip6", "Ip6")):
        received, delivers = f"{family}InReceives", f"{family}InDelivers"
        taken = host.grown(*{prefix + name for prefix in (family, extra) for name in _TAKEN})
        count = host.grown(received) + host.grown(f"{family}ReasmOKs") - taken - host.planned(received)
        to_groups = host.grown("Ip6InMcastPkts") if family == "Ip6" else host.multicast()
        to_groups = 0 if is_guarded else to_groups
        if count > to_groups:
            found[f"{received} - {delivers}"] = count - to_groups
            least = "at least " if to_groups else least
    total, which = max(0, sum(found.values()) - host.not_taken("groups") - dropped), " + ".join(found)
    strange = min(total, total if host.name == _CONTROLLER else host.not_taken("strangers"))
    for count, warns, what in (
        (total - strange, False, f"{least}{total - strange:,} packets came and were not delivered"),
        (strange, True, f"{strange:,} packets, no queries or answers, came and were not delivered"),
    ):
        if count > line.tolerance:
            yield warns, f"{host.name}: {what} ({which})"


def _counted(host: Host, under_test: bool, known: Mapping[str, int]) -> Iterator[tuple[bool, str]]:
    """Losses by the counters of the table, for both families together, each with whether it is only a
    warning. `known`: by key of the table, those that queriers or faults account for.
    """
    names: dict[str, list[str]] = {}
    for name in host.after.protocols:
        names.setdefault(kernel.key_of(name), []).append(name)
    for line in kernel.TABLE:
        counts = {name: max(0, host.grown(name) - host.planned(name)) for name in names.get(line.key, ())}
        count = sum(counts.values()) - known.get(line.key, 0)
        if line.verdict == kernel.IGNORED or count <= line.tolerance:
            continue
        which = " + ".join(name for name, grown in counts.items() if grown > 0)
        words, _, _ = line.why.partition(". ")
        warns = line.verdict == kernel.WARNING or (under_test and line.verdict == kernel.SERVERS)
        yield warns, f"{host.name}: {count:,} packets {words} ({which})"


def _softnet_of_others(hosts: list[Host]) -> Iterator[str]:
    """Once for each machine: what softnet dropped beyond what the run's interfaces lost on it."""
    for machine in dict.fromkeys(host.after.machine for host in hosts):
        here = [host for host in hosts if host.after.machine == machine]
        others = max(host.after.softnet_dropped for host in here)
        others -= min(host.before.softnet_dropped for host in here)
        others -= sum(host.lost(name, "rx").total() for host in here for name in host.after.interfaces)
        if others > 0:
            names = ", ".join(host.name for host in here)
            yield f"the machine of {names} dropped {others:,} packets of other traffic (softnet_stat)"
