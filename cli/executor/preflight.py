"""What is looked at before anything starts: an experiment's files, the checks of its plan, and the room for
its results.

How much is played is told by the programs that look at a trace for the plan's checks: by its beginning, so
that a large one is not read twice. Where the mutator changes it first, nobody knows.
"""

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cli import linux, programs
from cli.errors import RepriseError, UsageError, complain, one_line, read_told, want
from cli.executor.words import in_terms
from cli.experiment import experiment as experiments
from cli.experiment import tables
from cli.experiment.schema import Experiment, Replay
from cli.plan import privileges, replay_options
from cli.plan.planned import RESULTS, RUN, Check, File, Plan
from cli.programs import flags
from cli.progress import parse, seconds_in_words
from report.tables import number

_ROUNDED_S = 1.0  # a trace ends before its nominal time
_LIMIT_S = 5.0  # of a check; a trace that shows no query so soon is left to the run
# Bytes of results, as they were measured.
_RUN = 1_400_000  # logs, samples, manifest, summary, plots and page
_RECORD = 80  # a query in queries-*.rq
_MESSAGES = 400  # one with its response, in answers and in a capture


class Estimate(NamedTuple):
    """What a replay comes to at most, as far as is known before it starts; infinite where it is not."""

    seconds: float
    size: float  # bytes of results


def check_files(experiment: Experiment) -> None:
    """Checks an experiment's files without reading them: a pipe or a device may never end."""
    table = experiments.as_dict(experiment)
    for name, field in experiments.leaves():
        path = Path(tables.get(table, name) or "") if experiments.is_path(field) else Path()
        if path.exists() and not path.is_file() and not path.is_dir():
            what = f"{name} {path} is not a file"
            raise UsageError(what, "save it to a file first, it is read more than once")
    if experiment.trace is None:
        return
    path = Path(experiment.trace)
    try:
        with path.open("rb") as file:
            want(bool(file.read(1)), f"trace {path} is empty", "capture or fetch it again")
    except FileNotFoundError:
        raise UsageError(f"no trace {path}", "give an existing file with --set trace=FILE") from None
    except OSError as error:
        raise UsageError(f"cannot read trace {path}: {error.strerror}", "give a readable file") from None


def check_settings(experiment: Experiment) -> None:
    """Has the controller look at the settings of a replay, where there is no plan yet."""
    file = replay_options.file(experiment, "")
    given = flags(options=file.path, distributor="127.0.0.1:1", server="127.0.0.1", allow_public=True)
    given += flags(run_id="x", cert="x", key="x", ca="x", confirm_return_path=True, check="options")
    list(_answers([Check(("reprise-controller", "x", *given))], [file]))


def check_values(plan: Plan) -> Estimate:
    """Has the programs look at their command lines; the first complaint is a usage error."""
    told = dict(map(parse, _answers(plan.checks, plan.files)))
    return estimate(plan.experiment, told.get("extent", {}))


def _answers(checks: Iterable[Check], files: Sequence[File]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="reprise-") as scratch:
        for file in files:
            path = Path(_filled(file.path, scratch))
            if file.content is not None and path.parent == Path(scratch):
                path.write_text(file.content, encoding="utf-8", errors="surrogateescape")
        for check in checks:
            yield _carry_out(check, files, scratch)


def estimate(experiment: Experiment, extent: Mapping[str, str]) -> Estimate:
    """By the settings, and what a program told of the queries of a lap and their span."""
    replay = experiment.replay
    chosen = replay.collapse_retransmits or replay.skip_sources or replay.from_ or replay.until
    if experiment.mutate or chosen or replay.sample_sources != Replay().sample_sources:
        extent = extent if experiment.synth is None else {}  # which is of the whole trace
    queries, span = (float(extent.get(key, "0")) for key in ("queries", "span_s"))
    rate = experiment.rate or queries / max(span, 1e-3) * replay.speed
    most = min(queries * replay.loop or math.inf, replay.limit or math.inf)
    seconds = replay.duration_s or math.inf
    if rate and not replay.fast:
        seconds = min(seconds, most / rate)
        most = min(most, seconds * rate)
    if not queries and experiment.generate is None:
        most = math.inf  # limits alone say little
    each = _RECORD + _MESSAGES * (replay.answers + experiment.sample.capture)
    return Estimate(seconds, _RUN + most * each)


def _filled(word: str, scratch: str) -> str:
    return word.replace(RUN, scratch).replace(RESULTS, scratch)


def _carry_out(check: Check, files: Iterable[File], scratch: str) -> str:
    program, *words = check.argv  # which is perhaps a copy still to be made
    ours = programs.own(Path(program).name)
    argv = [*privileges.reading(), ours, *(_filled(word, scratch) for word in words)]
    env = {**os.environ, "REPRISE_ERRORS": "json"}
    try:
        done = subprocess.run(
            argv, capture_output=True, errors="surrogateescape", env=env, check=False, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        what = f"{Path(ours).name} did not check its options and files within {_LIMIT_S:g} s"
        complain(f"reprise: warning: {what}; the run shows what is wrong with them")
        return ""
    if done.returncode == 0:
        return done.stdout
    told = read_told(done.stderr)
    if told is None:
        said = one_line(done.stderr)
        how = f"ended with {linux.describe_exit(done.returncode)}{f': {said}' if said else ''}"
        raise RepriseError(f"the check of {Path(ours).name} {how}", "look at `./reprise doctor`")
    what, hint = (in_terms(one, check.keys, files, lambda word: _filled(word, scratch)) for one in told)
    raise UsageError(what, hint)


def check_faults(experiment: Experiment, expected: Estimate) -> None:
    """Faults lie within the replay, as far as its length is known; a fault that had no time makes the run
    unclean.
    """
    for at, one in enumerate(experiment.fault, 1):
        if one.at + one.for_ > expected.seconds + _ROUNDED_S:
            ends, replay = number(one.at + one.for_), number(expected.seconds)
            what = f"fault {at} lasts until {ends} s, and the replay {replay} s"
            raise UsageError(what, "let it begin earlier, or play more")


# --- room -------------------------------------------------------------------------------------------------

_TIMES = 2.0  # an estimate may be so many times too high


def tell_estimate(found: Estimate, output: Path) -> None:
    """One line of how long the replay takes, and what it writes."""
    length = "a replay of unknown length"
    if math.isfinite(found.seconds):
        length = f"{seconds_in_words(max(1.0, found.seconds))} of replay"
    size = f"about {size_in_words(found.size)}" if math.isfinite(found.size) else "an unknown amount"
    there = shutil.disk_usage(existing(output)).free
    complain(f"reprise: {length}, {size} of results ({size_in_words(there)} free)")


def want_room(found: Estimate, output: Path) -> None:
    """An error where the results are far larger than what is free."""
    there = shutil.disk_usage(existing(output)).free
    if math.isinf(found.size) or found.size <= _TIMES * there:
        return
    raise RepriseError(
        f"no space left for results in {existing(output)}: about {size_in_words(found.size)} are needed, and "
        f"{size_in_words(there)} are free",
        "make room, choose another folder with -o, or play less with replay.limit or replay.duration_s",
    )


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def size_in_words(size: float) -> str:
    """Bytes, to two or three digits."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            value = size / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{size:.0f} bytes"
