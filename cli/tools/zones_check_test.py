import gzip
import json
from pathlib import Path

import dns.message
import dns.rrset
import pytest

from cli.errors import RepriseError
from cli.plan import privileges
from cli.tools import zones_check, zones_compare

_HEAD = """id 1
opcode QUERY
rcode NOERROR
flags QR AA
;QUESTION
a.example. IN A
;ANSWER
a.example. 60 IN A 192.0.2.1
"""
_TOP = "$ORIGIN example.\n$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n"
_SIGNATURE = "a.example. 60 IN RRSIG A 8 2 60 20301010000000 {} 1804 Example. aaaa {}\n"


def test_an_answer_without_its_signature_differs_and_one_signed_anew_does_not() -> None:
    unsigned, signed, anew = (
        dns.message.from_text(_HEAD + text)
        for text in (
            "",
            _SIGNATURE.format("20201010000000", "bbbb"),
            _SIGNATURE.format("20211010000000", "cccc"),
        )
    )
    assert zones_compare.differing(signed, unsigned) == ("answer",)
    assert zones_compare.differing(signed, anew) == ()
    assert zones_compare.differing(unsigned, signed) == (), "as to a query without DO"


def test_signatures_in_the_zone_that_the_server_leaves_out_are_not_missing_ones(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"schema": 1, "failed": [], "unroutable": []}')
    zones = [{"name": "example.", "file": "example.zone", "addresses": ["192.0.2.53"]}]
    (tmp_path / "zones.json").write_text(json.dumps({"schema": 1, "zones": zones}))
    (tmp_path / "build.json").write_text(json.dumps({"zones": zones}))
    signed, unsigned = (
        dns.message.from_text(_HEAD + text) for text in (_SIGNATURE.format("20201010000000", "bbbb"), "")
    )
    one = zones_check.Exchange("192.0.2.53", "0", b"", signed, 1)
    text = f"{_TOP}a.example. 60 IN A 192.0.2.1\n"
    data = "A 8 2 60 20301010000000 20201010000000 1804 example. aaaa bbbb"
    for more, reason in (
        ("", "signature_missing"),
        (f"A.example. 60 IN RRSIG {data}\n", "signature_not_served"),
        (f"A.example.\t60\tIN\tRRSIG\t{data}\n", "signature_not_served"),
        (f"a 60 RRSIG ( {data} )\n", "signature_not_served"),
        ("a.example. 60 IN RRSIG A 8 2 60\n", "signature_missing"),
        ("b.example. 60 IN NSEC c.example. A RRSIG\n", "signature_missing"),
    ):
        for packed in (False, True):
            written = (text + more).encode()
            (tmp_path / "example.zone").write_bytes(gzip.compress(written) if packed else written)
            assert zones_check._Reasons(tmp_path, tmp_path).of(one, unsigned, True) == reason, more


def test_the_signatures_are_not_read_by_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "a.example.\tRRSIG\tA 8 2 example.\nnonsense\n"
    (tmp_path / "plan.json").write_text('{"schema": 1, "failed": [], "unroutable": []}')
    monkeypatch.setattr(privileges, "reading", lambda: ("printf", "%s", said, "--"))
    reasons = zones_check._Reasons(tmp_path, tmp_path)
    assert reasons._signatures == {("a.example.", "RRSIG", "A 8 2 example.")}


def test_one_difference_of_many_is_not_rounded_away(capsys: pytest.CaptureFixture[str]) -> None:
    message = dns.message.from_text(_HEAD)
    many, once = (zones_check.Exchange("192.0.2.53", "0", b"", message, count) for count in (3_999_999, 1))
    differing = [zones_check.Difference(once, ("answer",), "unknown", None)]
    result = zones_check.summary([many, once], differing)
    assert result["share_as_recorded"] < 1
    zones_check._show(result, differing)
    assert "(99.99 %)" in capsys.readouterr().out


@pytest.mark.netns
def test_a_server_that_does_not_start_is_told_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is deleted with all else that the check has made."""
    monkeypatch.setattr(privileges, "serving", lambda _: ())  # only root reads this folder
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "meta-1.ip").touch()
    words = "named does not serve the zones: named ended: .*file not found"
    with pytest.raises(RepriseError, match=words) as caught, zones_check._meta_server(tmp_path):
        pass
    assert caught.value.hint == "see `reprise doctor`"
