"""Experiments with [repeat] and [sweep]: which runs there are, in which order, and whole series."""

import argparse
import csv
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment import experiment as experiments
from cli.tools import series
from tests import command
from tests.bed import wait_for

QUICK = programs.ROOT / "experiments/quickstart.toml"
SHORT = (
    "synth.duration=0.5",
    "synth.rate=200",
    "synth.clients=20",
    "replay.late_ms=1000",
    "replay.max_lateness_s=20",
)


def _variants(*settings: str) -> list[series.Settings]:
    return series.variants(experiments.load(QUICK, list(settings)))


def test_a_grid_has_every_combination_and_a_list_one_for_each_place() -> None:
    rates, kinds = "sweep.replay.rate=[1000, 2000, 3000]", 'sweep.server.kind=["nsd", "bind"]'
    assert len(_variants(rates, kinds)) == 6
    assert _variants(rates) == [{"replay.rate": rate} for rate in (1000, 2000, 3000)]
    paired = _variants("sweep.replay.rate=[1000, 2000]", kinds, "sweep.mode=list")
    assert paired == [
        {"replay.rate": 1000, "server.kind": "nsd"},
        {"replay.rate": 2000, "server.kind": "bind"},
    ]
    assert _variants("repeat.n=3") == [{}]


def test_files_are_found_from_the_experiment_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all paths: those of the file from its folder, those of `--set` from where the command runs."""
    swept = 'server.zone = ["a.zone", "/b.zone"]\nsynth.names = ["list", ""]\n'
    rules = 'mutate.rule = [[{ kind = "anonymize", key = "@secret" }], []]\n'
    path = tmp_path / "one.toml"
    path.write_text(f'[synth]\n[server]\nzone = "z"\n[sweep]\nmode = "list"\n{swept}{rules}')
    monkeypatch.chdir("/")
    first, second = series.variants(experiments.load(path, []))
    assert (first["server.zone"], second["server.zone"]) == (f"{tmp_path}/a.zone", "/b.zone")
    assert first["synth.names"] == f"{tmp_path}/list" and "synth.names" not in second
    assert first["mutate.rule"][0]["key"] == f"@{tmp_path}/secret"
    given = ['sweep.server.zone=["c.zone", "../d.zone"]', "sweep.synth.names=[5, 6]"]
    assert [one["server.zone"] for one in series.variants(experiments.load(path, given))] == [
        "/c.zone",
        "/d.zone",
    ]


def test_a_variant_may_take_a_file_of_an_earlier_one_and_an_empty_path_is_none(tmp_path: Path) -> None:
    made = _variants("sweep.mode=list", 'sweep.trace=["", "@1/trace.pcap"]', "sweep.replay.speed=[1, 2]")
    assert made == [{"replay.speed": 1}, {"trace": "@1/trace.pcap", "replay.speed": 2}]
    runs = {(0, 0): "first", (1, 0): "", (1, 1): "", (0, 1): "second"}
    assert series._found(made[1], runs, tmp_path)["trace"] == f"{tmp_path}/first/trace.pcap"


def test_tables_are_swept_as_values_are() -> None:
    faults = 'sweep.fault=[[], [{at=1, for=2, loss=0.5}, {at=4, target="server", restart=true}]]'
    rules = 'sweep.mutate.rule=[[{kind="edns", do=true, where={type=["A", "NS"]}}], [{kind="keep", share=5}]]'
    made = _variants(faults, rules)
    found = [experiments.load(QUICK, [*series.words_of(one), *series.ALONE]) for one in made]
    assert [len(one.fault) for one in found] == [0, 0, 2, 2]
    assert [one.mutate.rule[0]["kind"] for one in found if one.mutate] == ["edns", "keep"] * 2
    assert found[0].mutate and found[0].mutate.rule[0]["where"] == {"type": ["A", "NS"]}


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (('sweep.trace=["@1/x", "y"]',), "sweep.trace = '@1/x' in variant 1 names no earlier variant"),
        (("sweep.replay.rate=5",), "sweep.replay.rate is no list of values"),
        (("sweep.replay.rate=[]",), "sweep.replay.rate is no list of values"),
        (("sweep.mode=both", "sweep.replay.rate=[1]"), "sweep.mode = 'both' is unknown"),
        (("sweep.mode=list", "sweep.replay.rate=[1, 2]", "sweep.replay.speed=[1]"), "have different lengths"),
        (("sweep.replay.rat=[1, 2]",), "replay.rat"),
        (("sweep.replay.rate=[-1]",), "replay.rate"),
        (("repeat.n=0",), "repeat.n = 0 is out of range"),
        (("sweep.repeat.n=[1, 2]",), "repeat.n changes no run"),
        (("sweep.title=['a', 'b']",), "title changes no run"),
        (("sweep.trace=['/nowhere/a.pcap']",), "no trace /nowhere/a.pcap"),
        (('sweep.server.kind=["nsd", "bind"]', "server.tcp_idle_timeout_s=300"), "BIND cannot close"),
    ],
)
def test_a_series_that_cannot_be_run_is_one_line(
    tmp_path: Path, settings: tuple[str, ...], what: str
) -> None:
    words = [word for one in settings for word in ("--set", one)]
    done = command.run("run", "quickstart", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and what in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_variant_that_an_inventory_has_no_hosts_for_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "_groups", lambda *_: {})
    options = argparse.Namespace(experiment=QUICK, set=[], inventory=[Path("hosts")])
    with pytest.raises(UsageError, match="needs 1 hosts in group controller, but the inventory has 0"):
        series.check(options, {"topology.clients": 2})


@pytest.mark.parametrize(("count", "rounds"), [(1, 3), (2, 4), (3, 6), (5, 5)])
def test_every_variant_runs_once_a_round_and_none_always_first(count: int, rounds: int) -> None:
    runs = [*series.order(count, rounds)]
    assert all(
        {variant for variant, _ in runs[at : at + count]} == set(range(count))
        for at in range(0, len(runs), count)
    )
    first = Counter(runs[at][0] for at in range(0, len(runs), count))
    assert max(first.values()) <= -(-rounds // count) + 1


@pytest.mark.netns
def test_a_series_that_is_interrupted_goes_on(tmp_path: Path) -> None:
    words = [
        word for one in (*SHORT, 'sweep.server.kind=["nsd", "bind"]', "repeat.n=2") for word in ("--set", one)
    ]
    process = command.start("run", str(QUICK), *words, cwd=tmp_path, log=tmp_path / "log")
    wait_for(lambda: "run 2 of 4" in process.text(), "the second run", 60)
    process.send(signal.SIGINT)
    assert process.wait(60) == 1
    said = process.text()
    assert "the series ended after 1 of 4 runs; go on with: reprise run" in said
    assert said.count("interrupted") <= 1 and "--set repeat.n=2" in said.splitlines()[-1]
    (folder,) = (tmp_path / "results").iterdir()
    words += ["--set", "expect={answered='>= 1 %'}"]
    fewer = (*words, "--set", 'sweep.server.kind=["bind"]', "--resume", str(folder))
    other = command.run("run", str(QUICK), *fewer, cwd=tmp_path)
    assert other.returncode == 2 and "has other variants than this experiment" in other.stderr
    faster = (*words, "--set", "replay.speed=2", "--resume", str(folder))
    other = command.run("run", str(QUICK), *faster, cwd=tmp_path)
    assert other.returncode == 2 and "has other settings than this experiment" in other.stderr
    done = command.run("run", str(QUICK), *words, "--resume", str(folder), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "run 1 of 4" not in done.stderr and "run 4 of 4" in done.stderr
    assert "kind bind against kind nsd:" in done.stdout and "too few runs to tell" in done.stdout
    assert done.stdout.count(": met: answered_share is ") == 2
    more = (*words, "--set", "expect={answered='> 100 %'}", "--resume", str(folder))
    missed = command.run("run", str(QUICK), *more, cwd=tmp_path)
    assert missed.returncode == 1 and "kind bind: missed: answered_share is " in missed.stdout
    told = json.loads((folder / "series.json").read_text(encoding="utf-8"))
    assert [one["variant"] for one in told["runs"]] == [0, 1, 1, 0]
    with (folder / "series.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["server.kind"] for row in rows) == {"nsd": 2, "bind": 2}
    for row in rows:
        summary = json.loads((folder / row["run"] / "summary.json").read_text(encoding="utf-8"))
        assert float(row["latency_us.p99"]) == summary["latency_us"]["p99"]
        assert row["clean"] == "True"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "What differs from kind nsd" in page and "<summary>kind bind</summary>" in page
    assert 'data-label="connections as configured"' in page  # what the servers ran with
    assert page.count("<h1>Quickstart: a synthetic root-like trace</h1>") == 1
    again = command.run("report", str(folder), cwd=tmp_path)
    assert again.returncode == 0 and "kind bind against kind nsd:" in again.stdout


def test_a_folder_that_is_no_series_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no series"):
        series._resumed(tmp_path, experiments.load(QUICK, []), [{}], series.order(1, 1))
