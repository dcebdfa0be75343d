"""Captures that zones cannot be built of, or only in part: every response is counted, and nothing is invented
of what is wrong.
"""

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import dns.zone
import pytest

from cli import programs
from cli.tools.zones_check import read_exchanges
from cli.zones import zone_check, zone_folder
from tests import packets

RESOLVER, ROOT, COM, LEAF = "198.51.100.1", "198.41.0.4", "192.5.6.30", "203.0.114.1"
_PORT = 4_711
_MTU = 1_400
START = 1_700_000_000 * 10**9


class Tape:
    """A capture in the making; each packet comes a millisecond after the one before."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._start = START

    def wait(self, seconds: int) -> None:
        self._start += seconds * 10**9

    def write(self, path: Path) -> Path:
        return packets.write_frames(path, self._frames)

    def packet(self, source: str, target: str, protocol: int, body: bytes, fragments: bool = False) -> None:
        size = _MTU if fragments else len(body)
        time = self._start + len(self._frames) * 10**6
        for at in range(0, len(body), size):
            more = 0x2000 if at + size < len(body) else 0
            self._frames.append(
                packets.captured(time, source, target, protocol, body[at : at + size], more | at // 8)
            )

    def ask(self, server: str, message: bytes) -> None:
        head = struct.pack("!HHHH", _PORT, 53, 8 + len(message), 0)
        self.packet(RESOLVER, server, packets.UDP, head + message)

    def tell(self, server: str, message: bytes, fragments: bool = False, port: int = _PORT) -> None:
        head = struct.pack("!HHHH", 53, port, 8 + len(message), 0)
        self.packet(server, RESOLVER, packets.UDP, head + message, fragments)

    def exchange(self, server: str, response: dns.message.Message) -> None:
        self.ask(server, query_of(response))
        self.tell(server, response.to_wire())

    def stream(self, server: str, response: bytes, query: bytes | None = None) -> None:
        """A TCP connection; without a query only the server's data, as where a capture begins later."""
        framed = struct.pack("!H", len(response)) + response
        asked = struct.pack("!H", len(query)) + query if query is not None else b""
        if query is not None:
            self._segment(RESOLVER, server, 100, 0, packets.SYN, b"")
            self._segment(server, RESOLVER, 500, 101, packets.SYN | packets.ACK, b"")
            self._segment(RESOLVER, server, 101, 501, packets.PSH | packets.ACK, asked)
        for at in range(0, len(framed), _MTU):
            self._segment(
                server,
                RESOLVER,
                501 + at,
                101 + len(asked),
                packets.PSH | packets.ACK,
                framed[at : at + _MTU],
            )

    def _segment(
        self, source: str, target: str, sequence: int, acknowledged: int, flags: int, data: bytes
    ) -> None:
        ports = (53, _PORT) if target == RESOLVER else (_PORT, 53)
        head = packets.tcp_head(*ports, sequence, acknowledged, flags)
        self.packet(source, target, packets.TCP, head + data)


def response_of(
    question: str,
    answer: str = "",
    authority: str = "",
    additional: str = "",
    flags: str = "QR AA",
    rcode: str = "NOERROR",
    ident: int = 1,
) -> dns.message.Message:
    """Sections are lines of a zone file."""
    lines = [f"id {ident}", "opcode QUERY", f"rcode {rcode}", f"flags {flags}", ";QUESTION", question]
    lines += [";ANSWER", answer, ";AUTHORITY", authority, ";ADDITIONAL", additional]
    return dns.message.from_text("\n".join(line for line in lines if line))  # an empty line would end it


def query_of(response: dns.message.Message) -> bytes:
    """The question of a response; with DO where the response has signatures."""
    asked = dns.message.Message(response.id)
    asked.question = response.question
    rrsets = response.answer + response.authority
    if any(one.rdtype == dns.rdatatype.RRSIG for one in rrsets):
        asked.use_edns(0, dns.flags.DO, 4096)
    return asked.to_wire()


REFERRALS = (
    (
        ROOT,
        response_of(
            ". IN NS", ". 60 IN NS a.root-servers.net.", "", "a.root-servers.net. 60 IN A 198.41.0.4"
        ),
    ),
    (
        ROOT,
        response_of(
            "www.example.com. IN A",
            "",
            "com. 60 IN NS a.nic.com.",
            "a.nic.com. 60 IN A 192.5.6.30",
            flags="QR",
        ),
    ),
    (
        COM,
        response_of(
            "www.example.com. IN A",
            "",
            "example.com. 60 IN NS ns.example.com.",
            "ns.example.com. 60 IN A 203.0.114.1",
            flags="QR",
        ),
    ),
)


def walk() -> Tape:
    """From the root down to the server of example.com."""
    tape = Tape()
    for server, response in REFERRALS:
        tape.exchange(server, response)
    return tape


def build(folder: Path, tape: Tape, *words: str) -> dict[str, Any]:
    """build.json; every zone must load, and every response must be accounted for."""
    capture, out = tape.write(folder / "upstream.pcap"), folder / "zones"
    argv = [programs.own("reprise-zonebuilder"), "build", str(capture), "-o", str(out), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = zone_folder.read(out)
    assert zone_check.refused(made.path, made.entries) == []
    report: dict[str, Any] = json.loads((out / "build.json").read_text())
    counts = report["counts"]
    assert counts["responses"] == counts["used"] + sum(counts["unused"].values())
    return report


def records(folder: Path, zone: str) -> str:
    return (folder / "zones" / f"{zone}.zone").read_text(encoding="ascii")


ANSWER = response_of("www.example.com. IN A", "www.example.com. 60 IN A 192.0.2.80")


def test_queries_alone_are_an_error(tmp_path: Path) -> None:
    tape = Tape()
    tape.ask(LEAF, query_of(ANSWER))
    capture = tape.write(tmp_path / "queries.pcap")
    argv = [programs.own("reprise-zonebuilder"), "build", str(capture), "-o", str(tmp_path / "zones")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has no response of a name server that can be used (1 queries, 0 responses)" in done.stderr


def test_answers_alone_are_enough(tmp_path: Path) -> None:
    tape = Tape()
    for server, response in (*REFERRALS, (LEAF, ANSWER)):
        tape.tell(server, response.to_wire())
    report = build(tmp_path, tape)
    assert report["counts"]["without_query"] == report["counts"]["used"] == 4
    assert "www.example.com. 60 IN A 192.0.2.80" in records(tmp_path, "example.com")


def test_the_full_answer_over_tcp_counts_for_the_cut_one(tmp_path: Path) -> None:
    tape = walk()
    full = response_of("big.example.com. IN TXT", f'big.example.com. 60 IN TXT "{"x" * 200}"')
    cut = response_of("big.example.com. IN TXT", flags="QR AA TC")
    tape.exchange(LEAF, cut)
    tape.stream(LEAF, full.to_wire(), query_of(full))
    report = build(tmp_path, tape)
    assert report["counts"]["unused"] == {"truncated": 1}
    assert "big.example.com. 60 IN TXT" in records(tmp_path, "example.com")


def test_a_connection_may_begin_before_the_capture(tmp_path: Path) -> None:
    tape = walk()
    large = response_of(
        "big.example.com. IN TXT",
        "\n".join(f'big.example.com. 60 IN TXT "{number} {"y" * 100}"' for number in range(30)),
    )
    tape.stream(LEAF, large.to_wire())
    tape.exchange(LEAF, ANSWER)
    report = build(tmp_path, tape)
    assert report["counts"]["responses"] in (4, 5)  # where a message begins in the stream is not certain
    assert "www.example.com. 60 IN A 192.0.2.80" in records(tmp_path, "example.com")


def test_fragments_are_put_together(tmp_path: Path) -> None:
    tape = walk()
    large = response_of(
        "big.example.com. IN TXT",
        "\n".join(f'big.example.com. 60 IN TXT "{number} {"y" * 100}"' for number in range(30)),
    )
    tape.ask(LEAF, query_of(large))
    tape.tell(LEAF, large.to_wire(), fragments=True)
    build(tmp_path, tape)
    assert records(tmp_path, "example.com").count("big.example.com. 60 IN TXT") == 30


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    tape = walk()
    loop = bytearray(ANSWER.to_wire())
    at = len(loop) - 16
    assert loop[at] & 0xC0 == 0xC0
    loop[at : at + 2] = struct.pack("!H", 0xC000 | at)  # a name that points to itself
    short = ANSWER.to_wire()[:-2]
    chaos = dns.message.make_response(dns.message.make_query("version.bind.", "TXT", "CH", id=1))
    for message in (bytes(loop), short, chaos.to_wire()):
        tape.tell(LEAF, message)
    report = build(tmp_path, tape)
    assert report["counts"]["unused"] == {"class_not_in": 1, "malformed": 2}
    assert "192.0.2.80" not in records(tmp_path, "com")


def test_answers_to_what_was_not_asked_are_forged(tmp_path: Path) -> None:
    tape = walk()
    tape.ask(LEAF, query_of(ANSWER))
    forged = response_of("www.example.com. IN A", "www.example.com. 60 IN A 192.0.2.66", ident=2)
    tape.tell(LEAF, forged.to_wire())
    tape.tell(LEAF, ANSWER.to_wire())
    report = build(tmp_path, tape)
    assert report["counts"]["unused"] == {"not_asked": 1}
    assert [one["server"] for one in report["unasked"]] == [LEAF]
    assert "192.0.2.66" not in records(tmp_path, "example.com")


def test_a_leafs_server_redefines_nothing_above(tmp_path: Path) -> None:
    tape = walk()
    tape.exchange(LEAF, ANSWER)
    evil = response_of(
        "evil.example.com. IN A",
        "evil.example.com. 60 IN A 192.0.2.66\nwww.example.org. 60 IN A 192.0.2.67",
        "com. 60 IN NS evil.example.com.\norg. 60 IN NS evil.example.com.",
        "a.nic.com. 60 IN A 203.0.114.1\na.root-servers.net. 60 IN A 203.0.114.1",
    )
    tape.exchange(LEAF, evil)
    build(tmp_path, tape)
    assert "evil" not in records(tmp_path, "com")
    zones = {one.name: one.addresses for one in zone_folder.read(tmp_path / "zones").entries}
    assert zones["com."] == (COM,)
    assert "org." not in zones
    everything = "".join(path.read_text() for path in (tmp_path / "zones").glob("*.zone"))
    assert "192.0.2.67" not in everything
    assert "a.root-servers.net. 60 IN A 203.0.114.1" not in everything


def test_a_forged_answer_to_another_port_is_not_used(tmp_path: Path) -> None:
    tape = walk()
    tape.wait(6)
    tape.exchange(LEAF, ANSWER)
    forged = response_of("x.com. IN A", "", "x.com. 60 IN NS evil.", flags="QR", ident=9)
    tape.tell(COM, forged.to_wire(), port=_PORT + 1)
    report = build(tmp_path, tape)
    assert report["counts"]["unused"] == {"not_asked": 1}
    assert "evil" not in records(tmp_path, "com")


def test_data_that_no_record_has_is_malformed(tmp_path: Path) -> None:
    tape = walk()
    good = response_of("t.example.com. IN TXT")
    head = bytearray(good.to_wire())
    head[7] = 1  # one answer
    tape.ask(LEAF, query_of(good))
    tape.tell(LEAF, bytes(head) + struct.pack("!HHHIH", 0xC00C, 16, 1, 60, 2) + b"\x05a")
    tape.exchange(LEAF, ANSWER)
    report = build(tmp_path, tape)
    assert report["counts"]["unused"] == {"malformed": 1}


def test_a_name_has_one_alias(tmp_path: Path) -> None:
    tape = walk()
    question = response_of("www.example.com. IN A")
    twice = bytearray(question.to_wire())  # which dnspython would not write
    twice[7] = 2
    for letter in b"ba":
        twice += struct.pack("!HHHIH", 0xC00C, 5, 1, 60, 4) + bytes((1, letter, 0xC0, 16))
    tape.ask(LEAF, query_of(question))
    tape.tell(LEAF, bytes(twice))
    report = build(tmp_path, tape)
    assert report["counts"]["rrsets_ignored"]["several_of_a_singleton"] == 1
    assert "www.example.com. 60 IN CNAME a.example.com." in records(tmp_path, "example.com")


def test_what_belongs_at_a_zones_apex_stands_nowhere_else(tmp_path: Path) -> None:
    tape = walk()
    soa = "www.example.com. 60 IN SOA ns.example.com. h.example.com. 1 1 2 3 4"
    tape.exchange(LEAF, response_of("www.example.com. IN A", "www.example.com. 60 IN A 192.0.2.80", "", soa))
    cached = response_of("www.example.com. IN NS", "www.example.com. 60 IN NS ns.evil.", flags="QR")
    tape.exchange(LEAF, cached)
    report = build(tmp_path, tape)
    assert "www.example.com. 60 IN A 192.0.2.80" in records(tmp_path, "example.com")
    assert sorted(one["why"] for one in report["dropped"]) == ["not_at_apex", "not_at_apex"]


def test_a_wildcard_is_no_zone(tmp_path: Path) -> None:
    tape = walk()
    ask = "*.example.com. IN A"
    tape.exchange(LEAF, response_of(ask, "", "*.example.com. 60 IN NS ns.evil.", flags="QR"))
    soa = "*.example.com. 60 IN SOA ns.evil. h.evil. 1 1 2 3 4"
    tape.exchange(LEAF, response_of(ask, "", soa))
    tape.exchange(LEAF, ANSWER)
    build(tmp_path, tape)
    assert all("*" not in one.name for one in zone_folder.read(tmp_path / "zones").entries)
    assert "ns.evil" not in records(tmp_path, "example.com")


def test_an_alias_into_a_zone_that_nobody_knows(tmp_path: Path) -> None:
    tape = walk()
    soa = "sub.example.com. 60 IN SOA ns.example.com. h.example.com. 1 1 2 3 4"
    alias = "www.example.com. 60 IN CNAME x.sub.example.com."
    tape.exchange(LEAF, response_of("www.example.com. IN A", alias, soa))
    build(tmp_path, tape)
    assert "www.example.com. 60 IN CNAME x.sub.example.com." in records(tmp_path, "example.com")


def test_a_denial_of_com_replaces_no_zone(tmp_path: Path) -> None:
    tape = walk()
    soa = "com. 60 IN SOA ns.evil. h.evil. 1 1 2 3 4"
    tape.exchange(LEAF, response_of("com. IN A", "", soa, rcode="NXDOMAIN"))
    tape.exchange(LEAF, ANSWER)
    build(tmp_path, tape)
    assert "com. 60 IN NS a.nic.com." in records(tmp_path, "root")
    files = [one.file for one in zone_folder.read(tmp_path / "zones").entries]
    assert len(set(files)) == len(files)


def test_name_servers_without_glue_get_addresses(tmp_path: Path) -> None:
    tape = Tape()
    servers = "{0}. 60 IN NS ns1.{0}.\n{0}. 60 IN NS ns2.{0}."
    tape.exchange(LEAF, response_of("a.org. IN A", "a.org. 60 IN A 192.0.2.1", servers.format("a.org")))
    build(tmp_path, tape)
    assert records(tmp_path, "a.org").count(f" IN A {LEAF} ; made up: address") == 2


def test_shared_name_servers_get_all_their_addresses(tmp_path: Path) -> None:
    tape = Tape()
    servers = "{0}. 60 IN NS ns1.host.net.\n{0}. 60 IN NS ns2.host.net."
    for zone, server in (("a.org", LEAF), ("b.org", "203.0.114.2")):
        tape.exchange(
            server, response_of(f"{zone}. IN A", f"{zone}. 60 IN A 192.0.2.1", servers.format(zone))
        )
    build(tmp_path, tape)
    everything = "".join(path.read_text() for path in (tmp_path / "zones").glob("*.zone"))
    for server in (LEAF, "203.0.114.2"):
        assert f"ns1.host.net. 3600 IN A {server} ; made up: address_that_answered" in everything


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (response_of("www.example.com. IN A", rcode="REFUSED", flags="QR"), "rcode"),
        (
            response_of("www.example.com. IN A", "", ". 60 IN NS a.root-servers.net.", flags="QR"),
            "upward_referral",
        ),
        (
            response_of("www.example.com. IN A", "www.example.com. 60 IN A 192.0.2.1", flags="QR RD RA"),
            "without_aa",
        ),
        (response_of("www.example.com. IN A", flags="QR"), "empty"),
    ],
)
def test_lame_servers_and_forwarders_say_nothing(
    tmp_path: Path, response: dns.message.Message, why: str
) -> None:
    tape = walk()
    tape.exchange(LEAF, response)
    report = build(tmp_path, tape)
    assert [(one["server"], one["why"]) for one in report["failures"]] == [(LEAF, why)]
    assert all(one["name"] != "example.com." for one in report["zones"])


def test_serials_that_change_are_versions(tmp_path: Path) -> None:
    tape = walk()
    for serial in (7, 9, 8):
        soa = f"example.com. 60 IN SOA ns.example.com. h.example.com. {serial} 1 2 3 4"
        tape.exchange(LEAF, response_of("example.com. IN SOA", soa))
    report = build(tmp_path, tape)
    assert "ns.example.com. h.example.com. 7 1 2 3 4" in records(tmp_path, "example.com")
    assert len(report["versions"]) == 2
    build(tmp_path, tape, "--at", "1700000000.011")
    assert "ns.example.com. h.example.com. 8 1 2 3 4" in records(tmp_path, "example.com")


def test_odd_names_and_data_survive(tmp_path: Path) -> None:
    tape = walk()
    for question, answer in (
        ("a\\.b.example.com. IN A", "a\\.b.example.com. 60 IN A 192.0.2.1"),
        ("\\000\\255\\032.example.com. IN A", "\\000\\255\\032.example.com. 60 IN A 192.0.2.2"),
        ("t.example.com. IN TXT", 't.example.com. 60 IN TXT "a;b\\"c\\\\d\\000\\255" ""'),
        ("u.example.com. IN TYPE65280", "u.example.com. 60 IN TYPE65280 \\# 3 010203"),
        ("s.example.com. IN HTTPS", 's.example.com. 60 IN HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.3'),
        ("xn--bcher-kva.example.com. IN A", "xn--bcher-kva.example.com. 60 IN A 192.0.2.4"),
        ("x.example.com. IN SVCB", "x.example.com. 60 IN SVCB 0 y.example.com."),
        ("n.example.com. IN NAPTR", 'n.example.com. 60 IN NAPTR 1 2 "u" "E2U+sip" "!^.*$!sip:a@b!" .'),
    ):
        tape.exchange(LEAF, response_of(question, answer))
    build(tmp_path, tape)
    file = tmp_path / "zones/example.com.zone"
    zone = dns.zone.from_file(str(file), "example.com.", relativize=False, check_origin=False)
    answers = answers_of(tmp_path / "upstream.pcap")
    assert len(answers) == 8
    for one in answers:
        assert zone.get_rdataset(one.name, one.rdtype) == one, one


def answers_of(capture: Path) -> list[dns.rrset.RRset]:
    """All answers of the capture, by the pairing of the program and dnspython."""
    argv = [programs.own("reprise-zonebuilder"), "exchanges", str(capture)]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    messages = [dns.message.from_wire(bytes.fromhex(line.split("\t")[3])) for line in lines]
    return [rrset for one in messages for rrset in one.answer if "example.com" in rrset.name.to_text()]


def test_a_check_tells_of_a_capture_that_is_cut(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capture = walk().write(tmp_path / "upstream.pcap")
    found, whole = read_exchanges([str(capture)], [])
    assert (len(found), whole) == (3, True)
    capture.write_bytes(capture.read_bytes()[:-5])
    found, whole = read_exchanges([str(capture)], [])
    assert (len(found), whole) == (2, False)
    assert "upstream.pcap: " in capfd.readouterr().err


@pytest.mark.slow
def test_a_zone_may_have_a_million_names(tmp_path: Path) -> None:
    tape = Tape()  # of answers alone
    for server, response in REFERRALS:
        tape.tell(server, response.to_wire())
    template = response_of("n0000000.example.com. IN A", "n0000000.example.com. 60 IN A 192.0.2.1").to_wire()
    capture = tape.write(tmp_path / "upstream.pcap")
    head = struct.pack("!HHHH", 53, _PORT, 8 + len(template), 0)
    with capture.open("ab") as file:
        for number in range(1_000_000):
            message = template.replace(b"n0000000", b"n%07d" % number)
            time = START + 10**9 + number * 10_000
            file.write(packets.captured(time, LEAF, RESOLVER, packets.UDP, head + message))
    out = tmp_path / "zones"
    argv = [programs.own("reprise-zonebuilder"), "build", str(capture), "-o", str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = zone_folder.read(out)
    assert zone_check.refused(made.path, made.entries) == []
    assert (out / "example.com.zone").read_text().count(" IN A 192.0.2.1\n") == 1_000_000
