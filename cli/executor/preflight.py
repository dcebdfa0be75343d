"""What is looked at before anything starts: an experiment's files, the checks of its plan, and the room for
its results.
"""

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cli import linux, programs
from cli.errors import RepriseError, UsageError, complain, one_line, read_told
from cli.executor.space import existing
from cli.executor.words import in_terms
from cli.experiment import experiment as experiments
from cli.experiment import tables
from cli.experiment.schema import Experiment
from cli.plan import estimate, privileges
from cli.plan.estimate import Estimate, Extent
from cli.plan.planned import RESULTS, RUN, Check, File, Plan
from cli.progress import parse, seconds_in_words
from report.tables import number

_ROUNDED_S = 1.0  # a trace ends before its nominal time
_LIMIT_S = 5.0  # of a check; a trace that shows no query so soon is left to the run


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
            empty = not file.read(1)
    except FileNotFoundError:
        raise UsageError(f"no trace {path}", "give an existing file with --set trace=FILE") from None
    except OSError as error:
        raise UsageError(f"cannot read trace {path}: {error.strerror}", "give a readable file") from None
    if empty:
        raise UsageError(f"trace {path} is empty", "capture or fetch it again")


def check_values(plan: Plan) -> Extent | None:
    """Has the programs look at their command lines; the first complaint is a usage error. Returns what they
    say of the trace.
    """
    found = None
    with tempfile.TemporaryDirectory(prefix="reprise-") as scratch:
        for file in plan.files:
            path = Path(_filled(file.path, scratch))
            if file.content is not None and path.parent == Path(scratch):
                path.write_text(file.content, encoding="utf-8", errors="surrogateescape")
        for check in plan.checks:
            word, fields = parse(_carry_out(check, plan.files, scratch))
            found = found or (estimate.read(fields) if word == "extent" else None)
    return found


def _filled(word: str, scratch: str) -> str:
    return word.replace(RUN, scratch).replace(RESULTS, scratch)


def _carry_out(check: Check, files: Iterable[File], scratch: str) -> str:
    program, *words = check.argv  # which is perhaps a copy still to be made
    ours = programs.own(Path(program).name)
    argv = [*privileges.reading(), ours, *(_filled(word, scratch) for word in words)]
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env={**os.environ, "REPRISE_ERRORS": "json"},
            check=False,
            timeout=_LIMIT_S,
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
    if expected.rough:
        return
    for at, one in enumerate(experiment.fault, 1):
        if expected.seconds is not None and one.at + one.for_ > expected.seconds + _ROUNDED_S:
            ends, replay = number(one.at + one.for_), number(expected.seconds)
            what = f"fault {at} lasts until {ends} s, and the replay {replay} s"
            raise UsageError(what, "let it begin earlier, or play more")


# --- room -------------------------------------------------------------------------------------------------

_RULES = ", not counting changes by rules or by the choice of queries"
_TIMES = 2.0  # an estimate may be so many times too high


def tell_estimate(found: Estimate, output: Path) -> None:
    """One line of how long the replay takes, what it writes, and the memory it needs here."""
    length = "a replay of unknown length"
    if found.seconds is not None:
        length = f"{seconds_in_words(max(1.0, found.seconds))} of replay"
    size = f"about {size_in_words(found.size)}" if math.isfinite(found.size) else "an unknown amount"
    available = linux.available_memory()
    complain(
        f"reprise: {length}, {size} of results ({size_in_words(free(output))} free), "
        f"{size_in_words(found.memory)} of memory beside the server ({size_in_words(available)} free)"
        + (_RULES if found.rough else "")
    )
    if found.memory > available:
        complain("reprise: warning: that is more memory than is free; play less, or fewer connections")


def want_room(found: Estimate, output: Path) -> None:
    """An error where the results are far larger than what is free."""
    there = free(output)
    if found.rough or not math.isfinite(found.size) or found.size <= _TIMES * there:
        return
    raise RepriseError(
        f"no space left for results in {existing(output)}: about {size_in_words(found.size)} are needed, and "
        f"{size_in_words(there)} are free",
        "make room, choose another folder with -o, or play less with replay.limit or replay.duration_s",
    )


def free(folder: Path) -> int:
    """Bytes that are free where a folder is or will be."""
    return shutil.disk_usage(existing(folder)).free


def size_in_words(size: float) -> str:
    """Bytes, to two or three digits."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            value = size / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{size:.0f} bytes"
