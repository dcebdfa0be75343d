"""`reprise run` of an experiment with [repeat] or [sweep]: several runs, one after the other, and one report.

A folder of the results has a folder for each run and `series.json`, which says what is to be run. The order
is balanced, see `order`. A series that was ended goes on with `--resume`.
"""

import argparse
import contextlib
import functools
import io
import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import programs, run_name
from cli.errors import EXIT_FAILED, RepriseError, UsageError, want
from cli.executor import preflight
from cli.experiment import experiment as experiments
from cli.experiment import tables
from cli.experiment.schema import Experiment, Repeat
from cli.hosts import inventory
from cli.plan.facts import check_kinds
from cli.progress import Progress
from report import series as reports
from report import whole_file
from report.run import as_json, leaves

Settings = dict[str, Any]
Runs = dict[tuple[int, int], str]  # results of each variant and round; "" before it has been
Run = Callable[[argparse.Namespace], int]
_MODES = ("grid", "list")
# Keys that the hosts of an inventory are prepared for.
_PREPARED = ("server", "hierarchy", "replay.source_mode", "sample", "rtt")
_NAMES = ("labels", "full_labels", "trace_labels")  # of [paper]
ALONE = ("repeat=", "sweep=", "search=")  # of a run in a series
_BESIDE = ("title", "repeat", "sweep", "search", "expect")  # what a run does not depend on
_NO_AXES = ("name", "paper", "title", "repeat", "sweep", "search")
_groups = functools.cache(inventory.read)
_SAME = "give the experiment and the --set that it was begun with"


def variants(experiment: Experiment) -> list[Settings]:
    """The settings of each variant; empty paths set nothing."""
    swept = dict(experiment.sweep or {})
    mode = swept.pop("mode", "grid")
    want(mode in _MODES, f"sweep.mode = {mode!r} is unknown", f"use {' or '.join(_MODES)}")
    files = experiments.file_keys()
    for key, values in leaves(swept):
        good = isinstance(values, list) and bool(values)
        want(good, f"sweep.{key} is no list of values", "give one, such as [1000, 2000]")
    fits = mode == "grid" or len({len(values) for _, values in leaves(swept)}) <= 1
    want(fits, "the lists of [sweep] have different lengths", 'use mode = "grid"')
    wholes = tables.combinations(experiment.sweep or {})
    made = [{key: value for key, value in one.items() if value or key not in files} for one in wholes]
    for at, settings in enumerate(made):
        for key, value in settings.items():
            early = earlier(value)
            want(
                early is None or 1 <= int(early[1]) <= at,
                f"sweep.{key} = {value!r} in variant {at + 1} names no earlier variant",
                f"use @1/ to @{at}/" if at else "put it into a later variant",
            )
    return made


def earlier(value: Any) -> re.Match[str] | None:
    """Number and name where a value is a file of the first run of an earlier variant."""
    return experiments.EARLIER.fullmatch(str(value))


def order(count: int, rounds: int) -> Runs:
    """Every variant once in each round. Each second round has the order of the one before turned round, and
    the next two begin with another variant: none is always first, and what drifts meets all alike.
    """
    found: Runs = {}
    for turn in range(rounds):
        places = [(turn // 2 + at) % count for at in range(count)]
        found |= {(variant, turn): "" for variant in (places if turn % 2 == 0 else places[::-1])}
    return found


def words_of(settings: Settings) -> list[str]:
    """As `--set` takes them."""
    texts = {key: one if isinstance(one, str) else tables.text_of(one) for key, one in settings.items()}
    return [f"{key}={text}" for key, text in texts.items()]


def command_series(options: argparse.Namespace, experiment: Experiment, run: Run) -> int:
    """Runs what is missing, each by `run` as by a command of its own; 0 when all are clean and no limit is
    missed.
    """
    from cli.executor import run as executor  # noqa: PLC0415 - slow to import

    made = variants(experiment)
    for settings in made:  # all are looked at before the first one runs
        check(options, settings)
    runs = order(len(made), (experiment.repeat or Repeat()).n)
    folder = options.resume or options.output / run_name.new(experiment.name)
    if options.resume is not None:
        runs = _resumed(folder, experiment, made, runs)
    folder.mkdir(parents=True, exist_ok=True)
    note(folder, experiment, made, runs)
    runner = Runner(options, folder, run)
    for at, ((variant, turn), done) in enumerate(runs.items(), 1):
        if not done:
            told = ", ".join(words_of(made[variant])) or "the experiment as it is"
            title = f"run {at} of {len(runs)}, round {turn + 1}: {told}"
            ended = f"the series ended after {at - 1} of {len(runs)} runs"
            runs[variant, turn] = runner.run_one(_found(made[variant], runs, folder), title, ended)
            note(folder, experiment, made, runs)
    clean = reports.write(folder)
    met = experiment.expect is None or executor.as_expected(folder, experiment.expect)
    return 0 if clean and met else EXIT_FAILED


def check(options: argparse.Namespace, settings: Settings) -> None:
    """Refuses a variant that its run would refuse, or that would be as all others."""
    alone = next((key for key in settings if key.partition(".")[0] in _NO_AXES), None)
    want(alone is None, f"{alone} changes no run", "leave it out of [sweep] and search.key")
    experiment = experiments.load(options.experiment, [*options.set, *words_of(settings), *ALONE])
    check_kinds(experiment)
    preflight.check_settings(experiment)
    if not any(map(earlier, settings.values())):
        preflight.check_files(experiment)
    if options.inventory:
        inventory.place(experiment, _groups(*options.inventory))


def _found(settings: Settings, runs: Runs, folder: Path) -> Settings:
    """The settings with the paths of files in earlier runs."""
    first = {variant: name for (variant, _), name in reversed(runs.items()) if name}

    def value_of(value: Any) -> Any:
        early = earlier(value)
        return str(folder.absolute() / first[int(early[1]) - 1] / early[2]) if early else value

    return {key: value_of(value) for key, value in settings.items()}


@dataclass
class Runner:
    """Makes the runs of a series or a search in its folder, each by `run` as by a command of its own.
    `prepared`: what the hosts of an inventory were prepared for by earlier runs.
    """

    options: argparse.Namespace
    folder: Path
    run: Run
    progress: Progress = field(default_factory=Progress)
    prepared: set[tuple[str, ...]] = field(default_factory=set)

    def run_one(self, settings: Settings, title: str, ended: str) -> str:
        """The folder of a run, whose own table is not printed. It is an error, whose words are `ended`, where
        it does not go to its end.
        """
        options, before, found = self.options, set(self.folder.iterdir()), ""
        own = [*options.set, *words_of(settings), *ALONE]
        asked = tuple(one for one in own if one.startswith(_PREPARED))
        more = {"set": own, "output": self.folder, "no_deploy": options.no_deploy or asked in self.prepared}
        with contextlib.suppress(KeyboardInterrupt):  # also before the run itself heeds it
            self.progress.phase(title)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(KeyboardInterrupt):
                self.run(argparse.Namespace(**{**vars(options), **more}))
            self.prepared.add(asked)
            new = sorted(one.name for one in set(self.folder.iterdir()) - before if one.suffix != ".partial")
            error = as_json(self.folder / new[0] / "manifest.json").get("error") if new else ""
            found = new[0] if new and "interrupted" not in str(error) else ""
        if not found:
            given = programs.flags(resume=self.folder, inventory=options.inventory, set=options.set)
            words = shlex.join(["reprise", "run", str(options.experiment), *given])
            raise RepriseError(ended, f"go on with: {words}")
        return found


def note(
    folder: Path, experiment: Experiment, made: list[Settings], runs: Runs, found: Sequence[str] = ()
) -> None:
    """Writes what belongs to a series, and what a search `found` in words. The variants of a paper's figure
    have names.
    """
    paper = experiment.paper or {}
    names = [paper[key] for key in _NAMES if len(paper.get(key, ())) == len(made)]
    value = {
        "schema": 1,
        "name": experiment.name,
        "title": experiment.title,
        "found": list(found),
        "experiment": _settings(experiment),
        "variants": made,
        **({"labels": names[0]} if names else {}),
        "runs": [{"variant": one, "round": turn, "folder": name} for (one, turn), name in runs.items()],
    }
    whole_file.write(folder / reports.FILE, json.dumps(value, indent=2) + "\n")


def _settings(experiment: Experiment) -> Settings:
    """All that each run has in common."""
    tables = json.loads(json.dumps(experiments.as_dict(experiment)))
    return {name: value for name, value in tables.items() if name not in _BESIDE}


def same_settings(folder: Path, told: Settings, experiment: Experiment) -> None:
    """Refuses to go on with a series, of which `series.json` has `told`, with runs of another kind."""
    settings = _settings(experiment)
    same = told.get("experiment", settings) == settings
    want(same, f"{folder} has other settings than this experiment", _SAME)


def _resumed(folder: Path, experiment: Experiment, made: list[Settings], runs: Runs) -> Runs:
    """The runs, with those that have been."""
    try:
        found = json.loads((folder / reports.FILE).read_text(encoding="utf-8"))
        same = found["variants"] == json.loads(json.dumps(made))
        names = {(one["variant"], one["round"]): one["folder"] for one in found["runs"]}
        been = {key: name for key, name in names.items() if (folder / name).is_dir()}
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{folder} holds no series", "name a folder that a series has made") from None
    want(same, f"{folder} has other variants than this experiment", _SAME)
    same_settings(folder, found, experiment)
    return {key: been.get(key, "") for key in runs}
