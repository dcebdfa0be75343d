"""Distributions beside HdrHistogram's and numpy's, and records that come in any order from several files."""

from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from report import distribution, rqfile
from report.distribution import COARSE, FINE, Distribution, Slices, Values, bins_of, middles
from report.run import Run
from report.tally import Means, Rate, measure
from report.tests.writers import MANIFEST, Query, rq_bytes, summarized, write_run
from report.tests.writers import records as rows_of

SECOND = 1_000_000_000


def samples(count: int, seed: int = 1) -> Values:
    return np.exp(np.random.default_rng(seed).uniform(0, 25, count)).astype(np.int64)


def of(values: Values, parts: int = 7) -> Distribution:
    made = Distribution()
    for part in np.array_split(values, parts):
        made.add(part)
    return made


@pytest.mark.parametrize("bits", [FINE, COARSE])
def test_bins_are_as_narrow_as_said_and_rise_with_the_values(bits: int) -> None:
    values = np.sort(np.concatenate([np.arange(20_000), samples(100_000), [2**52 - 1, 2**52]]))
    bins = bins_of(values, bits)
    assert np.all(np.diff(bins) >= 0)
    off = np.abs(middles(bins, bits) - values)
    assert np.all(off <= values * 2.0 ** -(bits + 1))
    assert np.array_equal(bins_of(-values, bits), -bins)
    assert np.array_equal(middles(-bins, bits), -middles(bins, bits))


def test_percentiles_are_those_of_hdrhistogram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "EXACT", 1_000)
    values = samples(50_000)
    other = HdrHistogram(1, 3_600 * SECOND, 3)
    for one in values.tolist():
        other.record_value(one)
    ours = of(values).spread()
    for name, percent in (("p1", 1), ("q1", 25), ("median", 50), ("p95", 95), ("p99", 99), ("p999", 99.9)):
        theirs = other.get_value_at_percentile(percent)
        assert ours[name] == pytest.approx(theirs / 1000, rel=0.0015), name


@pytest.mark.parametrize("exact", [1_000, 1_000_000])
def test_parts_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch, exact: int) -> None:
    monkeypatch.setattr(distribution, "EXACT", exact)
    values = np.concatenate([samples(3_000), -samples(2_000, 2), np.zeros(10, np.int64)])
    whole, added = of(values), Distribution.of(of(part) for part in np.array_split(values, 11))
    assert added.errors() == whole.errors()
    assert whole.count == len(values)
    true = np.percentile(np.abs(values), 99, method="inverted_cdf")
    assert whole.errors()["abs_p99"] == pytest.approx(true / 1000, rel=2.0 ** -(FINE + 1))
    assert (whole.spread()["min"], whole.spread()["max"]) == (values.min() / 1000, values.max() / 1000)


def test_slices_are_distributions_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slices, "_TOGETHER", 7)
    times = np.sort(np.random.default_rng(3).integers(0, 3 * SECOND, 5_000))
    values = samples(5_000) * np.where(np.arange(5_000) % 3, 1, -1)
    slices = Slices()
    order = np.random.default_rng(4).permutation(5_000)
    for part in np.array_split(order, 9):
        slices.add(times[part], values[part])
    slices.add(np.array([-5]), np.array([1]))
    numbers, bands = slices.bands(SECOND, (10, 500, 990))
    assert numbers.tolist() == [0, 1, 2]
    for at in range(3):
        held = values[times // SECOND == at]
        for band, percent in zip(bands, (1, 50, 99), strict=True):
            true = np.percentile(held, percent, method="inverted_cdf")
            assert band[at] == pytest.approx(true, rel=2.0 ** -(COARSE + 1))


def test_a_run_without_an_answer_after_its_warm_up_has_a_summary(tmp_path: Path) -> None:
    asked = [Query(at, at * SECOND // 10, at * SECOND // 10, status=1 if at < 5 else 2) for at in range(60)]
    summary = summarized(write_run(tmp_path / "run", asked, manifest={**MANIFEST, "warmup_s": 1.0}))
    assert summary["queries"]["answered"] == 5 and "response_p99" not in summary["steady"]


@pytest.mark.parametrize("exact", [1_000, 10_000])
def test_slices_are_one_distribution_of_a_time(exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slices, "_TOGETHER", 7)
    monkeypatch.setattr(distribution, "EXACT", exact)
    times, values = np.random.default_rng(3).integers(0, 3 * SECOND, 9_000), samples(9_000)
    slices = Slices()
    slices.add(times, values)
    assert Slices().within(0, SECOND).count == slices.within(3 * SECOND, 4 * SECOND).count == 0
    for begin, end in ((0, SECOND), (SECOND, 3 * SECOND)):
        held, found = values[(times >= begin) & (times < end)], slices.within(begin, end)
        assert found.count == len(held)
        true = np.percentile(held, 90, method="inverted_cdf")
        assert found.spread()["p90"] == pytest.approx(true / 1000, rel=2.0**-COARSE)


def test_windows_have_the_records_of_all_files_in_the_traces_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rqfile, "_WINDOW", 64)
    monkeypatch.setattr(rqfile, "_SAMPLE", 4)
    monkeypatch.setattr(rqfile, "CHUNK", 50)
    rng = np.random.default_rng(4)
    numbers = rng.permutation(1_000).astype(np.uint64) * np.uint64(7)
    numbers[5] = 2**64 - 1  # of a damaged file
    error = rng.integers(0, 9_000, 1_000)
    asked = [
        Query(int(number), 1_000_000 * at, 1_000_000 * at + int(error[at]), source=at % 300)
        for at, number in enumerate(numbers.tolist())
    ]
    folder = write_run(tmp_path / "run", asked[:400])
    (folder / "queries-client1-1.rq").write_bytes(rq_bytes(rows_of(asked[400:])))
    measured = measure(Run(folder))
    windows = list(rqfile.windows(measured.files))
    seq = np.concatenate([window.seq for window in windows])
    assert seq.tolist() == sorted(numbers.tolist())
    assert len(windows) > 10 and max(map(len, windows)) < 200
    tally = measured.tally
    assert (tally.records, len(tally.sources), tally.duplicate_seqs) == (1_000, 300, 0)
    in_order = error[np.argsort(numbers)]
    assert tally.interarrival.errors() == of(np.diff(in_order)).errors()


def test_a_rate_over_a_damaged_span_takes_no_memory_for_it() -> None:
    rate = Rate()
    rate.add(np.array([0, 50_000_000, 100_000_000, 3_599 * SECOND, 3_601 * SECOND, 2**60]))
    assert rate.per(3_600 * 10**9, 1_000_000).nonzero()[0].tolist() == [0, 1]
    assert rate.per(3_600 * 10**9, 2).tolist() == [4, 1]
    assert rate.per(10**8, 3).tolist() == [2, 1, 0]


def test_what_left_a_moment_before_the_start_counts_in_the_first_step() -> None:
    rate = Rate()
    rate.add(np.array([-20_000, 0, 9_000_000, np.iinfo(np.int64).min]))
    assert rate.per(10**8, 1).tolist() == [3]


def test_means_are_those_of_each_source() -> None:
    means = Means()
    means.add(np.array([3, 1, 3], np.uint32), np.array([10_000, 5_000, 20_000]))
    means.add(np.array([1, 1 << 30], np.uint32), np.array([7_000, 1]))  # the other one is of a damaged file
    assert means.all().spread()["min"] == 6
    assert (means.all().count, means.all().spread()["max"]) == (2, 15)


def test_response_time_counts_from_when_a_query_was_due(tmp_path: Path) -> None:
    """Also where it was sent late; without due times there is none."""
    asked = [Query(at, at * 1_000_000, at * 1_000_000 + 40_000, latency=100_000) for at in range(10)]
    tally = measure(Run(write_run(tmp_path / "run", asked))).tally
    assert tally.response["udp"].spread()["median"] == 140.0
    assert tally.latency["udp"].spread()["median"] == 100.0
    folder = write_run(tmp_path / "fast", [])
    fast = rows_of(asked)
    fast["due_ns"] = 0
    (folder / "queries-client1-0.rq").write_bytes(rq_bytes(fast))
    found = measure(Run(folder)).tally
    assert not found.response
    assert (tally.span_ns, found.span_ns) == (9_000_000, 9_040_000)  # what plots over time show
