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


def test_an_answer_that_lacks_nothing_but_signatures_has_a_reason_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"schema": 1, "failed": [], "unroutable": []}')
    signed, unsigned, empty = (
        dns.message.from_text(text)
        for text in (
            _HEAD + _SIGNATURE.format("20201010000000", "bbbb"),
            _HEAD,
            _HEAD.partition(";ANSWER")[0],
        )
    )
    one = zones_check.Exchange("192.0.2.53", "0", b"", signed, 1)
    reasons = zones_check._Reasons(tmp_path, tmp_path)
    assert reasons.of(one, unsigned, True) == "signature_missing"
    assert reasons.of(one, empty, True) == "incomplete"


@pytest.mark.parametrize(
    "report",
    [
        '{"failures": [{"server": "192.0.2.53", "name": "a."}]}',
        '{"failures": [{"server": "192.0.2.53", "name": "a.", "rcode": 2}]}',
        '{"refused": [{"zone": "a..example."}]}',
        "[]",
    ],
)
def test_a_report_of_the_zones_that_is_damaged_is_one_line(tmp_path: Path, report: str) -> None:
    (tmp_path / "build.json").write_text(report)
    with pytest.raises(RepriseError, match=r"build\.json of the zones is damaged"):
        zones_check._Reasons(tmp_path, tmp_path)


def test_one_difference_of_many_is_not_rounded_away(capsys: pytest.CaptureFixture[str]) -> None:
    message = dns.message.from_text(_HEAD)
    many, once = (zones_check.Exchange("192.0.2.53", "0", b"", message, count) for count in (3_999_999, 1))
    differing = [zones_check.difference(once, ("answer",), "unknown", None)]
    result = zones_check.summary(many.count + once.count, differing)
    assert result["share_as_recorded"] < 1
    zones_check._show(result)
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
