"""`reprise run` of an experiment with [search]: the highest value of a key at which limits hold.

Values are doubled until one does not hold; then the middle (of the ratio) between one that holds and one that
does not is tried. The value that is told is confirmed by further runs. With [sweep] there is a search for
each of its variants. All runs are in one folder, as those of a series, whose report they get; what was ended
goes on with `--resume`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import run_name
from cli.errors import EXIT_FAILED, RepriseError, UsageError, exclude, want
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment, Search
from cli.progress import Progress
from cli.tools import series
from report import expect
from report import series as reports
from report.expect import Limit

_ANSWERED, _IDLE = 0.999, 0.5  # of queries; cores
Run = Callable[[argparse.Namespace], int]


@dataclass
class Tried:
    """The runs with one value: their summaries in order, and what each says of the limits."""

    value: float
    folders: list[str] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    failed: str = ""  # why the first one that did not hold did not


@dataclass
class Shared:
    """What the searches of a command share: the folder, where all that was tried is noted."""

    options: argparse.Namespace
    experiment: Experiment
    wish: Search
    run: Run
    folder: Path
    searches: list[Searching] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    prepared: set[tuple[str, ...]] = field(default_factory=set)

    def note(self, found: Sequence[str] = ()) -> None:
        made: list[series.Settings] = []
        runs: list[series.One] = []
        for one in self.searches:
            for tried in sorted(one.tried.values(), key=lambda tried: tried.value):
                runs += [series.One(len(made), turn, name) for turn, name in enumerate(tried.folders)]
                made.append(one.settings(tried.value))
        series.note(self.folder, self.experiment, made, runs, found)

    def read(self) -> None:
        """Takes what was tried before the command was ended."""
        try:
            told = json.loads((self.folder / reports.FILE).read_text(encoding="utf-8"))
            for one in told["runs"]:
                held = dict(told["variants"][one["variant"]])
                value = float(held.pop(self.wish.key))
                search = next(other for other in self.searches if other.base == held)
                search.take(search.tried.setdefault(value, Tried(value)), one["folder"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, StopIteration):
            what = f"{self.folder} holds no such search for {self.wish.key}"
            raise UsageError(what, "name the folder that the search has made") from None
        series.same_settings(self.folder, told, self.experiment)


class Searching:
    """The search for one variant; `base`: its settings."""

    def __init__(self, shared: Shared, base: series.Settings) -> None:
        self._shared, self.base = shared, base
        self._limits: list[Limit] = list(expect.limits(shared.wish.expect))
        self.tried: dict[float, Tried] = {}

    def settings(self, value: float) -> series.Settings:
        return {**self.base, self._shared.wish.key: int(value) if value == int(value) else value}

    def holds(self, value: float, times: int = 1) -> bool:
        """Whether all runs with a value meet the limits; runs it until there are so many, or one does not."""
        shared, tried = self._shared, self.tried.setdefault(value, Tried(value))
        words = ", ".join(series.words_of(self.settings(value)))
        while not tried.failed and len(tried.folders) < times:
            shared.progress.phase(f"search: {words}, run {len(tried.folders) + 1} of {times}")
            settings = self.settings(value)
            folder = series.run_one(shared.options, settings, shared.folder, shared.run, shared.prepared)
            if not folder:
                hint = series.resume_hint(shared.options, shared.folder)
                raise RepriseError(f"the search ended at {words}", hint)
            self.take(tried, folder)
            shared.note()
            if tried.failed:
                shared.progress.phase(f"search: {words} does not hold: {tried.failed}")
        return not tried.failed

    def take(self, tried: Tried, folder: str) -> None:
        """Adds a run's summary; sets `failed` where the run is not clean or misses a limit."""
        summary = json.loads((self._shared.folder / folder / "summary.json").read_text(encoding="utf-8"))
        tried.folders.append(folder)
        tried.summaries.append(summary)
        if tried.failed:
            return
        if not summary["clean"]:
            tried.failed = f"the run is not clean: {summary['unclean_because'][0]}"
            return
        missed = [one for one in expect.judge(self._limits, [summary], ()) if one.state != "met"]
        tried.failed = missed[0].words if missed else ""

    def why_not_above(self, value: float) -> str:
        """What the next higher value that was tried says, and whose fault it is."""
        above = [one for one in self.tried.values() if one.value > value and one.failed]
        if not above:
            return f"nothing above {value:.10g} was tried: raise search.most"
        nearest = min(above, key=lambda one: one.value)
        return f"at {nearest.value:.10g} {nearest.failed}; {limiting(nearest.summaries[-1])}"


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
    connected = summary["connections"]["peak_open"]
    known = summary["cpu_s"].get("server") is not None
    idle = known and used["server"] + used["front"] < _IDLE
    if connected and summary["answered_share"] < _ANSWERED and idle:
        told = (
            f"the server had time left ({used['server']:.2f} cores used) with {connected:,} connections open"
        )
        return f"{told}: it may take no more (server.tcp_count, its descriptors)"
    told = ", ".join(f"{role} {share:.2f}" for role, share in used.items() if share)
    return f"cores used: {told}"


def command(options: argparse.Namespace, once: Run) -> int:
    """An experiment as it asks for it: searched, in a series, or once."""
    experiment = experiments.load(options.experiment, options.set)
    if experiment.search is not None:
        return command_search(options, experiment, experiment.search, once)
    if any(one is not None for one in (options.resume, experiment.repeat, experiment.sweep)):
        return series.command_series(options, experiment, once)
    return once(options)


def command_search(options: argparse.Namespace, experiment: Experiment, wish: Search, run: Run) -> int:
    """0 when a value was found and confirmed, for each variant of [sweep]."""
    want(
        experiment.repeat is None,
        "[search] and [repeat] exclude each other",
        "use search.confirm for runs that confirm the value",
    )
    exclude("[search]", experiment.expect and "[expect]", hint="its limits are those of search.expect")
    want(wish.least < wish.most, f"search.least = {wish.least:.10g} is not below search.most", "give a range")
    folder = options.resume or options.output / run_name.new(experiment.name)
    shared = Shared(options, experiment, wish, run, folder)
    made = series.variants(experiment)
    want(wish.key not in made[0], f"{wish.key} is searched and in [sweep]", "leave one of them out")
    of_baseline = any(one.of_baseline for one in expect.limits(wish.expect))
    want(not of_baseline, "search.expect has a limit of a baseline, and a search has none", "give a value")
    early = any(map(series.earlier, (value for base in made for value in base.values())))
    want(not early, "[search] and files of earlier variants exclude each other", "name a file that is there")
    shared.searches += [Searching(shared, base) for base in made]
    for one in shared.searches:
        for value in (wish.least, wish.most):
            series.check(options, one.settings(value))
    if options.resume is not None:
        shared.read()
    folder.mkdir(parents=True, exist_ok=True)
    found = [(one, highest(wish, one)) for one in shared.searches]
    told = [said for one, best in found if (said := _told(wish, one.base, best))]
    shared.note(told)
    reports.write(folder)
    sys.stdout.write("".join(f"{one}\n" for one in told))
    if all(best.value is None for _, best in found):
        what = f"{wish.key} = {wish.least:.10g} does not hold: {found[0][1].why}"
        raise RepriseError(what, "lower search.least or the limits")
    return EXIT_FAILED if any(best.value is None for _, best in found) else 0


def _told(wish: Search, base: series.Settings, best: Found) -> str:
    where = f"{', '.join(series.words_of(base))}: " if base else ""
    if best.value is None:
        return f"{where}{wish.key} = {wish.least:.10g} does not hold: {best.why}" if base else ""
    runs = f"confirmed by {wish.confirm} run{'s' if wish.confirm > 1 else ''}"
    limits = f"highest {wish.key} at which the limits hold: {best.value:.10g} ({runs})"
    return f"{where}{limits}; {best.why}"


@dataclass(frozen=True)
class Found:
    """The highest value, None where not even the least holds, and what is said of the next one."""

    value: float | None
    why: str


def highest(wish: Search, tries: Searching) -> Found:
    known = dict(experiments.leaves()).get(wish.key)
    kinds = {kind for kind, _ in experiments.choices(known.annotation)} if known else set()
    whole = int in kinds and float not in kinds
    seconds = wish.key == "server.tcp_idle_timeout_s"  # which servers take in whole ones
    whole = whole or seconds or min(wish.least, wish.most) >= 100
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
        return Found(None, tries.tried[wish.least].failed)
    return Found(good, tries.why_not_above(good))
