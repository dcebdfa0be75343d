"""What `compare` is given: run folders, `.ra` files, traces. A trace is turned into an `.ra` file by
`reprise-mutator`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from report import rafile
from report.errors import ReportError
from report.rafile import AnswerSet
from report.run import Run, as_dict, as_list, open_run

PROGRAM = "reprise-mutator"
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Source:
    """One side of a comparison; `run` is None for files."""

    path: Path
    answers: AnswerSet
    run: Run | None

    @property
    def recorded(self) -> bool:
        return self.answers.kind == "trace"


def reading_arguments(run: Run | None) -> tuple[str, ...]:
    """Sequence numbers only agree where trace and replay counted the queries of the same ports."""
    if run is None:
        return ()
    replay = as_dict(run.experiment.get("replay"))
    return tuple(word for port in as_list(replay.get("ports")) for word in ("--port", str(port)))


def trace_of(run: Run) -> Path:
    """The trace a run replayed, by its manifest or its controller. Raises ReportError where it is gone."""
    path = run.trace
    if path is None:
        raise ReportError(f"{run.folder} does not name its trace", "give the trace as second argument")
    if not path.exists():
        raise ReportError(f"the trace {path} of {run.folder} is gone", "give the trace as second argument")
    return path


def zone_of(run: Run) -> Path | None:
    """The zone file that the run's server was given: the run's own copy, or the one that is named; None where
    it is not named or is gone.
    """
    own = run.folder / "zone.gz"
    if own.exists():
        return own
    named = as_dict(run.experiment.get("server")).get("zone")
    path = Path(str(named)) if named else None
    return path if path is not None and path.exists() else None


def open_source(
    path: Path, scratch: Path, arguments: Sequence[str] = (), programs: Path | None = None
) -> Source:
    """Told by content: a folder is a run, a file is an `.ra` by its magic and a trace otherwise, of which
    `arguments` choose the queries of the replay.
    """
    if path.is_dir():
        run = open_run(path)
        if not run.answer_paths:
            raise ReportError(f"{path} holds no answers", "replay with replay.answers = true")
        return Source(path, rafile.join(str(path), list(run.answer_paths)), run)
    if _is_ra(path):
        return Source(path, rafile.join(str(path), [path]), None)
    return Source(path, _from_trace(path, scratch, arguments, programs), None)


def _is_ra(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(8) == rafile.HEADER_MAGIC
    except OSError as error:
        raise ReportError(
            f"cannot read {path}: {error.strerror}", "check the path and its permissions", 2
        ) from error


def _from_trace(trace: Path, scratch: Path, arguments: Sequence[str], programs: Path | None) -> AnswerSet:
    """Of a trace that is cut, what comes before."""
    target = scratch / f"recorded-{len(list(scratch.iterdir()))}.ra"
    command = [str(find_program(programs)), "answers", str(trace), "-o", str(target), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    answers = rafile.join(str(trace), [target] if target.exists() else [])
    if done.returncode and not len(answers):
        raise ReportError(*_split(error_line(done.stderr), trace))
    return replace(answers, trouble=_said(done.stderr) if done.returncode else "")


def _said(stderr: str) -> str:
    return error_line(stderr).removeprefix(f"{PROGRAM}: ")


def error_line(stderr: str) -> str:
    """The program's own one-line error, or its last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    marked = [line.split(": error: ", 1)[1] for line in lines if ": error: " in line]
    return (marked or lines or ["it said nothing"])[-1]


def _split(error: str, trace: Path) -> tuple[str, str]:
    what, _, hint = error.partition("; ")
    return f"cannot read answers from {trace}: {what}", hint or "check the trace with `reprise trace info`"


def find_program(given: Path | None) -> Path:
    """`--programs`, REPRISE_PROGRAMS, a build beside this package, or the PATH."""
    named = given or (Path(os.environ["REPRISE_PROGRAMS"]) if os.environ.get("REPRISE_PROGRAMS") else None)
    folders = [named] if named else sorted(ROOT.glob("build/*/bin"), key=_rank)
    for folder in folders:
        if os.access(folder / PROGRAM, os.X_OK):
            return folder / PROGRAM
    found = None if named else shutil.which(PROGRAM)
    if found is None:
        raise ReportError(f"{PROGRAM} is not built", "run `./reprise doctor` or give --programs DIR")
    return Path(found)


def _rank(folder: Path) -> tuple[bool, float]:
    """The release build first, as others are slower; of these the newest first."""
    program = folder / PROGRAM
    return folder.parent.name != "release", -program.stat().st_mtime if program.exists() else 0.0
