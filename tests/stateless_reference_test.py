"""The front of statelessTCP in user space: what real clients get of real servers, and what they do not."""

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import dns.flags
import dns.rdatatype
import pytest

from cli import programs
from tests.bed import Capture, wait_for
from tests.slow import slow
from tests.stateless_reference_bed import (
    ACTIVE,
    ADDRESSES,
    CLIENT,
    CLIENT4,
    CLIENT_IF,
    DROP_ANSWERS,
    KEY,
    SERVER,
    SERVER4,
    SERVER6,
    SERVER_IF,
    SERVICE4,
    SERVICE6,
    SIZES,
    ReferenceBed,
    Stopped,
    answer,
    ask,
    forged,
    nft,
    plain,
    query,
    served,
    server_of,
    until_counted,
)

pytestmark = pytest.mark.netns


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ReferenceBed]:
    """With a server that takes connections."""
    with served(tmp_path) as made:
        yield made


# --- the answers ------------------------------------------------------------------------------------------


def answers_of_clients(bed: ReferenceBed) -> dict[str, list[str]]:
    """By client, address and question."""
    kdig = [programs.packaged("kdig"), "+tcp", "+retry=0", "+time=3", "+edns=0", "+bufsize=4096"]
    found = {}
    for server in ADDRESSES:
        for name, kind in (
            ("a.example", "A"),
            ("none.example", "AAAA"),
            *((f"s{n}.example", "TXT") for n in SIZES),
        ):
            text = bed.dig(name, kind, "+bufsize=4096", server=server)
            assert "status:" in text, text
            found[f"dig {server} {name}"] = plain(text)
            text = bed.output(CLIENT, *kdig, f"@{server}", name, kind)
            assert "status:" in text, text
            found[f"kdig {server} {name}"] = plain(text)
            message = ask(bed, query(f"{name}.", kind), server)
            message.id = 0
            found[f"socket {server} {name}"] = plain(message.to_text())
    return found


@pytest.mark.parametrize("kind", ["bind", slow("nsd")])
def test_real_clients_get_the_same_answers_as_over_the_kernels_tcp(tmp_path: Path, kind: str) -> None:
    with ReferenceBed(tmp_path) as bed:
        bed.start_nsd_server() if kind == "nsd" else bed.start_bind_server()
        bed.listening()
        expected = answers_of_clients(bed)
        front = bed.start_front(*ACTIVE)
        assert answers_of_clients(bed) == expected
        counted = bed.finish(front)
        asked = len(expected)
        assert counted["queries"] == counted["replies"] == counted["syn"] == counted["syn_ack"] == asked
        assert counted["segments"] > asked  # some answers are longer than a segment
        assert (counted["malformed"], counted["late"], counted["expired"]) == (0, 0, 0)


OPTIONS = {
    "no EDNS": ("+noedns",),
    "512": ("+bufsize=512",),
    "1232": ("+bufsize=1232",),
    "4096": ("+bufsize=4096",),
    "DO": ("+dnssec", "+bufsize=4096"),
    "CD": ("+cdflag", "+bufsize=4096"),
    "padding": ("+padding=128", "+bufsize=4096"),
    "ECS": ("+subnet=192.0.2.0/24", "+bufsize=4096"),
    "NSID": ("+nsid", "+bufsize=4096"),
    "EDNS 1": ("+edns=1", "+noednsnegotiation"),
    "unknown option": ("+ednsopt=65001:c0ffee", "+bufsize=4096"),
    "NOTIFY": ("+opcode=NOTIFY",),
    "UPDATE": ("+opcode=UPDATE",),
    "STATUS": ("+opcode=STATUS",),
}


@pytest.mark.parametrize("kind", ["nsd", slow("bind")])
def test_options_and_other_messages_are_answered_as_over_udp(tmp_path: Path, kind: str) -> None:
    with ReferenceBed(tmp_path) as bed:
        bed.start_nsd_server() if kind == "nsd" else bed.start_bind_server()
        bed.listening()

        def answers(*more: str) -> dict[str, list[str]]:
            found = {}
            for what, options in OPTIONS.items():
                for size in (100, 1200, 3900):
                    text = bed.dig(f"s{size}.example", "TXT", *options, "+ignore", "+norec", *more)
                    assert "status:" in text, text
                    found[f"{what} {size}"] = plain(text)
            return found

        expected = answers("+notcp")
        bed.start_front(*ACTIVE)
        assert answers() == expected


def test_cookies_and_signatures_hold(tmp_path: Path) -> None:
    with ReferenceBed(tmp_path) as bed:
        bed.start_bind_server()
        bed.listening()
        bed.start_front(*ACTIVE)
        text = bed.dig("a.example", "A", "+cookie")
        assert "(good)" in text and "192.0.2.2" in text, text
        text = bed.dig("a.example", "A", "-y", f"hmac-sha256:test.:{KEY}")
        assert "TSIG PSEUDOSECTION" in text and "192.0.2.2" in text, text
        assert "Couldn't verify signature" not in text


def test_a_flood_of_syns_leaves_no_state(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    bed.ip(SERVER, "route", "add", "blackhole", "203.0.113.0/24")
    with bed.inside(CLIENT), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for number in range(5000):
            raw.sendto(forged(f"203.0.113.{number % 250}", SERVICE4, port=1024 + number), (SERVICE4, 0))
    assert ask(bed, query()).answer
    counted = bed.finish(front)
    assert counted["syn"] == counted["syn_ack"] == 5001
    assert counted["entries_peak"] == 1


def test_keepopen_asks_again_and_again_on_one_connection(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    kdig = [programs.packaged("kdig"), f"@{SERVICE4}", "+tcp", "+keepopen", "+retry=0", "+bufsize=4096"]
    names = [word for size in SIZES for word in (f"s{size}.example", "TXT")]
    text = bed.output(CLIENT, *kdig, *names)
    assert text.count("status: NOERROR") == len(SIZES), text
    counted = bed.finish(front)
    assert (counted["syn"], counted["queries"], counted["replies"]) == (1, len(SIZES), len(SIZES))


def test_many_clients_at_once_are_all_served(bed: ReferenceBed, tmp_path: Path) -> None:
    front = bed.start_front(*ACTIVE)
    names = tmp_path / "names"
    names.write_text("".join(f"host{number}.example A\n" for number in range(500)))
    dnsperf = [programs.packaged("dnsperf"), "-s", SERVICE4, "-m", "tcp", "-c", "20", "-q", "10"]
    text = bed.output(CLIENT, *dnsperf, "-d", str(names), "-n", "2", "-t", "2")
    counted = bed.finish(front)
    assert re.search(r"Queries sent: +1000\n", text), text
    completed = int(re.findall(r"Queries completed: +(\d+) ", text)[0])
    assert counted["queries"] == counted["replies"] >= completed
    # The others were sent on a connection before the answer to the one before it came, which is rare: 19
    # other connections are used in between.
    assert completed > 950
    assert counted["not_promoted"].get("pipelined", 0) <= 1000 - completed
    assert counted["entries"] == 0 < counted["entries_peak"]


@pytest.mark.parametrize("address", [SERVICE4, SERVICE6])
@pytest.mark.parametrize(("mss", "largest"), [(536, 536), (1220, 1220), (1300, 1220), (1460, 1460)])
def test_an_answer_is_cut_by_the_clients_mss(bed: ReferenceBed, address: str, mss: int, largest: int) -> None:
    largest = min(largest, 1440 if ":" in address else 1460)
    prefix, via = (f"{address}/128", SERVER6) if ":" in address else (f"{address}/32", SERVER4)
    family = "-6" if ":" in address else "-4"
    route = ("route", "replace", prefix, "via", via, "dev", CLIENT_IF, "advmss", str(mss))
    bed.ip(CLIENT, family, *route)
    front = bed.start_front(*ACTIVE)
    capture = Capture(bed, CLIENT, CLIENT_IF)
    reply = ask(bed, query("s3900.example.", "TXT"), address)
    assert len(reply.answer) == 1
    assert not reply.flags & dns.flags.TC
    capture.stop()
    sizes = [int(size) for (size,) in capture.rows("tcp.srcport == 53 && tcp.len > 0", "tcp.len")]
    assert max(sizes) == largest, sizes
    assert bed.finish(front)["segments"] == len(sizes) == -(-sum(sizes) // largest)


def test_a_query_without_edns_gets_512_bytes_at_most(bed: ReferenceBed) -> None:
    bed.start_front(*ACTIVE)
    reply = ask(bed, query("s1200.example.", "TXT", payload=0))
    assert reply.flags & dns.flags.TC
    assert ask(bed, query("s100.example.", "TXT", payload=0)).answer


def test_another_port_and_other_options_of_the_device(tmp_path: Path) -> None:
    with ReferenceBed(tmp_path) as bed:
        bed.start_nsd_server(port=5353)
        bed.listening(5353)
        front = bed.start_front(*ACTIVE, "--port", "5353", "--tun", "dns7")
        assert "dns7" in bed.output(SERVER, "ip", "link")
        with bed.connect(SERVICE4, 5353) as connection:
            connection.sendall(query())
            assert answer(connection).answer
        counted = bed.finish(front)
        assert (counted["port"], counted["replies"]) == (5353, 1)


def test_addresses_that_come_and_go_are_followed(bed: ReferenceBed) -> None:
    bed.start_front(*ACTIVE)
    bed.ip(SERVER, "addr", "add", "198.19.254.9/32", "dev", "lo")
    bed.ip(CLIENT, "route", "add", "198.19.254.9", "via", SERVER4)
    table = ("route", "show", "table", "53053")
    wait_for(lambda: "198.19.254.9" in bed.output(SERVER, "ip", *table), "the new address in the table", 5)
    with bed.connect(SERVICE4) as connection:
        connection.sendall(query())
        assert answer(connection).answer
    bed.ip(SERVER, "addr", "del", "198.19.254.9/32", "dev", "lo")
    wait_for(lambda: "198.19.254.9" not in bed.output(SERVER, "ip", *table), "the address gone", 5)


# --- packets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "fin"), [(SERVICE4, False), (SERVICE6, True), slow(SERVICE4, True), slow(SERVICE6, False)]
)
def test_packets_are_as_the_report_says(bed: ReferenceBed, address: str, fin: bool) -> None:
    front = bed.start_front(*ACTIVE, *(("--fin-last",) if fin else ()))
    capture = Capture(bed, CLIENT, CLIENT_IF)
    for _ in range(5):
        with bed.connect(address) as connection:
            connection.sendall(query("s3900.example.", "TXT"))
            assert answer(connection).answer
            if fin:
                assert connection.recv(1) == b""
    until_counted(bed, "fin", 5)
    capture.stop()
    fields = ("ip.ttl", "ipv6.hlim", "tcp.window_size_value", "tcp.checksum.status", "ip.checksum.status")
    checks = tuple(f"-o{one}.check_checksum:TRUE" for one in ("tcp", "ip"))
    seen = {tuple(row) for row in capture.rows("tcp.srcport == 53", *fields, options=checks)}
    wanted = ("", "255", "65535", "1", "") if ":" in address else ("255", "", "65535", "1", "1")
    assert seen == {wanted}
    numbers = [row[0] for row in capture.rows("tcp.srcport == 53 && ip", "ip.id")]
    assert len(set(numbers)) > len(numbers) * 0.9 if numbers else ":" in address
    ends = capture.rows("tcp.srcport == 53 && tcp.flags.fin == 1", "tcp.len", "tcp.flags.push")
    assert len(ends) == (5 if fin else 0)
    assert all(int(size) > 0 and push in ("1", "True") for size, push in ends)  # it is the last segment's
    flags = capture.rows("tcp.srcport == 53 && tcp.flags.reset == 1", "tcp.flags")
    assert flags == []
    counted = bed.finish(front)
    assert (counted["syn"], counted["syn_ack"], counted["fin"], counted["replies"]) == (5, 5, 5, 5)
    assert counted["handshake_ack"] >= 5


@pytest.mark.parametrize("early", [True, False])
def test_a_query_is_acknowledged_at_once_or_by_its_answer(bed: ReferenceBed, early: bool) -> None:
    front = bed.start_front(*ACTIVE, *(() if early else ("--no-early-ack",)))
    capture = Capture(bed, CLIENT, CLIENT_IF)
    wire = query()
    with bed.connect() as connection:
        connection.sendall(wire)
        assert answer(connection).answer
    until_counted(bed, "fin")
    capture.stop()
    rows = capture.rows(f"tcp.srcport == 53 && tcp.ack == {len(wire) + 1}", "tcp.seq", "tcp.len")
    assert [seq for seq, _ in rows] == (["1", "1"] if early else ["1"])
    assert [int(size) > 0 for _, size in rows] == ([False, True] if early else [True])
    bed.finish(front)


# --- what it cannot do ------------------------------------------------------------------------------------


def test_of_two_queries_in_one_segment_only_the_first_is_answered(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    with bed.connect(timeout=1.0) as connection:
        connection.sendall(query() + query("s100.example.", "TXT"))
        assert answer(connection).question[0].rdtype == dns.rdatatype.A
        with pytest.raises(TimeoutError):
            connection.recv(1)
    counted = bed.finish(front)
    assert (counted["queries"], counted["replies"], counted["not_promoted"]) == (1, 1, {"pipelined": 1})


def test_a_second_query_waits_for_the_first_ones_answer(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--timeout-ms", "20000")
    server = server_of(bed)
    with bed.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with Stopped(server):
            connection.sendall(query())
            until_counted(bed, "entries")
            connection.sendall(query("s100.example.", "TXT"))
            until_counted(bed, "waiting")
        assert answer(connection).question[0].rdtype == dns.rdatatype.A
        assert answer(connection).question[0].rdtype == dns.rdatatype.TXT  # the client's TCP sent it again
    counted = bed.finish(front)
    assert (counted["queries"], counted["replies"]) == (2, 2)
    assert counted["waiting"] >= 1


def test_a_query_sent_before_the_answer_came_gets_the_first_ones_numbers(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    capture = Capture(bed, SERVER, SERVER_IF)
    with bed.connect(timeout=1.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nft(bed, DROP_ANSWERS)
        connection.sendall(query())
        until_counted(bed, "replies")
        nft(bed, "delete", "table", "inet", "loss")
        connection.sendall(query("s100.example.", "TXT"))
        assert answer(connection).question[0].rdtype == dns.rdatatype.TXT
        with pytest.raises(TimeoutError):
            connection.recv(1)
    assert bed.finish(front)["replies"] == 2
    capture.stop()
    begin = capture.rows("tcp.srcport == 53 && tcp.len > 0", "tcp.seq")
    assert begin == [["1"], ["1"]]


def test_nsd_leaves_sections_out_of_long_answers_over_udp(tmp_path: Path) -> None:
    with ReferenceBed(tmp_path) as bed:
        bed.start_nsd_server(minimal=False)
        bed.listening()
        wire = query("s2000.example.", "TXT")
        assert ask(bed, wire).authority
        bed.start_front(*ACTIVE)
        reply = ask(bed, wire)
        assert reply.answer
        assert not reply.authority
        assert ask(bed, query()).authority  # a short one has it


def test_the_server_sees_its_own_host_as_the_client(bed: ReferenceBed) -> None:
    bed.start_front(*ACTIVE)
    capture = Capture(bed, SERVER, "lo")
    assert ask(bed, query()).answer
    assert ask(bed, query(), SERVICE6).answer
    capture.stop()
    rows = capture.rows("udp.dstport == 53", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
    assert sorted(rows) == [["", "", SERVICE6, SERVICE6], [SERVICE4, SERVICE4, "", ""]]


def test_a_query_from_a_forged_address_is_answered_to_that_address(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    capture = Capture(bed, CLIENT, CLIENT_IF)
    with bed.inside(CLIENT), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(forged("198.19.1.77", SERVICE4, data=query()), (SERVICE4, 0))
    until_counted(bed, "replies")
    assert capture.rows("arp.dst.proto_ipv4 == 198.19.1.77", "arp.src.proto_ipv4") != []  # the way to it
    assert bed.finish(front)["syn"] == 0


@pytest.mark.parametrize("early", [True, False])
def test_an_answer_that_is_lost_never_comes_unless_the_query_is_sent_again(
    bed: ReferenceBed, early: bool
) -> None:
    front = bed.start_front(*ACTIVE, *(() if early else ("--no-early-ack",)))
    with bed.connect(timeout=4.0) as connection:
        nft(bed, DROP_ANSWERS)
        connection.sendall(query())
        until_counted(bed, "replies")
        nft(bed, "delete", "table", "inet", "loss")
        if early:
            with pytest.raises(TimeoutError):
                connection.recv(1)
        else:
            assert answer(connection).answer
    counted = bed.finish(front)
    assert counted["queries"] == 1 if early else counted["queries"] >= 2


def test_a_server_that_does_not_answer_leaves_the_client_without_word(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--timeout-ms", "300")
    with Stopped(server_of(bed)), bed.connect(timeout=1.5) as connection:
        connection.sendall(query())
        with pytest.raises(TimeoutError):
            connection.recv(1)
        until_counted(bed, "expired")
    until_counted(bed, "late")
    counted = bed.finish(front)
    assert (counted["queries"], counted["replies"], counted["expired"], counted["late"]) == (1, 0, 1, 1)
    assert counted["entries"] == 0


@pytest.mark.parametrize("first", [1, 2, 20])
def test_a_query_in_two_segments_is_answered_if_the_client_sends_it_again_in_one(
    bed: ReferenceBed, first: int
) -> None:
    front = bed.start_front(*ACTIVE)
    wire = query()
    with bed.connect(timeout=4.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(wire[:first])
        connection.sendall(wire[first:])
        assert answer(connection).answer
    counted = bed.finish(front)
    assert counted["not_promoted"]["split"] >= 1
    assert counted["replies"] == 1


def test_a_query_whose_second_half_comes_later_is_never_answered(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    wire = query()
    with bed.connect(timeout=2.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(wire[:2])
        # The client sends the first half again, and nothing new before it is acknowledged.
        wait_for(lambda: bed.statistics()["not_promoted"].get("split", 0) >= 2, "the half sent again", 5)
        connection.sendall(wire[2:])
        with pytest.raises(TimeoutError):
            connection.recv(1)
    counted = bed.finish(front)
    assert counted["not_promoted"]["split"] >= 2
    assert counted["queries"] == 0


def test_a_query_in_fragments_is_reset_by_the_kernel(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    capture = Capture(bed, CLIENT, CLIENT_IF)
    packet = forged(CLIENT4, SERVICE4, data=query())
    with bed.inside(CLIENT), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for begin, end, field in ((20, 60, 0x2000), (60, len(packet), 40 // 8)):  # more to come; offset
            header = struct.pack(">BBHHH", 0x45, 0, 20 + end - begin, 1, field)
            raw.sendto(header + packet[8:20] + packet[begin:end], (SERVICE4, 0))
    resets = "tcp.srcport == 53 && tcp.flags.reset == 1"
    wait_for(lambda: bool(capture.rows(resets, "ip.ttl")), "a reset", 5)
    assert capture.rows(resets, "ip.ttl") == [["64"]]  # not the front's
    counted = bed.finish(front)
    assert (counted["syn"], counted["queries"], counted["malformed"]) == (0, 0, 0)
