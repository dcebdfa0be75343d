"""Two and more sides: who stands alone, what is printed, and the page."""

import json
import re
from pathlib import Path

import dns.message
import pytest

from report import again
from report.__main__ import main
from report.classify import NO_REPLAYED, UNEXPLAINED, Evidence
from report.differences import alone, answer_text, class_named
from report.errors import ReportError
from report.run import Run
from report.tests.compare_test import CASES, COM, ZONE_TEXT, of_file, reply
from report.tests.writers import Query, ra_bytes, write_run
from report.wire import parse

GLUE = (3, "a.gtld-servers.net.", "A", "192.5.6.30")


def side(folder: Path, name: str, *replies: dns.message.Message | None) -> Path:
    query = dns.message.make_query("www.example.com.", "A", id=7, flags=0).to_wire()
    rows = [
        (seq, query, b"" if one is None else one.to_wire(want_shuffle=False))
        for seq, one in enumerate(replies)
    ]
    path = folder / name
    path.write_bytes(ra_bytes(rows))
    return path


def three(folder: Path) -> list[Path]:
    """All alike; a differs; c has no answer; each differs."""
    plain, glued, gone = reply(COM), reply([*COM, GLUE]), reply(rcode="NXDOMAIN")
    return [
        side(folder, "a.ra", plain, glued, plain, plain),
        side(folder, "b.ra", plain, plain, plain, glued),
        side(folder, "c.ra", plain, plain, None, gone),
    ]


def test_who_stands_alone(tmp_path: Path) -> None:
    sides = [of_file(path, None) for path in three(tmp_path)]
    found, _ = alone(sides, Evidence())
    assert (found["queries"], found["all_alike"], found["otherwise"]) == (4, 1, 1)
    assert [(one["name"], one["queries"]) for one in found["alone"]] == [("a", 1), ("b", 0), ("c", 1)]
    a, _, c = (one["listed"] for one in found["alone"])
    assert [(one["seq"], one["class"]) for one in a] == [(1, UNEXPLAINED)]  # without a zone
    assert a[0]["answer"] == "NOERROR, authority: 2 NS, additional: 1 A"
    assert a[0]["others"] == "NOERROR, authority: 2 NS"
    assert [(one["seq"], one["qname"], one["class"]) for one in c] == [(2, "www.example.com.", NO_REPLAYED)]


def test_what_nobody_answers_is_not_answered_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = reply(COM)
    paths = [side(tmp_path, f"{name}.ra", plain, None, None) for name in "abc"]
    found, _ = alone([of_file(path, None) for path in paths], Evidence())
    assert (found["queries"], found["all_alike"], found["no_answer_on_any_side"]) == (1, 1, 2)
    assert main(["compare", *map(str, paths)]) == 0
    assert "of 1 queries all answer 1 alike" in (told := capsys.readouterr().out)
    assert "with no answer on any side: 2 more" in told


def test_there_are_letters_for_all_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(side(tmp_path, "a.ra", reply(COM)))
    assert main(["compare", *[path] * 27]) == 2
    assert capsys.readouterr().err == (
        "reprise: error: 27 sides, where at most 26 are compared; name fewer\n"
    )


def test_what_is_not_whole_is_told_once_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [side(tmp_path, f"{name}.ra", reply(COM)) for name in "abc"]
    paths[0].write_bytes(paths[0].read_bytes()[:-32])
    page = tmp_path / "page.html"
    assert main(["compare", *map(str, paths), "--html", str(page)]) == 0
    told = "problem: a.ra: cut off: it has no footer"
    assert capsys.readouterr().out.count(told) == page.read_text().count(told) == 1


def test_a_runs_zone_has_its_origin_and_is_blamed_only_where_the_other_side_had_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone = tmp_path / "example.zone"
    zone.write_text("@ SOA ns host 1 2 3 4 5\n@ NS ns\nwww A 192.0.2.2\n")
    runs = [
        run_of(tmp_path / name, reply([(1, "www.example.com.", "A", address)], flags="QR AA"))
        for name, address in (("a", "192.0.2.1"), ("b", "192.0.2.2"))
    ]
    told = json.dumps({"schema": 1, "experiment": {"server": {"zone": str(zone), "origin": "example.com"}}})
    for run, kind in zip(reversed(runs), ("zone data changed", UNEXPLAINED), strict=True):
        (run / "manifest.json").write_text(told)
        assert main(["compare", *map(str, runs), "--json", str(tmp_path / "out.json")]) == 0
        result = json.loads((tmp_path / "out.json").read_text())
        assert result["zone"] == {"origin": "example.com.", "serial": 1}
        assert [row["class"] for row in result["classes"]] == [kind]


def test_different_queries_of_the_same_number_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where two of the runs had other traces that begin alike."""
    paths, other = three(tmp_path), dns.message.make_query("other.example.com.", "A", id=7, flags=0).to_wire()
    query, kept = (
        dns.message.make_query("www.example.com.", "A", id=7, flags=0).to_wire(),
        reply(COM).to_wire(),
    )
    paths[2].write_bytes(ra_bytes([(seq, query if seq < 3 else other, kept) for seq in range(4)]))
    found, _ = alone([of_file(path, None) for path in paths], Evidence())
    assert (found["queries"], found["all_alike"], found["different_query"]) == (3, 2, 1)
    assert main(["compare", *map(str, paths)]) == 0
    assert "not compared: 1 that are different queries" in capsys.readouterr().out
    assert main(["compare", str(paths[0]), str(paths[2])]) == 0
    assert "1 not compared: they are different queries" in capsys.readouterr().out


def test_the_terminal_has_twenty_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = three(tmp_path)
    assert main(["compare", *map(str, paths)]) == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) <= 20
    assert "of 4 queries all answer 1 alike; otherwise, but no side alone: 1" in told
    assert re.search(r"C +no answer in replay +1 +#2 www.example.com. A\n", told)
    assert re.search(r"class of difference +B +C +for example", told)
    assert main(["compare", *map(str, paths), "--all"]) == 0
    assert re.search(
        r"A alone +#1 .+ A in additional gone.+NOERROR, authority: 2 NS\n", capsys.readouterr().out
    )
    assert main(["compare", *map(str, paths[:2])]) == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) <= 20
    assert "4 answers compared: 50.00 % have the same content" in told
    assert main(["compare", *map(str, paths[:2]), "--all"]) == 0
    assert "unexplained, all of them" in capsys.readouterr().out


def test_many_classes_and_sides_have_twenty_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of difference once, and of each side."""
    kinds = [case[1:3] for case in CASES if case[1].question == case[2].question]
    first = side(tmp_path, "a.ra", *(before for before, _ in kinds))
    others = [
        side(
            tmp_path,
            f"{at}.ra",
            *(after if one % 3 == at else before for one, (before, after) in enumerate(kinds)),
        )
        for at in range(3)
    ]
    zone = tmp_path / "zone"
    zone.write_text(ZONE_TEXT)
    assert main(["compare", *map(str, (first, *others)), "--zone", str(zone)]) == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) == 20
    assert re.search(r"further classes +\d+ +\d+ +\d+\n", told)


def test_pairs_of_a_class_are_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = three(tmp_path)
    assert main(["compare", str(paths[0]), str(paths[2]), "--list", "no answer in replay"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("=== #2 www.example.com. A: no answer in replay\n")
    assert "\ncom. 60 IN NS a.gtld-servers.net.\n" in told and told.endswith("no answer\n\n")
    assert class_named("ttl") == "TTL differs" and class_named("order or encoding only")
    with pytest.raises(ReportError, match="names no class"):
        class_named("changed")


def test_the_page_has_both_answers_and_is_whole_without_script(tmp_path: Path) -> None:
    paths, page = three(tmp_path), tmp_path / "page.html"
    assert main(["compare", *map(str, paths), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count('<details class="pair"') == 7
    assert text.count('data-class="C alone"') == 1 and "Who stands alone" in text
    assert "http" not in text.lower().replace("http-equiv", "")
    assert 'data-class="no answer in replay"' in text and "a.gtld-servers.net. 60 IN A 192.5.6.30" in text
    assert "hidden" in re.findall(r'<p id="filters"[^>]*>', text)[0]  # until the script shows them


def test_answers_that_cannot_be_read_are_shown_as_bytes() -> None:
    assert answer_text(b"") == "no answer"
    assert answer_text(b"\1\2\3").startswith("3 bytes that are no message")


def test_names_are_read_as_dnspython_reads_them() -> None:
    """Also those that point back in steps, have dots and bytes in labels, or lead nowhere."""
    odd = reply([(2, "A\\.b\\200.Example.COM.", "NS", "ns1.A\\.b\\200.example.com.", "ns2.example.com.")])
    message = parse(odd.to_wire())
    assert message is not None
    assert message.authority.sets == {
        ("a\\.b\\200.example.com.", "NS"): {"ns1.a\\.b\\200.example.com.", "ns2.example.com."}
    }
    header = bytes(5) + b"\1" + bytes(6)
    for name in (b"\xc0\x0c", b"\x40a\0", b"\x3fabc", b"\1a\xc0\xff", (b"\x3f" + b"a" * 63) * 4 + b"\0"):
        assert parse(header + name + b"\0\1\0\1") is None
    chained = b"\1a\xc0\x0c" * 200
    assert parse(header + chained + b"\0\1\0\1") is None


def run_of(folder: Path, *replies: dns.message.Message | None) -> Path:
    """A run with answers; its queries came over UDP and TCP in turn."""
    write_run(folder, [Query(seq, 0, transport=seq % 2) for seq in range(len(replies))])
    (folder / "sources.csv").write_text("id,address\n0,192.0.2.7\n")
    side(folder, "answers-client1-0.ra", *replies)
    return folder


def test_what_differs_is_asked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, glued, gone = reply(COM), reply([*COM, GLUE]), reply(rcode="NXDOMAIN")
    turned = reply([(2, "com.", "NS", "b.gtld-servers.net.", "a.gtld-servers.net.")])
    first = run_of(tmp_path / "a", plain, plain, plain, plain, plain)
    second = run_of(tmp_path / "b", plain, turned, glued, gone, None)
    later = {first: (plain, plain, None), second: (gone, turned, None)}
    traces = []

    def ask(run: Run, trace: Path) -> Path:
        traces.append(trace.read_text().splitlines())
        return run_of(tmp_path / f"again-{run.folder.name}", *later[run.folder])

    words = ["compare", str(first), str(second), "--again", "--json", str(tmp_path / "out.json")]
    assert main([*words, "--html", str(tmp_path / "page.html")], ask) == 0
    assert traces[0] == traces[1]
    assert [line.split("\t")[:3] for line in traces[0][2:]] == [
        ["0.000", "192.0.2.7", "udp"], ["0.001", "192.0.2.7", "tcp"], ["0.002", "192.0.2.7", "udp"]
    ]  # fmt: skip
    told = json.loads((tmp_path / "out.json").read_text())["again"]
    assert [told[key] for key in ("asked", "differ", "agree", "unanswered")] == [3, 1, 1, 1]
    assert [(one["seq"], one["now"]) for one in told["listed"]] == [(2, UNEXPLAINED), (3, ""), (4, None)]
    page = (tmp_path / "page.html").read_text()
    assert page.count(" · differs again") == page.count(" · agrees now") == 1
    short = capsys.readouterr().out
    assert "3 queries with different answers; 1 differ again, 1 agree now, 1 had no answer" in short
    assert re.search(r"\nunexplained +2 +1 +1 +#3 www.example.com. A: agrees now\n", short)
    assert main([*words, "--all"], ask) == 0
    assert "\nno answer in replay: #4 www.example.com. A: no answer\n" in capsys.readouterr().out


def test_of_very_many_differences_some_are_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each class, and those listed need not have one of each."""
    monkeypatch.setattr(again, "MAX_LISTED", 2)
    plain, glued = reply(COM), reply([*COM, GLUE])
    first = run_of(tmp_path / "a", *[plain] * 5)
    second = run_of(tmp_path / "b", glued, glued, glued, glued, None)

    def ask(run: Run, _trace: Path) -> Path:
        return run_of(tmp_path / f"again-{run.folder.name}", *[plain] * 3)

    assert main(["compare", str(first), str(second), "--again"], ask) == 0
    said = capsys.readouterr().out
    assert "0 differ again, 3 agree now, 0 had no answer; 2 more were not asked\n" in said
    assert re.search(r"\nno answer in replay +1 +0 +1 *\n", said)


def test_only_two_runs_are_asked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = three(tmp_path)[:2]
    assert main(["compare", str(first), str(second), "--again"]) == 2
    assert capsys.readouterr().err == (
        "reprise: error: --again needs two runs; name two folders that `reprise run` wrote\n"
    )
