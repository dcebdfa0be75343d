"""Limits, their verdicts and exit statuses, on written runs."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from report import expect, series
from report.__main__ import main
from report.run import Json
from report.series import FILE
from report.tests.writers import MANIFEST, Query, server_csv, summarized, write_run

MS = 1_000_000


def run_of(folder: Path, latency_ms: float = 1.0, **experiment: Any) -> Path:
    asked = [
        Query(n, n * 10 * MS, n * 10 * MS, latency=int((latency_ms + n / 1000) * MS)) for n in range(300)
    ]
    manifest = {**MANIFEST, "experiment": {**MANIFEST["experiment"], **experiment}}
    write_run(folder, asked, server=server_csv(4), manifest=manifest)
    assert summarized(folder)["clean"]
    return folder


def series_of(folder: Path, latencies: list[float]) -> Path:
    runs = []
    for at, latency in enumerate(latencies):
        run_of(folder / f"run{at}", latency)
        runs.append({"variant": 0, "round": at, "folder": f"run{at}"})
    told = {"schema": 1, "name": "x", "variants": [{}], "runs": runs}
    (folder / FILE).write_text(json.dumps(told), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("limit", "line", "status"),
    [
        ("p99 <= 2 ms", "met: latency_us.p99 is 1.296 ms, wanted <= 2 ms", expect.MET),
        ("p99 <= 1 ms", "missed: latency_us.p99 is 1.296 ms, wanted <= 1 ms", expect.MISSED),
        ("answered >= 99.9 %", "met: answered_share is 100 %, wanted >= 99.9 %", expect.MET),
        ("queries.timed_out < 1", "met: queries.timed_out is 0, wanted < 1", expect.MET),
        ("queries.timed_out<1", "met: queries.timed_out is 0, wanted <1", expect.MET),
        ("duration_s > 1 s", "met: duration_s is 2.991 s, wanted > 1 s", expect.MET),
    ],
)
def test_a_limit_has_a_verdict_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str, line: str, status: int
) -> None:
    folder = run_of(tmp_path / "run")
    capsys.readouterr()
    assert main(["check", str(folder), "--expect", limit]) == status
    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("p99 10 ms", "is no limit; write one such as '<= 10 ms' or '<= 110 % of baseline'"),
        ("p99 <= 10 MB", "MB is no unit of it; its units: us, µs, ms, s"),
        ("p98 <= 10 ms", "'<= 10 ms': ms is no unit of it; leave it out, or name a figure that has units"),
        ("latency_us.p98 <= 10 ms", "such as latency_us.p9"),
        ("<= 10 ms", "expect. = "),
        ("p99 <= 110 % of baseline", "there is no baseline; give --baseline RUN"),
    ],
)
def test_what_is_no_limit_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str, said: str
) -> None:
    folder = run_of(tmp_path / "run")
    capsys.readouterr()
    assert main(["check", str(folder), "--expect", limit]) == expect.USAGE
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and said in told.err


@pytest.mark.parametrize("permille", [9, 26, 104, 950, 999, 1000])
def test_a_share_meets_its_own_limit(permille: int) -> None:
    one = expect.limit("answered", f">= {permille / 10} %")
    assert expect.judge(one, [{"answered_share": permille / 1000}]).state == "met"


def test_a_regression_of_a_fifth_fails_and_equal_builds_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = series_of(tmp_path / "base", [1.0, 1.02, 0.99, 1.01, 1.0])
    same = series_of(tmp_path / "same", [1.01, 0.99, 1.0, 1.02, 1.01])
    worse = series_of(tmp_path / "worse", [1.2, 1.22, 1.19, 1.21, 1.2])
    limit = ("--expect", "median <= 110 % of baseline", "--baseline", str(base))
    assert main(["check", str(same), *limit]) == expect.MET
    assert main(["check", str(worse), *limit]) == expect.MISSED
    assert "missed: latency_us.median is 117.4 % of the baseline's (" in capsys.readouterr().out
    assert (
        main(["check", str(worse), *limit[2:], "--expect", "median <= 118 % of baseline"])
        == expect.NO_VERDICT
    )
    said = capsys.readouterr().out
    assert said.startswith("no verdict: latency_us.median") and "the runs spread over the limit" in said


@pytest.mark.parametrize(
    ("now", "before", "line"),
    [
        (0, 5, "met: queries.timed_out is 0 % of the baseline's"),
        (0, 0, "met: queries.timed_out is 100 % of the baseline's"),
        (5, 0, "missed: queries.timed_out is inf % of the baseline's"),
        (6, 5, "missed: queries.timed_out is 120 % of the baseline's"),
    ],
)
def test_nothing_is_less_than_the_baseline_had_and_more_than_nothing_is_too_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: int, before: int, line: str
) -> None:
    folders = []
    for name, count in (("run", now), ("base", before)):
        folder = run_of(tmp_path / name)
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        summary["queries"]["timed_out"] = count
        (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        folders.append(str(folder))
    capsys.readouterr()
    words = ("--baseline", folders[1], "--expect", "queries.timed_out <= 110 % of baseline")
    assert main(["check", folders[0], *words]) == (expect.MISSED if "missed" in line else expect.MET)
    assert capsys.readouterr().out == f"{line}, wanted <= 110 % of baseline\n"


def test_variants_of_a_series_are_held_against_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = series_of(tmp_path / "all", [1.0, 1.01, 1.2, 1.02, 1.0, 1.21, 0.99, 1.01, 1.19, 1.0, 0.99, 1.22])
    told = json.loads((folder / FILE).read_text(encoding="utf-8"))
    told["variants"] = [{"server.binary": f"/x/{name}"} for name in ("old", "same", "new")]
    for at, run in enumerate(told["runs"]):
        run |= {"variant": at % 3, "round": at // 3}
    (folder / FILE).write_text(json.dumps(told), encoding="utf-8")
    capsys.readouterr()
    words = [
        "check",
        str(folder),
        "--expect",
        "median <= 110 % of baseline",
        "--junit",
        str(tmp_path / "a.xml"),
    ]
    assert main(words) == expect.MISSED
    same, new = capsys.readouterr().out.splitlines()
    assert same.startswith("binary same: met: ") and new.startswith("binary new: missed: ")
    suite = ET.parse(tmp_path / "a.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    assert main(["check", str(folder), "--expect", "median <= 1.2 ms"]) == expect.MISSED
    told_of = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert told_of == ["binary old", "binary same", "binary new"]  # a limit of its own is for each
    assert main([*words[:-2], "--expect", "median <= 1.2 ms"]) == expect.MISSED
    told_of = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert told_of == [
        "binary old",
        *["binary same"] * 2,
        *["binary new"] * 2,
    ]  # also beside one of the baseline


def test_a_variant_without_a_run_has_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = series_of(tmp_path / "all", [1.0])
    told = json.loads((folder / FILE).read_text(encoding="utf-8"))
    told["variants"] = [{"replay.speed": 1}, {"replay.speed": 2}]
    (folder / FILE).write_text(json.dumps(told), encoding="utf-8")
    capsys.readouterr()
    assert main(["check", str(folder), "--expect", "p99 <= 2 ms"]) == expect.NO_VERDICT
    assert "speed 2: no verdict: it has no run yet" in capsys.readouterr().out


def test_a_series_that_was_interrupted_has_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = series_of(tmp_path / "all", [1.0])
    told = json.loads((folder / FILE).read_text(encoding="utf-8"))
    told["runs"].append({"variant": 0, "round": 1, "folder": ""})
    (folder / FILE).write_text(json.dumps(told), encoding="utf-8")
    capsys.readouterr()
    assert main(["check", str(folder), "--expect", "p99 <= 2 ms"]) == expect.NO_VERDICT
    assert "no verdict: it lacks 1 of 2 runs: go on with the series" in capsys.readouterr().out
    variants = series.read(folder)
    assert "1 of 2" in series.as_text(variants, series.lines(variants))


def test_an_unsound_run_has_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_of(tmp_path / "run", expect={"latency_us": {"p99": "<= 2 ms"}, "answered_share": ">= 1"})
    path = folder / "summary.json"
    good: Json = json.loads(path.read_text(encoding="utf-8"))
    assert main(["check", str(folder), "--junit", str(tmp_path / "a.xml")]) == expect.MET
    suite = ET.parse(tmp_path / "a.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "0", "0")
    path.write_text(json.dumps({**good, "clean": False, "unclean_because": ["the server died"]}))
    capsys.readouterr()
    assert main(["check", str(folder), "--busy"]) == expect.NO_VERDICT
    assert capsys.readouterr().out == "no verdict: run is not clean: the server died\n"


def test_a_busy_machine_leaves_no_verdict_on_what_it_spoils(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other figures have theirs; of the baseline, too."""
    folder, base = run_of(tmp_path / "run"), run_of(tmp_path / "base")
    quiet: Json = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    late = {"busy": ["1 % were late"], "busy_spoils": ["timing_error_us", "response_us"]}

    def check(*limits: str, **more: Any) -> int:
        (folder / "summary.json").write_text(json.dumps({**quiet, **more}))
        capsys.readouterr()
        words = [word for one in limits for word in ("--expect", one)]
        return main(
            ["check", str(folder), "--baseline", str(base), "--junit", str(tmp_path / "a.xml"), *words]
        )

    assert check("answered >= 99.9 %", "p99 <= 2 ms", **late) == expect.MET
    assert check("response_us_by_source.median <= 1 us", **late) == expect.NO_VERDICT
    assert re.fullmatch(
        r"no verdict: response_us_by_source.median is \S+ us, wanted <= 1 us; a busy machine affects it "
        r"\(run: 1 % were late\): repeat it on an idle one, or give --busy to judge it all the same\n",
        capsys.readouterr().out,
    )
    assert ET.parse(tmp_path / "a.xml").getroot().get("skipped") == "1"
    assert check("answered >= 99.9 %", "response_us.p99 <= 1 us", **late) == expect.NO_VERDICT
    assert check("answered < 99.9 %", "response_us.p99 <= 1 us", **late) == expect.MISSED
    del quiet["busy_spoils"]  # as in summaries of older versions
    assert check("p99 <= 2 ms", busy=["other programs"]) == expect.NO_VERDICT
    (base / "summary.json").write_text(json.dumps({**quiet, "run": "base", **late}))
    assert check("response_us.p99 <= 5 ms") == expect.MET
    assert check("response_us.p99 <= 500 % of baseline") == expect.NO_VERDICT
    assert "(base: 1 % were late)" in capsys.readouterr().out
    assert check("response_us.p99 <= 1 us", **late) == expect.NO_VERDICT
    assert main(["check", str(folder), "--busy", "--expect", "response_us.p99 <= 1 us"]) == expect.MISSED


def test_there_must_be_something_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_of(tmp_path / "run")
    capsys.readouterr()
    assert main(["check", str(folder)]) == expect.USAGE
    assert "there is nothing to check" in capsys.readouterr().err
