"""What the guard of a host lets out: packets of a real host, a capture at the other end, and the counters."""

import contextlib
import ipaddress
import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import linux
from cli.executor import netns
from cli.plan.network import Host, Link, Network, Route, sysctls
from cli.servers import nftables
from tests.bed import BareBed, wait_for

pytestmark = pytest.mark.netns

HOST, FAR = "host", "far"
LINK, OUTSIDE = "data1", "outside"
PREFIXES = ("198.19.1.0/24", "fd00:198:19:1::/64", "198.18.128.0/17", "fd00:198:18::/48")
BROADCAST = "255.255.255.255"
LAST = "198.19.1.1", 7  # an address of the experiment, and a port that marks the end


@dataclass(frozen=True)
class Sent:
    """A datagram: where to, by which interface, and whether it may leave. QR set or not, from a port."""

    to: str
    port: int
    by: str
    may: bool
    source_port: int = 0
    answer: bool = False


SENT = (
    Sent("198.19.1.1", 9000, LINK, True),
    Sent("198.18.200.7", 53, LINK, True),
    Sent("fd00:198:19:1::1", 9001, LINK, True),  # its neighbor is found first
    Sent("fd00:198:18::9", 53, LINK, True),
    Sent("198.19.77.9", 9002, LINK, False),  # in the prefix for benchmarks, and nobody's
    Sent("198.18.0.9", 53, LINK, False),
    Sent("198.18.200.7", 53, OUTSIDE, False),  # the experiment's, by a link that is not
    Sent("fd00:198:19:1::1", 9003, OUTSIDE, False),
    Sent("224.0.0.251", 5353, LINK, False),
    Sent("239.1.2.3", 9004, LINK, False),
    Sent(BROADCAST, 9005, LINK, False),
    Sent("169.254.7.7", 53, LINK, False),
    Sent("ff02::fb", 5353, LINK, False),
    Sent("ff02::1", 9006, OUTSIDE, False),
    Sent("fe80::77", 53, LINK, False),
    Sent("fe80::77", 443, OUTSIDE, False),
    Sent("192.0.2.1", 9007, LINK, True, source_port=53, answer=True),
    Sent("192.0.2.1", 53, LINK, False, source_port=53),
    Sent("192.0.2.1", 853, OUTSIDE, False),
    Sent("2001:db8::1", 9008, OUTSIDE, False),
)


def network() -> Network:
    ends = (("198.19.1.2/24", "fd00:198:19:1::2/64"), ("198.19.1.1/24", "fd00:198:19:1::1/64"))
    return Network(
        "local",
        hosts=(Host(HOST), Host(FAR)),
        links=(
            Link(HOST, FAR, LINK, "near1", *ends),
            Link(HOST, FAR, OUTSIDE, "near2", (), ()),
        ),
        routes=(
            *(Route(HOST, to, interface=OUTSIDE) for to in ("0.0.0.0/0", "::/0")),
            Route(HOST, "198.18.0.0/16", "198.19.1.1"),
            Route(HOST, "fd00:198:18::/48", "fd00:198:19:1::1"),
        ),
        sysctls=tuple(one for name in (HOST, FAR) for one in sysctls(name, 4096)),
    )


@contextlib.contextmanager
def capture(hosts: netns.Hosts) -> Iterator[socket.socket]:
    """All that comes in at the far host."""
    with (
        linux.inside(hosts.of(FAR)),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as channel,
    ):
        channel.settimeout(20)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        yield channel


def send(one: Sent) -> None:
    """From the host; what the guard drops may be an error of the call."""
    family = socket.AF_INET6 if ":" in one.to else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, one.by.encode())
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        channel.bind(("", one.source_port))
        flags = 0x8000 if one.answer else 0
        with contextlib.suppress(PermissionError):
            channel.sendto(struct.pack(">6H", 1, flags, 0, 0, 0, 0), (one.to, one.port))


def datagrams(channel: socket.socket) -> tuple[set[tuple[str, int]], set[int]]:
    """Where UDP went until the marker came, and the types of ICMPv6 that were seen."""
    seen: set[tuple[str, int]] = set()
    types: set[int] = set()
    while True:
        frame, (_, _, direction, *_) = channel.recvfrom(65_535)
        if direction == socket.PACKET_OUTGOING:
            continue
        kind, packet = frame[12:14], frame[14:]
        if kind == b"\x08\x00" and packet[9] == socket.IPPROTO_UDP:
            to = str(ipaddress.IPv4Address(packet[16:20])), int.from_bytes(packet[22:24])
            if to == LAST:
                return seen, types
            seen.add(to)
        elif kind == b"\x86\xdd" and packet[6] == socket.IPPROTO_UDP:
            seen.add((str(ipaddress.IPv6Address(packet[24:40])), int.from_bytes(packet[42:44])))
        elif kind == b"\x86\xdd" and packet[6] in (socket.IPPROTO_ICMPV6, socket.IPPROTO_HOPOPTS):
            types.add(packet[40] if packet[6] == socket.IPPROTO_ICMPV6 else packet[48])


def counted() -> dict[str, int]:
    argv = ["nft", "-j", "list", "counters"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return nftables.counters(json.loads(done.stdout), nftables.GUARD)


def neighbor_known() -> bool:
    done = subprocess.run(
        ["ip", "-6", "neigh", "show", "dev", LINK], capture_output=True, text=True, check=True
    )
    return "fd00:198:19:1::1 lladdr" in done.stdout


def know_neighbors(hosts: netns.Hosts) -> None:
    """What the guard lets through arrives, also where nobody would say that the address is his; but one, for
    which the host has to ask.
    """
    with linux.inside(hosts.of(FAR)):
        shown = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True)
    macs = {one["ifname"]: one["address"] for one in json.loads(shown.stdout)}
    far = {LINK: macs["near1"], OUTSIDE: macs["near2"]}
    for one in (*SENT, Sent(*LAST, LINK, True)):
        address = ipaddress.ip_address(one.to)
        if not address.is_multicast and one.to not in (BROADCAST, "fd00:198:19:1::1"):
            argv = ["ip", "neigh", "replace", one.to, "lladdr", far[one.by], "dev", one.by]
            subprocess.run(argv, check=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[netns.Hosts]:
    with BareBed(tmp_path, network()) as made:
        yield made.hosts


def test_only_what_the_experiment_has_addressed_leaves(hosts: netns.Hosts) -> None:
    guard = nftables.guard_ruleset(nftables.Guarded([LINK], PREFIXES, [LINK], [53]))
    with linux.inside(hosts.of(HOST)):
        know_neighbors(hosts)
        subprocess.run(["nft", "-f", "-"], input=guard, text=True, check=True)
    with capture(hosts) as channel, linux.inside(hosts.of(HOST)):
        before = counted()
        for one in SENT:
            send(one)
        wait_for(neighbor_known, "the neighbor's address")
        send(Sent(*LAST, LINK, True))
        seen, types = datagrams(channel)
        after = counted()
    assert seen == {(one.to, one.port) for one in SENT if one.may}
    assert types <= {135, 136}, "neighbor discovery only"
    stopped = [one for one in SENT if not one.may]
    dns = [one for one in stopped if one.port in (53, 443, 853)]
    assert after["dns_ports"] - before["dns_ports"] == len(dns)
    copies = sum(one.to == BROADCAST for one in stopped)  # the kernel sends one to the host itself too
    assert after["elsewhere"] - before["elsewhere"] == len(stopped) - len(dns) + copies


PAST_QUEUES = 20  # PACKET_QDISC_BYPASS of linux/if_packet.h


def write_frame(one: Sent, past_queues: bool) -> None:
    """Sends below the host's stack, to the far end of the link; a drop may be an error of the call."""
    v6 = ":" in one.to
    to = ipaddress.ip_address(one.to).packed
    udp = struct.pack(">4H", one.source_port, one.port, 20, 0)
    udp += struct.pack(">6H", 1, 0x8000 if one.answer else 0, 0, 0, 0, 0)
    head = struct.pack(">IHBB16s16s", 6 << 28, 20, 17, 64, to, to)
    if not v6:
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 17, 0, to, to)
    kind = b"\x86\xdd" if v6 else b"\x08\x00"
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as channel:
        channel.setsockopt(263, PAST_QUEUES, past_queues)  # SOL_PACKET
        channel.bind((LINK, 0))
        with contextlib.suppress(OSError):
            channel.send(b"\xff" * 6 + b"\x02" * 6 + kind + head + udp)


@pytest.mark.parametrize("past_queues", [False, True])
def test_frames_that_a_program_writes_itself_are_stopped_and_counted(
    hosts: netns.Hosts, past_queues: bool
) -> None:
    guard = nftables.guard_ruleset(nftables.Guarded([LINK], PREFIXES, [LINK], [53], writes_frames=True))
    frames = [one for one in SENT if one.by == LINK]
    with linux.inside(hosts.of(HOST)):
        know_neighbors(hosts)
        subprocess.run(["nft", "-f", "-"], input=guard, text=True, check=True)
    with capture(hosts) as channel, linux.inside(hosts.of(HOST)):
        for one in frames:
            write_frame(one, past_queues)
        stopped = counted()
        for one in frames:
            send(one)
        wait_for(neighbor_known, "the neighbor's address")
        send(Sent(*LAST, LINK, True))
        seen, _ = datagrams(channel)
        after = counted()
    assert seen == {(one.to, one.port) for one in frames if one.may}
    assert stopped["frames"] == sum(not one.may for one in frames)
    assert (stopped["dns_ports"], stopped["elsewhere"]) == (0, 0)  # which do not see them
    assert after["frames"] == stopped["frames"]  # what the stack sends is judged once
