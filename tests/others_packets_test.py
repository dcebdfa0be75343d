"""What others send to a real host, and what its guard drops: none of it is a loss, and it hides none."""

import dataclasses
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import linux
from cli.plan import host_settings
from cli.servers import nftables
from report import hosts as report_hosts
from tests.bed import wait_for
from tests.lossy_bed import (
    CLOSED,
    ELSEWHERE,
    HOST,
    NEAR,
    PORT,
    SENDER,
    Pair,
    forward,
    judged,
    kind_of,
    made,
    network,
    packet,
    read,
    summed,
    udp,
)

pytestmark = pytest.mark.netns


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with made(tmp_path) as found:
        yield found


def test_what_the_guard_drops_is_no_loss_and_the_rest_is(pair: Pair) -> None:
    """Errors of both families that the guard stops, and three packets that a firewall stops."""
    pair.load(nftables.guard_ruleset(nftables.Guarded()))
    read(pair, host_settings.BEFORE)
    for version, count in ((4, 63), (6, 63)):
        pair.run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
        pair.send(version, count, CLOSED)
        pair.answer(version, 5)
    seen: list[dict[str, int]] = []

    def still() -> bool:
        """Whether nothing was dropped since the last look, which may have seen half of it."""
        read(pair)
        with linux.inside(pair.bed.hosts.of(HOST)):
            counted = report_hosts.parse((pair.bed.folder / f"counters-{HOST}.txt").read_text())
        seen.append(dict(counted.filters))
        return seen[-2:-1] == seen[-1:]

    wait_for(still, "an end of what is dropped")
    assert seen[-1]["reprise_guard.errors"] > 20  # the kernel limits the rate of errors
    assert judged(pair).losses == []
    pair.nft(f"udp dport {CLOSED} drop", hook="output")
    pair.answer(4, 3)
    read(pair)
    assert judged(pair).losses == [
        f"{HOST}: 3 packets could not be sent (no memory, or a firewall) (IpOutDiscards)"
    ]


REAL = nftables.Guarded(["data1"], ["198.19.1.0/24", "fd00:198:19:1::/64"], management=["10.0.0.0/8"])


def own_address(pair: Pair, version: int) -> None:
    """Gives the host an address that is not the experiment's, and that the near host need not ask for."""
    own = ELSEWHERE[version]
    pair.run("ip", "addr", "add", own, "dev", "data1", *(["nodad"] if version == 6 else []))
    pair.bed.ip(NEAR, "route", "add", own, "dev", "data")
    pair.bed.ip(NEAR, "neigh", "replace", own, "lladdr", pair.mac.hex(":"), "dev", "data")


@pytest.mark.parametrize("version", [4, 6])
def test_what_a_real_host_s_firewall_drops_of_others_is_a_warning(pair: Pair, version: int) -> None:
    """And what it drops of the run's makes it unclean, also beside packets of others that it takes."""
    own = ELSEWHERE[version]
    own_address(pair, version)
    pair.load(nftables.guard_ruleset(REAL))
    read(pair, host_settings.BEFORE)
    pair.send(version, 9, to=own)
    pair.nft(f"udp dport {PORT} drop")
    pair.send(version, 45, to=own)
    read(pair)
    found = judged(pair)
    assert found.losses == []
    (remark,) = found.remarks
    assert remark.startswith(f"{HOST}: 45 packets, no queries or answers, came and were not delivered (")
    pair.send(version, 5)
    read(pair)
    found = judged(pair)
    (loss,) = found.losses
    assert loss.startswith(f"{HOST}: 5 packets came and were not delivered (")
    assert found.remarks == [remark]


def group(version: int, joined: bool) -> tuple[bytes, bytes]:
    """A packet to a group that every host is in, or to one that it is not; and the group's MAC address."""
    if version == 6:
        last = b"\1" if joined else b"\xfb"
        return packet(6, "ff02::1" if joined else "ff02::fb", 17, udp()), b"\x33\x33\0\0\0" + last
    last = b"\1" if joined else b"\xfb"
    return packet(4, f"224.0.0.{last[0]}", 17, udp()), b"\1\0\x5e\0\0" + last


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("version", [4, 6])
def test_packets_to_groups_hide_no_loss_at_a_real_host(pair: Pair, version: int, joined: bool) -> None:
    own_address(pair, version)
    pair.load(nftables.guard_ruleset(REAL))
    read(pair, host_settings.BEFORE)
    for _ in range(45):
        pair.frame(kind_of(version), *group(version, joined))
    read(pair)
    assert not [one for one in judged(pair).losses if "delivered" in one]
    pair.nft(f"udp dport {PORT} drop")
    pair.send(version, 45, to=ELSEWHERE[version])
    pair.send(version, 45)
    read(pair)
    found = judged(pair)
    (loss,) = (one for one in found.losses if "delivered" in one)
    assert loss.startswith(f"{HOST}: 45 packets came and were not delivered (")
    (remark,) = found.remarks
    assert remark.startswith(f"{HOST}: 45 packets, no queries or answers, came")


def translated(pair: Pair, version: int) -> None:
    """To an address of the host, which another host serves, as with a published port of a container."""
    own_address(pair, version)
    family, there = ("ip", "203.0.113.9") if version == 4 else ("ip6", "2001:db8:9::9")
    pair.run("ip", "route", "add", there, "via", SENDER[version])
    rule = f"{family} daddr {ELSEWHERE[version]} dnat {family} to {there}"
    pair.load(f"table inet nat {{ chain c {{ type nat hook prerouting priority dstnat; {rule}; }}; }}\n")
    for _ in range(45):
        pair.send(version, to=ELSEWHERE[version])


def routed(pair: Pair, version: int) -> None:
    """Packets to elsewhere that its firewall does not forward."""
    pair.nft("drop", hook="forward")
    there = ELSEWHERE[version]
    pair.run("ip", "route", "add", there, "via", SENDER[version])
    for _ in range(45):
        pair.frame(kind_of(version), packet(version, there, 17, udp()))


def unroutable(pair: Pair, version: int) -> None:
    for _ in range(45):
        pair.frame(kind_of(version), packet(version, ELSEWHERE[version], 17, udp()))


def damaged_options(pair: Pair, version: int) -> None:
    """A router alert that is cut off: the kernel looks at options behind the first hook."""
    own_address(pair, version)
    whole = packet(4, ELSEWHERE[4], 17, udp())
    head = b"\x46" + whole[1:2] + struct.pack(">H", len(whole) + 4) + whole[4:10] + b"\0\0" + whole[12:20]
    head += b"\x94\xff\0\0"
    for _ in range(45):
        pair.frame(0x0800, head[:10] + struct.pack(">H", summed(head)) + head[12:] + whole[20:])


def halves(pair: Pair, version: int) -> None:
    """Fragments whose other half never comes."""
    own_address(pair, version)
    for ident in range(45):
        if version == 6:
            part = struct.pack(">BBHI", 17, 0, 1, ident) + udp(32)[:24]
            pair.frame(kind_of(6), packet(6, ELSEWHERE[6], 44, part))
        else:
            half = packet(4, ELSEWHERE[4], 17, udp(32)[:24], fragment=0x2000, ident=ident)
            pair.frame(kind_of(4), half)


@pytest.mark.parametrize(
    ("come", "version"),
    [
        *((come, version) for come in (translated, routed, unroutable, halves) for version in (4, 6)),
        (damaged_options, 4),
    ],
)
def test_packets_of_others_that_are_counted_elsewhere_hide_no_loss(
    pair: Pair, come: Callable[[Pair, int], None], version: int
) -> None:
    """45 of the run's are lost, and 45 of others come that may not be taken for these."""
    forward(pair)
    pair.load(nftables.guard_ruleset(REAL))
    read(pair, host_settings.BEFORE)
    come(pair, version)
    pair.nft(f"udp dport {PORT} drop")
    pair.send(version, 45)
    read(pair)
    found = judged(pair)
    losses = [one for one in found.losses if "came and were not delivered" in one]
    assert [int(one.split()[1]) >= 45 for one in losses] == [True], found
    assert found.remarks == []


@pytest.mark.parametrize(
    "known",
    [{"sources": ["192.0.2.0/24", "2001:db8::/64"]}, {"asked": list(SENDER.values())}],
    ids=["sources", "asked"],
)
@pytest.mark.parametrize("version", [4, 6])
def test_what_comes_to_mapped_sources_or_from_a_server_elsewhere_is_the_run_s(
    pair: Pair, version: int, known: dict[str, Any]
) -> None:
    """A client whose firewall drops answers."""
    own_address(pair, version)
    pair.load(nftables.guard_ruleset(dataclasses.replace(REAL, ports=[53], **known)))
    pair.nft(f"udp dport {PORT} drop")
    read(pair, host_settings.BEFORE)
    pair.send(version, 45, to=ELSEWHERE[version])
    read(pair)
    found = judged(pair)
    (loss,) = found.losses
    assert loss.startswith(f"{HOST}: 45 packets came and were not delivered (")
    assert found.remarks == []


def test_nothing_that_is_subtracted_is_read_when_the_rest_is_not() -> None:
    """nftables last before the replay and first after it, so that no loss between two readings is hidden."""
    begin, end = (
        [one.apply[0][2] for one in host_settings.counters(network(), when)] for when in ("-before", "")
    )
    assert all(text.index("/proc/net/snmp") < text.index("nft -j") for text in begin)
    assert all(text.index("nft -j") < text.index("/proc/net/snmp") for text in end)


def test_a_controller_that_shares_its_machine_is_told_once(pair: Pair) -> None:
    """And not where only the machine is the same, as with hosts in namespaces."""
    read(pair, host_settings.BEFORE)
    pair.nft(f"udp dport {PORT} drop")
    pair.send(4, 45)
    read(pair)
    (server, client) = (
        next(one for one in report_hosts.read(pair.bed.folder, []) if one.name == name)
        for name in (HOST, NEAR)
    )
    assert server.after.machine == client.after.machine
    same = dataclasses.replace(server, name="controller")
    alone, shared = (
        report_hosts.judge(report_hosts.apart(every), set(), {}, {}, {})
        for every in ((same, client), (same, server))
    )
    assert (alone.losses, len(alone.remarks)) == ([], 1)
    assert (len(shared.losses), shared.remarks) == (1, [])
