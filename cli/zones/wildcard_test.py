"""The zone in which every name has an answer, as real servers read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.zones import bind_tools, wildcard


@pytest.mark.parametrize("origin", ["example.com.", "."])
def test_servers_take_the_zone(tmp_path: Path, origin: str) -> None:
    zone = tmp_path / "zone"
    wildcard.write(zone, origin)
    done = bind_tools.run(("named-checkzone", origin, str(zone)), tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"*.{origin}".replace("..", ".") in zone.read_text(encoding="ascii")
