"""Zone transfers through the front of statelessTCP in user space."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.rdatatype
import pytest

from tests.bed import wait_for
from tests.stateless_reference_bed import (
    ACTIVE,
    CLIENT,
    DROP_ANSWERS,
    SERVICE4,
    SERVICE6,
    TRANSFERRED,
    ReferenceBed,
    Stopped,
    answer,
    ask,
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
        wait_for(lambda: len(connection.recv(65_536, socket.MSG_PEEK)) >= 4096, "a full window", 5)
        soas = hosts = 0
        while soas < 2:
            for rrset in answer(connection).answer:
                soas += len(rrset) if rrset.rdtype == dns.rdatatype.SOA else 0
                hosts += len(rrset) if rrset.name.labels[0].startswith(b"host") else 0
        assert hosts == TRANSFERRED
    assert bed.finish(front)["promoted"] == {"transfer": 1}


def test_a_transfer_waits_for_the_answer_before_it(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--axfr-detect", "1", "--timeout-ms", "20000")
    wire = dns.message.make_query("example.", "AXFR").to_wire()
    with bed.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with Stopped(server_of(bed)):
            connection.sendall(query())
            until_counted(bed, "entries")
            connection.sendall(struct.pack(">H", len(wire)) + wire)
            until_counted(bed, "waiting")
        assert answer(connection).question[0].rdtype == dns.rdatatype.A
        assert answer(connection).question[0].rdtype == dns.rdatatype.AXFR  # it was sent again
    assert bed.finish(front)["promoted"] == {"transfer": 1}


def test_a_client_that_reads_nothing_costs_nothing(bed: ReferenceBed) -> None:
    """The server has said and closed all, and the front has no room for it."""
    front = bed.start_front(*ACTIVE, "--axfr-detect", "1")
    wire = dns.message.make_query("example.", "AXFR").to_wire()
    with bed.inside(CLIENT), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.connect((SERVICE4, 53))
        connection.sendall(struct.pack(">H", len(wire)) + wire)
        connection.shutdown(socket.SHUT_WR)
        until_counted(bed, "segments", 3)
        before = bed.statistics()
        wait_for(lambda: bed.statistics()["seconds"] > before["seconds"] + 2, "two seconds more", 5)
        assert bed.statistics()["cpu_seconds"] < before["cpu_seconds"] + 0.5
    bed.finish(front)


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
