"""`reprise run` of an experiment with [search]: the highest value of a key at which limits hold.

Values are doubled until one does not hold; then the middle (of the ratio) between one that holds and one that
does not is tried. The value that is told is confirmed by further runs. All runs are in one folder, as those
of a series, whose report they get; a search that was ended goes on with `--resume`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import run_name
from cli.errors import RepriseError, UsageError, want
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment, Search
from cli.progress import Progress
from cli.tools import series
from report import expect
from report import series as reports
from report.expect import Limit

Run = Callable[[argparse.Namespace], int]


@dataclass
class Tried:
    """The runs with one value: their summaries in order, and what each says of the limits."""

    value: float
    folders: list[str] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    failed: str = ""  # why the first one that did not hold did not


class Searching:
    """What was tried so far, kept in the folder."""

    def __init__(self, options: argparse.Namespace, experiment: Experiment, wish: Search, run: Run) -> None:
        self._options, self._wish, self._run = options, wish, run
        self._name = experiment.name
        self._limits: list[Limit] = list(expect.limits(wish.expect))
        self.folder: Path = options.resume or options.output / run_name.new(experiment.name)
        self.tried: dict[float, Tried] = {}
        self._progress = Progress()
        self._prepared: set[tuple[str, ...]] = set()
        if options.resume is not None:
            self._read()
        self.folder.mkdir(parents=True, exist_ok=True)

    def holds(self, value: float, times: int = 1) -> bool:
        """Whether all runs with a value meet the limits; runs it until there are so many, or one does not."""
        tried = self.tried.setdefault(value, Tried(value))
        while not tried.failed and len(tried.folders) < times:
            self._progress.phase(
                f"search: {self._wish.key} = {value:.10g}, run {len(tried.folders) + 1} of {times}"
            )
            folder = series.run_one(
                self._options, _settings(self._wish, value), self.folder, self._run, self._prepared
            )
            if not folder:
                hint = f"go on with: reprise run {self._options.experiment} --resume {self.folder}"
                raise RepriseError(f"the search ended at {self._wish.key} = {value:.10g}", hint)
            self._take(tried, folder)
            self._note()
            if tried.failed:
                self._progress.phase(f"search: {self._wish.key} = {value:.10g} does not hold: {tried.failed}")
        return not tried.failed

    def _take(self, tried: Tried, folder: str) -> None:
        summary = json.loads((self.folder / folder / "summary.json").read_text(encoding="utf-8"))
        tried.folders.append(folder)
        tried.summaries.append(summary)
        if tried.failed:
            return
        if not summary["clean"]:
            tried.failed = f"the run is not clean: {summary['unclean_because'][0]}"
            return
        missed = [one for one in expect.judge(self._limits, [summary], ()) if one.state != "met"]
        tried.failed = missed[0].words if missed else ""

    def _note(self) -> None:
        values = sorted(self.tried.values(), key=lambda one: one.value)
        runs = [
            series.One(at, turn, name)
            for at, one in enumerate(values)
            for turn, name in enumerate(one.folders)
        ]
        series.note(self.folder, self._name, [_settings(self._wish, one.value) for one in values], runs)

    def _read(self) -> None:
        try:
            told = json.loads((self.folder / reports.FILE).read_text(encoding="utf-8"))
            for one in told["runs"]:
                value = float(told["variants"][one["variant"]][self._wish.key])
                self._take(self.tried.setdefault(value, Tried(value)), one["folder"])
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            what = f"{self.folder} holds no search for {self._wish.key}"
            raise UsageError(what, "name the folder that the search has made") from None

    def why_not_above(self, value: float) -> str:
        """What the next higher value that was tried says, and whose fault it is."""
        above = [one for one in self.tried.values() if one.value > value and one.failed]
        if not above:
            return f"nothing above {value:.10g} was tried: raise search.most"
        nearest = min(above, key=lambda one: one.value)
        return f"at {nearest.value:.10g} {nearest.failed}; {limiting(nearest.summaries[-1])}"


def _settings(wish: Search, value: float) -> series.Settings:
    return {wish.key: int(value) if value == int(value) else value}


def _is_whole(key: str) -> bool:
    """Whether the key takes whole numbers only."""
    kinds = [
        kind
        for name, one in experiments.leaves()
        if name == key
        for kind, _ in experiments.choices(one.annotation)
    ]
    return int in kinds and float not in kinds


def limiting(summary: dict[str, Any]) -> str:
    """What was used up. What is ours is never called the server's."""
    if summary["busy"]:
        return f"the machine is the limit, not the server: {summary['busy'][0]}"
    span_s = summary["duration_s"] or 1.0
    used = {
        role: (summary["cpu_s"].get(role) or 0.0) / span_s
        for role in ("querier", "controller", "server", "front")
    }
    late = summary["timing_error_us"].get("abs_p99") or 0.0
    if late > 1_000 and used["querier"] > 0.8:
        return f"our own queriers are the limit: they used {used['querier']:.2f} cores and sent late"
    if unread := [one for one in summary["server_faults"] + summary["warnings"] if "did not read" in one]:
        return f"the server's socket buffers are the limit: {unread[0]}"
    told = ", ".join(f"{role} {share:.2f}" for role, share in used.items() if share)
    return f"cores used: {told}"


def command_search(options: argparse.Namespace, experiment: Experiment, wish: Search, run: Run) -> int:
    """0 when a value was found and confirmed."""
    want(
        experiment.repeat is None and experiment.sweep is None,
        "[search] excludes [repeat] and [sweep]",
        "use one",
    )
    want(wish.least < wish.most, f"search.least = {wish.least:.10g} is not below search.most", "give a range")
    for value in (wish.least, wish.most):
        words = series.words_of(_settings(wish, value))
        experiments.load(options.experiment, [*options.set, *words, "search="])
    found = highest(wish, Searching(options, experiment, wish, run))
    reports.write(found.folder)
    if found.value is None:
        raise RepriseError(
            f"{wish.key} = {wish.least:.10g} does not hold: {found.why}", "lower search.least or the limits"
        )
    runs = f"confirmed by {wish.confirm} run{'s' if wish.confirm > 1 else ''}"
    sys.stdout.write(
        f"highest {wish.key} at which the limits hold: {found.value:.10g} ({runs}); {found.why}\n"
    )
    return 0


@dataclass(frozen=True)
class Found:
    """The highest value, None where not even the least holds, and what is said of the next one."""

    value: float | None
    why: str
    folder: Path


def highest(wish: Search, tries: Searching) -> Found:
    whole = _is_whole(wish.key) or min(wish.least, wish.most) >= 100
    good, bad = 0.0, 0.0
    value = wish.least
    while tries.holds(value):
        good = value
        if value >= wish.most:
            break
        value = min(2 * value, wish.most)
    else:
        bad = value
    while good and bad and bad / good > 1 + wish.precision:
        value = math.sqrt(good * bad)
        value = float(round(value)) if whole else float(f"{value:.4g}")
        if value in (good, bad):
            break
        good, bad = (value, bad) if tries.holds(value) else (good, value)
    while good and not tries.holds(good, wish.confirm):  # the next lower one that held once
        good = max(
            (one.value for one in tries.tried.values() if not one.failed and one.value < good), default=0.0
        )
    if not good:
        return Found(None, tries.tried[wish.least].failed, tries.folder)
    return Found(good, tries.why_not_above(good), tries.folder)
