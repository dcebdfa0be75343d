"""The rewriting proxies between two real hosts (network namespaces)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy_bed import META, RESOLVER, ROOT_A4, ROOT_A6, ROOT_B4, ROOT_B6, SLOTS, ProxyBed

pytestmark = pytest.mark.netns


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ProxyBed]:
    made = ProxyBed(tmp_path)
    yield made
    made.close()


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
