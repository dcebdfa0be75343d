"""What `compare` is given: run folders, `.ra` files, traces. `reprise-mutator` turns a trace into an `.ra`
file, and tells where records are and their answers apart by numbers.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from report import rafile
from report.container import mapped, scratch
from report.errors import ReportError
from report.rafile import ROW, TABLE_HEADER, TABLE_MAGIC, AnswerSet, RaFile
from report.run import Run, as_list
from report.zone import Zone

_LOOK_S = 0.5
PROGRAM = "reprise-mutator"
ROOT = Path(__file__).resolve().parent.parent


def reading_arguments(run: Run | None) -> tuple[str, ...]:
    """Sequence numbers only agree where trace and replay counted the queries of the same ports."""
    ports = as_list(run.setting("replay.ports")) if run else ()
    return tuple(word for port in ports for word in ("--port", str(port)))


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
    named = run.setting("server.zone")
    path = Path(str(named)) if named else None
    return path if path is not None and path.exists() else None


def open_source(
    path: Path, folder: Path, arguments: Sequence[str] = (), programs: Path | None = None
) -> AnswerSet:
    """Told by content: a folder is a run, a file is an `.ra` by its magic and a trace otherwise, of which
    `arguments` choose the queries of the replay. `folder`: for what is made of a trace.
    """
    if path.is_dir():
        run = Run(path)
        if not run.answer_paths:
            raise ReportError(f"{path} holds no answers", "replay with replay.answers = true")
        return rafile.join(str(path), run.answer_paths, run)
    try:
        with path.open("rb") as file:
            is_ra = file.read(8) == rafile.HEADER_MAGIC
    except OSError as error:
        raise ReportError(
            f"cannot read {path}: {error.strerror}", "check the path and its permissions", 2
        ) from error
    return rafile.join(str(path), [path]) if is_ra else _from_trace(path, folder, arguments, programs)


def _from_trace(trace: Path, folder: Path, arguments: Sequence[str], programs: Path | None) -> AnswerSet:
    """Of a trace that is cut, what comes before."""
    target = folder / f"recorded-{len(list(folder.iterdir()))}.ra"
    command = [str(find_program(programs)), "answers", str(trace), "-o", str(target), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    answers = rafile.join(str(trace), [target] if target.exists() else [])
    if done.returncode and not any(file.start < file.end for file in answers.files):
        what, _, hint = error_line(done.stderr).partition("; ")
        hint = hint or "check the trace with `reprise trace info`"
        raise ReportError(f"cannot read answers from {trace}: {what}", hint)
    said = error_line(done.stderr).removeprefix(f"{PROGRAM}: ")
    return replace(answers, trouble=said if done.returncode else "")


def digested(
    answers: AnswerSet,
    programs: Path | None = None,
    zone: Zone | None = None,
    seed: int = 0,
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> AnswerSet:
    """The set with its records. Raises ReportError where the mutator fails. Names count as far as the zone
    cuts. `seed`: the same for all that is compared, and known to no server before, so that it cannot write
    another answer with the numbers of one. `told`: how many records there have been, of how many.
    """
    words = ["--seed", str(seed)]
    words += ["--origin", zone.origin, "--labels", str(zone.reach)] if zone else []
    files: list[RaFile] = []
    done, of = 0, sum(file.count or 0 for file in answers.files)
    for file in answers.files:
        if not file.header:  # it is cut off in it
            files.append(file)
            continue
        with tempfile.TemporaryDirectory(prefix="reprise-compare-", dir=scratch()) as folder:
            target = Path(folder) / "digests"
            program = str(find_program(programs))
            argv = [program, "digests", str(file.path), "-o", str(target), *words]
            with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, errors="replace") as child:
                complaint = None
                while complaint is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        complaint = child.communicate(timeout=_LOOK_S)[1]
                    size = 0
                    with contextlib.suppress(OSError):  # there are no rows yet
                        size = target.with_name(f"{target.name}.partial").stat().st_size
                    if complaint is None:
                        read = done + max(0, size - TABLE_HEADER.size) // ROW.itemsize
                        told(read, max(of, read))  # a file that was cut off does not say how many it has
            if child.returncode:
                what, _, hint = error_line(complaint).partition("; ")
                if hint == "see --help":
                    raise ReportError(f"{program} is older than this report", "build it with ./reprise")
                if not hint or str(target) in what:
                    hint = f"see whether {scratch()} has room, or set TMPDIR"
                raise ReportError(f"cannot read {file.path}: {what}", hint)
            table = mapped(target)
        if TABLE_HEADER.unpack_from(table)[0] != TABLE_MAGIC:
            raise ReportError(f"{program} is older than this report", "build it with ./reprise")
        files.append(file.with_table(table))
        done += len(files[-1])
        told(done, max(of, done))
    return replace(answers, files=tuple(files))


def error_line(stderr: str) -> str:
    """The program's own one-line error, or its last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    marked = [line.split(": error: ", 1)[1] for line in lines if ": error: " in line]
    return (marked or lines or ["it said nothing"])[-1]


def find_program(given: Path | None) -> Path:
    """`--programs`, REPRISE_PROGRAMS, a build beside this package, or the PATH."""
    named = given or os.environ.get("REPRISE_PROGRAMS")
    folders = [Path(named)] if named else sorted(ROOT.glob("build/*/bin"), key=_rank)
    names = [*(str((folder / PROGRAM).absolute()) for folder in folders), *([] if named else [PROGRAM])]
    found = next((one for name in names if (one := shutil.which(name))), None)
    if found is None:
        raise ReportError(f"{PROGRAM} is not built", "run `./reprise doctor` or give --programs DIR")
    return Path(found)


def _rank(folder: Path) -> tuple[bool, float]:
    """The release build first, as others are slower; of these the newest first."""
    program = folder / PROGRAM
    return folder.parent.name != "release", -program.stat().st_mtime if program.exists() else 0.0
