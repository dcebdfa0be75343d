"""Percentiles, defined once: the nearest rank.

The p-th percentile of n samples is the smallest sample that at least p % of the samples do not exceed (numpy
calls it `inverted_cdf`). It is always a value that was measured, and needs no interpolation rule. Ranks are
computed in whole numbers of a thousandth, so that 99 % of 100 is the 99th sample and not the 100th by a
rounding error.
"""

from __future__ import annotations

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


def rank(count: int, permille: int) -> int:
    """Index into the ascending samples; 0 for the minimum, count - 1 for the maximum."""
    return max(0, -(-count * permille // 1000) - 1)
