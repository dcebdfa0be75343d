"""The real root zone and, where the mutator is built, the real minute's own answers."""

import json
from pathlib import Path

import pytest

from report.__main__ import main
from report.errors import ReportError
from report.sources import ROOT, find_program
from report.zone import read_zone

DATA = ROOT.parent / "shared" / "data"
ZONE = DATA / "zones" / "root-2020101902-signed.zone.xz"
TRACE = DATA / "root" / "nsd-live.raw.pcap.xz"

pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason="shared data is absent")]


def test_the_root_zone_is_read_whole() -> None:
    zone = read_zone(ZONE)
    assert (zone.origin, zone.serial) == (".", 2020101902)
    counts = {
        kind: sum(len(held) for (_, k), held in zone.sets.items() if k == kind) for kind in ("NS", "DS", "A")
    }
    assert counts == {"NS": 7147, "DS": 2372, "A": 4139}
    assert sum(map(len, zone.signatures.values())) == 2884


@pytest.mark.slow
def test_the_real_minute_equals_itself(tmp_path: Path) -> None:
    try:
        find_program(None)
    except ReportError:
        pytest.skip("reprise-mutator is not built")
    out = tmp_path / "out.json"
    assert main(["compare", str(TRACE), str(TRACE), "--zone", str(ZONE), "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["compared"] == result["equal_bytes"]["count"] == 10432
    assert result["referrals"]["recorded"] == 3400
    assert result["classes"] == []
