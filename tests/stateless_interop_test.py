"""Clients of each front see what they see of the kernel's TCP, but for the differences that are listed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from socket import SOCK_DGRAM

import dns.message
import dns.update
import pytest

from tests import stateless_cases, stateless_client, stateless_interop
from tests.stateless_bed import (
    BIND,
    CLIENT,
    FRONT,
    FRONTS,
    MOSTLY_FRONTS,
    PLAIN,
    PORT,
    SERVERS,
    StatelessBed,
    address,
)
from tests.stateless_cases import wire
from tests.stateless_client import End, whole
from tests.stateless_differences import DIFFERENCES
from tests.stateless_interop import Result
from tests.stateless_views import compare, difference, views
from tests.stateless_zones import DYNAMIC

pytestmark = pytest.mark.netns


@pytest.fixture(scope="module", params=MOSTLY_FRONTS)
def fronted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StatelessBed]:
    """BIND and NSD behind a front."""
    with StatelessBed(tmp_path_factory.mktemp(request.param), front=request.param) as bed:
        bed.start_servers()
        bed.start_front()
        yield bed
        bed.stop_front()


def wrong(results: list[Result]) -> list[str]:
    return [str(one) for one in results if not one.is_accepted]


def test_representative_cases(fronted: StatelessBed) -> None:
    results = stateless_interop.run_all(fronted, quick=True)
    assert wrong(results) == []
    assert len(results) > 200
    fronted.wait_for_no_entries()


@pytest.mark.slow
def test_all_cases(fronted: StatelessBed) -> None:
    results = stateless_interop.run_all(fronted)
    assert wrong(results) == []
    assert stateless_interop.unseen(results, fronted.front) == []
    fronted.wait_for_no_entries()


def test_the_kernels_answers_are_compared_with_something(fronted: StatelessBed) -> None:
    """The truth of a plain query is an answer, and another front's lack of it would be seen."""
    for server in SERVERS:
        sock = fronted.socket(4)
        target = (address(server, PLAIN, 4), PORT)
        truth = asyncio.run(stateless_client.exchange(sock, target, whole(wire("ab"))))
        assert truth.end is End.CLOSED
        (message,) = truth.messages
        assert [str(one) for one in dns.message.from_wire(message).answer] == [
            "ab.re.test. 300 IN A 192.0.2.2"
        ]
        assert compare(views([message]), [], stateless_client.Outcome(), truth.end).kind == "silent"


def test_an_update_through_the_front_takes_effect(fronted: StatelessBed) -> None:
    name = f"by-{fronted.front}.{DYNAMIC}"
    update = dns.update.Update(DYNAMIC)
    update.add(name, 300, "A", "192.0.2.77")
    for way, asked in ((FRONT, update.to_wire()), (PLAIN, wire(name))):
        target = (address(BIND, way, 4), PORT)
        seen = asyncio.run(stateless_client.exchange(fronted.socket(4), target, whole(asked)))
    assert "192.0.2.77" in str(views(seen.messages))


@pytest.mark.parametrize("size", [44, 1200, 4000])
def test_answers_over_udp_stay_as_they_are(fronted: StatelessBed, size: int) -> None:
    asked = wire("ab") if size == 44 else wire(f"s{size}", "TXT", 4096)
    for server in SERVERS:
        for family in (4, 6):
            plain, front = (
                views([stateless_client.datagram(fronted.socket(family, SOCK_DGRAM), target, asked)])[0]
                for target in ((address(server, way, family), PORT) for way in (PLAIN, FRONT))
            )
            assert difference(plain, front).kind == "same"


def test_clients_that_ask_for_ecn(fronted: StatelessBed) -> None:
    """Their SYNs have more flags."""
    cases = [
        one for one in stateless_cases.exchanges() if one.quick and one.row.startswith(("one query", "split"))
    ]
    with fronted.inside(CLIENT):
        setting = Path("/proc/sys/net/ipv4/tcp_ecn")  # of both families
        before = setting.read_text(encoding="ascii")
        setting.write_text("1", encoding="ascii")
        try:
            results = [
                one
                for family in (4, 6)
                for one in stateless_interop.run_exchanges(fronted, cases, BIND, family)
            ]
        finally:
            setting.write_text(before, encoding="ascii")
    assert wrong(results) == []


def test_every_difference_has_a_reason() -> None:
    assert all(one.front in FRONTS and one.what and one.reason for one in DIFFERENCES)
