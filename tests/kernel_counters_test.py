"""Packets lost on a host in one way each: the kernel's counter for it makes a run unclean, with the exact
number, and nothing else is reported.
"""

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.plan import host_settings
from report import hosts as report_hosts
from report import kernel
from tests.bed import wait_for
from tests.lossy_bed import (
    ADDRESS,
    CLOSED,
    ELSEWHERE,
    FAMILY,
    HOST,
    NEAR,
    NEIGHBOR,
    PORT,
    SENDER,
    Pair,
    forward,
    judged,
    kind_of,
    made,
    packet,
    read,
    summed,
    udp,
)

pytestmark = pytest.mark.netns

# --- ways to lose packets ---------------------------------------------------------------------------------


def firewall(pair: Pair, version: int) -> None:
    pair.nft(f"udp dport {PORT} drop")
    pair.send(version, 45)


def firewall_of_raw(pair: Pair, version: int) -> None:
    pair.nft(f"udp dport {PORT} drop", hook="prerouting")
    pair.send(version, 45)


def limit(pair: Pair, version: int) -> None:
    pair.nft(f"udp dport {PORT} limit rate over 1/day burst 5 packets drop")
    pair.send(version, 50)


def connections(pair: Pair, version: int) -> None:
    """Like a full connection table: new connections are dropped."""
    pair.nft(f"udp dport {PORT} ct state new ct count over 5 drop")
    for _ in range(50):
        pair.send(version)


def reverse_path(pair: Pair, version: int) -> None:
    pair.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.data1.rp_filter=1")
    away = packet(version, ADDRESS[version], 17, udp())
    stranger = away[:12] + socket.inet_aton(ELSEWHERE[4]) + away[16:]
    stranger = stranger[:10] + b"\0\0" + stranger[12:]
    stranger = stranger[:10] + struct.pack(">H", summed(stranger[:20])) + stranger[12:]
    for _ in range(45):
        pair.frame(0x0800, stranger)


def header(pair: Pair, version: int) -> None:
    whole = packet(version, ADDRESS[version], 17, udp())
    pair.frame(kind_of(version), b"\x55" + whole[1:])


def address(pair: Pair, version: int) -> None:
    pair.frame(kind_of(version), packet(version, NEIGHBOR[version], 17, udp()))


def no_route(pair: Pair, version: int) -> None:
    forward(pair)
    for _ in range(3):
        pair.frame(kind_of(version), packet(version, ELSEWHERE[version], 17, udp()))


def too_big(pair: Pair, version: int) -> None:
    forward(pair)
    pair.run("ip", "-6", "route", "add", f"{ELSEWHERE[6]}/128", "via", SENDER[6], "mtu", "lock", "1280")
    pair.frame(kind_of(version), packet(version, ELSEWHERE[version], 17, udp(1400)))


def truncated(pair: Pair, version: int) -> None:
    pair.frame(kind_of(version), packet(version, ADDRESS[version], 17, udp(40))[:-8])


def no_ipv6(pair: Pair, version: int) -> None:
    pair.run("sysctl", "-qw", "net.ipv6.conf.data1.disable_ipv6=1")
    pair.frame(kind_of(version), packet(version, ADDRESS[version], 17, udp()))


def sending(pair: Pair, version: int) -> None:
    pair.nft(f"udp dport {CLOSED} drop", hook="output")
    pair.answer(version, 3)


def reassembly(pair: Pair, version: int) -> None:
    """The first half of a datagram, and the time for the second runs out."""
    pair.run("sysctl", "-qw", "net.ipv4.ipfrag_time=1", "net.ipv6.ip6frag_time=1")
    half = udp(32)[:24]
    if version == 6:
        pair.frame(kind_of(6), packet(6, ADDRESS[6], 44, struct.pack(">BBHI", 17, 0, 1, 7) + half))
    else:
        pair.frame(kind_of(4), packet(4, ADDRESS[4], 17, half, fragment=0x2000))
    file = "/proc/net/snmp6" if version == 6 else "/proc/net/snmp"
    name = "Ip6ReasmFails" if version == 6 else "IpReasmFails"
    parse = report_hosts.snmp6 if version == 6 else report_hosts.snmp
    wait_for(lambda: parse(pair.bed.output(HOST, "cat", file))[name] > 0, "the time of fragments to run out")


def checksum(pair: Pair, version: int) -> None:
    pair.frame(kind_of(version), packet(version, ADDRESS[version], 17, udp()))


def tcp_checksum(pair: Pair, version: int) -> None:
    segment = struct.pack(">HHIIHHHH", 1024, PORT, 1, 0, 0x5002, 1024, 0xBAD, 0)
    pair.frame(kind_of(version), packet(version, ADDRESS[version], 6, segment))


def receive_buffer(pair: Pair, version: int) -> None:
    with pair.bed.inside(HOST), socket.socket(FAMILY[version], socket.SOCK_DGRAM) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        slow.bind((ADDRESS[version], PORT))
        pair.send(version, 50)
        wait_for(lambda: dropped(slow) > 0, "a datagram beyond the buffer")


def dropped(bound: socket.socket) -> int:
    """The last number of SO_MEMINFO: datagrams that the socket has not taken."""
    return int(struct.unpack("9I", bound.getsockopt(socket.SOL_SOCKET, 55, 36))[8])


def other_mac(pair: Pair, version: int) -> None:
    for _ in range(45):
        pair.frame(
            kind_of(version), packet(version, ADDRESS[version], 17, udp()), b"\x02\x12\x34\x56\x78\x9a"
        )


def unknown_frame(pair: Pair, version: int) -> None:
    del version
    pair.frame(0x88B5, bytes(46))


def tun_queue(pair: Pair, version: int) -> None:
    """Nobody reads from a TUN device whose queue holds one packet."""
    del version
    with pair.bed.inside(HOST):
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(
            device, 0x400454CA, struct.pack("16sH", b"t0", 0x1001)
        )  # TUNSETIFF, no packet information
        subprocess.run(["ip", "link", "set", "t0", "txqueuelen", "1", "up"], check=True)
        subprocess.run(["ip", "addr", "add", "192.0.2.2/24", "dev", "t0"], check=True)
    with pair.bed.inside(HOST), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for _ in range(9):
            channel.sendto(b"x", (ELSEWHERE[4], CLOSED))


def overlay(pair: Pair, remote: str) -> None:
    words = ("type", "vxlan", "id", "5", "remote", remote, "dstport", "4789")
    pair.run("ip", "link", "add", "vx0", *words)
    pair.run("ip", "link", "set", "vx0", "addrgenmode", "none", "up")


def damaged(pair: Pair, version: int) -> None:
    """A tunnel whose outer packet met congestion that the inner one cannot tell of (RFC 6040)."""
    overlay(pair, SENDER[version])
    inner = bytes(6) + b"\x02\0\0\0\0\x07" + struct.pack(">H", 0x0800) + packet(4, ADDRESS[4], 17, udp())
    with pair.bed.inside(NEAR), socket.socket(FAMILY[version], socket.SOCK_DGRAM) as channel:
        channel.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3)
        channel.sendto(struct.pack(">II", 0x08000000, 5 << 8) + inner, (ADDRESS[version], 4789))


def no_way(pair: Pair, version: int) -> None:
    """A tunnel to an address without a route."""
    overlay(pair, ELSEWHERE[version])
    with pair.bed.inside(HOST), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as channel:
        channel.bind(("vx0", 0))
        channel.send(bytes(12) + struct.pack(">H", 0x88B5) + bytes(46))


def queue(pair: Pair, version: int) -> None:
    words = ("rate", "8kbit", "burst", "200", "limit", "200")
    pair.run("tc", "qdisc", "add", "dev", "data1", "root", "handle", "7:", "tbf", *words)
    with contextlib.suppress(OSError):
        pair.answer(version, 50)


FAULTS: dict[str, list[tuple[Callable[[Pair, int], None], int, str]]] = {
    kernel.UNDELIVERED: [
        *((firewall, version, ": 45 packets came and were not delivered") for version in (4, 6)),
        *((firewall_of_raw, version, ": 45 packets came and were not delivered") for version in (4, 6)),
        *((limit, version, ": 45 packets came and were not delivered") for version in (4, 6)),
        *((connections, version, ": 45 packets came and were not delivered") for version in (4, 6)),
        (reverse_path, 4, ": 45 packets came and were not delivered"),
    ],
    "Ip InHdrErrors": [(header, 4, "(IpInHdrErrors)"), (header, 6, "(Ip6InHdrErrors)")],
    "Ip InAddrErrors": [(address, 4, "(IpInAddrErrors)"), (address, 6, "(Ip6InAddrErrors)")],
    "Ip InNoRoutes": [(no_route, 4, "(IpExtInNoRoutes)"), (no_route, 6, "(Ip6InNoRoutes)")],
    "Ip InTooBigErrors": [(too_big, 6, "(Ip6InTooBigErrors)")],
    "Ip InTruncatedPkts": [(truncated, 4, "(IpExtInTruncatedPkts)"), (truncated, 6, "(Ip6InTruncatedPkts)")],
    "Ip InDiscards": [(no_ipv6, 6, "(Ip6InDiscards)")],
    "Ip OutDiscards": [(sending, 4, ": 3 packets could"), (sending, 6, ": 3 packets could")],
    "Ip ReasmFails": [(reassembly, 4, "(IpReasmFails)"), (reassembly, 6, "(Ip6ReasmFails)")],
    "Udp InCsumErrors": [(checksum, 4, "(UdpInCsumErrors)"), (checksum, 6, "(Udp6InCsumErrors)")],
    "Udp RcvbufErrors": [(receive_buffer, 4, "(UdpRcvbufErrors)"), (receive_buffer, 6, "(Udp6RcvbufErrors)")],
    "Tcp InCsumErrors": [(tcp_checksum, 4, "(TcpInCsumErrors)"), (tcp_checksum, 6, "(TcpInCsumErrors)")],
    "rx otherhost": [(other_mac, 4, "data1 lost 45 packets on receiving (otherhost)")],
    "rx dropped": [(unknown_frame, 4, "data1 lost 1 packets on receiving (dropped)")],
    "rx errors": [(damaged, 4, "vx0 lost 1 packets on receiving (errors)")],
    "tx errors": [(no_way, 4, " packets on sending (errors)")],
    "tx dropped": [(tun_queue, 4, "t0 lost ")],
    "qdisc drops": [(queue, 4, "queue tbf of data1 dropped ")],
}
# Counters that no test can raise without harm to the machine, or that another test covers.
ELSEWHERE_TESTED = {
    "Udp MemErrors": "its limit, net.ipv4.udp_mem, is the whole machine's",
    "rx missed_errors": "only drivers of real network cards count it",
    "tx carrier_changes": "testbed_test.py takes links down",
}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with made(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("key", "lose", "version", "words"), [(key, *one) for key, every in FAULTS.items() for one in every]
)
def test_what_a_kernel_lost_is_told_once(
    pair: Pair, key: str, lose: Callable[[Pair, int], None], version: int, words: str
) -> None:
    assert kernel.counter(key)
    read(pair, host_settings.BEFORE)
    lose(pair, version)
    read(pair)
    # On a busy machine the sender's link may lose packets, too.
    first, *more = [one for one in judged(pair).losses if one.startswith(f"{HOST}: ")]
    assert words in first
    # The sender gets an error at once if a queue is full, so the kernel counts that a second time.
    assert not more or (lose is queue and len(more) == 1 and "OutDiscards" in more[0])


def test_every_fatal_counter_has_a_fault() -> None:
    fatal = {one.key for one in kernel.TABLE if one.verdict in (kernel.FATAL, kernel.SERVERS)}
    assert fatal == set(FAULTS) | set(ELSEWHERE_TESTED)
    assert not set(FAULTS) & set(ELSEWHERE_TESTED)


def test_traffic_that_arrives_says_nothing(pair: Pair) -> None:
    """Also in fragments, forwarded, to closed ports, and to a group."""
    forward(pair)
    read(pair, host_settings.BEFORE)
    for version in (4, 6):
        pair.send(version, 30)
        pair.answer(version, 30)
        with pair.bed.inside(NEAR), socket.socket(FAMILY[version], socket.SOCK_DGRAM) as channel:
            channel.sendto(bytes(4_000), (ADDRESS[version], PORT))
    for last in (b"\0", b"\1"):
        group = packet(6, "ff02::fb", 17, udp())
        pair.frame(0x86DD, group, b"\x33\x33\0\0\0" + last)
    read(pair)
    found = judged(pair)
    assert (found.losses, found.remarks) == ([], [])


def test_every_counter_of_this_kernel_is_in_the_table(pair: Pair) -> None:
    read(pair)
    counted = report_hosts.parse((pair.bed.folder / f"counters-{HOST}.txt").read_text())
    assert len(counted.protocols) > 300
    assert [name for name in counted.protocols if kernel.counter(kernel.key_of(name)) is None] == []
