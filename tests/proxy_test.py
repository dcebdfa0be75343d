"""The rewriting proxies between two real hosts (network namespaces)."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import dns.message
import dns.query
import pytest

from cli import programs
from tests.bed import Capture, wait_for
from tests.proxy_bed import (
    META,
    META4,
    META6,
    OWN4,
    OWN6,
    RESOLVER,
    ROOT_A4,
    ROOT_A6,
    ROOT_B4,
    ROOT_B6,
    SLOTS,
    TUN,
    ProxyBed,
)
from tests.slow import slow

pytestmark = pytest.mark.netns

UNMAPPED4, UNMAPPED6 = "192.0.2.77", "2001:db8::77"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ProxyBed]:
    with ProxyBed(tmp_path) as made:
        yield made


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[ProxyBed]:
    """With a link of 1,400 bytes; the devices have 1,500 as made."""
    with ProxyBed(tmp_path, mtu=1400) as made:
        yield made


@pytest.fixture
def open_bed() -> Iterator[ProxyBed]:
    """In a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder, ProxyBed(Path(folder)) as made:
        yield made


CHECKSUMS = tuple(f"-o{one}.check_checksum:TRUE" for one in ("udp", "tcp", "ip"))


def test_each_address_reaches_its_slot_over_udp_and_tcp(bed: ProxyBed) -> None:
    resolver, meta = bed.start_both()
    for address, slot in SLOTS.items():
        assert bed.dig(address, "a.example.") == f'"{slot}"', (resolver.text(), meta.text())
        assert bed.dig(address, "a.example.", "+tcp") == f'"{slot}"'
    queries, answers = bed.finish(resolver, RESOLVER), bed.finish(meta, META)
    assert queries["upstream"] == {"udp_queries": 4, "udp_dropped": 0, "tcp_connections": 4, "tcp_queries": 4}
    assert answers["upstream"] == {"udp_queries": 4, "udp_dropped": 0, "tcp_connections": 4, "tcp_queries": 4}
    for one in (queries, answers):
        assert one["packets"]["rewritten"] == one["packets"]["written"]
        assert (one["packets"]["unmapped"], one["packets"]["malformed"]) == (0, 0)
        assert one["cpu_s"] > 0


def test_captures_show_the_addresses_of_every_stage(bed: ProxyBed) -> None:
    bed.start_both()
    captures = device, link = Capture(bed, RESOLVER, TUN, "device"), Capture(bed, META, "down0", "link")
    for address in (ROOT_B4, ROOT_B6):
        bed.dig(address, "a.example.")
        bed.dig(address, "a.example.", "+tcp")
    for one in captures:
        last = partial(one.rows, "ipv6 && tcp.flags.fin == 1 && tcp.dstport == 53", "frame.number")
        wait_for(lambda last=last: bool(last()), "the end of the last connection")  # type: ignore[misc]
        one.stop()
    addresses = ("ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
    own4, own6 = [OWN4, ROOT_B4, "", ""], ["", "", OWN6, ROOT_B6]
    sent4, sent6 = [ROOT_B4, META4[2], "", ""], ["", "", ROOT_B6, META6[2]]
    seen = device.rows("udp.dstport == 53 || tcp.dstport == 53", *addresses)
    assert {tuple(one) for one in seen} == {tuple(one) for one in (own4, own6, sent4, sent6)}
    queries = link.rows("udp.dstport == 53 || tcp.dstport == 53", *addresses)
    assert {tuple(one) for one in queries} == {tuple(sent4), tuple(sent6)}
    answers = link.rows("udp.srcport == 53 || tcp.srcport == 53", *addresses)
    assert {tuple(one) for one in answers} == {(ROOT_B4, OWN4, "", ""), ("", "", ROOT_B6, OWN6)}
    for capture in captures:
        rewritten = f"(ip.src == {ROOT_B4} || ipv6.src == {ROOT_B6})"
        checks = ("udp.checksum.status", "tcp.checksum.status", "ip.checksum.status")
        states = {state for row in capture.rows(rewritten, *checks, options=CHECKSUMS) for state in row}
        assert states == {"", "1"}, states  # good, or not of this protocol


@pytest.mark.parametrize("address", [ROOT_A4, ROOT_A6])
def test_an_answer_of_4000_bytes_comes_in_fragments(bed: ProxyBed, address: str) -> None:
    resolver, meta = bed.start_both()
    capture = Capture(bed, META, "down0")
    answer = bed.dig(address, "s3600.example.", "+bufsize=4096", "+ignore")
    assert answer.startswith('"1"') and answer.count("x" * 250) == 14
    capture.stop()
    fragments = capture.rows("ip.frag_offset > 0 || ipv6.fraghdr.offset > 0", "ip.src", "ipv6.src")
    assert [one for one in fragments if address in one] != []
    assert bed.finish(meta, META)["upstream"]["udp_queries"] == 1
    assert bed.finish(resolver, RESOLVER)["packets"]["rewritten"] == 1


def test_unmapped_addresses_are_dropped_counted_and_named(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    capture = Capture(bed, META, "down0")
    for _ in range(2):
        assert "no servers could be reached" in bed.dig(UNMAPPED4, "a.example.", "+time=1")
    assert "no servers could be reached" in bed.dig(UNMAPPED6, "a.example.", "+time=1")
    assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    capture.stop()
    found = bed.finish(resolver, RESOLVER)
    assert found["packets"]["unmapped"] == 3
    assert found["unmapped"] == [
        {"address": UNMAPPED4, "packets": 2},
        {"address": UNMAPPED6, "packets": 1},
    ]
    assert capture.rows(f"ip.addr == {UNMAPPED4} || ipv6.addr == {UNMAPPED6}", "frame.number") == []


def datagram(**change: int) -> bytes:
    """A DNS query to ROOT_A4 as raw bytes, with one field of its headers set wrong."""
    payload = dns.message.make_query("a.example.", "TXT").to_wire()
    udp = struct.pack("!HHHH", 4000, change.get("port", 53), change.get("udp", 8 + len(payload)), 0) + payload
    length = change.get("total", 20 + len(udp))
    head = struct.pack("!BBHHH", change.get("first", 0x45), 0, length, 1, change.get("fragment", 0))
    head += struct.pack("!BBH", 64, change.get("protocol", 17), 0)
    return head + socket.inet_aton(OWN4) + socket.inet_aton(ROOT_A4) + udp


def test_malformed_packets_are_counted_by_kind_and_do_no_harm(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    bad = {
        "bad_version": [datagram(first=0x55), datagram(first=0x05)],
        "bad_length": [datagram(first=0x41), datagram(total=20), datagram(total=65535), datagram(first=0x4F)],
        "bad_fragment": [datagram(fragment=0x3FFF), datagram(fragment=0x2000)],
        "bad_transport": [datagram(udp=7), datagram(udp=9999)],
        "short": [b"\x45", datagram()[:19], b"\x60" + bytes(30)],
    }
    with bed.inside(RESOLVER):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    with closing(raw):
        raw.bind((TUN, 0))
        for one in (packet for kind in bad.values() for packet in kind):
            raw.send(one)
        raw.send(datagram(protocol=1))
        raw.send(datagram(port=443))
    assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    found = bed.finish(resolver, RESOLVER)
    assert {kind: found["malformed"][kind] for kind in bad} == {kind: len(bad[kind]) for kind in bad}
    assert found["packets"]["malformed"] == sum(len(kind) for kind in bad.values())
    assert (found["packets"]["foreign"], found["packets"]["rewritten"]) == (2, 1)


def test_a_killed_proxy_goes_on_where_it_was_once_it_is_started_again(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    with bed.inside(RESOLVER):
        stream = socket.create_connection((ROOT_A4, 53), timeout=10)
    with closing(stream):
        query = dns.message.make_query("a.example.", "TXT")
        dns.query.send_tcp(stream, query)
        assert dns.query.receive_tcp(stream)[0].answer
        resolver.kill()
        assert "no servers could be reached" in bed.dig(ROOT_A4, "a.example.", "+time=1")
        again = bed.start_proxy(RESOLVER)
        # The kernel takes its time to see that the device has a reader again.
        wait_for(lambda: bed.dig(ROOT_A4, "a.example.") == '"1"', "an answer through the new proxy")
        dns.query.send_tcp(stream, query)  # the connection of before
        assert dns.query.receive_tcp(stream)[0].answer
    assert bed.finish(again, RESOLVER)["packets"]["malformed"] == 0


def test_a_device_that_vanishes_ends_the_proxy_with_its_statistics(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    bed.ip(RESOLVER, "link", "del", TUN)
    assert resolver.wait(10) == 1
    line = resolver.text().splitlines()[-1]
    assert line.startswith(f"reprise-proxy: error: TUN device {TUN} has vanished; ")
    assert bed.statistics(RESOLVER)["packets"]["rewritten"] == 1


def test_the_device_takes_the_links_mtu(narrow: ProxyBed) -> None:
    resolver, meta = narrow.start_both()
    assert f"event=mtu device={TUN} mtu=1400 before=1500" in resolver.text()
    assert f"event=mtu device={TUN} mtu=1400 before=1500" in meta.text()
    for address in (ROOT_A4, ROOT_A6):
        for size in ("s1250", "s2500"):  # with headers above 1,400: one datagram, then more
            options = ("+bufsize=4096", "+ignore")
            assert narrow.dig(address, f"{size}.example.", *options).startswith('"1"'), (address, size)
            assert narrow.dig(address, f"{size}.example.", "+tcp").startswith('"1"'), (address, size)


def test_the_device_follows_links_that_narrow_and_widen(narrow: ProxyBed) -> None:
    resolver, meta = narrow.start_both()
    narrow.ip(RESOLVER, "link", "set", "up0", "mtu", "1300")
    resolver.until(f"event=mtu device={TUN} mtu=1300 before=1400")
    narrow.finish(resolver, RESOLVER)
    narrow.ip(RESOLVER, "link", "set", "up0", "mtu", "1500")
    narrow.ip(META, "link", "set", "down0", "mtu", "1500")
    again = narrow.start_proxy(RESOLVER)
    assert f"event=mtu device={TUN} mtu=1500 before=1300" in again.text()
    meta.until(f"event=mtu device={TUN} mtu=1500 before=1400")


def test_a_link_too_narrow_for_ipv6_does_not_take_it_off_the_device(bed: ProxyBed) -> None:
    bed.ip(RESOLVER, "link", "set", "up0", "mtu", "1200")
    resolver = bed.start_proxy(RESOLVER)
    assert "event=narrow_link mtu=1200 " in resolver.text()
    assert f"event=mtu device={TUN} mtu=1280 before=1500" in resolver.text()
    assert TUN in bed.output(RESOLVER, "ip", "-6", "route", "show", "table", "100")


QUERY = dns.message.make_query("a.example.", "TXT").to_wire()


def send(bed: ProxyBed, address: str, count: int, payload: bytes) -> None:
    """Datagrams whose answers nobody awaits."""
    with bed.inside(RESOLVER):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
    with closing(datagrams):
        for _ in range(count):
            datagrams.sendto(payload, (address, 53))


def written(bed: ProxyBed) -> int:
    """Packets that came in from the resolver's device: those which its proxy handed to the kernel."""
    text = bed.output(RESOLVER, "ip", "-j", "-s", "link", "show", TUN)
    return int(json.loads(text)[0]["stats64"]["rx"]["packets"])


def goes_past_the_kernel(bed: ProxyBed, address: str) -> bool:
    before = written(bed)
    assert bed.dig(address, "a.example.") == f'"{SLOTS[address]}"'
    return written(bed) == before


@pytest.mark.parametrize("address", [ROOT_B4, ROOT_B6])
def test_packets_go_straight_to_the_next_hop_once_it_is_known(bed: ProxyBed, address: str) -> None:
    resolver, _ = bed.start_both()
    wait_for(lambda: goes_past_the_kernel(bed, address), "a packet that the kernel did not route")
    bed.ip(RESOLVER, "link", "set", "up0", "down")
    assert "no servers could be reached" in bed.dig(address, "a.example.", "+time=1")
    bed.ip(RESOLVER, "link", "set", "up0", "up")
    if ":" in address:  # its addresses went with the link
        bed.ip(RESOLVER, "addr", "add", "fd00:198:19:fd::1/126", "dev", "up0", "nodad")
        bed.ip(RESOLVER, "route", "replace", "fd00:198:18::/48", "via", "fd00:198:19:fd::2")
    else:
        bed.ip(RESOLVER, "route", "replace", "198.18.128.0/17", "via", "198.19.253.2")
    wait_for(lambda: bed.dig(address, "a.example.", "+time=1") == '"2"', "answers over the link again")
    wait_for(lambda: goes_past_the_kernel(bed, address), "the short cut again")
    assert bed.finish(resolver, RESOLVER)["packets"]["malformed"] == 0


def test_a_link_that_stands_still_holds_nothing_up(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    wait_for(lambda: goes_past_the_kernel(bed, ROOT_A4), "the short cut")
    slow = "qdisc add dev up0 root tbf rate 8kbit burst 2kb limit 100mb"
    bed.output(RESOLVER, programs.packaged("tc"), *slow.split())
    send(bed, ROOT_A4, 1500, bytes(1000))
    wait_for(lambda: bed.statistics(RESOLVER)["packets"]["rewritten"] >= 1500, "statistics that go on")
    packets = bed.finish(resolver, RESOLVER)["packets"]
    assert packets["rewritten"] == packets["written"] + packets["refused"]


def by_kernel(bed: ProxyBed, address: str, count: int) -> int:
    """How many of some packets take the kernel's way: one a second and hop does anyway."""
    before, read = written(bed), bed.statistics(RESOLVER)["packets"]["read"]
    send(bed, address, count, QUERY)
    wait_for(lambda: bed.statistics(RESOLVER)["packets"]["read"] >= read + count, "all packets read")
    return written(bed) - before


@pytest.mark.parametrize(
    ("policy", "address"),
    [
        ("destination", ROOT_A4),
        ("interface", ROOT_A6),
        ("forwarding", ROOT_A6),
        *(slow(*one) for one in (
            ("destination", ROOT_A6), ("interface", ROOT_A4), ("forwarding", ROOT_A4))),
    ],
)  # fmt: skip
def test_what_the_hosts_policy_stops_does_not_take_the_short_cut(
    bed: ProxyBed, policy: str, address: str
) -> None:
    bed.start_both()
    wait_for(lambda: goes_past_the_kernel(bed, address), "the short cut")
    family, prefix = ("-6", "fd00:198:18::/48") if ":" in address else ("-4", "198.18.128.0/17")
    bed.ip(RESOLVER, family, "route", "add", "blackhole", "default", "table", "300")
    which = ("to", prefix) if policy == "destination" else ("iif", TUN)
    key = "net.ipv6.conf.all.forwarding" if family == "-6" else "net.ipv4.ip_forward"

    def change(apply: bool) -> None:
        if policy == "forwarding":
            bed.output(RESOLVER, programs.packaged("sysctl"), "-w", f"{key}={0 if apply else 1}")
        else:
            verb = "add" if apply else "del"
            bed.ip(RESOLVER, family, "rule", verb, "pref", "50", *which, "lookup", "300")

    change(apply=True)
    wait_for(lambda: by_kernel(bed, address, 20) == 20, "packets that the kernel drops")
    assert "no servers" in bed.dig(address, "a.example.", "+time=1")
    change(apply=False)
    wait_for(lambda: bed.dig(address, "a.example.", "+time=1") == '"1"', "answers again")
    wait_for(lambda: goes_past_the_kernel(bed, address), "the short cut again")


def test_every_packet_goes_by_the_kernel_where_asked(bed: ProxyBed) -> None:
    bed.start_responder()
    resolver = bed.start_proxy(RESOLVER, "--via-kernel")
    bed.start_proxy(META, "--via-kernel")
    before = written(bed)
    for _ in range(5):
        assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    assert written(bed) == before + 5
    assert bed.finish(resolver, RESOLVER)["packets"]["written"] == 5


def test_root_is_given_up(open_bed: ProxyBed) -> None:
    resolver = open_bed.start_proxy(RESOLVER, "--user", "nobody")
    open_bed.dig(UNMAPPED4, "a.example.", "+time=1")
    status = Path(f"/proc/{resolver.pid}/status").read_text()
    assert "Uid:\t65534\t65534\t65534\t65534" in status
    assert "CapEff:\t0000000000001000" in status  # CAP_NET_ADMIN
    assert "CapBnd:\t0000000000001000" in status
    assert "NoNewPrivs:\t1" in status
    assert open_bed.finish(resolver, RESOLVER)["packets"]["unmapped"] == 1


def test_the_proxy_makes_a_missing_device_and_runs_first_where_asked(bed: ProxyBed) -> None:
    program = bed.start_proxy(RESOLVER, "--realtime", tun="made0")
    assert "made0" in bed.output(RESOLVER, "ip", "-br", "link", "show", "up")
    assert os.sched_getscheduler(program.pid) & 0xFF == os.SCHED_FIFO
    assert program.stop() == 0
    assert "made0" not in bed.output(RESOLVER, "ip", "-br", "link")


def test_refused_realtime_is_in_the_statistics(bed: ProxyBed) -> None:
    """From where the run's summary takes its warnings."""
    drop = [programs.packaged("setpriv"), "--inh-caps=-sys_nice", "--bounding-set=-sys_nice"]
    stats = bed.folder / "refused.json"
    argv = [programs.own("reprise-proxy"), "delay", "--tun", "made1", "--rtt-ms", "1", "--stats", str(stats)]
    bed.start(RESOLVER, [*drop, *argv, "--realtime"], "refused").until("event=ready").stop()
    (warning,) = json.loads(stats.read_text())["warnings"]
    assert re.match(
        r"realtime was refused \(.+\), other processes may have delayed packets; run as root", warning
    )


def test_statistics_that_cannot_be_written_end_no_run(bed: ProxyBed) -> None:
    bed.start_responder()
    bed.start_proxy(META)
    folder, moved = bed.folder / "results", bed.folder / "moved"
    folder.mkdir()
    resolver = bed.start_proxy(RESOLVER, stats=folder / "resolver.json")
    folder.rename(moved)
    resolver.until("event=no_statistics")
    assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    (moved / "resolver.json").unlink()
    moved.rename(folder)
    wait_for((folder / "resolver.json").exists, "statistics again")
    assert resolver.stop() == 0
    assert resolver.text().count("event=no_statistics") == 1
    again = bed.start_proxy(RESOLVER, stats=folder / "resolver.json")
    folder.rename(moved)
    assert again.stop() == 1  # the last ones are missing


def test_drops_of_before_and_a_device_that_vanishes_make_no_count(bed: ProxyBed) -> None:
    first = bed.start_proxy(RESOLVER)
    first.send(signal.SIGSTOP)
    send(bed, ROOT_A4, 12_000, QUERY)
    first.send(signal.SIGCONT)
    wait_for(lambda: bed.statistics(RESOLVER)["packets"]["unread"] > 0, "drops")
    assert bed.finish(first, RESOLVER)["packets"]["unread"] > 0
    second = bed.start_proxy(RESOLVER)
    bed.ip(RESOLVER, "link", "del", TUN)
    assert second.wait(10) == 1
    assert bed.statistics(RESOLVER)["packets"]["unread"] == 0


def refusal(bed: ProxyBed, *argv: str) -> tuple[int, str]:
    """Exit status and last line of a proxy that cannot start."""
    with bed.inside(RESOLVER):
        done = subprocess.run(
            [programs.own("reprise-proxy"), *argv], capture_output=True, text=True, timeout=30, check=False
        )
    return done.returncode, done.stderr.splitlines()[-1]


def test_what_keeps_a_proxy_from_starting_is_one_line(bed: ProxyBed) -> None:
    bed.start_proxy(RESOLVER)
    base = ("resolver", "--tun", TUN, "--map", str(bed.map))
    other = (*base[:2], "other0", *base[3:])
    status, line = refusal(bed, *base)
    assert (status, "another process reads it" in line) == (1, True)
    assert refusal(bed, *other, "--resolver", "7")[0] == 2
    assert refusal(bed, *other, "--user", "nobody-of-that-name")[0] == 2
    assert refusal(bed, *other, "--stats", "/nonexistent/s.json")[0] == 1
    assert refusal(bed, "resolver", "--tun", "up0", "--map", str(bed.map)) == (
        1,
        "reprise-proxy: error: TUN device up0: is not a TUN device with one queue; make it with "
        "`ip tuntap add dev up0 mode tun`",
    )
    bed.map.write_text("#reprise-map 1\noqda\t192.0.2.1\n")
    status, line = refusal(bed, *other)
    assert (status, f"{bed.map}:2: 2 cells where oqda has 3; let" in line) == (1, True)
