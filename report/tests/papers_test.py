"""Published values beside measured ones: arrivals by a capture, verdicts, and the page."""

import dataclasses
import ipaddress
import json
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import dns.rrset
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from report.errors import ReportError
from report.papers import arrivals, book, found, measured, model, page, plots
from report.papers.book import Row, Study
from report.papers.found import DIFFERS, HOLDS, NO_CLEAN, NOT_HERE, NOT_YET, TOLD, Found
from report.papers.model import Load
from report.run import Json, Run
from report.sources import find_program
from report.summary import summarize
from report.tally import measure
from report.tests.per_host_test import machine
from report.tests.writers import MANIFEST, START_REAL, TRACE_FIRST, Query, ra_bytes, server_csv, write_run

SECOND = 1_000_000_000
MS = 1_000_000


def run_with_capture(
    folder: Path, monkeypatch: pytest.MonkeyPatch, errors: Sequence[int], steal_at: int | None = None
) -> Path:
    """A run of a query each 10 ms; the capture has each so late, and one of them twice."""
    due = np.arange(len(errors)) * 10 * MS
    names = np.arange(len(errors))
    came = np.append(START_REAL + due + np.array(errors), START_REAL + 60 * SECOND)
    sides = {"trace.pcap": (TRACE_FIRST + due, names), "capture.pcap": (came, np.append(names, 0))}
    monkeypatch.setattr(arrivals, "_named", lambda path, run: sides[path.name])
    seconds = len(errors) // 100
    queries = [Query(seq=at, due=int(time), sent=int(time)) for at, time in enumerate(due)]
    write_run(folder, queries, server=server_csv(seconds + 1, steal_at), manifest={**MANIFEST, "warmup_s": 1})
    for name in sides:
        (folder / name).touch()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["experiment"]["trace"] = str(folder / "trace.pcap")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_arrivals_are_those_of_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the queries are 1 ms late, those of the warm-up 5 ms; two come in the next second."""
    late = [5 * MS] * 100 + [0, 1 * MS] * 150
    late[298] = late[299] = 30 * MS
    made = arrivals.of(Run(run_with_capture(tmp_path, monkeypatch, late)), SECOND, 401)
    error = made["error_us"]
    assert (error["q1"], error["median"], error["q3"], error["max"]) == (0, 1000, 1000, 30_000)
    assert (made["missing"], made["seconds"], made["steal_seconds"]) == (1, 2, 0)
    assert made["trace_gap_us"]["median"] == 10_000
    assert made["gap_off"]["median"] == pytest.approx(0.1)
    assert made["rate"]["over_2_percent"] == 0
    assert made["rate"]["within_0_1_percent"] == 0.5
    assert sorted(made["curves"]) == ["arrivals", "trace"]
    assert made["steady"] == {"change": 0, "steady": True}


@pytest.mark.parametrize("setting", [{"speed": 2.0}, {"rate": 100.0}, {"fast": True}, {"loop": 2}])
def test_due_times_that_are_not_the_traces_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, Any]
) -> None:
    folder = run_with_capture(tmp_path, monkeypatch, [0] * 200)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["experiment"]["replay"] = setting
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ReportError, match=rf"replay\.{next(iter(setting))} changes when queries are due"):
        arrivals.of(Run(folder), SECOND, 200)


def test_a_capture_that_lacks_much_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is that kept: whoever has found the whole capture reports again."""
    folder = run_with_capture(tmp_path, monkeypatch, [0] * 500)
    (folder / "summary.json").write_text(json.dumps(summarize(measure(Run(folder)))))
    whole = arrivals._named
    monkeypatch.setattr(arrivals, "_named", lambda path, run: [one[10:] for one in whole(path, run)])
    known = measured.figures_of(folder)["arrival"]["problem"]
    assert known.startswith("the capture lacks 10 of 500 queries")
    monkeypatch.setattr(arrivals, "_named", whole)
    assert measured.figures_of(folder)["arrival"]["missing"] == 0
    assert (folder / measured.FILE).is_file()


def test_a_capture_that_is_cut_is_no_proof(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [Query(seq=0, due=0, sent=0)])
    mutator, whole = find_program(None), tmp_path / "whole.pcap"
    lines = "".join(f"{at}.25\t192.0.2.1\t{name}.\tA\n" for at, name in enumerate(("Ab", "q", "ab")))
    (tmp_path / "t.tsv").write_text(f"#reprise-text 1\ntime\tsource\tname\ttype\n{lines}")
    subprocess.run([mutator, "mutate", tmp_path / "t.tsv", "--to", "pcap", "-o", whole], check=True)
    times, (one, other, same) = arrivals._named(whole, Run(folder))
    assert (times.tolist(), one == same) == ([250_000_000, 1_250_000_000, 2_250_000_000], one != other)
    whole.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(ReportError, match="cannot be read whole"):
        arrivals._named(whole, Run(folder))


def test_seconds_with_steal_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [0] * 300 + [500 * MS] * 10 + [0] * 190
    made = arrivals.of(Run(run_with_capture(tmp_path, monkeypatch, late, steal_at=4)), SECOND, 500)
    assert made["error_us"]["max"] == 0
    assert (made["seconds"], made["steal_seconds"]) == (2, 1)


def test_queries_with_the_same_name_are_no_proof() -> None:
    times, names = np.arange(3), np.array([1, 2, 2])
    with pytest.raises(ReportError, match="the same names"):
        arrivals.matched((times, names), (times, names), 0, 0)
    times, names = np.arange(1000), np.append(np.arange(995), [7, 7, 7, 7, 7])  # as those without a question
    due, _, others = arrivals.matched((times, names), (times, names), 0, 0)
    assert (len(due), others) == (994, 6)


def test_a_query_that_did_not_come_has_no_arrival() -> None:
    times = np.array([10, 20, 30])
    due, came, others = arrivals.matched(
        (times, np.array([7, 8, 9])), (np.array([125, 111]), np.array([9, 7])), 10, 100
    )
    assert (due.tolist(), came.tolist(), others) == ([0, 20], [11, 25], 0)


def test_figures_beyond_the_summary_are_made_once(tmp_path: Path) -> None:
    queries = [Query(seq=at, due=at * 10 * MS, sent=at * 10 * MS) for at in range(1000)]
    folder = write_run(tmp_path / "run", queries, server=server_csv(11))
    summary = summarize(measure(Run(folder)))
    (folder / "summary.json").write_text(json.dumps(summary))
    figures = measured.figures_of(folder)
    assert figures["load"]["sent_per_s"]["median"] == 100
    assert figures["load"]["sent_flatness"] == 0
    assert figures["load"]["response_mbps"]["median"] == pytest.approx(900 * 8e-6)
    assert figures["load"]["server_cpu_share"]["median"] == pytest.approx(0.25)
    assert figures["state"]["established"] == 3
    assert figures["arrival"] == {}
    (folder / measured.FILE).write_text(json.dumps({"schema": 4, "load": "kept"}))
    assert measured.figures_of(folder)["load"] == "kept"


def test_a_share_of_the_server_is_one_of_its_own_machine(tmp_path: Path) -> None:
    hosts = [machine("boss", "controller", "client1"), machine("far", "server", cores=5)]
    manifest = {**MANIFEST, "host": {"cores": 2}, "hosts": hosts}
    queries = [Query(seq=at, due=at * 10 * MS, sent=at * 10 * MS) for at in range(1000)]
    one = measure(Run(write_run(tmp_path / "run", queries, server=server_csv(11), manifest=manifest)))
    share = measured.of(one, summarize(one), with_arrivals=False)["load"]["server_cpu_share"]
    assert share["median"] == pytest.approx(0.05)


def test_the_server_alone_is_without_the_fronts_program_for_its_answers(tmp_path: Path) -> None:
    queries = [Query(seq=at, due=at * 10 * MS, sent=at * 10 * MS) for at in range(1001)]
    served = {**MANIFEST["experiment"]["server"], "front": "bpf"}
    manifest = {**MANIFEST, "experiment": {**MANIFEST["experiment"], "server": served}}
    head, *rows = server_csv(11).splitlines()
    more = [f"{row},{n * 0.1:.4f},{n * 0.05:.4f}" for n, row in enumerate(rows)]
    sampled = "\n".join([f"{head},uncharged_s,elsewhere_s", *more, ""])
    folder = write_run(tmp_path / "run", queries, server=sampled, manifest=manifest)
    (folder / "front.json").write_text(json.dumps({"schema": 1, "out_seconds": 0.5}))
    one = measure(Run(folder))
    cpu = measured.of(one, summarize(one), with_arrivals=False)["cpu"]
    assert cpu["server_s"] == pytest.approx([2.0])
    assert cpu["server_alone_s"] == pytest.approx([1.5])
    assert cpu["total_s"] == pytest.approx([3.0])


def test_a_run_that_is_not_clean_has_the_figures_of_its_summary(tmp_path: Path) -> None:
    """It may lack what those of the papers are made of; here the controller was killed, and no query has an
    end on record.
    """
    experiment = {**MANIFEST["experiment"], "hierarchy": {"resolver": ["bind", "bind"]}}
    folder = write_run(tmp_path / "run", [], manifest={**MANIFEST, "experiment": experiment})
    for name in ("controller.json", "queries-client1-0.rq"):
        (folder / name).unlink()
    (folder / "capture.pcap").touch()
    summary = summarize(measure(Run(folder)))
    (folder / "summary.json").write_text(json.dumps(summary))
    assert measured.figures_of(folder) == json.loads(json.dumps(summary))


def test_nodes_have_their_lookups_and_the_packets_of_the_first(tmp_path: Path) -> None:
    """A lookup without an answer takes the whole timeout. What another node asked the resolver as its peer is
    no packet of the first node's queries, nor is what came before the start.
    """
    queries = [
        Query(
            seq=at, due=at * 10 * MS, sent=at * 10 * MS, latency=(4 if at % 2 else 2_000) * MS, source=at % 2
        )
        for at in range(4)
    ] + [Query(seq=4, due=40 * MS, sent=40 * MS, status=2, source=1)]
    experiment = {
        "hierarchy": {"resolver": ["bind", "bind"]},
        "replay": {"peers": ["192.0.2.54:53", "[2001:db8::54]:53"], "timeout_s": 5},
    }
    folder = write_run(tmp_path / "run", queries)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["experiment"] |= experiment
    (folder / "manifest.json").write_text(json.dumps(manifest))
    packets = [
        (-1, "192.0.2.53"),
        (0, "192.0.2.53"),
        (1, "192.0.2.53"),
        (1, "192.0.2.54"),
        (1, "2001:db8::53"),
    ]
    whole = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 276)
    for seconds, to in packets:
        ends = (
            ipaddress.ip_address("192.0.2.1" if "." in to else "2001:db8::1").packed
            + ipaddress.ip_address(to).packed
        )
        packet = bytes(20) + (b"\x45" + bytes(11) if "." in to else b"\x60" + bytes(7)) + ends
        whole += struct.pack("<IIII", START_REAL // SECOND + seconds, 0, len(packet), len(packet)) + packet
    (folder / "capture.pcap").write_bytes(whole + b"cut")
    one = measure(Run(folder))
    made = measured.lookups(one, summarize(one))
    assert made["lookup_us"] == pytest.approx([2_000_000, 5_008_000 / 3])
    assert (made["slow_s"], made["packets_per_query"]) == (9.0, 0.6)
    assert made["slow_share"] == pytest.approx(9 / 9.008)


# --- verdicts ---------------------------------------------------------------------------------------------

STUDY = """
title = "A study"
[paper]
labels = ["one", "two"]
full_labels = ["one", "two", "three"]
differs = ["It is smaller."]
[paper.figures]
x-1 = { title = "The figure", minutes = 2 }
"""


def study_with(folder: Path, rows: str) -> Study:
    (folder / "x-1.toml").write_text(STUDY)
    (folder / "published.toml").write_text(f'[x-1]\nsection = "3.1"\nunit = "ms"\nrows = [\n{rows}\n]\n')
    return book.find("x-1", book.studies(folder))


def judged(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: str,
    runs: Mapping[str, Sequence[Json]],
    profile: str = "quick",
) -> found.Judged:
    """The first row of a study with these runs."""
    study = study_with(folder, f'{{ what = "w", measure = "a.b", {row} }}')
    rows = book.published(study, study.labels(profile), folder)
    monkeypatch.setattr(found, "published", lambda *_: rows)
    told = {"profile": profile}
    settings = {"one": {"rtt": 10}, "two": {"rtt": 20}, "three": {"rtt": 30}}
    return found.judge(Found(study, folder, told, tuple(study.labels(profile)), settings, runs))[0]


def runs_of(*values: float, **more: Any) -> list[Json]:
    return [{"a": {"b": value}, "round": at, **more} for at, value in enumerate(values)]


ONE, LEAST, MOST = "one trial", "at least 5 ± 1 ms", "at most 5 ± 1 ms"
BUSY = {"busy": ["other programs used 1.7 of 2 cores"], "busy_spoils": ["timing_error_us"]}


@pytest.mark.parametrize(
    ("row", "runs", "state", "shown"),
    [
        ("value = 5, tolerance = 1", {"one": runs_of(4, 5.5, 9)}, HOLDS, ("5 ± 1 ms", "5.5 ms", "4 to 9")),
        ("value = 5, tolerance = 1", {"one": runs_of(6.5)}, DIFFERS, ("5 ± 1 ms", "6.5 ms", ONE)),
        ('value = 5, tolerance = 1, bound = "at least"', {"one": runs_of(90)}, HOLDS, (LEAST, "90 ms", ONE)),
        ('value = 5, tolerance = 1, bound = "at least"', {"one": runs_of(3)}, DIFFERS, (LEAST, "3 ms", ONE)),
        ('value = 5, tolerance = 1, bound = "at most"', {"one": runs_of(3)}, HOLDS, (MOST, "3 ms", ONE)),
        ('value = 2, tolerance = 0, per = "rtt"', {"one": runs_of(20)}, HOLDS, ("2 ms", "2 ms", ONE)),
        ("value = 5, tolerance = 0, scale = 100", {"one": runs_of(0.05)}, HOLDS, ("5 ms", "5 ms", ONE)),
        (
            'value = 50, tolerance = 1, over = "two"',
            {"one": runs_of(15), "two": runs_of(10)},
            HOLDS,
            ("50 ± 1 ms", "50 ms", ONE),
        ),
        (
            'value = 1.5, tolerance = 0, over = "two", relation = "times"',
            {"one": runs_of(15), "two": runs_of(10)},
            HOLDS,
            ("1.5 ms", "1.5 ms", ONE),
        ),
        (
            'value = 5, tolerance = 0, over = "two", relation = "minus"',
            {"one": runs_of(15, 16), "two": runs_of(10, 11)},
            HOLDS,
            ("5 ms", "5 ms", "5 to 5"),
        ),
        (
            'value = 50, tolerance = 0, over = "two", nodes = "least"',
            {"one": [{"a": {"b": [15, 40]}, "round": 0}], "two": [{"a": {"b": [10, 20]}, "round": 0}]},
            HOLDS,
            ("50 ms", "50 ms", ONE),
        ),
        (
            'value = 40, tolerance = 0, nodes = "largest"',
            {"one": [{"a": {"b": [15, 40]}, "round": 0}]},
            HOLDS,
            ("40 ms", "40 ms", ONE),
        ),
        ("value = 5, tolerance = 1", {}, NOT_YET, ("5 ± 1 ms", "–", "–")),
        ('value = 5, tolerance = 1, over = "two"', {"one": runs_of(1)}, NOT_YET, ("5 ± 1 ms", "–", "–")),
        ("value = 5, tolerance = 1", {"one": []}, NO_CLEAN, ("5 ± 1 ms", "–", "–")),
        (
            'value = 5, tolerance = 0, over = "two", relation = "minus"',
            {"one": runs_of(15, 26)[1:], "two": runs_of(10, 21)},
            HOLDS,
            ("5 ms", "5 ms", ONE),
        ),
        (
            'value = 5, tolerance = 1, over = "two"',
            {"one": runs_of(15, 26)[1:], "two": runs_of(10)},
            NO_CLEAN,
            ("5 ± 1 ms", "–", "–"),
        ),
        ("value = 5, tolerance = 1", {"one": [{}]}, NOT_HERE, ("5 ± 1 ms", "–", "–")),
        ('value = 5, tolerance = 1, only = "full"', {"one": runs_of(5)}, NOT_HERE, ("5 ± 1 ms", "–", "–")),
        ('value = 5, tolerance = 1, in = ["three"]', {"one": runs_of(5)}, NOT_HERE, ("5 ± 1 ms", "–", "–")),
        ('only = "told"', {"one": runs_of(5)}, TOLD, ("–", "5 ms", ONE)),
    ],
)  # fmt: skip
def test_a_row_is_judged_by_the_median_of_the_trials(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: str,
    runs: Mapping[str, Sequence[Json]],
    state: str,
    shown: tuple[str, str, str],
) -> None:
    one = judged(tmp_path, monkeypatch, row, runs)
    assert (one.state, (one.published, one.measured, one.interval)) == (state, shown)


@pytest.mark.parametrize(
    ("measure", "more", "verdict"),
    [
        (
            "arrival.error_us.q1",
            BUSY,
            "differs because it is another server, or because the machine was busy: other programs used 1.7 "
            "of 2 cores",
        ),
        ("latency_us.median", BUSY, "differs because it is another server"),
        (
            "load.fallback_share",
            {**BUSY, "busy_spoils": ["cpu_us_per_query"]},
            "differs because it is another server",
        ),
        ("arrival.error_us.q1", {}, "differs because it is another server"),
    ],
)
def test_what_a_busy_machine_spoils_is_its_own(measure: str, more: Json, verdict: str) -> None:
    row = Row("x-1", "w", measure, "", "", 0, 1, "one", "", 1, "more", "", "", "", "", "it is another server")
    assert found._verdict(row, 9, runs_of(9, **more)) == (DIFFERS, verdict)
    busy = "; the machine was busy: other programs used 1.7 of 2 cores" if " busy" in verdict else ""
    assert found._verdict(row, 1, runs_of(1, **more)) == (HOLDS, f"holds{busy}")
    told = dataclasses.replace(row, only="told")
    assert found._verdict(told, 1, runs_of(1, **more)) == (TOLD, f"no figure published{busy}")


@pytest.mark.parametrize("beside", ['over = "two"', 'over = "two", relation = "apart"', 'fit = "rtt"'])
def test_a_busy_machine_spoils_what_a_value_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    """Also a run that it is set beside, or another one on the line."""
    monkeypatch.setattr(found, "_MEASURES", ((("a.b",), "", "timing_error_us"),))
    runs = {"one": runs_of(15), "two": runs_of(10, **BUSY), "three": runs_of(20)}
    told = judged(tmp_path, monkeypatch, f"value = 999, tolerance = 1, {beside}", runs, profile="full")
    assert told.verdict == f"differs because the machine was busy: {BUSY['busy'][0]}"


@pytest.mark.parametrize(
    ("beside", "verdict"),
    [
        (
            [4.0, 6.0],
            "its intervals of 10 s overlap (5 to 7 s and 4 to 6 s of CPU), so that one trial tells no",
        ),
        ([4.0, 4.5], "nothing here says why"),
        ([], "nothing here says why"),
    ],
)
def test_a_difference_that_parts_of_one_trial_do_not_show(
    tmp_path: Path, beside: list[float], verdict: str
) -> None:
    runs = {
        name: [{"cpu_us_per_query": {"server": cost}, "cpu": {"server_s": parts}, "round": 0}]
        for name, cost, parts in (("one", 9, [5.0, 7.0]), ("two", 6, beside))
    }
    row = 'value = 0, tolerance = 10, measure = "cpu_us_per_query.server", over = "two"'
    study = study_with(tmp_path, f'{{ what = "w", {row} }}')
    rows = book.published(study, study.labels("quick"), tmp_path)
    one = found._judge(rows[0], Found(study, tmp_path, {}, ("one", "two"), {}, runs))
    assert one.verdict.startswith(f"differs; {verdict}")


def test_a_row_beside_another_is_steady_where_both_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "_MEASURES", ((("a.b",), "steady", None),))
    runs = {"one": runs_of(15, steady={"steady": True}), "two": runs_of(10, steady={"steady": False})}
    row = "value = 50, tolerance = 1"
    assert judged(tmp_path, monkeypatch, row, runs).steady == "yes"
    assert judged(tmp_path, monkeypatch, f'{row}, over = "two"', runs).steady == "no"


def test_seconds_that_all_had_steal_tell_nothing() -> None:
    row = Row("x-1", "w", "arrival.error_us.q1", "", "", 0, 1, "one", "", 1, "more", "", "", "", "", "")
    study = Study(Path("x-1.toml"), {})
    one = found._judge(row, Found(study, labels=("one",), runs={"one": [{"arrival": {"seconds": 0}}]}))
    assert one.verdict == "not testable here: the hypervisor took time in every second"


def test_a_difference_without_a_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = judged(tmp_path, monkeypatch, "value = 5, tolerance = 1", {"one": runs_of(9)})
    assert one.verdict == "differs; nothing here says why"


def test_a_figure_is_steady_where_all_trials_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("x-1", "w", "latency_us.median", "", "", 0, 1, "one", "", 1, "more", "", "", "", "", "")
    for told, word in (
        ([True, True], "yes"),
        ([True, False], "no"),
        ([True, None], "not clear"),
        ([None], "not clear"),
    ):
        runs = [{"steady": {"response_median": {"steady": one}}} for one in told]
        assert found._steady(row, runs) == word
    whole = [{"steady": {"response_median": {"steady": True}}}]
    assert found._steady(dataclasses.replace(row, measure="nodes.lookup_us"), whole) == "yes"
    assert found._steady(dataclasses.replace(row, measure="nodes.packets_per_query"), whole) == "–"
    assert found._steady(dataclasses.replace(row, fit="rtt"), whole) == "–"
    seconds = dataclasses.replace(row, measure="cpu.kernel_s")
    for values, word in (([1, 1, 1, 1, 1], "yes"), ([1, 2, 3, 4, 5], "no"), ([1, 2], "–")):
        assert found._steady(seconds, [{"cpu": {"kernel_s": values}}]) == word
    late = [{"steady": {"sent": {"steady": True}}, "arrival": {"steady": {"steady": False}}}]
    for path, word in (("arrival.error_us.q1", "no"), ("arrival.gap_off.median", "yes")):
        assert found._steady(dataclasses.replace(row, measure=path), late) == word


def test_nodes_and_transports_are_drawn_by_variant(tmp_path: Path) -> None:
    names = ["node-ratios", "node-lookups", "answered-over"]
    tables = {"paper": {"figures": {"x-1": {"title": "T", "minutes": 1, "plots": names}}}}
    shares = {  # of 60 that were asked again, 50 had no answer over TCP either
        "answered_share": 0.5,
        "queries": {"sent": 100},
        "latency_us_by_connection": {"fresh": {"count": 9}, "reused": {"count": 1}},
    }
    runs = {
        "UDP": [{**shares, "nodes": {"lookup_us": [2e3, 4e3]}}],
        "cooperative": [{**shares, "nodes": {"lookup_us": [1e3, 4e3]}}],
    }
    made = plots.of(Found(Study(tmp_path / "x-1.toml", tables), tmp_path, runs=runs))
    ratios, lookups, bars = (made[name].figure.axes[0] for name in names)
    assert [np.asarray(line.get_ydata()).tolist() for line in ratios.lines] == [[2, 1], [1, 1]]
    assert [np.asarray(line.get_xdata()).tolist() for line in lookups.lines] == [[2, 4], [1, 4]]
    assert [one.get_width() for one in bars.patches if isinstance(one, Rectangle)] == [40, 40, 10, 10, 50, 50]


def test_rows_of_several_variants_may_have_values_of_their_own(tmp_path: Path) -> None:
    study = study_with(
        tmp_path, '{ what = "w", measure = "m", value = [1, 2], tolerance = 1, in = ["one", "two"] }'
    )
    rows = book.published(study, ["one", "two"], tmp_path)
    assert [(row.variant, row.value, row.tolerance) for row in rows] == [("one", 1, 1), ("two", 2, 1)]


def test_the_page_says_what_has_not_been_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page.write(book.studies(), tmp_path)
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "reprise papers run ldplayer-6" in text
    assert "not run yet" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert capsys.readouterr().out == f"report: {tmp_path / page.PAGE}\n"


def test_a_half_finished_study_reports_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One variant has been, one was not clean, and a third has not begun; the page says so, with a plot."""
    (tmp_path / "x-1.toml").write_text(
        STUDY.replace('["one", "two"]\nfull', '["one", "two", "three"]\nfull').replace(
            "minutes = 2", 'minutes = 2, plots = ["server-cpu", "latency-boxes"]'
        )
    )
    (tmp_path / "published.toml").write_text(
        '[x-1]\nsection = "3.1"\nunit = "ms"\nscale = 1e-3\n'
        'rows = [{ what = "latency", measure = "latency_us.median", value = 0.5, tolerance = 0.1 }]\n'
    )
    (study,) = book.studies(tmp_path)
    monkeypatch.setattr(found, "published", lambda one, labels: book.published(one, labels, tmp_path))
    folder, runs = tmp_path / "x-1-20261125T080000Z-0000", []
    for at, name in enumerate(("good", "bad")):
        queries = [Query(seq=n, due=n * 10 * MS, sent=n * 10 * MS) for n in range(500)]
        made = write_run(folder / name, queries, server=server_csv(6))
        if name == "bad":
            (made / "controller.json").unlink()
        (made / "summary.json").write_text(json.dumps(summarize(measure(Run(made)))))
        runs.append({"variant": at, "round": 0, "folder": name})
    runs.append({"variant": 2, "round": 0, "folder": ""})
    variants = [{"replay.transport": one} for one in ("trace", "udp", "tcp")]
    told = {"schema": 1, "name": "x-1", "title": "", "found": [], "variants": variants, "runs": runs}
    (folder / "series.json").write_text(json.dumps(told))
    warnings = ["x-1: T is not in a folder of --traces; it is synthesized"]
    told = {
        "schema": 1,
        "study": "x-1",
        "profile": "quick",
        "command": "C",
        "warnings": warnings,
        "seconds": 90,
    }
    (folder / found.FILE).write_text(json.dumps(told))
    states = [one.state for one in found.judge(found.read(study, tmp_path))]
    assert states == [HOLDS, NO_CLEAN, NOT_YET]
    page.write([study], tmp_path)
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    for words in (
        *warnings,
        "bad is not clean and not counted",
        "1 clean; 3 variants",
        "1.5 (stated",
        "x-1-latency-boxes",
        "x-1-server-cpu",
    ):
        assert words in text
    assert (folder / "plots/x-1-server-cpu.pdf").is_file()
    assert "one: latency    0.5 ± 0.1 ms  0.5 ms" in capsys.readouterr().out
    (folder / "bad" / "summary.json").unlink()
    page.write([study], tmp_path)
    assert "x-1-latency-boxes" in (tmp_path / page.PAGE).read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert f"bad is not counted: {folder}/bad has no summary.json; make it: reprise report" in said
    assert "one: latency    0.5 ± 0.1 ms  0.5 ms" in said


def test_answers_of_two_runs_differ_in_rcode_or_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(address: str, ttl: int = 60, rcode: int = dns.rcode.NOERROR) -> bytes:
        message = dns.message.make_response(dns.message.make_query("www.example.", "A", id=7))
        message.set_rcode(dns.rcode.Rcode(rcode))
        message.answer.append(dns.rrset.from_text("www.example.", ttl, "IN", "A", address))
        return message.to_wire()

    one, other = reply("192.0.2.1"), reply("192.0.2.1", ttl=5)
    sides = {
        "one": [one, one, one, b"", one],
        "other": [other, reply("192.0.2.2"), reply("192.0.2.1", rcode=dns.rcode.SERVFAIL), b"", b""],
    }
    for name, replies in sides.items():
        file = write_run(tmp_path / name, [Query(seq=0, due=0, sent=0)]) / "answers-client1-0.ra"
        file.write_bytes(ra_bytes([(at, b"query", one) for at, one in enumerate(replies)]))
    assert found.differing(tmp_path / "one", tmp_path / "other") == 0.75
    assert found.differing(tmp_path / "one", tmp_path / "one") == 0
    both = {name: [{"round": 0, "folder": tmp_path / name}] for name in sides}
    row = 'value = 0, tolerance = 0, relation = "answers", over = "two", scale = 100'
    told = judged(tmp_path, monkeypatch, row, {"one": both["one"], "two": both["other"]})
    assert (told.state, told.measured) == (DIFFERS, "75 ms")


def test_a_population_of_sources_gives_back_the_minute_that_its_profile_was_fitted_to() -> None:
    """docs/synthetic.md: 5,000 clients, of which 2,491 asked in a minute of 174 queries/s."""
    found = model.standing(Load(174, 2_491, 60), 20)
    assert found.population == pytest.approx(5_000, rel=0.02)
    assert 0 < found.established < 2_491
    assert found.time_wait == 60 * found.closed_per_s
    all_at_once = model.standing(Load(1_000_000, 100, 60), 20)
    assert all_at_once.established == pytest.approx(100)
    assert all_at_once.closed_per_s == pytest.approx(0)


def test_costs_are_extrapolated_once_the_runs_are_there() -> None:
    (study,) = (one for one in book.studies() if one.name == book.tables()["model"]["study"])
    assert model.of([]) is None
    assert model.of([Found(study)]) is None

    def run(established: int, memory: float) -> Json:
        return {
            "queries": {"sent": 50_000},
            "duration_s": 100.0,
            "sources": 9_000,
            "state": {"established": established, "time_wait": 2 * established},
            "server_memory": {"all": memory},
            "cpu_us_per_query": {"server": 40.0},
            "load": {"response_mbps": {"median": 2.0}},
        }

    runs = {
        "TCP, 5 s": [run(1_000, 60e6)],
        "TCP, 20 s": [run(3_000, 100e6)],
        "TCP, 35 s": [run(5_000, 140e6)],
    }
    told = model.of([Found(study, runs=runs)])
    assert told is not None
    rows = {row[0]: dict(zip(told["heading"], row, strict=True)) for row in told["cells"]}
    assert rows["queries/s"]["B-Root-17a"] == "39,167"
    assert rows["CPU, cores"] == {
        "": "CPU, cores", "measured here": "0.02", "here, by the model": "0.02", "B-Root-17a": "1.567",
        "published": "2.4 to 4.8 (10 to 20 % of 24)", "B-Root, 2025-06-11": "2.902",
    }  # fmt: skip
    held = float(rows["established"]["B-Root-17a"].replace(",", ""))
    assert float(rows["memory, GB"]["B-Root-17a"]) == pytest.approx(0.04 + held * 20e-6, rel=0.01)
    assert any("80 MB more for 4,000 more" in one and "20 kB" in one for one in told["arithmetic"])
