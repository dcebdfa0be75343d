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
from cli.tools import series
from report import expect
from report import series as reports

_ANSWERED, _IDLE = 0.999, 0.5  # of queries; cores


@dataclass
class Tried:
    """The runs with a value in order, and the summary of the last one."""

    folders: list[str] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    failed: str = ""  # why the first one that did not hold did not


@dataclass
class Searching:
    """The search for one variant; `base`: its settings. `note` keeps what was tried."""

    wish: Search
    base: series.Settings
    runner: series.Runner
    note: Callable[[], None]
    tried: dict[float, Tried] = field(default_factory=dict)

    def settings(self, value: float) -> series.Settings:
        return {**self.base, self.wish.key: int(value) if value == int(value) else value}

    def holds(self, value: float, times: int = 1) -> bool:
        """Whether all runs with a value meet the limits; runs it until there are so many, or one does not."""
        tried, settings = self.tried.setdefault(value, Tried()), self.settings(value)
        words = ", ".join(series.words_of(settings))
        while not tried.failed and len(tried.folders) < times:
            title = f"search: {words}, run {len(tried.folders) + 1} of {times}"
            self.take(tried, self.runner.run_one(settings, title, f"the search ended at {words}"))
            self.note()
            if tried.failed:
                self.runner.progress.phase(f"search: {words} does not hold: {tried.failed}")
        return not tried.failed

    def take(self, tried: Tried, folder: str) -> None:
        """Adds a run's summary; sets `failed` where the run is not clean or misses a limit."""
        path = self.runner.folder / folder / "summary.json"
        tried.summary = json.loads(path.read_text(encoding="utf-8"))
        tried.folders.append(folder)
        if not tried.failed and not tried.summary["clean"]:
            tried.failed = f"the run is not clean: {tried.summary['unclean_because'][0]}"
        elif not tried.failed:
            judged = [expect.judge(one, [tried.summary]) for one in expect.limits(self.wish.expect)]
            tried.failed = next((one.words for one in judged if one.state != "met"), "")

    def why_not_above(self, value: float) -> str:
        """What the next higher value that was tried says, and whose fault it is."""
        above = [at for at, one in self.tried.items() if at > value and one.failed]
        if not above:
            return f"nothing above {value:.10g} was tried: raise search.most"
        nearest = self.tried[min(above)]
        return f"at {min(above):.10g} {nearest.failed}; {limiting(nearest.summary)}"


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


def command(options: argparse.Namespace, once: series.Run) -> int:
    """An experiment as it asks for it: searched, in a series, or once."""
    experiment = experiments.load(options.experiment, options.set)
    if experiment.search is not None:
        return command_search(options, experiment, experiment.search, once)
    if any(one is not None for one in (options.resume, experiment.repeat, experiment.sweep)):
        return series.command_series(options, experiment, once)
    return once(options)


def command_search(options: argparse.Namespace, experiment: Experiment, wish: Search, run: series.Run) -> int:
    """0 when a value was found and confirmed, for each variant of [sweep]."""
    hint = "use search.confirm for runs that confirm the value"
    exclude("[search]", experiment.repeat and "[repeat]", hint=hint)
    exclude("[search]", experiment.expect and "[expect]", hint="its limits are those of search.expect")
    want(wish.least < wish.most, f"search.least = {wish.least:.10g} is not below search.most", "give a range")
    made = series.variants(experiment)
    want(wish.key not in made[0], f"{wish.key} is searched and in [sweep]", "leave one of them out")
    of_baseline = any(one.of_baseline for one in expect.limits(wish.expect))
    want(not of_baseline, "search.expect has a limit of a baseline, and a search has none", "give a value")
    early = any(map(series.earlier, (value for base in made for value in base.values())))
    want(not early, "[search] and files of earlier variants exclude each other", "name a file that is there")
    folder = options.resume or options.output / run_name.new(experiment.name)
    runner = series.Runner(options, folder, run)
    searches: list[Searching] = []

    def note(found: Sequence[str] = ()) -> None:
        settings: list[series.Settings] = []
        runs: series.Runs = {}
        for one in searches:
            for value in sorted(one.tried):
                runs |= {(len(settings), turn): name for turn, name in enumerate(one.tried[value].folders)}
                settings.append(one.settings(value))
        series.note(folder, experiment, settings, runs, found)

    searches += [Searching(wish, base, runner, note) for base in made]
    for one in searches:
        for value in (wish.least, wish.most):
            series.check(options, one.settings(value))
    if options.resume is not None:
        _resume(searches, folder, experiment, wish.key)
    folder.mkdir(parents=True, exist_ok=True)
    found = [(one.base, *highest(wish, one)) for one in searches]
    told = [said for one in found if (said := _told(wish, *one))]
    note(told)
    reports.write(folder)
    sys.stdout.write("".join(f"{one}\n" for one in told))
    if all(value is None for _, value, _ in found):
        what = f"{wish.key} = {wish.least:.10g} does not hold: {found[0][2]}"
        raise RepriseError(what, "lower search.least or the limits")
    return EXIT_FAILED if any(value is None for _, value, _ in found) else 0


def _resume(searches: Sequence[Searching], folder: Path, experiment: Experiment, key: str) -> None:
    """Takes what was tried before the command was ended."""
    try:
        told = json.loads((folder / reports.FILE).read_text(encoding="utf-8"))
        for one in told["runs"]:
            held = dict(told["variants"][one["variant"]])
            value = float(held.pop(key))
            search = next(other for other in searches if other.base == held)
            search.take(search.tried.setdefault(value, Tried()), one["folder"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, StopIteration):
        what = f"{folder} holds no such search for {key}"
        raise UsageError(what, "name the folder that the search has made") from None
    series.same_settings(folder, told, experiment)


def _told(wish: Search, base: series.Settings, best: float | None, why: str) -> str:
    where = f"{', '.join(series.words_of(base))}: " if base else ""
    if best is None:
        return f"{where}{wish.key} = {wish.least:.10g} does not hold: {why}" if base else ""
    runs = f"confirmed by {wish.confirm} run{'s' if wish.confirm > 1 else ''}"
    return f"{where}highest {wish.key} at which the limits hold: {best:.10g} ({runs}); {why}"


def highest(wish: Search, tries: Searching) -> tuple[float | None, str]:
    """The highest value, None where not even the least holds, and what is said of the next one."""
    known = dict(experiments.leaves()).get(wish.key)
    kinds = {kind for kind, _ in experiments.choices(known.annotation)} if known else set()
    seconds = wish.key == "server.tcp_idle_timeout_s"  # which servers take in whole ones
    whole = (int in kinds and float not in kinds) or seconds or min(wish.least, wish.most) >= 100
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
        good = max((at for at, one in tries.tried.items() if not one.failed and at < good), default=0.0)
    if not good:
        return None, tries.tried[wish.least].failed
    return good, tries.why_not_above(good)
