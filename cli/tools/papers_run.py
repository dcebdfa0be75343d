"""Runs the studies of experiments/papers, each as any series is (cli/tools/series.py), or counts traces."""

import argparse
import json
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from cli import linux, programs, run_name
from cli.errors import EXIT_FAILED, RepriseError, UsageError, complain
from cli.executor import run as executor
from cli.experiment import experiment as experiments
from cli.experiment.schema import Repeat
from cli.plan import facts
from cli.progress import Progress
from cli.tools import papers, series
from report import whole_file
from report.papers import arrivals, book, found, page
from report.papers.book import FULL, QUICK, Study
from report.run import as_json

_PARENT = "papers"  # folder of all studies, below that of results


@dataclass
class Session:
    """A study while it is run: its folder, and study.json, which the report reads."""

    study: Study
    folder: Path
    told: dict[str, Any]
    began_s: float = field(default_factory=time.monotonic)

    def note(self) -> None:
        """Writes what is known; time adds up over what goes on with --resume."""
        now = time.monotonic()
        self.told["seconds"] = round(self.told["seconds"] + now - self.began_s, 1)
        self.began_s = now
        whole_file.write(self.folder / found.FILE, json.dumps(self.told, indent=2) + "\n")


def command_run(options: argparse.Namespace) -> int:
    """Runs the figures that are named; 0 when all is clean."""
    studies = book.studies()
    wanted = studies if "all" in options.figures else [book.find(one, studies) for one in options.figures]
    return run([one for one in studies if one in wanted], studies, options)


def command_report(options: argparse.Namespace) -> int:
    """Writes the page again, of what earlier runs have left; 0."""
    page.write(book.studies(), _parent(options.output))
    return 0


def run(wanted: Sequence[Study], studies: Sequence[Study], options: argparse.Namespace) -> int:
    """Each study in turn; 0 when all is clean. One that ends early ends the command, and the report has what
    it left.
    """
    asked = [(study, *_asked(study, options)) for study in wanted]  # or what is wrong, before all else
    parent, status, warnings = _parent(options.output), 0, []
    try:
        for study, folder, told in asked:
            session = _begun(study, parent, folder, told)
            try:
                status |= _traces(session, options) if study.traces else _series(session)
            except RepriseError as error:
                hint = f"go on with: {session.told['command']} --resume"
                before = "" if "--resume" in error.hint else f"{error.hint}, then "
                raise RepriseError(error.what, before + hint) from None
            finally:
                session.note()
                warnings += session.told["warnings"]
    finally:
        page.write(studies, parent)
        for warning in dict.fromkeys(warnings):
            complain(f"reprise: warning: {warning}")
    return status


def _parent(output: Path) -> Path:
    folder = output / _PARENT
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _asked(study: Study, options: argparse.Namespace) -> tuple[Path | None, dict[str, Any]]:
    """What study.json is to hold, for which the experiment is looked at. With --resume it is what the latest
    folder holds, which was begun with the same options, and that folder.
    """
    profile = FULL if options.full else QUICK
    here = {name: papers.files(options.traces).get(name) for name in papers.named(study)}
    trace = None if study.traces else next(filter(None, here.values()), None)
    real = [f"trace={trace.absolute()}"] if trace else []
    settings = [*study.settings(profile, bool(real)), *real, *options.set]
    if not study.traces:
        experiment = experiments.load(study.path, settings)
        if found.tells_arrivals(study, study.labels(profile, bool(real))):
            arrivals.check(experiments.as_dict(experiment)["replay"])
    words = [*programs.flags(set=options.set, full=options.full, traces=options.traces)]
    words += ["-o", str(options.output)] if options.output != Path("results") else []
    figures = ", ".join(one.name for one in study.figures)
    asked: dict[str, Any] = {
        "schema": 1,
        "study": study.name,
        "profile": profile,
        "real": trace is not None,
        "settings": settings,
        "traces": {name: str(path.absolute()) for name, path in here.items() if path},
        "command": shlex.join(["reprise", "papers", "run", study.figures[0].name, *words]),
        "machine": facts.host(),
        "warnings": [
            f"{figures}: {name} is not in {options.traces or 'a folder of --traces'}; it is synthesized"
            for name, path in here.items()
            if path is None
        ],
        "seconds": 0.0,
    }
    folder = found.newest(study, options.output / _PARENT) if options.resume else None
    told = as_json(folder / found.FILE) if folder else asked
    if any(told.get(key, asked[key]) != asked[key] for key in ("profile", "settings", "traces")):
        hint = f"go on with: {told['command']} --resume; or leave --resume out"
        raise UsageError(f"{folder} was begun with other options", hint)
    return folder, told


def _begun(study: Study, parent: Path, folder: Path | None, told: dict[str, Any]) -> Session:
    """A study in a new folder, or in the one to resume."""
    session = Session(study, folder or parent / run_name.new(study.name), told)
    if folder is None:
        session.folder.mkdir()
        if not study.traces:
            experiment = experiments.load(study.path, told["settings"])
            variants = series.variants(experiment)
            runs = series.order(len(variants), (experiment.repeat or Repeat()).n)
            series.note(session.folder, experiment, variants, runs)
        session.note()
    return session


def _series(session: Session) -> int:
    study, folder, settings = session.study, session.folder, session.told["settings"]
    given = {"experiment": study.path, "set": settings, "output": folder.parent, "resume": folder}
    options = argparse.Namespace(**given, no_deploy=False, inventory=[])
    return series.command_series(options, experiments.load(study.path, settings), executor.command_run)


def _traces(session: Session, options: argparse.Namespace) -> int:
    """Counts each trace, the real one where it is there; 0 when all could be."""
    progress, failed, real = Progress(), 0, papers.files(options.traces)
    for name in dict.fromkeys((*session.study.traces, *real)):
        target = session.folder / f"{name}.json"
        if target.is_file():
            continue
        progress.begin(f"trace {name}{'' if name in real else ', synthetic'}")
        part = target.with_suffix(".part")
        if name not in real:
            _make(session, name, part)
        elif not _counted(real[name], part):
            what = f"{real[name]} was not read whole"
            session.told["warnings"] = list(dict.fromkeys((*session.told["warnings"], what)))
            failed = EXIT_FAILED
        if part.is_file():
            part.rename(target)
        session.note()
    progress.over()
    return failed


def _counted(trace: str | Path, target: Path, given: IO[bytes] | None = None) -> bool:
    """Whether a trace, `-` for what is given, could be read whole."""
    argv = [programs.own("reprise-mutator"), "info", str(trace), "--json"]
    done = subprocess.run(argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.stdout:
        target.write_bytes(done.stdout)
    return done.returncode == 0


def _make(session: Session, name: str, target: Path) -> None:
    """Makes a trace and counts it on its way, so that no length of it needs room on the disk."""
    mutator = programs.own("reprise-mutator")
    table = session.study.trace_options(name, session.told["profile"])
    if table["profile"] == "recursive":
        names = session.folder / "names.txt"
        names.write_text("".join(f"name{number}.example.com\n" for number in range(10_000)), encoding="ascii")
        table = {**table, "names": str(names)}
    making = [mutator, "synth", *programs.flags(**table), "--to", "stream", "-o", "-"]
    with subprocess.Popen(making, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as maker:
        counted = _counted("-", target, maker.stdout)
        assert maker.stdout is not None
        maker.stdout.close()
        said = maker.communicate()[1].decode(errors="replace")
    if maker.returncode or not counted:
        why = said.strip().rpartition(": error: ")[2] or linux.describe_exit(maker.returncode)
        raise RepriseError(f"trace {name} was not made: {why}", "correct the study's options or make room")
