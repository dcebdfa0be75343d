from __future__ import annotations

import dns.message
import dns.rrset

from cli.tools import zones_check

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
    assert zones_check.differing(signed, unsigned) == ("answer",)
    assert zones_check.differing(signed, anew) == ()
    assert zones_check.differing(unsigned, signed) == (), "as to a query without DO"
