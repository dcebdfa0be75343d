"""The studies of experiments/papers: that they are whole, and what `reprise papers` does with them."""

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import RepriseError, UsageError
from cli.experiment import experiment as experiments
from cli.plan import facts
from cli.tools import papers, papers_run, series
from cli.tools.needs_test import needs_of
from report import series as reports
from report.errors import ReportError
from report.papers import book, found
from report.papers.book import FULL, QUICK, Study

STUDIES = book.studies()
REPLAYED = [one for one in STUDIES if not one.traces]
NAMES = [one.name for one in REPLAYED]


def test_the_quick_profile_takes_the_minutes_that_it_may() -> None:
    minutes = [figure.minutes for study in STUDIES for figure in study.figures]
    assert max(minutes) <= 12
    assert sum(minutes) <= papers.MOST_MINUTES
    assert f"{sum(minutes):g} minutes in all" in papers.listed(STUDIES, None)


@pytest.mark.parametrize("profile", [QUICK, FULL])
@pytest.mark.parametrize("study", REPLAYED, ids=NAMES)
def test_a_study_has_a_label_for_each_variant(study: Study, profile: str) -> None:
    for real in (False, True):
        asked = study.settings(profile, real)
        experiment = experiments.load(study.path, asked)
        assert len(study.labels(profile, real)) == len(series.variants(experiment))
        for variant in series.variants(experiment):
            settings = [*asked, *series.words_of(variant), *series.ALONE]
            facts.check_kinds(experiments.load(study.path, settings))


@pytest.mark.parametrize("profile", [QUICK, FULL])
def test_variants_have_their_names_on_the_page_of_the_series(tmp_path: Path, profile: str) -> None:
    study = book.find("codns-22", STUDIES)
    experiment = experiments.load(study.path, study.settings(profile))
    series.note(tmp_path, experiment, series.variants(experiment), {})
    assert [one.label for one in reports.read(tmp_path)] == study.labels(profile)


@pytest.mark.parametrize("study", REPLAYED, ids=NAMES)
def test_trials_and_warm_up_are_those_that_were_published(study: Study) -> None:
    quick, full = (experiments.load(study.path, study.settings(one)) for one in (QUICK, FULL))
    of_timing = {"ldplayer-6", "ldplayer-7", "ldplayer-8"} & {one.name for one in study.figures}
    assert (quick.repeat.n if quick.repeat else 1) == (2 if of_timing else 1)
    assert (full.repeat.n if full.repeat else 1) == (5 if of_timing else 3)
    short = study.told["paper"] == "statelessTCP"  # a steady load from the beginning
    assert (quick.sample.warmup_s, full.sample.warmup_s) == (2 if short else 20, 20)


@pytest.mark.parametrize("study", REPLAYED, ids=NAMES)
def test_a_study_takes_the_minutes_that_it_states(study: Study) -> None:
    """Each run with 8 s to begin and to end."""
    one = experiments.load(study.path, [])
    runs = len(series.variants(one)) * (one.repeat.n if one.repeat else 1)
    seconds = one.replay.duration_s or (one.synth or {})["duration"]
    assert runs * (seconds + 8) / 60 <= sum(figure.minutes for figure in study.figures)


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_published_rows_are_of_variants_that_there_are(study: Study) -> None:
    known = set(study.traces)
    for profile in (QUICK, FULL):
        known |= {*study.labels(profile), *study.labels(profile, real=True)}
    rows = book.published(study, study.labels(QUICK))
    assert {row.figure for row in rows} == {figure.name for figure in study.figures}
    for row in rows:
        assert {row.variant, row.over or row.variant} <= known, row
        assert row.only == "told" or (row.value is None) == (row.tolerance is None), row
        assert row.value is not None or row.only == "told", row
        assert row.section and row.what and row.measure, row


def test_a_list_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "B-Root-16.pcap.xz").touch()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(programs, "find", lambda name: None if name in ("nsd", "pdns_server") else name)
    lines = {line.split()[0]: line for line in papers.listed(STUDIES, tmp_path).splitlines()}
    assert "B-Root-16  no: root, for the capture, nsd (apt-get install nsd)" in lines["ldplayer-8"]
    assert "synthetic  no: nsd" in lines["ldplayer-11"]
    assert "B-Root-16  yes" in lines["ldplayer-table-1"]
    assert any("pdns_server (apt-get install pdns-server)" in line for line in lines.values())  # swept


def test_what_is_no_figure_and_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no figure ldplayer-5") as caught:
        papers_run.command_run(options_of(["ldplayer-5"], tmp_path))
    assert "use one of codns-21, codns-22, ldplayer-6, ldplayer-7" in caught.value.hint
    with pytest.raises(UsageError, match="no folder"):
        papers_run.command_run(options_of(["ldplayer-8"], tmp_path, traces=tmp_path / "none"))


def test_a_study_of_arrivals_keeps_the_times_of_its_trace(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"replay\.speed changes when queries are due"):
        papers_run.command_run(options_of(["ldplayer-8"], tmp_path, set=["replay.speed=2"]))
    assert not (tmp_path / "papers").exists()
    (study,) = [one for one in STUDIES if one.name == "ldplayer-10"]
    _, told = papers_run._asked(study, options_of([], tmp_path, set=["replay.speed=2"]))
    assert told["study"] == study.name


def test_figures_need_what_their_runs_need() -> None:
    assert "reprise-proxy" in needs_of(["papers", "run", "ldplayer-12"]).targets
    assert "capture" in needs_of(["papers", "run", "--full", "ldplayer-8", "-o", "x"]).sections
    fronts = needs_of(["papers", "run", "statelesstcp-4"])
    assert "reprise-proxy" in fronts.targets and {"bind", "packet"} <= {*fronts.sections}
    assert "bind" in needs_of(["papers", "run", "ldplayer-9", "--set", "server.kind=bind"]).sections
    assert "hierarchy" in needs_of(["papers", "run", "ldplayer-recursive"]).sections
    assert {"bind", "knot", "pdns"} <= set(needs_of(["papers", "run", "ldplayer-what-if"]).sections)
    assert needs_of(["papers", "list"]).targets == ("reprise-mutator",)


def options_of(figures: Sequence[str], output: Path, **more: Any) -> argparse.Namespace:
    given = {
        "step": "run",
        "figures": figures,
        "output": output,
        "full": False,
        "resume": False,
        "set": [],
        "traces": None,
    }
    return argparse.Namespace(**{**given, **more})


def traces_only(folder: Path) -> Study:
    """A study of two short traces."""
    path = folder / "ldplayer-table-1.toml"
    path.write_text(
        '[paper]\n[paper.figures]\nldplayer-table-1 = { title = "T", minutes = 1 }\n'
        '[paper.traces.syn-2]\nprofile = "syn-2"\n[paper.traces.Rec-17]\nprofile = "recursive"\n'
        "[paper.quick]\nsyn-2 = { duration = 10 }\nRec-17 = { duration = 10 }\n"
    )
    return next(one for one in book.studies(folder) if one.path == path)


def test_traces_are_counted_made_or_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, traces = traces_only(tmp_path), tmp_path / "traces"
    traces.mkdir()
    (traces / "mine.tsv").write_text(
        "#reprise-text 1\ntime\tsource\tname\ttype\n1\t192.0.2.1\t.\tNS\n3\t192.0.2.2\t.\tNS\n"
    )
    assert papers_run.run([study], [study], options_of(["all"], tmp_path, traces=traces)) == 0
    said = capsys.readouterr()
    assert "Rec-17 is not in" in said.err
    assert "warning: ldplayer-table-1: Rec-17 is not in" in said.out
    told = {one.cells[0]: one for one in found.judge(found.read(study, tmp_path / "papers"))}
    assert told["syn-2: gap, mean"].state == found.HOLDS
    assert told["syn-2: records"].state == found.DIFFERS  # 1,000 of 360,000
    assert told["mine: gap, mean"].measured == "2,000,000 µs"
    assert told["mine: records"].cells[1:3] == ["–", "2"]


def test_a_trace_that_is_cut_is_counted_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, traces = traces_only(tmp_path), tmp_path / "traces"
    traces.mkdir()
    made = [programs.own("reprise-mutator"), "synth", "--profile", "syn-2", "--duration", "1"]
    subprocess.run([*made, "--to", "stream", "-o", str(tmp_path / "whole")], check=True)
    (traces / "mine.rps").write_bytes((tmp_path / "whole").read_bytes()[:-1])
    assert papers_run.run([study], [study], options_of(["all"], tmp_path, traces=traces)) == 1
    for words in capsys.readouterr():
        assert f"warning: {traces}/mine.rps was not read whole" in words
    assert "mine" in found.read(study, tmp_path / "papers").runs


def test_what_ended_early_is_reported_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = traces_only(tmp_path)
    own, killed = programs.own, tmp_path / "killed"
    killed.write_text(
        f'#!/bin/sh\n[ $1 = info ] && exec {own("reprise-mutator")} "$@"\n'
        f'{own("reprise-mutator")} "$@" 2>/dev/null | head -c 9999\nkill -KILL $$\n'
    )
    killed.chmod(0o755)
    monkeypatch.setattr(programs, "own", lambda name: str(killed))
    with pytest.raises(RepriseError, match="trace syn-2 was not made: signal SIGKILL") as caught:
        papers_run.run([study], [study], options_of(["all"], tmp_path))
    command = f"reprise papers run ldplayer-table-1 -o {tmp_path} --resume"
    assert caught.value.hint == f"correct the study's options or make room, then go on with: {command}"
    assert "not run yet" in capsys.readouterr().out
    monkeypatch.setattr(programs, "own", own)
    with pytest.raises(UsageError, match="begun with other options") as refused:
        papers_run.run([study], [study], options_of(["all"], tmp_path, resume=True, full=True))
    assert refused.value.hint == f"go on with: {command}; or leave --resume out"
    assert papers_run.run([study], [study], options_of(["all"], tmp_path, resume=True)) == 0
    (folder,) = (one for one in (tmp_path / "papers").iterdir() if one.is_dir())
    assert {one.stem for one in folder.glob("*.json")} == {"study", "syn-2", "Rec-17"}


@pytest.mark.slow
@pytest.mark.netns
def test_a_figure_runs_to_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = book.find("ldplayer-8", STUDIES)
    wanted = ["repeat.n=1", "synth.duration=4", "synth.rate=500", "sample.warmup_s=1", "replay.late_ms=1000"]
    papers_run.run([study], [study], options_of(["ldplayer-8"], tmp_path, set=wanted))
    (folder,) = (tmp_path / "papers").glob("ldplayer-8-*")
    told = json.loads((folder / found.FILE).read_text(encoding="utf-8"))
    assert told["command"].endswith(f"--set replay.late_ms=1000 -o {tmp_path}")
    runs = found.read(study, tmp_path / "papers").runs
    assert [len(runs[label]) for label in study.labels(QUICK)] == [1, 1]
    for label in study.labels(QUICK):
        arrival = runs[label][0]["arrival"]
        assert "problem" not in arrival
        assert (arrival["missing"], arrival["seconds"] + arrival["steal_seconds"]) == (0, 2)
    assert (folder / "plots/ldplayer-8-arrival-rate.pdf").is_file()
    assert "ldplayer-8: Rate of each second" in capsys.readouterr().out
