"""Records as a table: equal to the summary, with the names that were asked, read by DuckDB as documented."""

import csv
import os
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cli import programs
from report.__main__ import main
from report.run import Run
from report.tests.record import EXPERIMENTS
from report.tests.runs_test import folder_of
from report.tests.writers import Query, summarized, write_run
from tests.bed import synth
from tests.command import run as command
from tests.desk import furnish, run
from tests.slow import slow
from tests.small_disk import small_disk

PAGE = programs.ROOT / "docs/export.md"


def ask(table: Path, query: str) -> list[tuple[Any, ...]]:
    """What DuckDB says of it."""
    return duckdb.connect().sql(query.replace("RUN", f"'{table}'")).fetchall()


def exported(folder: Path) -> Path:
    target = folder.with_suffix(".parquet")
    assert main(["export", str(folder), "--parquet", "-o", str(target)]) == 0
    return target


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_totals_are_those_of_the_summary(name: str, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path)
    summary = summarized(folder)
    table, queries = exported(folder), summary["queries"]
    by_status = dict(ask(table, "SELECT status, count(*) FROM RUN GROUP BY status"))
    for status in ("answered", "timed_out", "send_failed", "connection_failed"):
        assert by_status.get(status, 0) == queries[status]
    by_rcode = ask(table, "SELECT rcode, count(*) FROM RUN WHERE rcode IS NOT NULL GROUP BY rcode")
    assert dict(by_rcode) == summary["rcode"]
    assert ask(
        table,
        """SELECT count(sent_s), quantile_disc(latency_us, 0.5), max(response_us),
        count(*) FILTER (truncated), count(*) FILTER (opened), sum(reply_size),
        count(DISTINCT source), count(*) - count(source) FROM RUN""",
    ) == [
        (
            queries["sent"],
            summary["latency_us"]["median"],
            summary["response_us"]["max"],
            summary["truncated"],
            summary["connections"]["opened"],
            summary["reply_bytes"],
            summary["sources"],
            0,
        )
    ]
    means = "SELECT avg(response_us) AS mean FROM RUN GROUP BY source_id"
    ((median,),) = ask(table, f"SELECT quantile_disc(mean, 0.5) FROM ({means})")
    assert median == pytest.approx(summary["response_us_by_source"]["median"], abs=0.002)


@pytest.mark.netns
def test_names_are_those_that_were_asked_and_recipes_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """From the played file, where rules dropped and renamed queries, the same as from the kept queries."""
    desk = furnish(tmp_path, synth(tmp_path / "made.pcap", "--rate=800", "--duration=2"))
    rules = "mutate.rule=[{kind='name',prefix='x'},{kind='keep',where={type='A'}}]"
    settings = ("replay.answers=true", "replay.from=0.5", "replay.until=1.5")
    ended = run(desk, rules, "mutate.keep=true", *settings)
    (folder,) = ended.results
    queries = ended.summary()["queries"]
    asked = "SELECT qname, qtype, latency_us FROM RUN"
    kept = ask(exported(folder), asked)
    for path in Run(folder).answer_paths:
        path.unlink()
    played = ask(exported(folder), asked)
    assert kept == played and len(kept) == queries["sent"] > 50
    assert all(name.startswith("x.") and kind == "A" for name, kind, _ in kept)

    assert main(["export", str(folder), "--csv"]) == 0
    rows = list(csv.DictReader(capfd.readouterr().out.splitlines()[-len(kept) - 1 :]))
    assert [row["qname"] for row in rows] == [name for name, _, _ in kept]
    assert [float(row["latency_us"]) for row in rows] == pytest.approx([one for *_, one in kept], rel=1e-3)

    exported(folder).rename(tmp_path / "runs.parquet")
    monkeypatch.chdir(tmp_path)
    recipes = re.findall(
        r"^    ((?:WITH|SELECT) .+?;)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(recipes) == 6
    answers = [duckdb.connect().sql(one).fetchall() for one in recipes]
    assert sum(row[1] for row in answers[0]) == queries["answered"]
    assert all(answers)

    (folder / "trace.rps").unlink()
    assert ask(exported(folder), "SELECT count(qname) FROM RUN") == [(0,)]
    assert "no names and types: its trace" in capfd.readouterr().err
    shutil.rmtree(folder)
    (folder,) = (one for one in run(desk, rules, *settings).results if one.is_dir())
    assert ask(exported(folder), asked) and not (folder / "trace.rps").exists()
    for path in Run(folder).answer_paths:
        path.unlink()
    assert ask(exported(folder), "SELECT count(qname) FROM RUN") == [(0,)]
    assert "no names and types: rules changed its trace as it was played" in capfd.readouterr().err


@pytest.mark.netns
@pytest.mark.parametrize(
    "settings", [("replay.sample_sources=0.5",), slow(("replay.collapse_retransmits=true",))]
)
def test_names_are_right_where_queries_are_chosen(desk: Path, settings: tuple[str, ...]) -> None:
    (folder,) = run(desk, "replay.answers=true", *settings).results
    asked = "SELECT seq, qname, qtype FROM RUN"
    kept = ask(exported(folder), asked)
    for path in Run(folder).answer_paths:
        path.unlink()
    assert ask(exported(folder), asked) == kept
    assert len({name for _, name, _ in kept}) > 10


@pytest.mark.netns
def test_generated_queries_have_the_name_of_the_experiment(desk: Path) -> None:
    settings = ("trace=", "generate.name=com", "replay.rate=500", "replay.limit=200")
    (folder,) = run(desk, *settings, "replay.answers=true").results
    assert {name for (name,) in ask(exported(folder), "SELECT qname FROM RUN")} == {"com."}


def test_csv_has_nanoseconds_at_any_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    due, sent = 3_600_000_000_001, 3_600_000_004_321
    folder = write_run(tmp_path / "run", [Query(0, due, sent, latency=2_345_678)])
    assert main(["export", str(folder), "--csv"]) == 0
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (row["due_s"], row["sent_s"]) == ("3600.000000001", "3600.000004321")
    assert row["latency_us"] == "2345.678"


def test_a_run_without_records_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "run", [])
    for words in (["--csv"], ["--parquet", "-o", str(tmp_path / "run.parquet")]):
        assert main(["export", str(folder), *words]) == 1
        assert capsys.readouterr() == (
            "",
            "reprise: error: there are no records to export; name a run that sent queries\n",
        )


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    folder = folder_of("udp", tmp_path)
    done = command("export", str(folder), "--parquet", "-o", str(tmp_path / "no/x.parquet"), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "its folder is not there" in done.stderr
    done = command("export", str(tmp_path), "--csv", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "holds no run" in done.stderr
    (tmp_path / "series.json").write_text("{}")
    done = command("export", str(tmp_path), "--csv", cwd=tmp_path)
    assert done.returncode == 2 and "is a series; name runs of it" in done.stderr
    done = command("export", str(folder), cwd=tmp_path)
    assert done.returncode == 2 and "--parquet" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")
def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    folder = folder_of("udp", tmp_path)
    with small_disk(tmp_path / "small", "8k"):
        done = command("export", str(folder), "--csv", "-o", str(tmp_path / "small/run.csv"), cwd=tmp_path)
        assert done.returncode == 1 and "No space left on device" in done.stderr
        assert list((tmp_path / "small").iterdir()) == []
