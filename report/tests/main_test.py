"""The commands on written runs: files, exit status, one-line errors; pages and plots are whole."""

import gzip
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import dns.message
import dns.rrset
import pytest

from report import html
from report.__main__ import main
from report.sources import find_program
from report.tests.writers import (
    MANIFEST,
    Query,
    controller_json,
    ra_bytes,
    server_csv,
    summarized,
    write_run,
)

MS = 1_000_000
PLOTS = {
    "rate",
    "timing-cdf",
    "timing-time",
    "latency",
    "slowest",
    "response-time",
    "rcodes",
    "unanswered",
    "server-cpu",
    "server-memory",
    "kernel-memory",
    "connections",
}
ZONE = "@ SOA a. b. 1 2 3 4 5\n@ NS a.\ncom. NS ns.com.\nns.com. A 192.0.2.1\n"


def run_of(folder: Path, count: int = 500, title: str = "A test") -> Path:
    queries = [
        Query(n, n * 10 * MS, n * 10 * MS + n * 100, transport=n % 2, rcode=3 * (n % 3)) for n in range(count)
    ]
    experiment = {**MANIFEST["experiment"], "title": title}
    return write_run(folder, queries, server=server_csv(6), manifest={**MANIFEST, "experiment": experiment})


def referral(seq: int) -> tuple[int, bytes, bytes]:
    query = dns.message.make_query(f"n{seq}.com.", "A", id=seq)
    reply = dns.message.make_response(query)
    reply.authority.append(dns.rrset.from_text("com.", 60, "IN", "NS", "ns.com."))
    return seq, query.to_wire(), reply.to_wire()


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().err
    assert text.startswith("reprise: error: ")
    assert text.count("\n") == 1
    assert "; " in text
    return text


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its report, which tests only read."""
    run = run_of(tmp_path_factory.mktemp("reported") / "run", title="<script>alert(1)</script>")
    assert main(["report", str(run)]) == 0
    return run


def test_report_is_self_contained_and_escaped(reported: Path) -> None:
    page = (reported / "report.html").read_text()
    script = (html.TEMPLATES / "page.js").read_text()
    assert page.count("<script") == 1 and f"<script>\n{script}" in page and "</" not in script
    assert "&lt;script&gt;" in page
    outside = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?(?!#|http://www\.w3\.org)([^"\'>\s)]+)', page)
    assert outside == []
    assert {path.stem for path in (reported / "plots").glob("*.svg")} == PLOTS
    assert {path.stem for path in (reported / "plots").glob("*.png")} == PLOTS


def test_inline_plots_share_no_ids_and_their_references_resolve(reported: Path) -> None:
    page = (reported / "report.html").read_text()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert {one or other for one, other in used} <= set(ids)


def test_plots_are_xml_and_deterministic(reported: Path, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in (reported / "plots").iterdir()}
    for path in (reported / "plots").glob("*.svg"):
        ET.parse(path)
    again = run_of(tmp_path / "run")
    assert main(["report", str(again)]) == 0
    assert {path.name: path.read_bytes() for path in (again / "plots").iterdir()} == first


def test_an_empty_run_says_so_in_its_plots(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [], controller=controller_json(0))
    assert main(["report", str(run)]) == 0
    assert "no query reached a querier" in (run / "plots" / "rate.svg").read_text()
    assert "the server was not sampled" in (run / "report.html").read_text()


@pytest.mark.usefixtures("unrendered")
def test_an_unclean_run_says_why_first(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    (run / "manifest.json").write_text(json.dumps({**MANIFEST, "server_died": "nsd: killed"}))
    assert main(["report", str(run)]) == 1
    page = (run / "report.html").read_text()
    assert page.index("the server died: nsd: killed") < page.index("<h2>Answers</h2>")


@pytest.mark.usefixtures("unrendered")
def test_what_the_trace_lacks_stands_at_the_top(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    told = json.loads((run / "controller.json").read_text())
    told["reader"]["notes"] = ["cut_packet 5 (50.0 %): <so>"]
    (run / "controller.json").write_text(json.dumps(told))
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert page.index("Of the trace: cut_packet 5 (50.0 %): &lt;so&gt;") < page.index("<h2>Answers</h2>")


@pytest.mark.usefixtures("unrendered")
def test_several_runs_are_set_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run_of(tmp_path / name) for name in ("one", "two.partial")]
    assert main(["report", *map(str, runs)]) == 0
    assert re.search(r"\n +one +two\n", capsys.readouterr().out)
    assert "Side by side" in (tmp_path / "comparison.html").read_text()
    assert (tmp_path / "comparison.plots/slowest.png").exists()
    assert main(["report", "--pdf", *map(str, sorted(tmp_path.iterdir()))]) == 0  # with these among them
    assert (tmp_path / "comparison.plots/slowest.pdf").exists()
    assert (tmp_path / "one/plots/slowest.pdf").exists()
    (tmp_path / "two.partial/manifest.json").unlink()
    assert main(["report", *map(str, runs)]) == 1


def test_a_comparison_of_two_runs_leaves_that_with_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run_of(tmp_path / name, 1) for name in ("one", "two")]
    for run in runs:
        (run / "answers-client1-0.ra").write_bytes(ra_bytes([referral(0)]))
        (run / "compare.json").write_text('{"schema": 1}')
    assert main(["compare", *map(str, runs)]) == 0
    assert "not saved: a run's compare.json compares the run with its trace" in capsys.readouterr().out
    assert [(run / "compare.json").read_text() for run in runs] == ['{"schema": 1}'] * 2


@pytest.mark.usefixtures("unrendered")
def test_compare_of_a_run_with_recorded_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path / "run", 3)
    (run / "answers-client1-0.ra").write_bytes(ra_bytes([referral(seq) for seq in range(3)]))
    recorded = tmp_path / "recorded.ra"
    recorded.write_bytes(ra_bytes([referral(seq) for seq in range(3)], "trace"))
    zone = tmp_path / "zone"
    zone.write_text(ZONE)
    out = tmp_path / "out.json"
    assert summarized(run)["clean"]
    # The recorded side comes first, however the two are named.
    assert main(["compare", str(run), str(recorded), "--zone", str(zone), "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["before"]["kind"] == "trace"
    assert result["referrals"]["unchanged_delegation"] == result["referrals"]["unchanged_same_ns_set"] == 3
    assert json.loads((run / "compare.json").read_text()) == result
    assert "no difference" in capsys.readouterr().out
    assert "delegation unchanged" in (run / "report.html").read_text()
    # A zone that was not kept whole is none that both served.
    (run / "zone.gz").write_bytes(gzip.compress(ZONE.encode())[:20])
    assert main(["compare", str(run), str(run), "--zone", str(zone)]) == 0
    capsys.readouterr()
    assert main(["compare", str(run), str(run)]) == 1
    assert "cannot read the zone" in error_of(capsys)


def test_compare_reads_a_trace_through_the_mutator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's part is taken by a script, since what is tested is how it is called and how its error is
    passed on.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    recorded = tmp_path / "recorded.ra"
    recorded.write_bytes(ra_bytes([referral(0)], "trace"))
    trace = tmp_path / "trace.pcap"
    trace.write_bytes(b"\xd4\xc3\xb2\xa1")
    program = programs / "reprise-mutator"
    program.write_text(
        f'#!/bin/sh\n[ "$1 $3 $5 $6" = "answers -o --port 5353" ] && exec cp {recorded} "$4"\n'
        f'echo "$4" >{tmp_path}/where\n[ "$1" = digests ] && exec {find_program(None)} "$@"\nexit 2\n'
    )
    program.chmod(0o755)
    run = run_of(tmp_path / "run", 1)
    (run / "answers-client1-0.ra").write_bytes(ra_bytes([referral(0)]))
    experiment = {"trace": str(trace), "replay": {"ports": [5353]}}
    (run / "manifest.json").write_text(json.dumps({**MANIFEST, "experiment": experiment}))
    for given, place in ("", "/var/tmp"), (str(tmp_path), str(tmp_path)):
        monkeypatch.setenv("TMPDIR", given)
        assert main(["compare", str(run), "--programs", str(programs)]) == 0
        assert (tmp_path / "where").read_text().startswith(f"{place}/reprise-compare-")
    assert json.loads((run / "compare.json").read_text())["before"]["problems"] == []
    program.write_text(
        f'#!/bin/sh\n[ "$1" = digests ] && exec {find_program(None)} "$@"\n'
        f'echo "reprise-mutator: $2: it ends in a packet; the rest" >&2; cp {recorded} "$4"; exit 1\n'
    )
    assert main(["compare", str(run), "--programs", str(programs)]) == 0
    problem = f"{trace}: it ends in a packet; the rest"
    assert json.loads((run / "compare.json").read_text())["before"]["problems"] == [problem]
    assert f"problem: {problem}" in capsys.readouterr().out
    written = (run / "compare.json").stat().st_mtime_ns
    access = os.access
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
        assert main(["compare", str(run), "--programs", str(programs)]) == 0
    assert (run / "compare.json").stat().st_mtime_ns == written
    assert f"you may not write to {run}; --json FILE saves" in capsys.readouterr().out
    program.write_text("#!/bin/sh\necho 'reprise-mutator: error: it is empty; record again' >&2\nexit 1\n")
    capsys.readouterr()
    assert main(["compare", str(run), "--programs", str(programs)]) == 1
    assert "it is empty; record again" in error_of(capsys)


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["compare", "run"], 1, "holds no answers"),
        (["compare", "some.ra"], 2, "is compared with nothing"),
        (["compare", "some.ra", "some.ra", "--json", "none/it.json"], 2, "its folder is not there"),
        (["compare", "some.ra", "trace", "--programs", "."], 1, "is not built"),
        (["compare", "some.ra", "some.ra", "--zone", "trace"], 1, "not a zone file"),
        (["compare", "some.ra", "some.ra", "--zone", "none"], 2, "cannot read the zone"),
    ],
)
def test_errors_are_one_line_with_a_hint(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    run_of(tmp_path / "run", 3)
    (tmp_path / "some.ra").write_bytes(ra_bytes([referral(0)]))
    (tmp_path / "trace").write_bytes(b"no zone, no trace")
    assert main(arguments) == status
    assert expected in error_of(capsys)


def test_usage_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert main(["--help"]) == 0
    capsys.readouterr()


@pytest.mark.usefixtures("unrendered")
def test_settings_that_were_given_come_before_defaults(tmp_path: Path) -> None:
    """Each setting once; a run that does not say which were given has all together."""
    experiment = {
        **MANIFEST["experiment"],
        "synth": {"rate": 7},
        "replay": {"speed": 2, "timeout_s": 5.0, "answers": False},
        "sample": {"warmup_s": 1},
    }
    for name, given in (("new", ["server.kind", "replay.speed"]), ("old", [])):
        manifest = {**MANIFEST, "experiment": experiment, "given": given}
        run = write_run(tmp_path / name, [Query(0, 0)], manifest=manifest)
        assert main(["report", str(run)]) == 0
        folds = re.findall(r"<details><summary>.*?</details>", (run / "report.html").read_text(), re.DOTALL)
        shown = [dict(re.findall(r'<th scope="row">([^<]+)</th><td>([^<]+)</td>', fold)) for fold in folds]
        if not given:
            assert len(folds) == 1 and {"kind", "speed", "timeout [s]", "warmup [s]"} <= shown[0].keys()
            continue
        first, rest = shown
        assert "that the experiment gives" in folds[0] and "Settings that have their defaults" in folds[1]
        assert (first["kind"], first["speed"]) == ("nsd", "2") and "commit" in first
        assert (rest["timeout [s]"], rest["answers"], rest["warmup [s]"]) == ("5.0", "no", "1")
        assert not first.keys() & rest.keys() and "rate" not in {**first, **rest}  # the trace was played


@pytest.mark.usefixtures("unrendered")
def test_the_page_tells_of_failed_connections(tmp_path: Path) -> None:
    queries = [Query(0, 0, 0, 3 * MS, transport=2, marks=2, connect=MS)]
    stats = {"connections": {"opened": 2, "failed": 1}, "failures": {"certificate <has> expired": 1}}
    run = write_run(tmp_path / "tls", queries, controller=controller_json(1, answered=1), stats=stats)
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text("utf-8")
    for words in ("<h2>Connections</h2>", "certificate &lt;has&gt; expired", "to connect over tls"):
        assert words in page


@pytest.mark.usefixtures("unrendered")
def test_the_page_names_servers_once_and_says_where_a_setting_is_cut(tmp_path: Path) -> None:
    experiment = {
        "server": {"kind": "hierarchy", "config": "x" * 301},
        "hierarchy": {"resolver": ["bind"] * 3},
    }
    manifest = {**MANIFEST, "experiment": experiment, "versions": {"bind": "BIND 9.18.1 (Extended)"}}
    folder = write_run(tmp_path / "run", [Query(seq=0, due=0, sent=0)], manifest=manifest)
    main(["report", str(folder)])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '<p class="under">BIND 9.18.1 · ' in page
    assert f">{'x' * 300}…<" in page


def test_sources_of_a_damaged_list_take_no_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "run", [Query(at, 0, source=at) for at in range(2)])
    (folder / "sources.csv").write_text("id,address\n0,192.0.2.7\n99999999999,192.0.2.8\n")
    assert main(["export", str(folder), "--csv"]) == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert ",0,192.0.2.7," in first and ",1,,,," in second


def test_names_of_generated_queries_are_absolute_as_all_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = {**MANIFEST, "experiment": {"generate": {"name": "www.example.com", "type": "a"}}}
    folder = write_run(tmp_path / "run", [Query(seq=0, due=0, sent=0)], manifest=manifest)
    assert main(["export", str(folder), "--csv"]) == 0
    assert ",www.example.com.,A," in capsys.readouterr().out
