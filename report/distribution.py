"""Distributions of times, which can be added up over windows, queriers, hosts and runs.

Up to EXACT values are kept as they are. Beyond that they are counted in log-linear bins as HdrHistogram has
them: below 2**(B+1) each value has its own bin, above it each power of two has 2**B bins of equal width. A
value taken from a bin is its middle and differs from the true one by at most a share of 2**-(B+1): 0.05 %
with B = 10, and 0.8 % with the B = 6 of time slices.

Percentiles are nearest ranks: the p-th percentile of n samples is the smallest sample that at least p % of
the samples do not exceed (numpy calls it `inverted_cdf`). It is always a value that was measured, and needs
no interpolation rule. Ranks are computed in whole numbers of a thousandth, so that 99 % of 100 is the 99th
sample and not the 100th by a rounding error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXACT = 1 << 22  # values; 32 MB
FINE, COARSE = 10, 6  # B of a distribution and of a slice
_MOST = np.int64(1 << 52)  # ns, 52 days: longer times are counted as this
_DENSE = 1 << 23  # keys in so narrow a range are counted in place
Values = NDArray[np.int64]
_Pair = tuple[Values, NDArray[np.int64]]  # keys and counts
Percentiles = dict[str, float | int | None]

# Name -> per mille.
SPREAD = {
    "min": 0,
    "p1": 10,
    "p5": 50,
    "q1": 250,
    "median": 500,
    "q3": 750,
    "p90": 900,
    "p95": 950,
    "p99": 990,
    "p999": 999,
    "max": 1000,
}
ABSOLUTE = {"abs_p50": 500, "abs_p99": 990, "abs_p999": 999}


def rank(count: int | Values, permille: int | Values) -> Values:
    """Index into the ascending samples; 0 for the minimum, count - 1 for the maximum."""
    return np.asarray(np.maximum(0, -(-count * permille // 1000) - 1))


def bins_of(values: Values, bits: int) -> Values:
    """The bin of each value; negative values have the bins of their absolute ones, negated."""
    size = np.minimum(np.abs(values), _MOST)
    shift = np.maximum(np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1 - bits, 0)
    bins: Values = np.sign(values) * ((shift << bits) + (size >> shift))
    return bins


def middles(bins: Values, bits: int) -> Values:
    size = np.abs(bins)
    shift = np.maximum((size >> bits) - 1, 0)
    values: Values = np.sign(bins) * (((size - (shift << bits)) << shift) + ((1 << shift) >> 1))
    return values


class Distribution:
    """Values in ns: kept one by one up to EXACT, counted in bins above that."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[Values] = []
        self._bins: NDArray[np.int64] = np.zeros(0, np.int64)  # and how many values are in each
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._ends: tuple[int, int] = (0, 0)  # the least and the largest value

    def add(self, values: Values) -> None:
        if len(values):
            self._take(len(values), (int(values.min()), int(values.max())), [values])

    def _take(self, count: int, ends: tuple[int, int], parts: list[Values], *binned: _Pair) -> None:
        """Values one by one and counted in bins; `count` and `ends` are of all of them."""
        low, high = self._ends if self.count else ends
        self._ends = min(low, ends[0]), max(high, ends[1])
        self.count += count
        self._parts += parts
        if self.count > EXACT:
            binned = (*binned, *(counted(bins_of(part, FINE)) for part in self._parts))
            self._parts = []
        if binned:
            self._bins, self._counts = summed((self._bins, self._counts), *binned)

    @classmethod
    def of_counts(cls, values: Values, counts: NDArray[np.int64]) -> Distribution:
        """Of ascending values, and how often each is there."""
        whole, count = cls(), int(counts.sum())
        if count <= EXACT:
            whole.add(np.repeat(values, counts))
        else:
            whole._take(count, (int(values[0]), int(values[-1])), [], (bins_of(values, FINE), counts))
        return whole

    @classmethod
    def of(cls, several: Iterable[Distribution]) -> Distribution:
        whole = cls()
        for one in several:
            if one.count:
                whole._take(one.count, one._ends, one._parts, (one._bins, one._counts))
        return whole

    def ascending(self) -> tuple[Values, NDArray[np.int64]]:
        """Values, and how many there are up to each."""
        if self.count <= EXACT:
            values = np.sort(np.concatenate([np.zeros(0, np.int64), *self._parts]))
            return values, np.arange(1, len(values) + 1, dtype=np.int64)
        values = np.clip(middles(self._bins, FINE), *self._ends)
        return values, np.cumsum(self._counts)

    def absolute(self) -> Distribution:
        made = Distribution()
        low, high = self._ends
        ends = 0 if low < 0 < high else min(abs(low), abs(high)), max(abs(low), abs(high))
        made._take(self.count, ends, [np.abs(one) for one in self._parts], (np.abs(self._bins), self._counts))
        return made

    def spread(self) -> Percentiles:
        """The percentiles of summary.json, in µs, and how many values there are."""
        return {"count": self.count, **self._named(SPREAD)}

    def errors(self) -> Percentiles:
        """As `spread`, with percentiles of the absolute value: for signed errors."""
        return {**self.spread(), **self.absolute()._named(ABSOLUTE)}

    def _named(self, names: dict[str, int]) -> Percentiles:
        if not self.count:
            return dict.fromkeys(names)
        values, so_far = self.ascending()
        ranks = rank(self.count, np.array([*names.values()]))
        found = values[np.searchsorted(so_far, ranks, side="right")].tolist()
        ends = {0: self._ends[0], 1000: self._ends[1]}
        return {
            name: ends.get(permille, value) / 1000
            for (name, permille), value in zip(names.items(), found, strict=True)
        }


def summed(
    *pairs: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]],
) -> tuple[Values, NDArray[np.int64]]:
    """Counts by key, keys ascending; what pairs of keys and counts have in common is added up."""
    keys, counts = (np.concatenate(both).astype(np.int64) for both in zip(*pairs, strict=True))
    found, places = np.unique(keys, return_inverse=True)
    return found, np.bincount(places, weights=counts, minlength=len(found)).astype(np.int64)


def counted(keys: Values) -> tuple[Values, NDArray[np.int64]]:
    """Keys, ascending, and how often each is there."""
    if not len(keys):
        return keys, np.zeros(0, np.int64)
    low = int(keys.min())
    if int(keys.max()) - low > _DENSE:
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys - low)
    found = np.flatnonzero(counts)
    return found + low, counts[found]


class Counts:
    """How often each of some whole numbers was there, 8 bytes for each of them. So many numbers that lie
    together are held together.
    """

    _MOST_PARTS = 4

    def __init__(self, together: int) -> None:
        self._together = together
        self._held: dict[int, list[tuple[NDArray[np.int32], NDArray[np.int32]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, numbers: Values) -> None:
        numbers, counts = counted(numbers)
        found, starts = np.unique(numbers // self._together, return_index=True)
        parts = (np.split(one, starts[1:]) for one in (numbers, counts))
        for place, *part in zip(found.tolist(), *parts, strict=False):
            held = self._held.setdefault(place, [])
            held.append(_small(part[0] - place * self._together, part[1]))
            if len(held) > self._MOST_PARTS:
                self._held[place] = [_small(*summed(*held))]

    def parts(self) -> Iterator[_Pair]:
        """What is held together, ascending."""
        for place in sorted(self._held):
            numbers, counts = summed(*self._held[place])
            yield numbers + place * self._together, counts


def _small(numbers: Values, counts: Values) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return numbers.astype(np.int32), counts.astype(np.int32)


class Slices:
    """A distribution for each slice of time, in coarse bins. What is held grows with the slices and with the
    bins that are used in each.
    """

    SLICE_NS = 100_000_000
    _BINS = 1 << 13  # more than there are, of either sign
    _TOGETHER = 256  # slices

    def __init__(self) -> None:
        self._held = Counts(self._TOGETHER * 2 * self._BINS)

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, times: Values, values: Values) -> None:
        """Values and the times from the start at which they count; what was before the start does not."""
        kept = (times >= 0) & (times < _MOST)
        slices = times[kept] // self.SLICE_NS
        self._held.add(slices * (2 * self._BINS) + bins_of(values[kept], COARSE) + self._BINS)

    def bands(
        self, size_ns: int, permille: tuple[int, ...], begin_ns: int = 0
    ) -> tuple[NDArray[np.int64], Values]:
        """For periods of `size_ns` from `begin_ns` on in which there is a value: their numbers, and the
        percentiles of each.
        """
        keys, counts = self._periods(size_ns, begin_ns)
        numbers, starts = np.unique(keys // (2 * self._BINS), return_index=True)
        values, so_far = middles(keys % (2 * self._BINS) - self._BINS, COARSE), np.cumsum(counts)
        sums = np.add.reduceat(counts, starts) if len(starts) else starts
        ranks = so_far[starts] - counts[starts] + rank(sums, np.array(permille)[:, np.newaxis])
        return numbers, values[np.searchsorted(so_far, ranks, side="right")]

    def within(self, begin_ns: int, end_ns: int) -> Distribution:
        """Of the slices that begin in a time."""
        keys, counts = self._periods(end_ns - begin_ns, begin_ns)
        bins = keys[keys < 2 * self._BINS] - self._BINS  # the first period
        return Distribution.of_counts(middles(bins, COARSE), counts[: len(bins)])

    def _periods(self, size_ns: int, begin_ns: int) -> _Pair:
        """What is held, by period and bin."""
        found: list[_Pair] = [counted(np.zeros(0, np.int64))]
        for keys, counts in self._held.parts():
            slices, bins = np.divmod(keys, 2 * self._BINS)
            period = (slices * self.SLICE_NS - begin_ns) // size_ns
            kept = period >= 0
            found.append(summed((period[kept] * (2 * self._BINS) + bins[kept], counts[kept])))
        return summed(*found)
