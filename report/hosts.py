"""What the kernels of the hosts counted during the replay, and what that says of the run.

Of each host there are two texts, from before and after the replay (see cli/plan/host_counters.py). What the
testbed itself lost makes a run unclean, by host and counter. What the server under test did not take in time
is a result and no loss of the testbed's: it is a remark.

softnet_stat is the machine's, whichever host reads it. Packets that it dropped are counted again by the
interface that they had come to, and so the interfaces tell which host lost them; the rest was not the run's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEADING = re.compile(r"^==> (?P<name>.+) <==$", re.MULTILINE)
_MACHINE = "machine"  # all hosts of a run that uses the machine's own network
_NOWHERE = {"outside", "nowhere"}  # the ends of a hierarchy's way out, behind its guards
_SENDING, _RECEIVING = "sending", "receiving"
_ERRORS = {_RECEIVING: ("dropped", "errors", "missed_errors"), _SENDING: ("dropped", "errors")}
# Counters of losses in /proc/net/snmp and snmp6, in words.
_LOSSES = {
    "RcvbufErrors": "found the receive buffer of their socket full",
    "InCsumErrors": "had a wrong checksum",
}
_PROGRAMS = "clsact"  # no queue, but where a front's BPF programs drop what they have answered
_DISCARDS = ("InDiscards", "OutDiscards", "ReasmFails")


@dataclass(frozen=True)
class Interface:
    """One interface at one moment; `lost` by direction."""

    up: bool
    carrier: bool
    carrier_changes: int
    is_tunnel: bool
    lost: Mapping[str, int]


@dataclass(frozen=True)
class Counted:
    """One host's counters at one moment; `protocols` by names such as UdpRcvbufErrors and Udp6InDatagrams."""

    machine: str = ""
    softnet_dropped: int = 0
    protocols: Mapping[str, int] = field(default_factory=dict)
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)  # drops by "KIND of INTERFACE"


@dataclass(frozen=True)
class Host:
    """A host before and after the replay."""

    name: str
    before: Counted
    after: Counted

    def grown(self, *names: str) -> int:
        """By how much the counters grew together."""
        return sum(
            max(0, self.after.protocols.get(name, 0) - self.before.protocols.get(name, 0)) for name in names
        )

    def lost(self, interface: str, direction: str) -> int:
        """Packets lost at an interface meanwhile; one that was made anew counts from 0."""
        now, then = self.after.interfaces.get(interface), self.before.interfaces.get(interface)
        if now is None:
            return 0
        earlier = then.lost[direction] if then is not None else 0
        return now.lost[direction] - (earlier if earlier <= now.lost[direction] else 0)


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
    for path in sorted(folder.glob("counters-*.txt")):
        earlier = path.with_stem(f"{path.stem}-before")
        if path.stem.endswith("-before") or not earlier.exists():
            continue
        try:
            pair = [parse(one.read_text("utf-8", errors="replace")) for one in (earlier, path)]
        except (ValueError, KeyError, IndexError, TypeError):
            problems.append(f"{path.name} is damaged")
            continue
        found.append(Host(path.stem.removeprefix("counters-"), *pair))
    return tuple(found)


def parse(text: str) -> Counted:
    """Raises ValueError, KeyError, IndexError or TypeError where the text is not whole."""
    parts = _HEADING.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    links, queues = (
        json.loads(body)
        for tool in ("ip ", "tc ")
        for name, body in sections.items()
        if name.startswith(tool)
    )
    return Counted(
        machine=sections["/proc/sys/kernel/random/boot_id"].strip(),
        softnet_dropped=_softnet(sections["/proc/net/softnet_stat"]),
        protocols={**_snmp(sections["/proc/net/snmp"]), **_snmp6(sections.get("/proc/net/snmp6", ""))},
        interfaces={str(one["ifname"]): _interface(one) for one in links},
        queues={
            f"{one['kind']} of {one['dev']}": int(one["drops"])
            for one in queues
            if "drops" in one and one["kind"] != _PROGRAMS
        },
    )


def _softnet(text: str) -> int:
    """The second column of each processor's line, in hexadecimal."""
    return sum(int(line.split()[1], 16) for line in text.splitlines() if line.strip())


def _snmp(text: str) -> dict[str, int]:
    """Pairs of lines, names above values."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {
        names[0].rstrip(":") + name: int(value)
        for names, values in zip(lines[::2], lines[1::2], strict=True)
        for name, value in zip(names[1:], values[1:], strict=True)
    }


def _snmp6(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: int(value) for name, value in pairs}


def _interface(link: Mapping[str, Any]) -> Interface:
    statistics = link["stats64"]
    lost = {
        direction: sum(int(statistics[key].get(name, 0)) for name in _ERRORS[direction])
        for direction, key in ((_RECEIVING, "rx"), (_SENDING, "tx"))
    }
    flags = link["flags"]
    changes = int(statistics["tx"].get("carrier_changes", 0))
    return Interface("UP" in flags, "LOWER_UP" in flags, changes, link.get("link_type") == "none", lost)


# --- what it means ----------------------------------------------------------------------------------------


def judge(
    hosts: Iterable[Host], under_test: set[str], told: Mapping[str, int], unread: Mapping[str, int]
) -> Findings:
    """`under_test`: hosts of the server under test. `told`: replies that queriers know they have lost, by
    host. `unread`: packets that proxies know they have not read, by host.
    """
    all_hosts = list(hosts)
    findings = Findings()
    for host in all_hosts:
        links = list(_links(host))
        findings.links += links
        findings.hosts_with_links_down |= {host.name} if links else set()
        losses = [*_at_interfaces(host, unread.get(host.name, 0)), *_at_queues(host), *_discarded(host)]
        mild = host.name == _MACHINE  # its counters are of all that goes on there
        datagrams = list(_datagrams(host, sum(told.values()) if mild else told.get(host.name, 0)))
        findings.losses += [] if mild else losses
        findings.losses += [] if mild or host.name in under_test else datagrams
        findings.remarks += [*losses, *datagrams] if mild else []
        findings.remarks += list(_not_taken(host)) if host.name in under_test else []
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


def _at_interfaces(host: Host, unread: int) -> Iterator[str]:
    for name, one in host.after.interfaces.items():
        if name in _NOWHERE:
            continue
        for direction in (_RECEIVING, _SENDING):
            count = host.lost(name, direction)
            if one.is_tunnel and direction == _SENDING:
                count, unread = max(0, count - unread), max(0, unread - count)
            if count:
                counters = " + ".join(_ERRORS[direction])
                yield f"{host.name}: interface {name} lost {count:,} packets on {direction} ({counters})"


def _at_queues(host: Host) -> Iterator[str]:
    for name, now in host.after.queues.items():
        count = now - host.before.queues.get(name, 0)
        if count > 0:
            yield f"{host.name}: queue {name} dropped {count:,} packets (tc -s qdisc)"


def _discarded(host: Host) -> Iterator[str]:
    for family in ("Ip", "Ip6"):
        for name in _DISCARDS:
            count = host.grown(family + name)
            if count:
                yield f"{host.name}: the kernel discarded {count:,} packets ({family}{name})"


def _datagrams(host: Host, told: int) -> Iterator[str]:
    for name, words in _LOSSES.items():
        count = host.grown(f"Udp{name}", f"Udp6{name}") - (told if name == "RcvbufErrors" else 0)
        if count > 0:
            yield f"{host.name}: {count:,} datagrams {words} (UDP {name})"


def _not_taken(host: Host) -> Iterator[str]:
    """The server's own doing."""
    full = host.grown("UdpRcvbufErrors", "Udp6RcvbufErrors")
    if full:
        yield f"{host.name}: the server did not read {full:,} datagrams in time (UDP RcvbufErrors)"
    unsent = host.grown("UdpSndbufErrors", "Udp6SndbufErrors")
    if unsent:
        yield f"{host.name}: {unsent:,} datagrams found the send buffer full (UDP SndbufErrors)"


def _softnet_of_others(hosts: list[Host]) -> list[str]:
    """Once for each machine: what softnet dropped beyond what the run's interfaces lost on it."""
    found = []
    for machine in dict.fromkeys(host.after.machine for host in hosts):
        here = [host for host in hosts if host.after.machine == machine]
        dropped = max(host.after.softnet_dropped for host in here) - min(
            host.before.softnet_dropped for host in here
        )
        ours = sum(host.lost(name, _RECEIVING) for host in here for name in host.after.interfaces)
        if dropped > ours:
            names = ", ".join(host.name for host in here)
            found.append(
                f"the machine of {names} dropped {dropped - ours:,} packets of other traffic (softnet_stat)"
            )
    return found
