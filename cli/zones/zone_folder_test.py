"""Zone folders: what is in them, and their files in plain form."""

import gzip
import json
import os
import stat
from pathlib import Path

import pytest

from cli.errors import RepriseError, UsageError
from cli.zones import zone_folder, zonefile
from tests.small_disk import small_disk

_TOP = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n"


def _folder(path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (path / f"{name}.zone").write_text(f"$ORIGIN {name}.\n{text}", encoding="ascii")
    return path


def _owners(path: Path) -> set[str]:
    return {line.split()[0] for line in path.read_text(encoding="ascii").splitlines()}


def test_plain_files_are_taken_where_they_are(tmp_path: Path) -> None:
    source = _folder(tmp_path, example=_TOP)
    assert zone_folder.plain(source, tmp_path / "made") == source


def test_generated_included_and_compressed_records_are_written_out(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    (source / "parts").mkdir(parents=True)
    (source / "parts/hosts").write_text("www A 192.0.2.2\n", encoding="ascii")
    _folder(
        source, a=f"{_TOP}$GENERATE 1-3 h$ A 192.0.2.$\n", b=f"{_TOP}$INCLUDE parts/hosts ; more\n", c=_TOP
    )
    (source / "d.zone").write_bytes(gzip.compress(f"$ORIGIN d.\n{_TOP}".encode()))
    made = zone_folder.plain(source, tmp_path / "made")
    folder = zone_folder.read(made)
    assert [one.name for one in folder.entries] == ["a.", "b.", "c.", "d."]
    owners = {one.name: _owners(made / one.file) for one in folder.entries if one.name != "c."}
    assert {"h1.a.", "h2.a.", "h3.a."} < owners["a."]
    assert "www.b." in owners["b."]
    assert owners["d."] == {"d.", "ns.d."}
    assert (made / folder.entries[2].file).read_bytes() == (source / "c.zone").read_bytes()


def test_the_list_goes_along(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    _folder(source, a=f"{_TOP}$GENERATE 1-3 h$ A 192.0.2.$\n")
    asked = [{"name": "x.", "addresses": ["192.0.2.7"]}]
    zones = [{"name": "a.", "file": "a.zone", "addresses": ["192.0.2.9"]}]
    (source / "zones.json").write_text(json.dumps({"schema": 1, "zones": zones, "asked": asked}))
    folder = zone_folder.read(zone_folder.plain(source, tmp_path / "made"))
    assert folder.entries[0].addresses == ("192.0.2.9",)
    assert list(folder.asked) == asked


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("$INCLUDE /etc/passwd", "$INCLUDE /etc/passwd is outside the zone folder"),
        ("$INCLUDE ../other", "$INCLUDE ../other is outside the zone folder"),
        ("$INCLUDE missing", "$INCLUDE missing: cannot read "),
        ("$INCLUDE a.zone", "zone files include each other endlessly"),
        ("$INCLUDE(/etc/passwd)", "an $INCLUDE cannot be understood"),
        ('$INCLUDE"/etc/passwd"', "an $INCLUDE cannot be understood"),
        ("x A 192.0.2.1\r$INCLUDE /etc/passwd", "$INCLUDE /etc/passwd is outside the zone folder"),
        ("($INCLUDE /etc/passwd)", "an $INCLUDE cannot be understood"),
        ('"$INCLUDE" "/etc/passwd"', "an $INCLUDE cannot be understood"),
        ('( "$include" /etc/passwd )', "an $INCLUDE cannot be understood"),
        ("$INCLUDES /etc/passwd", "$INCLUDES is not a known directive"),
        ('"$DATE" 20260101000000', "$DATE is not a known directive"),
        ("$GENERATE 1-2,3 h$ A 192.0.2.1", "an $GENERATE cannot be understood"),
        ("$GENERATE 1-600000 h$ A 192.0.2.1\n$GENERATE 1-600000 i$ A 192.0.2.1", "over 1000000 records"),
        ("$GENERATE 1-1000000 h$ TXT ${0,60000}", "the zone is over 1 GiB with all that it includes"),
    ],
)
def test_includes_stay_below_the_folder(tmp_path: Path, line: str, said: str) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    _folder(source, a=f"{_TOP}{line}\n")
    with pytest.raises(UsageError) as raised:
        zone_folder.plain(source, tmp_path / "made")
    assert said in str(raised.value)


def test_money_is_no_directive(tmp_path: Path) -> None:
    source = _folder(tmp_path, a=f'{_TOP}x TXT "$INCLUDE /etc/passwd" ( $GENERATE\n "$5" )\n; $Id: a $\n')
    assert zone_folder.plain(source, tmp_path / "made") == source


def test_a_small_file_does_not_become_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zonefile, "MOST_BYTES", 1 << 20)
    packed = gzip.compress((f"$ORIGIN a.\n{_TOP}" + "x A 192.0.2.5\n" * 100_000).encode())
    (tmp_path / "zones").mkdir()
    (tmp_path / "zones/a.zone").write_bytes(packed)
    with pytest.raises(UsageError, match="the zone is over 0 GiB"):
        zone_folder.plain(tmp_path / "zones", tmp_path / "made")
    with pytest.raises(UsageError, match="GiB decompressed"):
        zonefile.unpack(tmp_path / "zones/a.zone", tmp_path / "unpacked")
    assert (tmp_path / "unpacked").stat().st_size <= 1 << 20


def test_a_plain_file_has_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zonefile, "MOST_BYTES", 1 << 20)
    _folder(tmp_path, a=_TOP + "x A 192.0.2.5\n" * 100_000)
    zonefile.unpack(tmp_path / "a.zone", tmp_path / "unpacked")
    assert (tmp_path / "unpacked").read_bytes() == (tmp_path / "a.zone").read_bytes()


def test_files_are_included_so_many_times(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    for number in range(15):
        (source / str(number)).write_text(f"$INCLUDE {number + 1}\n" * 2)
    (source / "15").touch()
    _folder(source, a=f"{_TOP}$INCLUDE 0\n")
    with pytest.raises(UsageError, match="the zone has over 1000"):
        zone_folder.plain(source, tmp_path / "made")


def test_a_warning_is_not_the_reason(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    expired = "ns RRSIG A 8 2 60 20200101000000 20190101000000 12345 a. AAAA\n"
    _folder(source, a=f"{_TOP}{expired}$GENERATE 1-3 h$ A 192.0.2.$\nbad A 1.2.3\n")
    with pytest.raises(RepriseError, match=r"does not load: .*line 8: .*bad dotted quad"):
        zone_folder.plain(source, tmp_path / "made")


def test_a_zone_that_does_not_load_says_where(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    _folder(source, a=f"{_TOP}$GENERATE 1-3 h$ A 192.0.2.$\nbad A 1.2.3\n")
    with pytest.raises(RepriseError, match=r"zone a\. .* does not load: .*line 7: .*bad dotted quad"):
        zone_folder.plain(source, tmp_path / "made")
    made = zone_folder.plain(source, tmp_path / "made", skip_bad=True)
    assert "$GENERATE" in (made / "0.zone").read_text()


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    packed = gzip.compress((f"$ORIGIN a.\n{_TOP}" + "x A 192.0.2.5\n" * 1_000).encode())
    (source / "a.zone").write_bytes(packed[: len(packed) // 2])
    (source / "zones.json").write_text(json.dumps({"schema": 1, "zones": [{"name": "a.", "file": "a.zone"}]}))
    with pytest.raises(RepriseError, match="cannot be decompressed"):
        zone_folder.plain(source, tmp_path / "made")


def test_the_zones_themselves_are_not_replaced(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    _folder(source, a=f"{_TOP}$GENERATE 1-3 h$ A 192.0.2.$\n")
    with pytest.raises(UsageError, match="would replace"):
        zone_folder.plain(source, tmp_path / "zones")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.tex").touch()
    with pytest.raises(UsageError, match="was not made by"):
        zone_folder.plain(source, tmp_path / "other")


@pytest.mark.parametrize(
    "entry",
    [
        '{"name":"a.","file":7}',
        '{"name":"a.","file":"a.zone","adresses":[]}',
        '{"name":"a.","file":"a.zone","addresses":"192.0.2.1"}',
        '{"name":1,"file":"a"}',
        "[]",
    ],
)
def test_a_bad_list_is_one_line(tmp_path: Path, entry: str) -> None:
    (tmp_path / "zones.json").write_text(f'{{"schema":1,"zones":[{entry}]}}')
    with pytest.raises(RepriseError, match=r"zones\.json cannot be read"):
        zone_folder.read(tmp_path)


def test_an_entry_stays_below_the_folder(tmp_path: Path) -> None:
    for file in ("/etc/hostname", "../x", "a/../../x"):
        entry = {"name": "a.", "file": file}
        (tmp_path / "zones.json").write_text(json.dumps({"schema": 1, "zones": [entry]}))
        with pytest.raises(RepriseError, match="is outside the folder"):
            zone_folder.read(tmp_path)


def test_a_copy_has_the_files_that_links_inside_the_folder_name(tmp_path: Path) -> None:
    source, target = tmp_path / "zones", tmp_path / "copy"
    (source / "parts").mkdir(parents=True)
    (source / "parts/a").write_text("a")
    (source / "link").symlink_to("parts/a")
    (tmp_path / "way").symlink_to(source)
    target.mkdir(mode=0o750)
    zone_folder.copy(tmp_path / "way", target)
    assert (target / "link").read_text() == (target / "parts/a").read_text() == "a"
    assert not (target / "link").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    source = tmp_path / "zones"
    source.mkdir()
    _folder(source, a=_TOP + "x A 192.0.2.5\n" * 10_000)
    with (
        small_disk(tmp_path / "copy", "64k") as disk,
        pytest.raises(
            RepriseError, match=r"zones cannot be copied: /.*/zones/a\.zone: No space left on device"
        ),
    ):
        zone_folder.copy(source, disk)


@pytest.mark.parametrize("kind", ["file", "folder", "above", "pipe"])
def test_no_copy_leaves_the_folder(tmp_path: Path, kind: str) -> None:
    source, secret = tmp_path / "zones", tmp_path / "secret"
    (source / "below").mkdir(parents=True)
    (secret / "folder").mkdir(parents=True)
    (secret / "file").write_text("secret")
    odd = source / "below/odd"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to({"file": secret / "file", "folder": secret / "folder", "above": source}[kind])
    (tmp_path / "copy").mkdir()
    with pytest.raises(UsageError, match="below/odd is not a file of the zone folder"):
        zone_folder.copy(source, tmp_path / "copy")
    assert not list((tmp_path / "copy/below").iterdir())
