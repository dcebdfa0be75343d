from __future__ import annotations

import json
from pathlib import Path

import dns.message
import dns.rrset

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


def test_signatures_in_the_zone_that_the_server_leaves_out_are_not_missing_ones(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"schema": 1, "failed": [], "unroutable": []}')
    zones = [{"name": "example.", "file": "example.zone", "addresses": ["192.0.2.53"]}]
    (tmp_path / "zones.json").write_text(json.dumps({"schema": 1, "zones": zones}))
    (tmp_path / "build.json").write_text(json.dumps({"zones": zones}))
    signed, unsigned = (
        dns.message.from_text(_HEAD + text) for text in (_SIGNATURE.format("20201010000000", "bbbb"), "")
    )
    one = zones_check.Exchange("192.0.2.53", "0", b"", signed, 1)
    text = "a.example. 60 IN A 192.0.2.1\n"
    for more, reason in (
        ("", "signature_missing"),
        ("A.example. 60 IN RRSIG A 8 2 60 20301010000000 20201010000000 1804 example. aaaa bb\n",
         "signature_not_served"),
    ):  # fmt: skip
        (tmp_path / "example.zone").write_text(text + more)
        assert zones_check._Reasons(tmp_path, tmp_path).of(one, unsigned, True) == reason
