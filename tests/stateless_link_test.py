"""The faulty link of the tests of statelessTCP does to segments what it was told, and the checks see what is
wrong on the wire.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import packets
from tests.bed import Capture, wait_for
from tests.packets import ACK, SYN, TCP, UDP, Packet
from tests.stateless_bed import BIND, SERVER, FaultyBed
from tests.stateless_cases import wire
from tests.stateless_client import whole
from tests.stateless_faults import carry_out, contradictions
from tests.stateless_link import DELAY_S, Faults

SECOND = 10**9


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[FaultyBed]:
    with FaultyBed(tmp_path, "kernel") as made:
        made.start_servers()
        yield made


@pytest.mark.netns
def test_segments_meet_the_faults_of_their_rule(bed: FaultyBed) -> None:
    """The third segment to the server is the query."""
    acts = {11_001: "drop", 11_002: "duplicate", 11_003: "delay", 11_004: ""}
    capture = Capture(bed, SERVER, "data1")
    bed.bridge.begin_capture()
    bed.bridge.set({port: [("server", 3, act)] for port, act in acts.items()})
    asked = whole(wire("ab"))
    seen = carry_out(bed, BIND, 4, [replace(asked, source_port=port) for port in acts])
    assert all(len(one.messages) == 1 for one in seen)
    wait_for(lambda: len(_queries(packets.read(capture.path)).get(11_003, ())) == 2, "the late segment", 5)
    capture.stop()
    sent, came = (_queries(found) for found in (bed.bridge.packets(), packets.read(capture.path)))
    assert {act: len(sent[port]) for port, act in acts.items()} == {
        "drop": 2,
        "duplicate": 1,
        "delay": 2,
        "": 1,
    }
    assert {act: len(came[port]) for port, act in acts.items()} == {
        "drop": 1,
        "duplicate": 2,
        "delay": 2,
        "": 1,
    }
    late = {act: came[port][-1].time - sent[port][0].time for port, act in acts.items()}
    assert late["delay"] >= DELAY_S * SECOND > late[""]


def _queries(found: list[Packet]) -> dict[int, list[Packet]]:
    ports = {one.source_port for one in found}
    return {port: [one for one in found if one.source_port == port and one.payload] for port in ports}


def test_a_swapped_segment_comes_after_the_next() -> None:
    """Or by itself, where none follows."""
    sent: list[tuple[str, bytes]] = []
    faults = Faults(lambda to, frame: sent.append((to, frame)))
    faults.load({"2000": [("server", 1, "swap"), ("server", 3, "swap")]})
    frames = [_frame(2000, number) for number in range(3)]
    for frame in frames:
        faults.take("server", frame)
    assert sent == [("server", frames[1]), ("server", frames[0])]
    while (left := faults.next_s()) is not None:
        assert left <= DELAY_S
        faults.due()
    assert sent[2:] == [("server", frames[2])]


def _frame(port: int, number: int) -> bytes:
    """Ethernet, IPv4 and TCP without a checksum."""
    head = packets.tcp_head(port, 53, number, 0, ACK)
    return bytes(12) + b"\x08\x00" + packets.captured(0, "192.0.2.1", "192.0.2.2", TCP, head)[16:]


def test_wrong_bytes_are_seen() -> None:
    """Two copies of a segment that overlap and differ in one byte; and a datagram."""
    syn = Packet(0, TCP, "192.0.2.1", 2000, "192.0.2.53", 53, b"", SYN)
    first = Packet(1, TCP, "192.0.2.53", 53, "192.0.2.1", 2000, b"abcdef", ACK, 100)
    same = Packet(2, TCP, "192.0.2.53", 53, "192.0.2.1", 2000, b"defgh", ACK, 103)
    other = replace(same, payload=b"dXfgh")
    datagram = replace(first, protocol=UDP)
    assert contradictions([syn, first, same]) == []
    assert contradictions([syn, first, other]) == ["port 2000: other bytes at 103"]
    assert contradictions([syn, datagram]) == ["datagram to 192.0.2.1:2000"]
