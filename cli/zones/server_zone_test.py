"""What reaches the server and its zone checker of a zone that others wrote."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from cli.errors import UsageError
from cli.zones import bind_tools, server_zone

_TOP = "$ORIGIN a.\n$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n"


def _zone(folder: Path, more: str) -> Path:
    folder.mkdir(exist_ok=True)
    zone = folder / "zone"
    zone.write_text(_TOP + more, encoding="ascii")
    return zone


@pytest.mark.parametrize("packed", [False, True])
def test_plain_zones_are_copied_as_they_are(tmp_path: Path, packed: bool) -> None:
    zone = _zone(tmp_path, "")
    text = zone.read_bytes()
    if packed:
        zone.write_bytes(gzip.compress(text))
    server_zone.bring(zone, tmp_path / "copy", "a.")
    assert (tmp_path / "copy").read_bytes() == text


def test_included_records_are_in_the_copy(tmp_path: Path) -> None:
    zone = _zone(tmp_path / "zones", "$INCLUDE parts/one\n$GENERATE 1-2 h$ A 192.0.2.$\n")
    (tmp_path / "zones/parts").mkdir()
    (tmp_path / "zones/parts/one").write_text("$INCLUDE link\n", encoding="ascii")
    (tmp_path / "zones/two").write_text("www A 192.0.2.9\n", encoding="ascii")
    (tmp_path / "zones/link").symlink_to("two")
    server_zone.bring(zone, tmp_path / "copy", "a.")
    lines = (tmp_path / "copy").read_text(encoding="ascii").splitlines()
    assert not any("$" in line for line in lines)
    assert {"www.a.", "h1.a.", "h2.a."} <= {line.split()[0] for line in lines}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("$INCLUDE {outside}", "is outside the zone folder"),
        ("$INCLUDE link", "is outside the zone folder"),
        ("$INCLUDE ../secret", "is outside the zone folder"),
        ('"$INCLUDE" "{outside}"', "cannot be understood"),
        ("$LOAD {outside}", "is not a known directive"),
    ],
)
def test_no_directive_leaves_the_folder(tmp_path: Path, line: str, said: str) -> None:
    outside = tmp_path / "secret"
    outside.write_text("x TXT secret\n", encoding="ascii")
    zone = _zone(tmp_path / "zones", f"{line.format(outside=outside)}\n")
    (tmp_path / "zones/link").symlink_to(outside)
    with pytest.raises(UsageError, match=said):
        server_zone.bring(zone, tmp_path / "copy", "a.")


@pytest.mark.parametrize("checker", ["named-checkzone", "nsd-checkzone"])
def test_the_checker_is_confined(
    tmp_path: Path, checker: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    if not bind_tools.can([("ro", Path("/usr"))]):
        pytest.skip("no namespaces here")
    outside = tmp_path / "secret"
    outside.write_text("x secret secret\n", encoding="ascii")
    for include, status in ((outside, 1), (Path("/etc/hostname"), 1), (tmp_path / "zones/good", 0)):
        zone = _zone(tmp_path / "zones", f"$INCLUDE {include}\n")
        (tmp_path / "zones/good").write_text("x A 192.0.2.9\n", encoding="ascii")
        warnings = tmp_path / "warnings"
        argv = ["--warnings", os.fspath(warnings), "check", os.fspath(zone), "--", checker, "a."]
        assert server_zone.main(argv) == status
        assert b"x secret" not in capfdbinary.readouterr().out
        assert not warnings.read_text(encoding="ascii")
