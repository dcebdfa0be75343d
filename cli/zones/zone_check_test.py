"""Zones as BIND loads them."""

import subprocess
from pathlib import Path

import pytest

from cli import programs
from cli.zones import zone_check, zone_folder
from cli.zones.zone_folder import Entry

_TOP = "{o} 60 IN SOA ns.{o} h.{o} 1 2 3 4 5\n{o} 60 IN NS ns.{o}\nns.{o} 60 IN A 192.0.2.1\n"
_HASH = "AB" * 32
_SIGNED = "60 20200101000000 20190101000000 12345"  # long expired, which BIND warns of before it says more
_EXPIRED = f"ns.a. 60 IN RRSIG A 8 2 {_SIGNED} a. AAAA\n"
_DS = "c.a. 60 IN NS ns.a.\nc.a. 60 IN DS 1 8 2 AABB\n"
_DS_SIGNATURE = f"c.a. 60 IN RRSIG DS 8 2 {_SIGNED} a. AAAA\n"
_FEW_LABELS = f"x.a. 60 IN RRSIG A 8 0 {_SIGNED} a. AAAA\n"  # fewer than the signer has


def refuses_few_labels() -> bool:
    """Whether this BIND refuses such a signature, as 9.18.49-1~deb12u3 and not yet 9.18.49-1~deb12u1."""
    check = [programs.packaged("named-checkzone"), "-q", "a.", "/dev/stdin"]
    zone = _TOP.format(o="a.") + _FEW_LABELS
    return subprocess.run(check, input=zone, text=True, check=False).returncode != 0


_REFUSED = pytest.mark.skipif(
    not refuses_few_labels(), reason="this BIND takes a signature over fewer labels than its signer has"
)


def _zone(folder: Path, text: str, name: str = "a.") -> zone_folder.ZoneFolder:
    (folder / f"{name}zone").write_text(_TOP.format(o=name) + text, encoding="ascii")
    return zone_folder.read(folder)


@pytest.mark.parametrize(
    ("text", "why", "lines"),
    [
        (f"{_EXPIRED}a. 60 IN CDS 1 8 2 {_HASH}\n", "CDS/CDNSKEY consistency checks failed", ()),
        (f"{_EXPIRED}{_DS}", "near eol: unexpected end of input", (6,)),
        pytest.param(_FEW_LABELS, "near 'a.': out of range", (4,), marks=_REFUSED),
        ("*.a. 60 IN NS ns.a.\n", "*.a: invalid NS owner name (wildcard)", (4,)),
        ("x.a. 60 IN A 1.2\ny.a. 60 IN A 1.2\n", "near '1.2': bad dotted quad", (4, 5)),
    ],
)
def test_what_bind_refuses_is_told_in_its_own_words(
    tmp_path: Path, text: str, why: str, lines: tuple[int, ...]
) -> None:
    (tmp_path / "good.zone").write_text(_TOP.format(o="good.") + _EXPIRED)
    folder = _zone(tmp_path, text)
    (found,) = zone_check.refused(folder.path, folder.entries)
    assert (found.entry.name, found.why, found.lines) == ("a.", why, lines)


def test_versions_of_a_zone_are_told_apart(tmp_path: Path) -> None:
    for file, text in (("1", ""), ("2", "x 60 IN A 1.2\n")):
        (tmp_path / file).write_text(_TOP.format(o="a.") + text)
    entries = [Entry("a.", "1"), Entry("b.", "missing"), Entry("A.", "2")]
    found = [(one.entry.file, one.why) for one in zone_check.refused(tmp_path, entries)]
    assert found == [("missing", "file not found"), ("2", "near '1.2': bad dotted quad")]


def test_files_of_any_name_and_behind_links_are_read(tmp_path: Path) -> None:
    bad = _TOP.format(o="a.") + "x.a. 60 IN A 1.2\n"
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "outside").write_text(bad)
    (real / 'a"; b').write_text(bad)
    (real / "plain").write_text(bad)
    (real / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "folder").symlink_to(real)
    entries = [Entry("a.", one) for one in ('a"; b', "plain", "link", 'no"ne')]
    found = zone_check.refused(tmp_path / "folder", entries)
    dotted = ("near '1.2': bad dotted quad", (4,))
    assert [(one.why, one.lines) for one in found] == [dotted, dotted, dotted, ("file not found", ())]


def test_a_name_does_not_end_its_quotes(tmp_path: Path) -> None:
    entry = Entry('a"; file "/etc/passwd"; //.', "a.zone")
    (found,) = zone_check.refused(tmp_path, [entry])
    assert found.why == "file not found"


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        (f"{_EXPIRED}a. 60 IN CDS 1 8 2 {_HASH}\n", ["CDS"], "RRSIG A"),
        (f"{_DS}{_DS_SIGNATURE}", ["DS", "RRSIG"], "c.a. 60 IN NS"),
        (f"{_DS}c.a. 60 IN DS 1 8 2 {_HASH}\n{_DS_SIGNATURE}", ["DS"], "RRSIG DS"),
        pytest.param(_FEW_LABELS + _EXPIRED, ["RRSIG"], "RRSIG A 8 2", marks=_REFUSED),
        (f"{_DS}a. 60 IN CDS 1 8 2 {_HASH}\n", ["DS", "CDS"], "c.a. 60 IN NS"),
    ],
)
def test_records_that_a_zone_can_do_without_are_taken_out(
    tmp_path: Path, text: str, gone: list[str], kept: str
) -> None:
    folder = _zone(tmp_path, text)
    removed, bad = zone_check.mend(folder)
    assert [one["type"] for one in removed] == gone
    assert bad == []
    assert zone_check.refused(folder.path, folder.entries) == []
    assert kept in (tmp_path / "a.zone").read_text()


def test_what_a_zone_needs_stays(tmp_path: Path) -> None:
    folder = _zone(tmp_path, f"{_DS}x.a. 60 IN A 1.2\n")
    removed, bad = zone_check.mend(folder)
    assert [one["type"] for one in removed] == ["DS"]
    assert [str(one) for one in bad] == ["zone a. (a.zone line 5) does not load: near '1.2': bad dotted quad"]
    assert "x.a. 60 IN A 1.2" in (tmp_path / "a.zone").read_text()
