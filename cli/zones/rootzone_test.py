"""The root-like zone: names, determinism, and that real tools accept it."""

from pathlib import Path

import pytest

from cli import programs
from cli.zones import rootzone
from cli.zones.rootzone import records, tlds

LIST = """// ===BEGIN ICANN DOMAINS===
com
co.uk
*.ck
!www.ck
公司.cn
香港
// ===END ICANN DOMAINS===
blogspot.com
private.example
"""


def test_names_are_top_level_and_in_a_label_form() -> None:
    assert tlds(LIST) == ["ck", "cn", "com", "uk", "xn--j6w193g"]


def test_the_same_seed_makes_the_same_zone() -> None:
    names = tlds(LIST)
    assert records(names, seed=3) == records(names, seed=3)
    assert records(names, seed=3) != records(names, seed=4)


def test_every_name_is_delegated_to_two_to_six_servers() -> None:
    names = tlds(LIST)
    made = records(names)
    for name in names:
        assert 2 <= sum((one.owner, one.kind) == (f"{name}.", "NS") for one in made) <= 6


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 0, 0), (1.0, 5, 5)])
def test_the_share_of_signed_delegations(share: float, least: int, most: int) -> None:
    made = records(tlds(LIST), ds_share=share)
    assert least <= sum(one.kind == "DS" for one in made) <= most


def test_the_signed_zone_of_the_packaged_list_is_whole(tmp_path: Path) -> None:
    """dnssec-signzone checks every signature and the NSEC chain; it is run inside write()."""
    if not rootzone.SUFFIX_LIST.exists() or programs.find("dnssec-signzone") is None:
        pytest.fail("publicsuffix and bind9-utils are needed; run ./reprise test")
    rootzone.write(tmp_path / "zone", 1, 0.9, 2048, 2048, tmp_path / "cache")
    text = (tmp_path / "zone").read_text(encoding="ascii")
    owners = {line.split()[0] for line in text.splitlines() if " NS " in line}
    assert len(owners) > 1_400
    rootzone.write(tmp_path / "again", 1, 0.9, 2048, 2048, tmp_path / "cache")
    assert (tmp_path / "again").read_text(encoding="ascii") == text
