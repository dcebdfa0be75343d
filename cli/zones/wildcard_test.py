"""The zone in which every name has an answer, as real servers read it."""

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


def test_many_and_large_zones_share_a_file(tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    wildcard.write(zone, "example.com.", zones=3, names=2)
    others = list(wildcard.further("example.com.", 3))
    assert others == ["z2.example.com.", "z3.example.com."]
    for origin, file in (("example.com.", "zone"), *((one, "zone.more") for one in others)):
        done = bind_tools.run(("named-checkzone", "-D", origin, str(tmp_path / file)), tmp_path)
        assert done.returncode == 0, done.stdout
        assert f"n2.{origin}".encode() in done.stdout and f"n3.{origin}".encode() not in done.stdout
    names = (tmp_path / "zone.names").read_text(encoding="ascii").splitlines()
    assert names == [f"n{n}.{one}" for n in (1, 2) for one in ("example.com.", *others)]
