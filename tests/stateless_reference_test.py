"""The front of statelessTCP in user space: what real clients get of real servers, and what they do not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import dns.flags
import dns.message
import dns.rdatatype
import pytest

from cli import programs
from tests.bed import Capture, Program, wait_for
from tests.stateless_reference_bed import (
    CLIENT,
    CLIENT_IF,
    SERVER,
    SERVER4,
    SERVER6,
    SERVER_IF,
    SERVICE4,
    SERVICE6,
    SIZES,
    TRANSFERRED,
    ReferenceBed,
)

pytestmark = pytest.mark.netns

ACTIVE = ("--active", "1")
ADDRESSES = (SERVICE4, SERVER4, SERVICE6, SERVER6)
FORWARDING = (f"net.ipv4.conf.{SERVER_IF}.forwarding", "net.ipv6.conf.all.forwarding")


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ReferenceBed]:
    """With a server that takes connections."""
    with ReferenceBed(tmp_path) as made:
        made.start_nsd_server()
        made.listening()
        yield made


def query(name: str = "a.example.", kind: str = "A", payload: int = 4096) -> bytes:
    """A query as over TCP."""
    message = dns.message.make_query(name, kind, use_edns=0 if payload else -1, payload=payload or 512)
    wire = message.to_wire()
    return struct.pack(">H", len(wire)) + wire


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError(f"the connection ended after {len(data)} of {size} bytes")
        data += piece
    return data


def answer(connection: socket.socket) -> dns.message.Message:
    """The next message of a connection."""
    (size,) = struct.unpack(">H", read_exactly(connection, 2))
    return dns.message.from_wire(read_exactly(connection, size))


def ask(bed: ReferenceBed, wire: bytes, server: str = SERVICE4) -> dns.message.Message:
    """One query on a connection of its own."""
    with bed.connect(server) as connection:
        connection.sendall(wire)
        return answer(connection)


def until_counted(bed: ReferenceBed, what: str, least: int = 1) -> None:
    """The file is written once a second."""
    wait_for(lambda: bed.statistics()[what] >= least, f"{what} of {least}", 5)


def server_of(bed: ReferenceBed) -> Program:
    return next(one for one in bed.started if one.name == "server")


def plain(text: str) -> list[str]:
    """What a client prints of an answer, without what differs from one time to the next."""
    text = re.sub(r"id: \d+", "id", text)
    return sorted(line for line in text.splitlines() if not re.match(r";; (From|Time|Received)", line))


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


@pytest.mark.parametrize("kind", ["nsd", "bind"])
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
    dnsperf = [programs.packaged("dnsperf"), "-s", SERVICE4, "-m", "tcp", "-c", "20", "-q", "20"]
    text = bed.output(CLIENT, *dnsperf, "-d", str(names), "-n", "2", "-t", "2")
    counted = bed.finish(front)
    assert re.search(r"Queries sent: +1000\n", text), text
    completed = int(re.findall(r"Queries completed: +(\d+) ", text)[0])
    assert counted["queries"] == counted["replies"] >= completed
    assert 1000 - completed <= 100  # behind another one in a segment, or sent before its answer came
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


@pytest.mark.parametrize("address", [SERVICE4, SERVICE6])
@pytest.mark.parametrize("fin", [False, True])
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
    assert seen == {("", "255", "65535", "1", "")} if ":" in address else {("255", "", "65535", "1", "1")}
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
    front = bed.start_front(*ACTIVE)
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
        raw.sendto(forged_query("198.19.1.77", SERVICE4), (SERVICE4, 0))
    until_counted(bed, "replies")
    assert capture.rows("arp.dst.proto_ipv4 == 198.19.1.77", "arp.src.proto_ipv4") != []  # the way to it
    assert bed.finish(front)["syn"] == 0


def forged_query(source: str, destination: str) -> bytes:
    """A segment with a query on a connection that nobody has opened."""
    data = query()
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)

    def segment(checksum: int) -> bytes:
        return struct.pack(">HHIIBBHHH", 4000, 53, 1, 1, 5 << 4, 0x18, 65535, checksum, 0) + data

    pseudo = addresses + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(segment(0))) + segment(0)
    total = sum(struct.unpack(f">{(len(pseudo) + 1) // 2}H", pseudo + b"\0" * (len(pseudo) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    size = 20 + len(segment(0))
    header = struct.pack(
        ">BBHHHBBH", 0x45, 0, size, 1, 0, 64, socket.IPPROTO_TCP, 0
    )  # the kernel adds the sum
    return header + addresses + segment(~total & 0xFFFF)


class Stopped:
    """A server that does nothing inside the block."""

    def __init__(self, server: Program) -> None:
        self.ids = [server.process.pid, *processes_below(server.process.pid)]

    def __enter__(self) -> None:
        for pid in self.ids:
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for pid in reversed(self.ids):
            os.kill(pid, signal.SIGCONT)


def processes_below(pid: int) -> list[int]:
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [one for child in children for one in (child, *processes_below(child))]


DROP_ANSWERS = """table inet loss {
    chain input { type filter hook input priority 0; tcp sport 53 tcp flags & psh == psh drop; }
}"""


def nft(bed: ReferenceBed, *words: str) -> None:
    bed.output(CLIENT, programs.packaged("nft"), *words, check=True)


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
    front = bed.start_front(*ACTIVE, "--timeout", "300")
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
        time.sleep(0.5)  # the client sends the first half again, and nothing new before it is acknowledged
        connection.sendall(wire[2:])
        with pytest.raises(TimeoutError):
            connection.recv(1)
    counted = bed.finish(front)
    assert counted["not_promoted"]["split"] >= 2
    assert counted["queries"] == 0


# --- ends of connections ----------------------------------------------------------------------------------


def test_a_client_that_says_no_more_still_gets_its_answer(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    with bed.connect(timeout=1.0) as connection, Stopped(server_of(bed)):
        connection.sendall(query())
        connection.shutdown(socket.SHUT_WR)
        until_counted(bed, "fin")
    with bed.connect(timeout=1.0) as connection:
        connection.sendall(query())
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection).answer
        with pytest.raises(TimeoutError):
            connection.recv(1)  # the front never ends a connection
    assert bed.finish(front)["fin"] == 2


def test_a_reset_forgets_the_query(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    with Stopped(server_of(bed)):
        connection = bed.connect()
        connection.sendall(query())
        until_counted(bed, "entries")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        until_counted(bed, "rst")
        assert bed.statistics()["entries"] == 0
    until_counted(bed, "late")
    counted = bed.finish(front)
    assert (counted["rst"], counted["late"], counted["replies"]) == (1, 1, 0)


# --- zone transfers ---------------------------------------------------------------------------------------


def transferred(bed: ReferenceBed, server: str = SERVICE4) -> list[str]:
    return plain(bed.dig("example", "AXFR", "+time=20", server=server))


@pytest.mark.parametrize("address", [SERVICE4, SERVICE6])
def test_a_zone_transfer_is_relayed_where_it_is_detected(bed: ReferenceBed, address: str) -> None:
    expected = transferred(bed, address)
    assert len(expected) > TRANSFERRED
    front = bed.start_front(*ACTIVE, "--axfr-detect", "1")
    assert transferred(bed, address) == expected
    assert ask(bed, query(), address).answer
    counted = bed.finish(front)
    assert counted["promoted"] == {"transfer": 1}
    assert counted["queries"] == 1  # the transfer went over TCP


def test_a_zone_transfer_survives_losses(bed: ReferenceBed) -> None:
    expected = transferred(bed)
    bed.start_front(*ACTIVE, "--axfr-detect", "1")
    nft(bed, DROP_ANSWERS.replace("tcp flags & psh == psh", "numgen random mod 20 == 0"))
    assert transferred(bed) == expected


def test_a_transfer_by_a_slow_reader_waits_for_its_window(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--axfr-detect", "1")
    wire = dns.message.make_query("example.", "AXFR").to_wire()
    with bed.inside(CLIENT):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.settimeout(10)
        connection.connect((SERVICE4, 53))
    with connection:
        connection.sendall(struct.pack(">H", len(wire)) + wire)
        time.sleep(1.5)
        soas = hosts = 0
        while soas < 2:
            for rrset in answer(connection).answer:
                soas += len(rrset) if rrset.rdtype == dns.rdatatype.SOA else 0
                hosts += len(rrset) if rrset.name.labels[0].startswith(b"host") else 0
        assert hosts == TRANSFERRED
    assert bed.finish(front)["promoted"] == {"transfer": 1}


def test_a_transfer_whose_server_is_gone_is_reset(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--axfr-detect", "1")
    server_of(bed).stop()
    wire = dns.message.make_query("example.", "AXFR").to_wire()
    with bed.connect() as connection:
        connection.sendall(struct.pack(">H", len(wire)) + wire)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    counted = bed.finish(front)
    assert counted["reset"] == 1


def test_more_transfers_than_64_at_once_are_reset(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--axfr-detect", "1")
    wire = dns.message.make_query("example.", "AXFR").to_wire()
    with Stopped(server_of(bed)), contextlib.ExitStack() as open_ones:
        for _ in range(64):
            connection = open_ones.enter_context(bed.connect())
            connection.sendall(struct.pack(">H", len(wire)) + wire)
        wait_for(lambda: bed.statistics()["promoted"] == {"transfer": 64}, "64 transfers", 5)
        with bed.connect() as one_more:
            one_more.sendall(struct.pack(">H", len(wire)) + wire)
            with pytest.raises(ConnectionResetError):
                one_more.recv(1)
    counted = bed.finish(front)
    assert (counted["promoted"], counted["not_promoted"]) == ({"transfer": 64}, {"transfer": 1})


def test_without_detection_a_transfer_is_asked_over_udp(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    assert "Transfer failed" in bed.dig("example", "AXFR")
    counted = bed.finish(front)
    assert (counted["queries"], counted["promoted"]) == (1, {})


# --- the host ---------------------------------------------------------------------------------------------


def host_state(bed: ReferenceBed) -> str:
    """Rules, routes, devices and forwarding of the server's host, without link-local addresses, which may
    still be being made.
    """
    commands = (
        ("ip", "rule"),
        ("ip", "-6", "rule"),
        ("ip", "route", "show", "table", "all"),
        ("ip", "-6", "route", "show", "table", "all"),
        ("ip", "-br", "link"),
        ("sysctl", *FORWARDING),
    )
    text = "\n".join(bed.output(SERVER, *words) for words in commands)
    return "\n".join(line for line in text.splitlines() if not re.search(r"\bf[ef][0-9a-f]{2}::", line))


def test_the_host_is_as_before_after_the_end(bed: ReferenceBed) -> None:
    before = host_state(bed)
    front = bed.start_front(*ACTIVE)
    assert ask(bed, query()).answer
    assert host_state(bed) != before
    bed.finish(front)
    assert host_state(bed) == before
    assert ask(bed, query()).answer  # by the kernel's TCP


def test_after_a_kill_the_kernel_serves_and_the_next_start_puts_things_right(bed: ReferenceBed) -> None:
    before = host_state(bed)
    bed.start_front(*ACTIVE).kill()
    assert bed.output(SERVER, "ip", "rule") not in before
    for address in ADDRESSES:
        assert ask(bed, query(), address).answer
    front = bed.start_front(*ACTIVE)
    assert front.text().count("event=repaired") == 2
    assert ask(bed, query()).answer
    assert bed.finish(front)["replies"] == 1
    assert host_state(bed) == before


def test_connections_that_are_open_at_the_start_or_the_end_break(bed: ReferenceBed) -> None:
    with bed.connect(timeout=1.0) as before:
        before.sendall(query())
        assert answer(before).answer
        front = bed.start_front(*ACTIVE)
        before.sendall(query())
        with pytest.raises(TimeoutError):  # it has timestamps, which the front does not send
            before.recv(1)
    with bed.connect(timeout=1.0) as during:
        during.sendall(query())
        assert answer(during).answer
        bed.finish(front)
        during.sendall(query())
        with pytest.raises(ConnectionResetError):
            during.recv(1)


def test_inactive_it_leaves_the_host_alone(bed: ReferenceBed) -> None:
    before = host_state(bed)
    front = bed.start_front(ready="event=inactive")
    assert host_state(bed) == before
    capture = Capture(bed, CLIENT, CLIENT_IF)
    assert ask(bed, query("s3900.example.", "TXT")).answer
    wait_for(
        lambda: bool(capture.rows("tcp.srcport == 53 && tcp.flags.fin == 1", "ip.ttl")), "the server's FIN"
    )
    capture.stop()
    assert {ttl for (ttl,) in capture.rows("tcp.srcport == 53", "ip.ttl")} == {"64"}
    counted = bed.finish(front)
    assert "event=ready" not in front.text()
    assert (counted["syn"], counted["queries"]) == (0, 0)


def refused(bed: ReferenceBed, *words: str, user: tuple[str, ...] = ()) -> str:
    """The one line of an error; the exit status is not 0."""
    argv = [*user, programs.own("reprise-proxy"), "stateless", "--front", "reference", *words]
    program = bed.start(SERVER, argv, "refused")
    assert program.wait() != 0, program.text()
    (line,) = program.text().splitlines()
    return line


def test_bad_options_and_hosts_are_refused_in_one_line(bed: ReferenceBed) -> None:
    before = host_state(bed)
    assert "no such interface; `ip link`" in refused(bed, "--interface", "none0", *ACTIVE)
    assert "give the interface towards the clients" in refused(bed, "--interface", "lo", *ACTIVE)
    assert "write /nowhere/front.json" in refused(
        bed, "--interface", SERVER_IF, *ACTIVE, "--stats", "/nowhere/front.json"
    )
    assert "is an option of --front bpf" in refused(bed, "--interface", SERVER_IF, "--entries", "9")
    assert "give 1 to 15 letters" in refused(bed, "--interface", SERVER_IF, *ACTIVE, "--tun", "x" * 16)
    assert "is not a TUN device" in refused(bed, "--interface", SERVER_IF, *ACTIVE, "--tun", SERVER_IF)
    nobody = (programs.packaged("setpriv"), "--reuid=65534", "--clear-groups", "--bounding-set=-all")
    assert "run as root" in refused(bed, "--interface", SERVER_IF, *ACTIVE, user=nobody)
    assert host_state(bed) == before
    bed.start_front(*ACTIVE)
    again = refused(bed, "--interface", SERVER_IF, *ACTIVE, "--tun", "other0")
    assert "another one runs on this host; stop it first" in again


def test_log_levels_say_more_and_more(bed: ReferenceBed) -> None:
    for level, seconds, segments in ((0, False, False), (1, False, False), (2, True, False), (3, True, True)):
        front = bed.start_front(*ACTIVE, "--loglevel", str(level))
        assert ask(bed, query()).answer
        time.sleep(1.2)
        bed.finish(front)
        assert ("event=second syn=" in front.text()) == seconds
        assert ("event=segment from=" in front.text()) == segments
