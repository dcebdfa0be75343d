"""Hard worlds load too, are signed rightly, and are the same for a seed."""

import json
from pathlib import Path

import pytest

from cli.zones import world
from cli.zones.world_model import Settings
from cli.zones.world_test import load
from tests import hard_worlds
from tests.slow import slow


@pytest.mark.parametrize("signed", [False, slow(True)])
def test_every_zone_loads_and_verifies(tmp_path: Path, signed: bool) -> None:
    settings = Settings(zones=40, seed=3, signed=signed)
    made = hard_worlds.make(settings)
    assert made == hard_worlds.make(settings)
    world.write(made, tmp_path)
    wrong = [said for file in made.files if (said := load(tmp_path, file))]
    assert not wrong, wrong[0]
    assert any(" RRSIG " in file.text for file in made.files) == signed


def test_they_hold_a_zone_with_two_contents(tmp_path: Path) -> None:
    world.write(hard_worlds.make(Settings(zones=100)), tmp_path)
    zones = json.loads((tmp_path / "zones.json").read_text())["zones"]
    names = [zone["name"] for zone in zones]
    twice = {name for name in names if names.count(name) == 2}
    assert twice
    for name in twice:
        first, second = (zone for zone in zones if zone["name"] == name)
        assert not set(first["addresses"]) & set(second["addresses"])
        assert (tmp_path / first["file"]).read_text() != (tmp_path / second["file"]).read_text()
