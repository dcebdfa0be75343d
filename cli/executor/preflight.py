"""What an experiment says is looked at before anything starts: its files, and the checks of its plan."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from cli import programs
from cli.errors import UsageError, read_told
from cli.executor.words import in_terms
from cli.experiment.schema import Experiment
from cli.plan.planned import RESULTS, RUN, Check, Plan, Terms

_LIMIT_S = 5.0  # of a check; a trace that shows no query so soon is left to the run


def check_trace(experiment: Experiment) -> None:
    """What can be seen of the trace without reading it."""
    if experiment.trace is None:
        return
    path = Path(experiment.trace)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"trace {path} is not a file", "save it to a file first, it is read more than once")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError:
        raise UsageError(f"no trace {path}", "give an existing file with --set trace=FILE") from None
    except OSError as error:
        raise UsageError(f"cannot read trace {path}: {error.strerror}", "give a readable file") from None
    if empty:
        raise UsageError(f"trace {path} is empty", "capture or fetch it again")


def check_values(plan: Plan) -> None:
    """Has the programs look at their command lines; the first complaint is a usage error."""
    with tempfile.TemporaryDirectory(prefix="reprise-") as scratch:
        for file in plan.files:
            path = Path(_filled(file.path, scratch))
            if file.content is not None and path.parent == Path(scratch):
                path.write_text(file.content, encoding="utf-8", errors="surrogateescape")
        for check in plan.checks:
            _carry_out(check, plan.terms.get(check.terms, Terms()), scratch)


def _filled(word: str, scratch: str) -> str:
    return word.replace(RUN, scratch).replace(RESULTS, scratch)


def _carry_out(check: Check, terms: Terms, scratch: str) -> None:
    program, *words = check.argv  # which is perhaps a copy still to be made
    argv = [programs.own(Path(program).name), *(_filled(word, scratch) for word in words)]
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
        return
    told = read_told(done.stderr)
    if done.returncode == 0 or told is None:
        return  # where it cannot even be started the run itself has more to say
    what, hint = (in_terms(text, terms, lambda word: _filled(word, scratch)) for text in told)
    raise UsageError(what, hint)
