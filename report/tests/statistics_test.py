"""Medians, intervals and differences of repeated runs."""

import numpy as np
import pytest

from report.statistics import difference, spread, trend


def test_an_interval_holds_the_median_and_an_outlier_is_named() -> None:
    found = spread([10, 11, 12, 11, 10, 90])
    assert found.median == 11
    assert found.low <= 11 <= found.high
    assert found.outliers == (5,)
    assert spread([5, 7]).outliers == ()
    assert (spread([5, 7]).low, spread([5, 7]).high) == (5, 7)


def test_a_difference_needs_four_runs_of_each() -> None:
    few = difference([20, 21, 22], [10, 11, 12])
    enough = difference([20, 21, 22, 23], [10, 11, 12, 13])
    assert few is not None and few.real is None and few.ratio == pytest.approx(21 / 11)
    assert enough is not None and enough.real is True and enough.low > 1
    assert difference([1, 2], [0, 0]) is None


def test_runs_of_one_kind_rarely_differ() -> None:
    """At most as often as is said; with five runs on each side, and a spread of a third."""
    rng = np.random.default_rng(5)
    told = [
        difference(rng.lognormal(3, 0.3, 5).tolist(), rng.lognormal(3, 0.3, 5).tolist()) for _ in range(200)
    ]
    assert sum(one is not None and one.real is True for one in told) <= 0.05 * 200


def test_a_fifth_is_told_where_the_spread_is_small() -> None:
    rng = np.random.default_rng(6)
    base = (100 * rng.normal(1, 0.02, 5)).tolist()
    worse = (120 * rng.normal(1, 0.02, 5)).tolist()
    found = difference(worse, base)
    assert found is not None and found.real is True and 1.1 < found.low < found.ratio < found.high < 1.3


def test_many_runs_are_compared_by_drawn_orders() -> None:
    rng = np.random.default_rng(7)
    found = difference(rng.normal(105, 5, 40).tolist(), rng.normal(100, 5, 40).tolist())
    assert found is not None and found.real is True


def test_what_rises_is_not_steady_and_noise_is() -> None:
    rising = trend([100, 104, 103, 108, 112, 111, 117, 120, 121, 126])
    assert rising is not None and rising.steady is False and rising.change == pytest.approx(0.23, abs=0.03)
    assert trend([1, 2, 3, 4]) is None and trend([0] * 10) is None
    small = trend([1000 + one for one in range(10)])
    assert small is not None and small.steady  # 0.9 %
    rounds = trend([10, 11, 12, 13, 14])
    assert rounds is not None and rounds.steady is False
    mixed = trend([10, 12, 11, 13, 14])
    assert mixed is not None and mixed.steady is None


def test_noise_rarely_counts_as_a_trend() -> None:
    rng = np.random.default_rng(8)
    told = [trend(rng.lognormal(3, 0.5, 10).tolist()) for _ in range(1_000)]
    assert sum(one is not None and one.steady is False for one in told) <= 0.015 * 1_000
