"""Zones of hierarchies that others recorded: files of resolvers' tests, and dnstap."""

from pathlib import Path

import pytest

from tests.conftest import DATA
from tests.replies_file import responses
from tests.zones_build_test import build, check
from tests.zones_hostile_test import Tape

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not DATA.is_dir(), reason="shared data is absent"),
]


@pytest.mark.parametrize("name", ["world_cz_lidovky_www", "world_cz_rhybar", "world_cz_turris_api"])
def test_a_recorded_hierarchy_answers_as_it_did(tmp_path: Path, name: str) -> None:
    tape = Tape()
    for address, response in responses(DATA / "rpl" / f"{name}.rpl"):
        if ":" not in address:
            tape.exchange(address, response)
    capture = tape.write(tmp_path / "recorded.pcap")
    build(tmp_path / "zones", capture)
    result = check(tmp_path / "zones", capture)
    print(f"{name}: {result['as_recorded']} of {result['asked']} as recorded; {result['reasons']}")
    # Neither is done by a name server that knows only its zones.
    explained = sum(result["reasons"].get(one, 0) for one in ("server_without_aa", "alias_into_another_zone"))
    assert result["as_recorded"] + explained >= 0.98 * result["asked"] > 0, result["differences"]


def test_a_name_servers_own_dnstap(tmp_path: Path) -> None:
    capture = DATA / "dnstap" / "knot-auth.dnstap"
    build(tmp_path / "zones", capture)
    result = check(tmp_path / "zones", capture)
    print(f"{result['as_recorded']} of {result['asked']} as recorded; {result['reasons']}")
    assert result["as_recorded"] == result["asked"] > 0, result["differences"]


@pytest.mark.parametrize("name", ["unbound-fwd-1", "unbound-fwd-2"])
def test_a_forwarders_answers_make_no_zones(tmp_path: Path, name: str) -> None:
    report = build(tmp_path / "zones", DATA / "dnstap" / f"{name}.dnstap")
    assert all(one["rrsets"] == one["made_up"] for one in report["zones"])  # an empty root
    assert report["counts"]["rrsets_ignored"]["without_authority"] > 100
