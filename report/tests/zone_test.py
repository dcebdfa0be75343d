"""Master files: syntax, compression, and the questions the comparison asks of a zone."""

import bz2
import gzip
import lzma
from pathlib import Path

import dns.zone
import pytest

from report.errors import ReportError
from report.zone import Zone, ancestors, parse_zone, read_zone, within

TEXT = """\
; a zone with everything the reader knows
$TTL 1d
@ 86400 IN SOA A.ROOT-servers.net. nstld.verisign-grs.com. ( 2020101902 ; serial
        1800 900 604800 86400 )
        518400 IN NS a.root-servers.net.
  IN 518400 NS b.root-servers.net.
a.root-servers.net. A 198.41.0.4
                    AAAA 2001:0503:BA3E:0:0:0:2:30
UK. 172800 IN NS dns1.nic.uk.
uk. NS NSA.NIC.UK.
uk. DS 43876 8 2 A107ED2AC1BD14D924173BC7E827A1153582072394F9272BA37E2353 BC659603
uk. NSEC unicom. NS DS RRSIG NSEC
uk. RRSIG DS 8 1 86400 20201101190000 20201019180000 26116 . YWJj ZGVm
dns1.nic.uk. A 213.248.216.1
txt. TXT "a ; no comment" "(b"
$ORIGIN org.
@ NS ns.example
ns.example A 192.0.2.1
"""


@pytest.fixture(name="zone")
def _zone() -> Zone:
    return parse_zone(TEXT)


def test_records_in_normal_form(zone: Zone) -> None:
    assert (zone.origin, zone.serial) == (".", 2020101902)
    assert zone.get(".", "NS") == {"a.root-servers.net.", "b.root-servers.net."}
    assert zone.get("a.root-servers.net.", "AAAA") == {"2001:503:ba3e::2:30"}
    assert zone.get("uk.", "NS") == {"dns1.nic.uk.", "nsa.nic.uk."}
    assert zone.get("uk.", "DS") == {
        "43876 8 2 a107ed2ac1bd14d924173bc7e827a1153582072394f9272ba37e2353bc659603"
    }
    assert zone.get("uk.", "NSEC") == {"unicom. DS NS NSEC RRSIG"}
    assert zone.signatures["uk.", "DS"] == {b"abcdef"}
    assert zone.get("org.", "NS") == {"ns.example.org."}
    assert {"txt.", "net.", "example.org."} < zone.names


def test_cuts_and_tops(zone: Zone) -> None:
    assert zone.cut("www.example.uk.") == "uk."
    assert zone.cut("uk.") == "uk."
    assert zone.cut("nosuch.") is None
    assert zone.cut(".") is None
    assert zone.top("a.b.nosuch.") == "nosuch."
    assert zone.top(".") is None


def test_names_outside_have_no_cut() -> None:
    zone = parse_zone("$ORIGIN example.\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nsub NS ns.sub\n")
    assert zone.origin == "example."
    assert zone.cut("x.sub.example.") == "sub.example."
    assert zone.cut("sub.elsewhere.") is None
    assert zone.cut("badexample.") is None


@pytest.mark.parametrize("origin", ["example", "Example."])
def test_relative_names_are_below_the_origin_that_is_given(origin: str) -> None:
    zone = parse_zone("@ SOA ns host 1 2 3 4 5\n@ NS ns\nwww A 192.0.2.1\n", origin)
    assert zone.origin == "example."
    assert zone.get("www.example.", "A") == {"192.0.2.1"}


def test_a_zone_may_have_no_cuts() -> None:
    assert parse_zone("example. 60 SOA a. b. 1 2 3 4 5\nwww.example. 60 A 192.0.2.1\n").reach == 2


def test_escaped_dots_do_not_split_names() -> None:
    assert list(ancestors("a\\.b.c.", ".")) == ["a\\.b.c.", "c."]


def test_a_name_with_an_escaped_dot_before_the_origin_is_not_below_it() -> None:
    """As `a.example` in one label, below the root; in the last one the backslash is escaped, not the dot."""
    zone = parse_zone("@ SOA ns.example. h.example. 1 1 1 1 1\n", "example.")
    assert [within(rf"{name}example.", zone.origin) for name in (r"a\.", "a.", r"b.a\.", "a\\\\.")] == [
        False, True, False, True,
    ]  # fmt: skip
    assert zone.top(r"a\.example.") is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compression_is_told_by_content(tmp_path: Path, pack: type[bytes]) -> None:
    path = tmp_path / "zone.anything"
    path.write_bytes(pack(TEXT.encode()))
    assert read_zone(path).serial == 2020101902


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no SOA"),
        ("@ SOA ns. host. ( 1 2 3", "line:1: "),
        ("$INCLUDE other\n", r"line:1: .*\$INCLUDE.* is not allowed"),
        ("@ SOA a. b. 1 2 3 4 5\nx. 1 IN 2 3\n", "line:2: "),
        ("@ SOA a. b. 1 2 3 4 5\nx. A 999.1.1.1\n", "not a zone file"),
        ("\0\1\2 binary", "not a zone file"),
    ],
)
def test_what_is_no_zone_is_a_one_line_error(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "zone"
    path.write_text(text)
    with pytest.raises(ReportError, match=expected):
        read_zone(path)


def test_a_cut_off_archive_is_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "zone.xz"
    path.write_bytes(lzma.compress(TEXT.encode())[:-20])
    with pytest.raises(ReportError, match="cannot read the zone"):
        read_zone(path)


def test_agrees_with_dnspython() -> None:
    text = "$ORIGIN example.\n@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nsub 60 NS ns.sub\n"
    theirs = dns.zone.from_text(text, relativize=False)
    names = {name.to_text() for name in theirs.nodes}
    assert parse_zone(text).names == names
