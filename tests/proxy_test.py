"""The rewriting proxies between two real hosts (network namespaces)."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dns.message
import dns.query
import pytest

from cli import linux, programs
from tests.bed import Program, wait_for
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

pytestmark = pytest.mark.netns

UNMAPPED4, UNMAPPED6 = "192.0.2.77", "2001:db8::77"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ProxyBed]:
    made = ProxyBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[ProxyBed]:
    """With a link of 1,400 bytes; the devices have 1,500 as made."""
    made = ProxyBed(tmp_path, mtu=1400)
    yield made
    made.close()


@pytest.fixture
def open_bed() -> Iterator[ProxyBed]:
    """In a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        made = ProxyBed(Path(folder))
        yield made
        made.close()


def packets(bed: ProxyBed, path: Path, condition: str, *fields: str) -> list[list[str]]:
    """What tshark, which shares no code with us, finds in a capture: the fields of the matching packets."""
    argv = [programs.packaged("tshark"), "-r", str(path), "-Y", condition, "-T", "fields"]
    argv += ["-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    for name in fields:
        argv += ["-e", name]
    return [line.split("\t") for line in bed.output(RESOLVER, *argv).splitlines()]


def stop(program: Program) -> None:
    program.process.send_signal(signal.SIGTERM)
    program.wait()


def test_each_address_reaches_its_slot_over_udp_and_tcp(bed: ProxyBed) -> None:
    resolver, meta = bed.start_both()
    for address, slot in SLOTS.items():
        assert bed.dig(address, "a.example.") == f'"{slot}"', (resolver.text(), meta.text())
        assert bed.dig(address, "a.example.", "+tcp") == f'"{slot}"'
    queries, answers = bed.finish(resolver, RESOLVER), bed.finish(meta, META)
    assert queries["upstream"] == {"udp_queries": 4, "tcp_connections": 4}
    assert answers["upstream"] == {"udp_queries": 4, "tcp_connections": 4}
    for one in (queries, answers):
        assert one["packets"]["rewritten"] == one["packets"]["written"]
        assert (one["packets"]["unmapped"], one["packets"]["malformed"]) == (0, 0)
        assert one["cpu_s"] > 0


def test_captures_show_the_addresses_of_every_stage(bed: ProxyBed) -> None:
    bed.start_both()
    captures = [bed.start_capture(RESOLVER, TUN), bed.start_capture(META, "down0")]
    for address in (ROOT_B4, ROOT_B6):
        bed.dig(address, "a.example.")
        bed.dig(address, "a.example.", "+tcp")
    time.sleep(0.1)  # tcpdump writes what it has when it ends; the last packets need to have reached it
    for program, _ in captures:
        stop(program)
    addresses = ("ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
    device, link = captures[0][1], captures[1][1]
    own4, own6 = [OWN4, ROOT_B4, "", ""], ["", "", OWN6, ROOT_B6]
    sent4, sent6 = [ROOT_B4, META4[2], "", ""], ["", "", ROOT_B6, META6[2]]
    seen = packets(bed, device, "udp.dstport == 53 || tcp.dstport == 53", *addresses)
    assert {tuple(one) for one in seen} == {tuple(one) for one in (own4, own6, sent4, sent6)}
    queries = packets(bed, link, "udp.dstport == 53 || tcp.dstport == 53", *addresses)
    assert {tuple(one) for one in queries} == {tuple(sent4), tuple(sent6)}
    answers = packets(bed, link, "udp.srcport == 53 || tcp.srcport == 53", *addresses)
    assert {tuple(one) for one in answers} == {(ROOT_B4, OWN4, "", ""), ("", "", ROOT_B6, OWN6)}
    for path in (device, link):
        rewritten = f"(ip.src == {ROOT_B4} || ipv6.src == {ROOT_B6})"
        checks = ("udp.checksum.status", "tcp.checksum.status", "ip.checksum.status")
        states = {state for row in packets(bed, path, rewritten, *checks) for state in row}
        assert states == {"", "1"}, states  # good, or not of this protocol


@pytest.mark.parametrize("address", [ROOT_A4, ROOT_A6])
def test_an_answer_of_4000_bytes_comes_in_fragments(bed: ProxyBed, address: str) -> None:
    resolver, meta = bed.start_both()
    program, path = bed.start_capture(META, "down0")
    answer = bed.dig(address, "s3600.example.", "+bufsize=4096", "+ignore")
    assert answer.startswith('"1"') and answer.count("x" * 250) == 14
    stop(program)
    fragments = packets(bed, path, "ip.frag_offset > 0 || ipv6.fraghdr.offset > 0", "ip.src", "ipv6.src")
    assert [one for one in fragments if address in one] != []
    assert bed.finish(meta, META)["upstream"]["udp_queries"] == 1
    assert bed.finish(resolver, RESOLVER)["packets"]["rewritten"] == 1


def test_unmapped_addresses_are_dropped_counted_and_named(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    program, path = bed.start_capture(META, "down0")
    for _ in range(2):
        assert "no servers could be reached" in bed.dig(UNMAPPED4, "a.example.", "+time=1")
    assert "no servers could be reached" in bed.dig(UNMAPPED6, "a.example.", "+time=1")
    assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    stop(program)
    found = bed.finish(resolver, RESOLVER)
    assert found["packets"]["unmapped"] == 3
    assert found["unmapped"] == [
        {"address": UNMAPPED4, "packets": 2},
        {"address": UNMAPPED6, "packets": 1},
    ]
    assert packets(bed, path, f"ip.addr == {UNMAPPED4} || ipv6.addr == {UNMAPPED6}", "frame.number") == []


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
    with linux.inside(bed.hosts.of(RESOLVER)):
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
    with linux.inside(bed.hosts.of(RESOLVER)):
        stream = socket.create_connection((ROOT_A4, 53), timeout=10)
    with closing(stream):
        query = dns.message.make_query("a.example.", "TXT")
        dns.query.send_tcp(stream, query)
        assert dns.query.receive_tcp(stream)[0].answer
        resolver.process.kill()
        resolver.wait()
        assert "no servers could be reached" in bed.dig(ROOT_A4, "a.example.", "+time=1")
        again = bed.start_proxy(RESOLVER)
        assert bed.dig(ROOT_A4, "a.example.") == '"1"'
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


def test_every_packet_goes_by_the_kernel_where_asked(bed: ProxyBed) -> None:
    bed.start_responder()
    resolver = bed.start_proxy(RESOLVER, "--via-kernel")
    bed.start_proxy(META, "--via-kernel")
    before = written(bed)
    for _ in range(5):
        assert bed.dig(ROOT_A4, "a.example.") == '"1"'
    assert written(bed) == before + 5
    assert bed.finish(resolver, RESOLVER)["packets"]["written"] == 5


def test_counts_are_served_to_prometheus_and_root_is_given_up(open_bed: ProxyBed) -> None:
    resolver = open_bed.start_proxy(RESOLVER, "--metrics", "127.0.0.1:9353", "--user", "nobody")
    open_bed.dig(UNMAPPED4, "a.example.", "+time=1")
    with linux.inside(open_bed.hosts.of(RESOLVER)):
        with urllib.request.urlopen("http://127.0.0.1:9353/metrics", timeout=10) as page:
            text = page.read().decode()
        slow = socket.create_connection(("127.0.0.1", 9353))  # asks nothing, and holds nobody up
        with urllib.request.urlopen("http://127.0.0.1:9353/metrics", timeout=10) as page:
            assert page.status == 200
        slow.close()
    assert 'reprise_proxy_packets_total{verdict="unmapped"} 1' in text
    status = Path(f"/proc/{resolver.process.pid}/status").read_text()
    assert "Uid:\t65534\t65534\t65534\t65534" in status
    assert "CapEff:\t0000000000000000" in status
    assert open_bed.finish(resolver, RESOLVER)["packets"]["unmapped"] == 1


def test_the_proxy_makes_a_missing_device_and_runs_first_where_asked(bed: ProxyBed) -> None:
    argv = [programs.own("reprise-proxy"), "resolver", "--tun", "made0", "--map", str(bed.map), "--realtime"]
    program = bed.start(RESOLVER, "made", argv)
    wait_for(lambda: "event=ready" in program.text(), "ready")
    assert "made0" in bed.output(RESOLVER, "ip", "-br", "link", "show", "up")
    assert os.sched_getscheduler(program.process.pid) & 0xFF == os.SCHED_FIFO
    stop(program)
    assert program.process.returncode == 0
    assert "made0" not in bed.output(RESOLVER, "ip", "-br", "link")


def test_a_changed_map_is_read_on_request(bed: ProxyBed) -> None:
    resolver, _ = bed.start_both()
    good = bed.map.read_text()
    bed.map.write_text(good.replace(f"oqda\t{ROOT_A4}\t1", f"oqda\t{ROOT_A4}\t2"))
    resolver.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=reloaded" in resolver.text(), "the new map")
    assert bed.dig(ROOT_A4, "a.example.") == '"2"'
    bed.map.write_text(good + "oqda\tnonsense\t1\n")
    resolver.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=not_reloaded" in resolver.text(), "the refusal")
    assert bed.dig(ROOT_A4, "a.example.") == '"2"'


def refusal(bed: ProxyBed, *argv: str) -> tuple[int, str]:
    """Exit status and last line of a proxy that cannot start."""
    with linux.inside(bed.hosts.of(RESOLVER)):
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
    assert refusal(bed, *other, "--metrics", "nowhere")[0] == 2
    assert refusal(bed, *other, "--user", "nobody-of-that-name")[0] == 2
    assert refusal(bed, *other, "--stats", "/nonexistent/s.json")[0] == 1
    assert refusal(bed, "resolver", "--tun", "up0", "--map", str(bed.map)) == (
        1,
        "reprise-proxy: error: TUN device up0: is no TUN device with one queue; make it with "
        "`ip tuntap add dev up0 mode tun`",
    )
    bed.map.write_text("#reprise-map 1\noqda\t192.0.2.1\n")
    status, line = refusal(bed, *other)
    assert (status, f"{bed.map}:2: 2 cells where oqda has 3; let" in line) == (1, True)
