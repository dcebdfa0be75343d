"""What the measured cost of a query, a connection and a byte come to at a root letter's load.

How many connections stand is not in proportion to the rate: it depends on how often each source asks. Sources
are taken to ask at random, the one of rank r as (r + 10)^-1.1, as those of the root profile do, which was
fitted to a root server's minute (docs/synthetic.md); how many there are follows from how many a load shows in
its time.
"""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from report.papers import book
from report.papers.found import Found
from report.run import Json, value_at
from report.tables import number

_SHIFT, _EXPONENT = 10, -1.1
_BLOCKS = 4_000  # of sources with about the same rate
_MOST_TIMES = 1_000  # as many sources as are seen
_TIME_WAIT_S = 60


@dataclass(frozen=True)
class Load:
    """Queries a second, and the sources seen in a time."""

    rate: float
    sources: float
    span_s: float


@dataclass(frozen=True)
class Standing:
    """Connections in the steady state of a load where the server closes what was idle for some time."""

    population: int
    established: float
    closed_per_s: float

    @property
    def time_wait(self) -> float:
        return self.closed_per_s * _TIME_WAIT_S


def standing(load: Load, timeout_s: float) -> Standing:
    def seen(population: int) -> float:
        counts, rates = _rates(population, load.rate)
        return float(counts @ -np.expm1(-rates * load.span_s))

    most = int(load.sources * _MOST_TIMES)
    population = bisect.bisect_left(range(most), load.sources, int(load.sources), most, key=seen)
    counts, rates = _rates(population, load.rate)
    idle = np.exp(-rates * timeout_s)
    return Standing(population, float(counts @ (1 - idle)), float(counts @ (rates * idle)))


def _rates(population: int, rate: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many sources have which rate."""
    edges = np.unique(np.geomspace(1, population + 1, _BLOCKS).astype(np.int64))
    counts = np.diff(edges).astype(np.float64)
    weights = ((edges[:-1] + edges[1:] - 1) / 2 + _SHIFT) ** _EXPONENT
    return counts, weights * rate / (counts @ weights)


def of(studies: Iterable[Found]) -> Json | None:
    """A table with its `heading`, and the `arithmetic` in words. None before the runs that it needs are
    there.
    """
    told = book.tables()["model"]
    runs = next((one.runs for one in studies if one.study.name == told["study"]), {})
    keys = ("middle", "least", "most")
    held = [{path: _median(runs.get(told[key], ()), path) for path in _PATHS} for key in keys]
    if any(value is None for one in held for value in one.values()):
        return None
    return _extrapolated(told, *held)


_PATHS = (
    *("queries.sent", "duration_s", "sources", "state.established", "state.time_wait"),
    *("server_memory.all", "cpu_us_per_query.server", "load.response_mbps.median"),
)


def _median(runs: Sequence[Json], path: str) -> float | None:
    values = [value for one in runs if (value := value_at(one, path)) is not None]
    return float(np.median(values)) if values else None


def _extrapolated(told: Json, here: Json, least: Json, most: Json) -> Json:
    span_s, held, memory = here["duration_s"], here["state.established"], here["server_memory.all"]
    loads = [
        Load(here["queries.sent"] / span_s, here["sources"], span_s),
        *(Load(one["queries"] / one["in_s"], one["sources"], one["span_s"]) for one in told["loads"]),
    ]
    stands = [standing(one, told["timeout_s"]) for one in loads]
    more_memory, more_held = (most[key] - least[key] for key in ("server_memory.all", "state.established"))
    each = max(0.0, more_memory / more_held) if more_held > 0 else 0.0
    rest = max(0.0, memory - each * held)
    cpu_us, mbps = here["cpu_us_per_query.server"], here["load.response_mbps.median"]
    bits, cores = mbps / loads[0].rate, cpu_us / 1e6
    used = [(rest + each * one.established) / 1e9 for one in stands]
    connections, waiting = told["connections"], here["state.time_wait"]
    rows: list[tuple[str, float | None, Iterable[float | str], float | str | None]] = [
        ("queries/s", None, [one.rate for one in loads], None),
        ("sources", None, [f"{number(one.sources)} in {number(one.span_s)} s" for one in loads], None),
        ("sources in all, by the model", None, [one.population for one in stands], None),
        ("established", held, [one.established for one in stands], connections / 3),
        ("closed a second", None, [one.closed_per_s for one in stands], None),
        ("in TIME-WAIT", waiting, [one.time_wait for one in stands], connections * 2 / 3),
        ("connections", held + waiting, [one.established + one.time_wait for one in stands], connections),
        ("memory, GB", memory / 1e9, used, told["memory_gb"]),
        ("CPU, cores", cores * loads[0].rate, [cores * one.rate for one in loads], told["cores"]),
        ("responses, Mb/s", mbps, [bits * one.rate for one in loads], None),
    ]  # fmt: skip
    names = [one["name"] for one in told["loads"]]
    idle, size = f"{told['timeout_s']} s", number(each / 1e3)
    arithmetic = [
        f"established: the sum over all sources of 1 - exp(-r x {idle}), where r is a source's rate; there "
        "are as many sources as make the sum of 1 - exp(-r x time) those seen in that time",
        f"closed a second: the sum of r x exp(-r x {idle}); in TIME-WAIT: {_TIME_WAIT_S} s times that",
        f"memory of a connection: {number(more_memory / 1e6)} MB more for {number(more_held)} more that are "
        f"established ({told['most']} beside {told['least']}), {size} kB; without any: "
        f"{number(memory / 1e6)} MB - {number(held)} x {size} kB = {number(rest / 1e6)} MB",
        "the kernel's memory is that of both ends of each connection, since they share the machine: "
        "the server's own part is less",
        f"CPU: {number(cpu_us)} µs a query, times queries/s",
        f"responses: {number(bits * 125_000)} bytes a query, times queries/s",
        *(f"{one['name']}: {one['source']}" for one in told["loads"]),
    ]
    cells = [
        [what, number(measured), *map(number, (own, first)), number(published), *map(number, others)]
        for what, measured, (own, first, *others), published in rows
    ]
    heading = ["", "measured here", "here, by the model", names[0], "published", *names[1:]]
    return {"heading": heading, "cells": cells, "arithmetic": arithmetic}
