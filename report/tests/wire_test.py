"""Messages: what dnspython writes comes back; what is damaged is None."""

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from report.wire import parse
from report.zone import parse_zone

TEXTS = [
    ("com.", "NS", "a.gtld-servers.net."),
    ("com.", "DS", "30909 8 2 e2d3c916f6deeac73294e8268fb5885044a833fc5459588f4a9184cfc41a5766"),
    (".", "SOA", "a.root-servers.net. nstld.verisign-grs.com. 2016100600 1800 900 604800 86400"),
    ("belkin.", "NSEC", "bentley. NS DS RRSIG NSEC"),
    (".", "DNSKEY", "257 3 8 AwEAAag="),
    ("a.gtld-servers.net.", "A", "192.5.6.30"),
    ("a.gtld-servers.net.", "AAAA", "2001:503:a83e::2:30"),
]


def reply() -> dns.message.Message:
    message = dns.message.make_response(dns.message.make_query("WWW.Example.COM", "A", want_dnssec=True))
    for at, (owner, kind, text) in enumerate(TEXTS):
        message.sections[1 + at % 3].append(dns.rrset.from_text(owner, 60, "IN", kind, text))
    return message


def test_every_type_has_the_zone_files_normal_form() -> None:
    message = parse(reply().to_wire())
    assert message is not None
    assert (message.qname, message.qtype, message.qclass) == ("www.example.com.", "A", 1)
    zone = parse_zone("\n".join(f"{owner} 60 IN {kind} {text}" for owner, kind, text in TEXTS), origin=".")
    for at, (owner, kind, _) in enumerate(TEXTS):
        section = (message.answer, message.authority, message.additional)[at % 3]
        assert section.sets[owner, kind] == zone.get(owner, kind)
        assert section.ttls[owner, kind] == 60


def test_extended_rcode_flags_and_options() -> None:
    made = reply()
    made.flags |= dns.flags.AA | dns.flags.TC
    made.use_edns(0, 0, 4096, options=[dns.edns.NSIDOption(b"ns1")])
    made.set_rcode(dns.rcode.BADVERS)
    message = parse(made.to_wire())
    assert message is not None and message.edns is not None
    assert message.rcode == 16
    assert message.flag("AA") and message.flag("TC") and not message.flag("RA")
    assert message.edns.options == {(3, b"ns1".hex())}
    assert message.edns.payload == 4096


def test_signatures_are_apart() -> None:
    made = reply()
    text = "NS 8 1 518400 20161019050000 20161006040000 46551 . YWJj"
    made.answer.append(dns.rrset.from_text(".", 60, "IN", "RRSIG", text))
    message = parse(made.to_wire())
    assert message is not None
    assert message.answer.signatures == {(".", "NS"): {b"abc"}}
    assert not any(kind == "RRSIG" for _, kind in message.answer.sets)


def test_names_are_escaped_and_lower_case() -> None:
    made = dns.message.make_query(r"A\.b\032\200.Com.", "A")
    message = parse(made.to_wire())
    assert message is not None
    assert message.qname == r"a\.b\032\200.com."


def test_no_question_is_a_message() -> None:
    message = parse(dns.message.Message(id=1).to_wire())
    assert message is not None
    assert message.qname == ""


@pytest.mark.parametrize("step", [1])
def test_cut_at_every_byte_is_none(step: int) -> None:
    whole = reply().to_wire()
    for size in range(0, len(whole), step):
        assert parse(whole[:size]) is None


def test_any_changed_byte_never_raises() -> None:
    whole = reply().to_wire()
    for at in range(len(whole)):
        for value in (0x00, 0x3F, 0x40, 0xC0, 0xFF):
            parse(whole[:at] + bytes([value]) + whole[at + 1 :])


def test_a_pointer_to_itself_ends() -> None:
    assert parse(b"\0\1\x80\0\0\1\0\0\0\0\0\0" + b"\xc0\x0c" + b"\0\1\0\1") is None
