"""The percentile definition on samples whose percentiles are known, and against numpy's same definition."""

import numpy as np
import pytest

from report.distribution import ABSOLUTE, SPREAD, Distribution, Percentiles, Values, rank


def of(samples: Values) -> Distribution:
    made = Distribution()
    for part in np.array_split(samples, 3):
        made.add(part)
    return made


def spread(samples: Values) -> Percentiles:
    return of(samples).spread()


def errors(samples: Values) -> Percentiles:
    return of(samples).errors()


def test_hundred_samples_are_their_own_percentiles() -> None:
    samples = np.arange(100, 0, -1, dtype=np.int64) * 1000
    assert spread(samples) == {
        "count": 100,
        "min": 1.0,
        "p1": 1.0,
        "p5": 5.0,
        "q1": 25.0,
        "median": 50.0,
        "q3": 75.0,
        "p90": 90.0,
        "p95": 95.0,
        "p99": 99.0,
        "p999": 100.0,
        "max": 100.0,
    }


def test_four_samples_take_the_nearest_rank_and_never_a_mean() -> None:
    result = spread(np.array([10, 20, 30, 40], np.int64) * 1000)
    assert [result[name] for name in ("min", "q1", "median", "q3", "p95", "max")] == [10, 10, 20, 30, 40, 40]


def test_absolute_percentiles_ignore_the_sign() -> None:
    result = errors(np.array([-9000, -1000, 2000, 3000], np.int64))
    assert (result["min"], result["median"], result["max"]) == (-9.0, -1.0, 3.0)
    assert (result["abs_p50"], result["abs_p99"], result["abs_p999"]) == (2.0, 9.0, 9.0)


def test_no_samples_give_nulls() -> None:
    result = errors(np.zeros(0, np.int64))
    assert result.pop("count") == 0
    assert set(result) == {*SPREAD, *ABSOLUTE}
    assert set(result.values()) == {None}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 99, 100, 101, 1000, 1001, 12345])
def test_agrees_with_numpy_inverted_cdf(count: int) -> None:
    samples = np.random.default_rng(count).integers(-(10**9), 10**9, count)
    ours = spread(samples)
    for name, permille in SPREAD.items() - {("p999", 999)}:  # 99.9 is no number in binary
        expected = np.percentile(samples, permille / 10, method="inverted_cdf")
        assert ours[name] == int(expected) / 1000, name


def test_ranks_have_no_rounding_error() -> None:
    assert rank(100, 990) == 98
    assert rank(1000, 999) == 998
    assert rank(1, 0) == 0
