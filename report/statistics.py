"""What repeated runs allow to say: medians with intervals, outliers, and whether a difference is one; and
whether values rise or fall in their order.

Intervals are of 95 %: percentiles of the medians of 2,000 samples drawn with replacement (bootstrap, with a
fixed seed). A difference is told where the interval of the ratio of the medians does not hold 1 and an exact
test of ranks (Mann and Whitney's, two-sided) gives it a chance of at most 5 % to be none: this needs four
runs on each side.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST = 4  # runs on each side
_DRAWN = 2_000
_MOST_ORDERS = 20_000  # beyond so many, orders are drawn
_CHANCE = 0.05
_NO_TREND, _STEADY = 0.01, 0.05
_FEWEST_IN_ORDER, _MOST_ORDERED = 5, 7
_FAR = 3.5  # a value is an outlier so many deviations (by the median) away

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Of the values of some runs; the interval is theirs from end to end where there are fewer than three."""

    median: float
    low: float
    high: float
    outliers: tuple[int, ...]  # which of the values


@dataclass(frozen=True)
class Difference:
    """`ratio` of two medians with its interval; `real` is None where there are too few runs to tell."""

    ratio: float
    low: float
    high: float
    real: bool | None


@dataclass(frozen=True)
class Trend:
    """`change` from the first value to the last by the median of all slopes (Theil and Sen's line), as a
    share of the median. `shown`: by chance alone, values rise or fall as much in their order in at most 1 %
    of the cases (Mann and Kendall's test, two-sided; of five values 2 %, which is the least).
    """

    change: float
    shown: bool

    @property
    def steady(self) -> bool | None:
        """None where values differ by more than 5 % and still show no trend."""
        return abs(self.change) <= _STEADY or (False if self.shown else None)


def trend(values: Sequence[float]) -> Trend | None:
    """None where there are fewer than five values, or where their median is 0."""
    held = np.array(values, np.float64)
    middle, count = abs(float(np.median(held))) if len(held) else 0.0, len(held)
    if count < _FEWEST_IN_ORDER or not middle:
        return None
    earlier, later = np.triu_indices(count, 1)
    steps = held[later] - held[earlier]
    change = float(np.median(steps / (later - earlier))) * (count - 1) / middle
    rising = abs(int(np.sign(steps).sum()))
    if count <= _MOST_ORDERED:
        orders = np.array(list(itertools.permutations(held)))
        sums = np.sign(orders[:, later] - orders[:, earlier]).sum(axis=1)
        chance = float(np.mean(np.abs(sums) >= rising))
    else:
        sigma = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        chance = math.erfc(max(0, rising - 1) / sigma / math.sqrt(2))
    least = 2 / math.factorial(count)
    return Trend(change, chance <= max(_NO_TREND, 1.01 * least))


def spread(values: Sequence[float]) -> Spread:
    held = np.array(values, np.float64)
    middle = float(np.median(held))
    ends = (held.min(), held.max()) if len(held) < 3 else np.percentile(_medians(held), (2.5, 97.5))
    deviation = 1.4826 * float(np.median(np.abs(held - middle)))
    far = np.flatnonzero(np.abs(held - middle) > _FAR * deviation).tolist()
    outliers = tuple(far if deviation and len(held) > FEWEST else ())
    return Spread(middle, float(ends[0]), float(ends[1]), outliers)


def difference(values: Sequence[float], base: Sequence[float]) -> Difference | None:
    """Of `values` against `base`; None where there is no ratio."""
    ours, theirs = np.array(values, np.float64), np.array(base, np.float64)
    if np.median(theirs) <= 0 or np.median(ours) <= 0:
        return None
    ratio = float(np.median(ours) / np.median(theirs))
    if min(len(ours), len(theirs)) < FEWEST:
        return Difference(ratio, ratio, ratio, None)
    below = _medians(theirs, 1)
    ratios = _medians(ours)[below > 0] / below[below > 0]
    low, high = (float(one) for one in np.percentile(ratios, (2.5, 97.5)))
    return Difference(ratio, low, high, not low <= 1 <= high and _chance(ours, theirs) <= _CHANCE)


def _medians(values: Floats, seed: int = 0) -> Floats:
    drawn = np.random.default_rng(seed).integers(0, len(values), (_DRAWN, len(values)))
    return np.asarray(np.median(values[drawn], axis=1))


def _chance(ours: Floats, theirs: Floats) -> float:
    """That ranks differ as much as here, or more, where nothing but chance orders the values."""
    both = np.concatenate([ours, theirs])
    ranks = np.array([np.mean(np.flatnonzero(np.sort(both) == one)) for one in both])
    middle = ranks.mean() * len(ours)
    seen = abs(ranks[: len(ours)].sum() - middle)
    if math.comb(len(both), len(ours)) <= _MOST_ORDERS:
        chosen = np.array(list(itertools.combinations(range(len(both)), len(ours))))
    else:
        rng = np.random.default_rng(2)
        chosen = np.array([rng.permutation(len(both))[: len(ours)] for _ in range(_MOST_ORDERS)])
    sums = ranks[chosen].sum(axis=1)
    return float(np.mean(np.abs(sums - middle) >= seen - 1e-9))
