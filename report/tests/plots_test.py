"""Plots show the figures that they were given: lines, boxes and ticks of written runs."""

import dataclasses
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, StepPatch

from report import curves, figures, plots, series, several_plots
from report.curves import Answers
from report.figures import Drawn
from report.run import Run
from report.server import Series
from report.several_plots import Seen
from report.summary import summarize
from report.tally import Measured, by_round_trip, measure
from report.tests.writers import MANIFEST, SERVER_HEADER, START, START_REAL, Query, write_run

MS = 1_000_000
SECOND = 1_000 * MS


def axes_of(drawn: Sequence[Drawn], name: str) -> Axes:
    (found,) = [one for one in drawn if one.name == name]
    found.rendered("svg")  # ticks are placed
    return found.figure.axes[0]


def line_of(axes: Axes, label: str) -> Line2D:
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return found


def steady(count: int, latency: int = MS) -> list[Query]:
    return [Query(n, n * SECOND // 10, n * SECOND // 10, latency) for n in range(count)]


def sampled(*rows: tuple[float, int, int, float], process: str = "nsd") -> str:
    """Rows of seconds since the start, memory, established connections and CPU seconds."""
    lines = [SERVER_HEADER]
    for second, memory, established, cpu in rows:
        at = int(second * SECOND)
        lines.append(
            f"{START_REAL + at},{START + at},0,0,{process},1,{cpu},{memory},{memory},9,{established},"
            "0,0,0,0,0,0,0,0,0,0,0\n"
        )
    return "".join(lines)


def drawn_of(measured: Measured) -> list[Drawn]:
    return plots.draw_all(measured, summarize(measured))


def test_unanswered_queries_are_shares_of_what_was_due_then(tmp_path: Path) -> None:
    """All of the second second, and half of the last; what was skipped is not asked."""
    queries = []
    for n, query in enumerate(steady(40)):
        lost = 10 <= n < 20 or (n >= 30 and n % 2)
        queries.append(Query(query.seq, query.due, query.sent, status=2 if lost else 1))
    queries += [Query(40 + n, 2 * SECOND, None, None, status=5, reason=1) for n in range(7)]
    measured = measure(Run(write_run(tmp_path / "run", queries)))
    tenth = measured.tally.unanswered_share(SECOND, 5)
    assert tenth[:4].tolist() == [0, 1, 0, 0.5]
    assert np.isnan(tenth[4])
    axes = axes_of(drawn_of(measured), "unanswered")
    (stairs,) = [one for one in axes.patches if isinstance(one, StepPatch)]
    values, edges, _ = stairs.get_data()
    assert edges[:3].tolist() == pytest.approx([0, 0.1, 0.2])
    assert values[8:22].tolist() == [0] * 2 + [100] * 10 + [0] * 2
    whole = measure(Run(write_run(tmp_path / "whole", steady(40))))
    (said,) = [one for one in drawn_of(whole) if one.name == "unanswered"]
    assert "every query was answered" in said.svg


def test_a_latency_curve_begins_at_what_had_no_answer_failed_connections_included(tmp_path: Path) -> None:
    failed = [Query(n, n * MS, None, None, status=4, transport=1) for n in range(40)]
    skipped = [Query(40 + n, n * MS, None, None, status=5, reason=1, transport=1) for n in range(7)]
    answered = [Query(100 + n, n * MS, n * MS, transport=1) for n in range(60)]
    measured = measure(Run(write_run(tmp_path / "run", failed + skipped + answered)))
    whole = Answers.of(measured.tally)
    assert (whole.asked, whole.latency.count) == (100, 60)
    assert np.isnan(whole.slowest(np.array([0.3]))[0])
    (line,) = axes_of(drawn_of(measured), "latency").lines[:1]
    assert np.asarray(line.get_ydata()).max() == pytest.approx(0.6)


def test_clients_are_told_apart_by_their_round_trips(tmp_path: Path) -> None:
    """At 20 and 80 ms, over connections whose handshakes take a round trip; one asks too rarely to tell."""
    queries = []
    for n in range(200):
        source, trip = n % 2, (20 if n % 2 == 0 else 80) * MS
        opened = n < 2
        waited = (2 * trip if opened else trip) + n * 50_000
        marks, connect = (2, trip) if opened else (1, 0)
        queries.append(
            Query(
                n, n * 10 * MS, n * 10 * MS, waited, source=source, transport=1, marks=marks, connect=connect
            )
        )
    queries += [Query(200 + n, 0, 0, 400 * MS, source=2) for n in range(2)]
    manifest = {**MANIFEST, "experiment": {**MANIFEST["experiment"], "rtt": {"rtt_ms": 20}}}
    measured = measure(Run(write_run(tmp_path / "run", queries, manifest=manifest)))
    found, left_out = by_round_trip(measured.files)
    assert [name for name, _ in found] == ["20–30", "80–100"]
    assert left_out == 2
    near = np.array([one.latency for one in queries[:200:2]]) / MS
    want = [np.percentile(near, at, method="inverted_cdf") for at in (5, 25, 50, 75, 95)]
    drawn = drawn_of(measured)
    axes = axes_of(drawn, "latency-rtt")
    assert [one.get_text() for one in axes.get_xticklabels()] == ["20–30", "80–100"]
    box, _ = [one for one in axes.patches if isinstance(one, PathPatch)]
    ends = {float(y) for y in np.asarray(box.get_path().vertices)[:, 1]}
    assert sorted(ends)[0 :: len(ends) - 1] == pytest.approx([want[1], want[3]])
    whiskers = sorted({float(y) for line in axes.lines for y in np.asarray(line.get_ydata())})
    for value in (want[0], want[2], want[4]):
        assert any(value == pytest.approx(one) for one in whiskers)
    assert "2 answers of clients with fewer are left out." in next(
        one.caption for one in drawn if one.name == "latency-rtt"
    )
    plain = measure(Run(write_run(tmp_path / "plain", queries)))
    assert "latency-rtt" not in {one.name for one in drawn_of(plain)}


def test_round_trips_need_no_memory_for_sources_of_a_damaged_record(tmp_path: Path) -> None:
    queries = [Query(n, n * MS, n * MS, 20 * MS, source=(1 << 28) - 1 if n == 5 else 3) for n in range(10)]
    measured = measure(Run(write_run(tmp_path / "run", queries)))
    tracemalloc.start()
    found, left_out = by_round_trip(measured.files)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    assert [(name, one.count) for name, one in found] == [("20–30", 9)] and left_out == 1


def test_sources_are_compared_by_their_means(tmp_path: Path) -> None:
    queries = [Query(n, n * MS, n * MS, (1 + n % 3) * MS, source=n % 3) for n in range(9)]
    drawn = drawn_of(measure(Run(write_run(tmp_path / "run", queries))))
    (line,) = axes_of(drawn, "source-response").lines
    assert np.asarray(line.get_xdata()).tolist() == [1, 2, 3]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([1 / 3, 2 / 3, 1])
    one = measure(Run(write_run(tmp_path / "one", queries[::3])))
    assert "source-response" not in {drawn.name for drawn in drawn_of(one)}


def test_labels_of_users_are_no_formulas(tmp_path: Path) -> None:
    """A shell's command line between two dollars."""
    name = 'printf "listen $1\\nzone $2\\n"'
    drawn = several_plots.side_by_side({name: repeats(tmp_path, (1,))})
    assert "\\nzone $2" in axes_of(drawn, "memory").get_legend_handles_labels()[1][0]


def test_variants_are_told_apart_by_their_whole_paths() -> None:
    made = [{"server.binary": "/opt/old/nsd"}, {"server.binary": "/opt/new/nsd"}]
    assert series.labels(made) == ["binary /opt/old/nsd", "binary /opt/new/nsd"]
    assert series.labels([{"trace": "/a/x.pcap"}, {"trace": "/a/y.pcap"}]) == ["trace x.pcap", "trace y.pcap"]
    assert series.labels([made[0], made[0]]) == ["binary nsd", "binary nsd"]


def test_samples_hold_until_the_next_one_and_counts_have_whole_ticks(tmp_path: Path) -> None:
    text = sampled((-1, 10, 0, 0), (0, 20, 1, 0.1), (1, 90, 1, 0.2), (2, 30, 0, 0.3))
    run = write_run(tmp_path / "run", steady(20), server=text)
    drawn = drawn_of(measure(Run(run)))
    memory = line_of(axes_of(drawn, "server-memory"), "nsd")
    assert memory.get_drawstyle() == "steps-post"
    assert np.asarray(memory.get_ydata()).tolist() == pytest.approx([1e-5, 2e-5, 9e-5, 3e-5])
    connections = axes_of(drawn, "connections")
    assert line_of(connections, "server, established").get_drawstyle() == "steps-post"
    assert all(tick == int(tick) for tick in connections.get_yticks())
    assert all(tick == int(tick) for tick in axes_of(drawn, "rcodes").get_xticks())
    end = 19 / 10 + 0.01  # the hundredth of a second in which the last query was sent
    assert [one.get_xdata() for one in connections.lines if one.get_linestyle() == ":"] == [[end, end]]


@pytest.mark.parametrize("transport", [0, 1])
def test_clients_have_connections_where_the_server_is_not_sampled(tmp_path: Path, transport: int) -> None:
    """Over UDP there is the controller's alone."""
    queries = [dataclasses.replace(one, transport=transport) for one in steady(20)]
    run = write_run(tmp_path / "run", queries)
    text = sampled((-1, 10, 1, 0), (0, 20, 3, 0.1), (2, 30, 1, 0.3), process="querier")
    (run / "client1.csv").write_text(text)
    names = [one.name for one in drawn_of(measure(Run(run)))]
    assert ("connections" in names) == bool(transport)


def repeats(folder: Path, scale: Sequence[float]) -> list[Seen]:
    found = []
    for number, factor in enumerate(scale):
        rows = [(at + number / 10, int(factor * 1e6 * (at + 1)), 0, factor * at) for at in range(-1, 5)]
        queries = steady(40, int(factor * MS))
        run = write_run(folder / str(number), queries, server=sampled(*rows))
        found.append(Seen.of(measure(Run(run))))
    return found


def test_repeats_are_drawn_as_median_and_range(tmp_path: Path) -> None:
    variants = {"one": repeats(tmp_path / "one", (1, 3, 2)), "two": repeats(tmp_path / "two", (5,))}
    drawn = several_plots.side_by_side(variants)
    axes = axes_of(drawn, "memory")
    line = line_of(axes, "one")
    x, y = (np.asarray(one) for one in line.get_data())
    assert x.tolist() == pytest.approx([0, 1, 2, 3, 4])  # at the first one's samples, where all have some
    # The others are sampled a little later, so that their values of the second before still hold.
    assert y.tolist() == pytest.approx([0, 2, 4, 6, 8])
    (band,) = axes.collections
    ends = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (min(ends), max(ends)) == pytest.approx((0, 12))
    assert line_of(axes, "two").get_drawstyle() == "steps-post"
    cpu = line_of(axes_of(drawn, "cpu"), "two")
    assert np.asarray(cpu.get_ydata()).tolist() == pytest.approx([500] * 6)
    assert np.asarray(cpu.get_xdata()).tolist() == pytest.approx([-1, 0, 1, 2, 3, 4])  # from the first sample
    slowest = axes_of(drawn, "slowest")
    assert set(np.asarray(line_of(slowest, "one").get_ydata()).tolist()) == {2.0}
    (shade,) = slowest.collections
    assert set(np.asarray(shade.get_paths()[0].vertices)[:, 1].tolist()) == {1.0, 3.0}
    p99 = np.asarray(line_of(axes_of(drawn, "response-p99"), "one").get_ydata())
    assert p99.tolist() == pytest.approx([2.0] * len(p99), rel=0.01)
    ticks = axes_of(drawn, "response-p99").get_yticklabels(which="both")
    assert {"2", "5"} <= {one.get_text() for one in ticks} and not any("^" in one.get_text() for one in ticks)
    assert all(
        "the range in a lighter shade" in one.caption for one in drawn if one.name in ("memory", "slowest")
    )
    alone = several_plots.side_by_side({"two": variants["two"]})
    assert not any("shade" in one.caption for one in alone)


def test_a_cold_cache_is_shown_apart_from_the_rest(tmp_path: Path) -> None:
    """The first 2 s have 50 ms, of which each tenth query has no answer, the rest 1 ms."""
    queries = [
        Query(
            n, n * SECOND // 10, n * SECOND // 10, (50 if n < 20 else 1) * MS, status=2 if n in (3, 7) else 1
        )
        for n in range(60)
    ]
    seen = {}
    for cache in ("cold", "warm"):
        experiment = {**MANIFEST["experiment"], "hierarchy": {"cache": cache, "cold_s": 2.0}}
        run = write_run(tmp_path / cache, queries, manifest={**MANIFEST, "experiment": experiment})
        counted = '{"schema": 1, "queries": 1, "recursions": 1, "udp_queries": 1, "tcp_queries": 0}'
        for name in ("resolver-server-before.json", "resolver-server.json"):
            (run / name).write_text(counted)
        measured = measure(Run(run))
        seen[cache] = Seen.of(measured)
        names = {one.name for one in plots.draw_all(measured, summarize(measured))}
        assert ("slowest-cold" in names) is (cache == "cold")
    drawn = several_plots.side_by_side({name: [one] for name, one in seen.items()})
    first, after = (axes_of(drawn, name) for name in ("slowest-first", "slowest-after"))
    values = np.asarray(line_of(first, "cold").get_ydata())
    assert values[np.isfinite(values)].tolist() == pytest.approx([50.0] * 18, rel=0.01)
    assert np.asarray(line_of(after, "cold").get_ydata()).tolist() == pytest.approx([1.0] * 40, rel=0.01)
    assert [one.get_label() for one in first.lines if not str(one.get_label()).startswith("_")] == ["cold"]


def test_a_run_has_one_color_in_all_plots(tmp_path: Path) -> None:
    """Also in those in which a run before it has nothing to show."""
    lossy = [Query(n, n * MS, n * MS, MS, status=2 if n % 3 else 1) for n in range(2_000)]
    runs = {"whole": write_run(tmp_path / "whole", steady(2_000)), "lossy": write_run(tmp_path / "b", lossy)}
    drawn = several_plots.side_by_side({name: [Seen.of(measure(Run(run)))] for name, run in runs.items()})
    shown = [
        one.name
        for one in drawn
        if any(line.get_label() == "lossy" for line in axes_of(drawn, one.name).lines)
    ]
    assert {"unanswered", "rates", "response-p99"} <= set(shown)
    assert {line_of(axes_of(drawn, name), "lossy").get_color() for name in shown} == {"#D55E00"}
    assert not any(one.get_label() == "whole" for one in axes_of(drawn, "unanswered").lines)


def test_the_slowest_queries_are_those_without_an_answer(tmp_path: Path) -> None:
    queries = [Query(n, n * MS, n * MS, (n + 1) * MS, status=2 if n < 10 else 1) for n in range(100)]
    answers = Answers.of(measure(Run(write_run(tmp_path / "run", queries))).tally)
    waited = answers.slowest(np.array([0.01, 0.10, 0.11, 0.5, 1.0]))
    assert np.isnan(waited[:2]).all()
    assert waited[2:].tolist() == [100.0, 61.0, 11.0]


def test_a_swept_key_has_boxes_and_ticks_in_the_units_of_its_figures(tmp_path: Path) -> None:
    variants = [(f"rate {rate}", repeats(tmp_path / str(rate), scale)) for rate, scale in
                ((1000, (1, 1)), (2000, (2,)), (4000, ()))]  # fmt: skip
    axis = several_plots.Axis("replay.rate", (("all", ((1000.0, 0), (2000.0, 1), (4000.0, 2))),))
    (drawn,) = several_plots.boxes_of(axis, variants)
    axes = axes_of([drawn], "latency-boxes")
    assert [one.get_text() for one in axes.get_xticklabels()] == ["1,000", "2,000", "4,000"]
    medians = [np.asarray(one.get_ydata())[0] for one in axes.lines if one.get_linewidth() == 2]
    assert medians == [1.0, 2.0]
    (by_label,) = several_plots.boxes_of(None, variants)
    ticks = axes_of([by_label], "latency-boxes").get_xticklabels()
    assert [one.get_text() for one in ticks] == ["rate 1000", "rate 2000", "rate 4000"]
    used, opened = [[45_000_000], [47_000_000], [90_000_000]], [[1], [2], [2]]
    memory = several_plots.over_key(axis, "swept-0", "memory, MB", used, lambda one: f"{one / 1e6:g}")
    assert {"0", "20", "40"} <= {one.get_text() for one in axes_of([memory], "swept-0").get_yticklabels()}
    connections = several_plots.over_key(axis, "swept-1", "connections", opened, lambda one: f"{one:g}")
    assert all(tick == int(tick) for tick in axes_of([connections], "swept-1").get_yticks())


def test_of_many_variants_the_first_and_the_last_have_curves() -> None:
    assert series._shown(list(range(20))) == [0, 3, 5, 8, 11, 14, 16, 19]
    assert series._shown(["one", "two"]) == ["one", "two"]


def test_a_band_has_no_value_where_a_repeat_has_none() -> None:
    axes = Figure().add_subplot()
    curves.paint(axes, "", Series("", np.array([1.0, 2.0]), np.array([[1.0, np.nan], [3.0, 4.0]])))
    middle, (band,) = np.asarray(axes.lines[0].get_ydata()), axes.collections
    assert middle[0] == 2 and np.isnan(middle[1])
    assert set(np.asarray(band.get_paths()[0].vertices)[:, 1].tolist()) == {1, 3}
    assert curves.range_of([[1], [2]]) == ""


def test_plots_are_pdf_where_it_is_asked_for(tmp_path: Path) -> None:
    drawn = drawn_of(measure(Run(write_run(tmp_path / "run", steady(10)))))
    figures.write(tmp_path / "plots", drawn[:1], pdf=True)
    made = (tmp_path / "plots/rate.pdf").read_bytes()
    assert made.startswith(b"%PDF") and b"/FontFile2" in made
    assert drawn[0].rendered("pdf") == made
    figures.write(tmp_path / "others", drawn[:1])
    assert sorted(one.name for one in (tmp_path / "others").iterdir()) == ["rate.png", "rate.svg"]
