"""Pairs of replies and the class each difference must get; totals of whole comparisons."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from report import classify as c
from report import sources, verdicts
from report.compare import compare as comparison
from report.errors import ReportError
from report.rafile import AnswerSet, join
from report.sources import digested, find_program
from report.tables import comparison_text
from report.tests.writers import ra_bytes
from report.zone import Zone, parse_zone

ZONE_TEXT = f"""\
. 86400 SOA a.root-servers.net. nstld. 2020101902 1800 900 604800 86400
. RRSIG SOA 8 0 86400 1 1 1 . c29hMjAyMA==
. NS a.root-servers.net.
. NSEC aaa. NS SOA RRSIG NSEC DNSKEY
a.root-servers.net. A 198.41.0.4
com. NS a.gtld-servers.net.
com. NS b.gtld-servers.net.
com. DS 1 8 2 {"aa" * 32}
com. RRSIG DS 8 1 86400 1 1 1 . ZHMyMDIw
a.gtld-servers.net. A 192.5.6.30
b.gtld-servers.net. A 192.33.14.30
b.gtld-servers.net. AAAA 2001:503:231d::2:30
moved. NS ns1.new.
moved. NS ns2.new.
ns1.new. A 192.0.2.1
free. NS ns.free.
ns.free. A 192.0.2.9
arpa. NS a.root-servers.net.
belk. NSEC bentley. NS RRSIG NSEC
"""
ZONE = parse_zone(ZONE_TEXT)
COM = [(2, "com.", "NS", "a.gtld-servers.net.", "b.gtld-servers.net.")]
SOA_2016 = (2, ".", "SOA", "a.root-servers.net. nstld. 2016100600 1800 900 604800 86400")
SOA_2020 = (2, ".", "SOA", "a.root-servers.net. nstld. 2020101902 1800 900 604800 86400")
DS_OLD = (2, "com.", "DS", "1 8 2 " + "bb" * 32)
DS_NEW = (2, "com.", "DS", "1 8 2 " + "aa" * 32)
SIG_OLD = (2, ".", "RRSIG", "SOA 8 0 86400 1 1 1 . c29hMjAxNg==")
SIG_NEW = (2, ".", "RRSIG", "SOA 8 0 86400 1 1 1 . c29hMjAyMA==")
SIG_OTHER = (2, ".", "RRSIG", "SOA 8 0 86400 1 1 1 . AAAAAAAAAA==")
Row = tuple[Any, ...]


def compare(before: Path, after: Path, zone: Zone | None) -> dict[str, Any]:
    return comparison(of_file(before, zone), of_file(after, zone), c.Evidence(zone))


def of_file(path: Path, zone: Zone | None) -> AnswerSet:
    return digested(join(path.stem, [path]), None, zone, 7)


def reply(
    rows: Sequence[Row] = (),
    name: str = "www.example.com.",
    kind: str = "A",
    rcode: str = "NOERROR",
    flags: str = "QR",
) -> dns.message.Message:
    """Rows are (section, owner, type, data...); flags as dnspython writes them."""
    message = dns.message.make_query(name, kind, id=7, flags=0)
    message.flags = dns.flags.from_text(flags)
    message.set_rcode(dns.rcode.from_text(rcode))
    for section, owner, rtype, *data in rows:
        message.sections[section].append(dns.rrset.from_text(owner, 60, "IN", rtype, *data))
    return message


def run(
    tmp_path: Path, *pairs: tuple[dns.message.Message | None, dns.message.Message | None]
) -> dict[str, Any]:
    """A comparison of these pairs, each to a query of its own made of the question."""
    sides: tuple[list[Any], list[Any]] = ([], [])
    for seq, pair in enumerate(pairs):
        known = next(message for message in pair if message is not None)
        query = dns.message.Message(id=7)
        query.question = known.question
        for side, message in zip(sides, pair, strict=True):
            side.append(
                (seq, query.to_wire(), b"" if message is None else message.to_wire(want_shuffle=False))
            )
    for name, side, kind in (("before.ra", sides[0], "trace"), ("after.ra", sides[1], "replay")):
        (tmp_path / name).write_bytes(ra_bytes(side, kind))
    return compare(tmp_path / "before.ra", tmp_path / "after.ra", ZONE)


def classes(
    tmp_path: Path, *pairs: tuple[dns.message.Message | None, dns.message.Message | None]
) -> dict[str, int]:
    result = run(tmp_path, *pairs)
    assert sum(row["first"] for row in result["classes"]) == result["differing"]
    assert comparison_text(result)
    return {row["class"]: row["pairs"] for row in result["classes"]}


def test_equal_replies_have_no_class(tmp_path: Path) -> None:
    other_id = reply(COM)
    other_id.id = 9
    result = run(tmp_path, (reply(COM), other_id))
    assert result["classes"] == []
    assert result["equal_bytes"] == {"count": 1, "share": 1.0}
    assert result["flags_equal"]["AA"] == {"count": 1, "share": 1.0}


CASES = [
    (
        "order only",
        reply([(2, "com.", "NS", "b.gtld-servers.net.", "a.gtld-servers.net.")]),
        reply(COM),
        {c.ENCODING},
    ),
    (
        "delegation changed",
        reply([(2, "moved.", "NS", "ns1.old.")], "x.moved."),
        reply([(2, "moved.", "NS", "ns1.new.", "ns2.new.")], "x.moved."),
        {c.DELEGATION},
    ),
    (
        "an NS set that is not the zone's",
        reply([(2, "moved.", "NS", "ns1.old.")], "x.moved."),
        reply([(2, "moved.", "NS", "ns1.new.", "ns3.new.")], "x.moved."),
        {c.UNEXPLAINED},
    ),
    (
        "recorded set is the zone's and the replay's is not",
        reply(COM),
        reply([(2, "com.", "NS", "a.gtld-servers.net.")]),
        {c.UNEXPLAINED},
    ),
    ("signer changed", reply([*COM, DS_OLD]), reply([*COM, DS_NEW]), {c.SIGNER}),
    ("signer left out", reply([*COM, DS_OLD]), reply(COM), {c.UNEXPLAINED}),
    (
        "glue new",
        reply([*COM, (3, "b.gtld-servers.net.", "A", "192.33.14.30")]),
        reply(
            [
                *COM,
                (3, "b.gtld-servers.net.", "A", "192.33.14.30"),
                (3, "b.gtld-servers.net.", "AAAA", "2001:503:231d::2:30"),
            ]
        ),
        {c.GLUE},
    ),
    (
        "glue that is not the zone's",
        reply([*COM, (3, "a.gtld-servers.net.", "A", "192.5.6.30")]),
        reply([*COM, (3, "a.gtld-servers.net.", "A", "192.5.6.31")]),
        {c.UNEXPLAINED},
    ),
    (
        "TLD added",
        reply([SOA_2016], "x.free.", rcode="NXDOMAIN", flags="QR AA"),
        reply([(2, "free.", "NS", "ns.free.")], "x.free."),
        {c.ADDED},
    ),
    (
        "TLD removed",
        reply([(2, "mcd.", "NS", "ns.mcd.")], "x.mcd."),
        reply([SOA_2020], "x.mcd.", rcode="NXDOMAIN", flags="QR AA"),
        {c.REMOVED},
    ),
    (
        "NXDOMAIN for what the zone has",
        reply([(2, "free.", "NS", "ns.free.")], "x.free."),
        reply([SOA_2020], "x.free.", rcode="NXDOMAIN", flags="QR AA"),
        {c.UNEXPLAINED},
    ),
    (
        "apex",
        reply([SOA_2016], "x.nosuch.", rcode="NXDOMAIN", flags="QR AA"),
        reply([SOA_2020], "x.nosuch.", rcode="NXDOMAIN", flags="QR AA"),
        {c.APEX},
    ),
    (
        "a SOA that is not served",
        reply([SOA_2020], "x.nosuch.", rcode="NXDOMAIN", flags="QR AA"),
        reply([SOA_2016], "x.nosuch.", rcode="NXDOMAIN", flags="QR AA"),
        {c.UNEXPLAINED},
    ),
    (
        "signature",
        reply([SOA_2020, SIG_OLD], "x.nosuch.", rcode="NXDOMAIN"),
        reply([SOA_2020, SIG_NEW], "x.nosuch.", rcode="NXDOMAIN"),
        {c.SIGNATURE},
    ),
    (
        "a signature that is not served",
        reply([SOA_2020, SIG_OLD], "x.nosuch.", rcode="NXDOMAIN"),
        reply([SOA_2020, SIG_OTHER], "x.nosuch.", rcode="NXDOMAIN"),
        {c.UNEXPLAINED},
    ),
    (
        "denial",
        reply(
            [SOA_2020, (2, "belk.", "NSEC", "bell. NS RRSIG NSEC")],
            "belkin.",
            rcode="NXDOMAIN",
            flags="QR AA",
        ),
        reply(
            [SOA_2020, (2, "belk.", "NSEC", "bentley. NS RRSIG NSEC")],
            "belkin.",
            rcode="NXDOMAIN",
            flags="QR AA",
        ),
        {c.DENIAL},
    ),
    (
        "child zone",
        reply([(2, "in-addr.arpa.", "NS", "b.in-addr-servers.arpa.")], "1.2.in-addr.arpa.", "PTR"),
        reply([(2, "arpa.", "NS", "a.root-servers.net.")], "1.2.in-addr.arpa.", "PTR"),
        {c.CHILD},
    ),
    (
        "a TLD that is added, but not as the zone has it",
        reply([SOA_2016], "x.free.", rcode="NXDOMAIN", flags="QR AA"),
        reply([(2, "free.", "NS", "ns.other.")], "x.free."),
        {c.UNEXPLAINED},
    ),
    (
        "NXDOMAIN for the end of an alias",
        reply([(1, "x.free.", "CNAME", "y.nosuch."), SOA_2020], "x.free.", rcode="NXDOMAIN", flags="QR AA"),
        reply([(2, "free.", "NS", "ns.free.")], "x.free."),
        {c.UNEXPLAINED},
    ),
    (
        "no data for a name that the zone does not have",
        reply([SOA_2020], "x.belk.", rcode="NXDOMAIN", flags="QR AA"),
        reply([SOA_2020], "x.belk.", flags="QR AA"),
        {c.UNEXPLAINED},
    ),
    (
        "NXDOMAIN for a name above others of the zone",
        reply([SOA_2020], "net.", flags="QR AA"),
        reply([SOA_2020], "net.", rcode="NXDOMAIN", flags="QR AA"),
        {c.UNEXPLAINED},
    ),
    (
        "records are gone whose type is not compared with the zone",
        reply([(1, "a.root-servers.net.", "TXT", "x")], "a.root-servers.net.", "TXT", flags="QR AA"),
        reply([SOA_2020], "a.root-servers.net.", "TXT", flags="QR AA"),
        {c.UNEXPLAINED, c.POLICY},
    ),
    (
        "signatures without what they cover",
        reply([(1, *SIG_NEW[1:]), (1, ".", "RRSIG", "NS 8 0 86400 1 1 1 . AAAA")], ".", "RRSIG"),
        reply([(1, *SIG_NEW[1:])], ".", "RRSIG"),
        {c.UNEXPLAINED},
    ),
    ("truncated", reply(COM, flags="QR TC"), reply(COM), {c.TRUNCATION}),
    ("refused", reply(COM), reply([], rcode="REFUSED"), {c.POLICY}),
    ("not validated", reply(COM), reply([], rcode="SERVFAIL"), {c.FAILURE}),
    ("validated now", reply([], rcode="SERVFAIL"), reply(COM), {c.FAILURE}),
    ("recursion offered", reply(COM), reply(COM, flags="QR RA"), {c.POLICY}),
    ("authority", reply(COM), reply(COM, flags="QR AA"), {c.UNEXPLAINED}),
]


@pytest.mark.parametrize(
    ("before", "after", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_classes(tmp_path: Path, before: Any, after: Any, expected: set[str]) -> None:
    assert set(classes(tmp_path, (before, after))) == expected


@pytest.mark.parametrize(("before", "after"), [case[1:3] for case in CASES], ids=[case[0] for case in CASES])
def test_nothing_is_blamed_on_a_zone_that_both_sides_served(before: Any, after: Any) -> None:
    wires = before.to_wire(), after.to_wire()
    kinds = [
        {one.kind for one in verdicts.findings(*wires, c.Evidence(ZONE, same_zone=same))}
        for same in (False, True)
    ]
    assert (c.UNEXPLAINED in kinds[1]) == bool(kinds[0] & {*c._OF_ZONE, c.UNEXPLAINED})
    assert kinds[1] - {c.UNEXPLAINED} == kinds[0] - {*c._OF_ZONE, c.UNEXPLAINED}


def test_a_name_that_a_wildcard_answers_for_was_not_removed() -> None:
    zone = parse_zone("$ORIGIN example.\n@ SOA ns host 1 2 3 4 5\n@ NS ns\n* A 192.0.2.1\n")
    before = reply([(1, "x.example.", "A", "192.0.2.1")], "x.example.", flags="QR AA")
    after = reply([], "x.example.", rcode="NXDOMAIN", flags="QR AA")
    found = verdicts.findings(before.to_wire(), after.to_wire(), c.Evidence(zone))
    assert {one.kind for one in found} == {c.UNEXPLAINED}


def test_chaos_and_identity(tmp_path: Path) -> None:
    pair = []
    for text in ("one", "two"):
        message = dns.message.make_response(dns.message.make_query("hostname.bind.", "TXT", "CH", id=7))
        message.answer.append(dns.rrset.from_text("hostname.bind.", 0, "CH", "TXT", text))
        pair.append(message)
    with_id = reply(COM)
    with_id.use_edns(0, options=[dns.edns.NSIDOption(b"ns1")])
    without = reply(COM)
    without.use_edns(0)
    assert classes(tmp_path, (pair[0], pair[1]), (with_id, without)) == {c.CHAOS: 2}


def test_missing_answers_and_malformed(tmp_path: Path) -> None:
    found = classes(tmp_path, (None, reply(COM)), (reply(COM), None), (reply(COM), reply(COM)))
    assert found == {c.NO_RECORDED: 1, c.NO_REPLAYED: 1}
    query, whole = reply().to_wire(), reply(COM).to_wire(want_shuffle=False)
    (tmp_path / "a.ra").write_bytes(ra_bytes([(0, query, whole)], "trace"))
    (tmp_path / "b.ra").write_bytes(ra_bytes([(0, query, whole[:-3])]))
    result = compare(tmp_path / "a.ra", tmp_path / "b.ra", ZONE)
    assert [row["class"] for row in result["classes"]] == [c.MALFORMED]
    assert (result["compared"], result["parsed"]) == (1, 0)


def test_referrals_are_judged_by_the_zone_and_not_by_the_replay(tmp_path: Path) -> None:
    broken = reply([(2, "com.", "NS", "a.gtld-servers.net.")])
    moved_before = reply([(2, "moved.", "NS", "ns1.old.")], "x.moved.")
    moved_after = reply([(2, "moved.", "NS", "ns1.new.", "ns2.new.")], "x.moved.")
    result = run(
        tmp_path,
        (reply(COM), reply(COM)),
        (reply(COM), broken),
        (moved_before, moved_after),
        (reply(COM, flags="QR TC"), reply(COM)),
        (reply(COM), None),
        (reply([SOA_2016], "x.nosuch.", rcode="NXDOMAIN", flags="QR AA"),) * 2,
    )["referrals"]
    assert (result["recorded"], result["compared"], result["same_ns_set"]) == (5, 3, 1)
    assert (result["unchanged_delegation"], result["unchanged_same_ns_set"]) == (2, 1)
    assert (result["changed_delegation"], result["changed_answered_as_served"]) == (1, 1)
    assert (result["truncated"], result["no_answer_in_replay"]) == (1, 1)
    assert [item["seq"] for item in result["unchanged_different"]] == [1]


def test_a_delegation_that_drifts_in_the_trace_is_still_explained(tmp_path: Path) -> None:
    old = reply([(2, "moved.", "NS", "ns1.old.")], "x.moved.")
    new = reply([(2, "moved.", "NS", "ns1.new.", "ns2.new.")], "x.moved.")
    result = run(tmp_path, (old, new), (new, new))
    assert [row["class"] for row in result["classes"]] == [c.DELEGATION]
    assert result["referrals"]["owners_drifting"] == 1


def test_a_pair_may_have_two_things_unexplained(tmp_path: Path) -> None:
    changed = reply([(2, "com.", "NS", "a.gtld-servers.net."), SOA_2016], flags="QR AA")
    result = run(tmp_path, (reply(COM), changed))
    assert [one["seq"] for one in result["unexplained"]] == [0] * 3


def test_unexplained_is_listed_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = (reply(COM), reply(COM, flags="QR AA"))
    result = run(tmp_path, *[pair] * 30)
    assert len(result["unexplained"]) == 30
    assert "unexplained, all of them" in comparison_text(result)
    monkeypatch.setattr(verdicts, "MAX_LISTED", 20)
    assert "unexplained, the first 20 of 30" in comparison_text(run(tmp_path, *[pair] * 30))


def test_other_queries_under_the_same_numbers_are_refused(tmp_path: Path) -> None:
    whole = reply(COM).to_wire(want_shuffle=False)
    (tmp_path / "a.ra").write_bytes(ra_bytes([(0, b"xxquery", whole)], "trace"))
    (tmp_path / "b.ra").write_bytes(ra_bytes([(0, b"xxother", whole)]))
    with pytest.raises(ReportError, match="different queries under the same numbers"):
        compare(tmp_path / "a.ra", tmp_path / "b.ra", None)


def test_nothing_in_common_or_no_answers_is_refused(tmp_path: Path) -> None:
    query = reply().to_wire()
    (tmp_path / "a.ra").write_bytes(ra_bytes([(0, query, b"")], "trace"))
    (tmp_path / "b.ra").write_bytes(ra_bytes([(0, query, query)]))
    (tmp_path / "c.ra").write_bytes(ra_bytes([(5, query, query)]))
    a, b, other = (tmp_path / f"{name}.ra" for name in "abc")
    with pytest.raises(ReportError, match="a holds no answers"):
        compare(a, b, None)
    with pytest.raises(ReportError, match="no query in common"):
        compare(b, other, None)


@pytest.mark.parametrize("rest", [b"", b"RPRAHDR1"])
def test_a_file_that_is_cut_off_in_its_header_is_a_problem_of_its_side(tmp_path: Path, rest: bytes) -> None:
    query, whole = reply().to_wire(), reply(COM).to_wire(want_shuffle=False)
    paths = [tmp_path / "a.ra", tmp_path / "b.ra"]
    paths[0].write_bytes(ra_bytes([(0, query, whole)]))
    paths[1].write_bytes(rest)
    side = digested(join("run", paths), None, ZONE, 7)
    result = comparison(of_file(paths[0], ZONE), side, c.Evidence(ZONE))
    assert (result["compared"], result["after"]["problems"]) == (1, ["b.ra: cut off in its header"])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "A subcommand is required; see --help",
            "mutator is older than this report; build it with ./reprise",
        ),
        ("a.ra is damaged; copy it again", "cannot read .*a.ra: a.ra is damaged; copy it again"),
        (
            "cannot write $4: No space left on device; give another",
            "; see whether .* has room, or set TMPDIR",
        ),
    ],
)
def test_what_the_mutator_complains_of(tmp_path: Path, said: str, told: str) -> None:
    (tmp_path / "a.ra").write_bytes(ra_bytes([(0, reply().to_wire(), b"")]))
    program = tmp_path / "reprise-mutator"
    program.write_text(f'#!/bin/sh\necho "reprise-mutator: error: {said}" >&2\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(ReportError, match=told):
        digested(join("a", [tmp_path / "a.ra"]), tmp_path)


def test_a_table_of_an_older_mutator_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ra").write_bytes(ra_bytes([(0, reply().to_wire(), b"")]))
    program = tmp_path / "reprise-mutator"
    program.write_text('#!/bin/sh\nhead -c 80 /dev/zero >"$4"\n')
    program.chmod(0o755)
    with pytest.raises(ReportError, match="mutator is older than this report; build it"):
        digested(join("a", [tmp_path / "a.ra"]), tmp_path)


def test_progress_within_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rows that are written so far."""
    monkeypatch.setattr(sources, "_LOOK_S", 0.1)
    (tmp_path / "a.ra").write_bytes(ra_bytes([(seq, reply().to_wire(), b"") for seq in range(5)]))
    program = tmp_path / "reprise-mutator"
    part = '"$4.partial"'
    steps = f'head -c 152 /dev/zero > {part}; sleep 1; rm {part}; exec {find_program(None)} "$@"'
    program.write_text(f"#!/bin/sh\n{steps}\n")
    program.chmod(0o755)
    seen: list[tuple[int, int]] = []
    told = lambda *one: seen.append(one)  # noqa: E731
    digested(join("a", [tmp_path / "a.ra"]), tmp_path, told=told)
    assert (2, 5) in seen and seen[-1] == (5, 5)


def test_where_the_replay_refers_counts_beside_signatures(tmp_path: Path) -> None:
    """The same answers are those of a child zone for one name and not for the other."""
    before = [(2, "in-addr.arpa.", "NS", "b.in-addr-servers.arpa.")]
    after = [(1, *SIG_NEW[1:]), (2, "arpa.", "NS", "a.root-servers.net.")]
    names = ("1.2.in-addr.arpa.", "www.example.com.")
    alone = [classes(tmp_path, (reply(before, name), reply(after, name))) for name in names]
    assert c.CHILD in alone[0] and c.CHILD not in alone[1]
    both = classes(tmp_path, *((reply(before, name), reply(after, name)) for name in names))
    assert both[c.CHILD] == 1


def test_what_is_held_of_pairs_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within a window; and it changes nothing of the result."""
    pairs = [case[1:3] for case in CASES if case[1].question == case[2].question] * 2
    whole = run(tmp_path, *pairs)
    held, count = [], verdicts.Verdicts.count

    def noted(self: verdicts.Verdicts) -> None:
        held.append(len(self._held))
        count(self)

    monkeypatch.setattr(verdicts, "_KEPT", 3)
    monkeypatch.setattr(verdicts.Verdicts, "count", noted)
    assert run(tmp_path, *pairs) == whole
    assert len(held) > 3 and max(held) < 6


def test_names_are_sought_in_replies_with_damaged_options(tmp_path: Path) -> None:
    """The first of a place may be one."""
    replies = (
        reply([(2, "mcd.", "NS", "ns.mcd.")], "x.mcd."),
        reply([SOA_2020], "x.mcd.", rcode="NXDOMAIN", flags="QR AA"),
        reply([SOA_2016], "y.mcd.", rcode="NXDOMAIN", flags="QR AA"),
    )
    query, denied = (dns.message.make_query(name, "A", id=7).to_wire() for name in ("x.mcd.", "y.mcd."))
    good, gone, denial = (one.to_wire() for one in replies)
    damaged = bytearray(good) + b"\0\0\x29\4\xd0\0\0\0\0\0\4\0\3\0\x09"  # an option longer than its record
    damaged[11] += 1
    before = [(0, query, bytes(damaged)), (1, query, good), (2, denied, denial)]
    after = [(0, query, gone), (1, query, gone), (2, denied, denial)]
    (tmp_path / "a.ra").write_bytes(ra_bytes(before, "trace"))
    (tmp_path / "b.ra").write_bytes(ra_bytes(after))
    result = compare(tmp_path / "a.ra", tmp_path / "b.ra", ZONE)
    assert {row["class"] for row in result["classes"]} == {c.MALFORMED, c.UNEXPLAINED}
