"""What reaches the server and its zone checker of a zone that others wrote."""

import gzip
import subprocess
from pathlib import Path

import pytest

from cli import call, programs
from cli.errors import RepriseError, UsageError
from cli.zones import bind_tools, server_zone, zonefile
from cli.zones.zone_folder import Entry, ZoneFolder, write_list
from tests.small_disk import small_disk

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


def test_of_zones_of_one_name_the_first_is_chosen(tmp_path: Path) -> None:
    """Others were made up for servers that answer oddly."""
    built = tmp_path / "built"
    entries = (Entry("a.", "a.zone"), Entry("a.", "zone-1.zone"))
    for one in entries:
        _zone(built, one.file).rename(built / one.file)
    write_list(ZoneFolder(built, entries), built)
    (built / "build.json").write_text("{}", encoding="ascii")
    server_zone.choose(built, tmp_path / "copy", "A", tmp_path / "run/build.json")
    assert (tmp_path / "copy").read_text(encoding="ascii").endswith("a.zone")


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


@pytest.mark.parametrize("name", ["{folder}/sub/part", "sub/../part", "{link}/part", "./sub//part"])
def test_all_names_of_files_in_the_folder_will_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "way").symlink_to(tmp_path / "zones")
    name = name.format(folder=tmp_path / "zones", link=tmp_path / "way")
    zone = _zone(tmp_path / "zones", f'$INCLUDE "{name}" b.a.\n$INCLUDE {name} c.a. ; again\n')
    (tmp_path / "zones/sub").mkdir()
    for part in (tmp_path / "zones/part", tmp_path / "zones/sub/part"):
        part.write_text("x A 192.0.2.9\n", encoding="ascii")
    server_zone.bring(zone, tmp_path / "copy", "a.")
    owners = {line.split()[0] for line in (tmp_path / "copy").read_text(encoding="ascii").splitlines()}
    assert {"x.b.a.", "x.c.a."} < owners


def test_the_included_file_is_the_one_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone, part = _zone(tmp_path / "zones", f"$INCLUDE {tmp_path}/zones/part\n"), tmp_path / "zones/part"
    part.write_text("x A 192.0.2.9\n", encoding="ascii")
    check = zonefile.Checker.check

    def check_and_change(checker: zonefile.Checker, text: bytes, depth: int = 0) -> bytes:
        checked = check(checker, text, depth)
        part.write_text("y A 192.0.2.9\n", encoding="ascii")
        return checked

    monkeypatch.setattr(zonefile.Checker, "check", check_and_change)
    monkeypatch.setattr(bind_tools, "can", lambda _: False)  # the tool sees everything
    monkeypatch.setattr(bind_tools, "told", [])
    server_zone.bring(zone, tmp_path / "copy", "a.")
    text = (tmp_path / "copy").read_text(encoding="ascii")
    assert "x.a." in text
    assert "y.a." not in text


def test_a_fault_in_an_included_file_is_told_with_its_name(tmp_path: Path) -> None:
    zone = _zone(tmp_path / "zones", "$INCLUDE good\n$INCLUDE sub/../bad\n")
    (tmp_path / "zones/sub").mkdir()
    (tmp_path / "zones/good").write_text("x A 192.0.2.9\n", encoding="ascii")
    (tmp_path / "zones/bad").write_text("\ny A 1.2.3\n", encoding="ascii")
    with pytest.raises(RepriseError, match=r"zone a\. .* does not load: \w+: sub/\.\./bad:2: .*bad dotted"):
        server_zone.bring(zone, tmp_path / "copy", "a.")


def test_a_full_disk_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    zone = _zone(tmp_path / "zones", "$GENERATE 1-9999 h$ A 192.0.2.1\n")
    with small_disk(tmp_path / "disk", "64k") as disk:
        words = call.words("cli.zones.server_zone.bring", source=zone, target=disk / "copy", origin="a.")
        assert call.main(list(words)) == 1
    said = capfd.readouterr().err
    assert f": error: zone file {zone} cannot be copied or checked: {disk}/copy: No space left on" in said
    assert said.count("\n") == 1


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
def test_the_checker_is_confined(tmp_path: Path, checker: str) -> None:
    if not bind_tools.can([("ro", Path("/usr"))]):
        pytest.skip("no namespaces here")
    for include, status in ((tmp_path / "outside", 1), (tmp_path / "zones/inside", 0)):
        zone = _zone(tmp_path / "zones", f"$INCLUDE {include}\n")
        include.write_text("x A 192.0.2.9\n", encoding="ascii")
        direct = subprocess.run([programs.packaged(checker), "a.", zone], capture_output=True, check=False)
        assert direct.returncode == 0, "it loads where the checker can read the file"
        warnings = tmp_path / "warnings"
        assert server_zone.check([checker, "a."], zone, warnings) == status
        assert not warnings.read_text(encoding="ascii")
