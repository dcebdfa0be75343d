"""`reprise run` and `reprise plan`: results folder, sandbox, report, the table at the end."""

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cli import linux, run_name
from cli.errors import EXIT_FAILED, RepriseError, UsageError, complain, one_line
from cli.executor import preflight, sandbox
from cli.executor.executor import Executor
from cli.executor.machine import LocalMachine
from cli.executor.outcome import Outcome
from cli.executor.preflight import Estimate
from cli.executor.words import shown
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment
from cli.plan import facts as machine
from cli.plan import plan as plans
from cli.plan import planned, privileges
from cli.plan.planned import Management, Plan
from report import whole_file
from report.errors import ReportError
from report.rows import rows_of
from report.run import as_dict, as_json
from report.tables import table as as_table

PARTIAL = ".partial"
MANIFEST_SCHEMA = 1
_MANIFEST_ROOM = 128 * 1024  # bytes, beside those of the plan; usual are 10 KiB


@dataclass(frozen=True)
class Folder:
    """The results folder under its name while the run lasts and its final name."""

    partial: Path
    final: Path


def command_plan(options: argparse.Namespace) -> int:
    management = Management(tuple(options.management)) if options.management else None
    plan, _ = _planned(*experiments.read(options.experiment, options.set), management)
    sys.stdout.write(json.dumps(plans.as_json(plan), indent=2) + "\n")
    return 0


def _planned(
    experiment: Experiment, given: tuple[str, ...], management: Management | None = None
) -> tuple[Plan, Estimate]:
    """The experiment's plan, looked at as far as can be before anything starts, and what it comes to."""
    preflight.check_files(experiment)
    plan = plans.make(experiment, machine.gather(experiment, run_name.new(experiment.name)), management)
    plan = replace(plan, given=given)
    expected = preflight.check_values(plan)
    preflight.check_faults(experiment, expected)
    return plan, expected


def command_run(options: argparse.Namespace) -> int:
    """Runs an experiment to its results; 0 only when the run is clean."""
    status, _ = carry_out(*experiments.read(options.experiment, options.set), options.output)
    return status


def carry_out(experiment: Experiment, given: tuple[str, ...], output: Path) -> tuple[int, Path]:
    """Runs an experiment, of which these keys were given; 0 only when the run is clean, and the folder of its
    results, which is there if the run came to its end in order.
    """
    plan, expected = _planned(experiment, given)
    runtime = sandbox.runtime_folder()
    folder = make_folder(plan, expected, output)
    host, apart = machine.host(), plan.network.kind == "namespaces"
    status = sandbox.run(lambda life: inside(plan, host, runtime, folder.partial, life), runtime, apart)
    if plan.user:
        privileges.give_back(folder.partial)
    return finish(folder, status), folder.final


def make_folder(plan: Plan, expected: Estimate, parent: Path) -> Folder:
    """The results folder of a run that has room for what is expected; what is known before it is told."""
    preflight.want_room(expected, parent)
    for warning in plan.warnings:
        complain(f"reprise: warning: {warning}")
    folder = Folder(parent.absolute() / (plan.run + PARTIAL), parent.absolute() / plan.run)
    try:
        folder.partial.mkdir(parents=True)
    except OSError as error:
        what = f"cannot make results folder {folder.partial}: {error.strerror}"
        raise UsageError(what, "choose another parent with -o") from None
    preflight.tell_estimate(expected, parent)
    return folder


# --- inside the sandbox -----------------------------------------------------------------------------------


def inside(plan: Plan, host: dict[str, Any], runtime: Path, results: Path, life: int) -> int:
    """Body of the sandbox: plan.json first, manifest.json last, whatever happens between; its room is taken
    before the replay can fill the disk.
    """
    descriptors = machine.raise_descriptors()
    text = as_text(plans.as_json(plan))
    try:
        whole_file.write(results / "plan.json", text, mode=0o600 if plan.private else 0o644)
        room = whole_file.Reserved(results / "manifest.json", len(text) + _MANIFEST_ROOM)
        seen = privileges.lend(results, runtime) if plan.user else results
        read = planned.read(json.loads(text))
        executor = Executor(read, LocalMachine(read, runtime, results, seen), results, life)
        outcome = carried_out(executor, results, seen)
        room.write(as_text(manifest(plan, {**host, "descriptors": descriptors}, outcome)))
    except OSError as error:
        hint = _again(results) if has_records(results) else "make room or choose another folder with -o"
        raise RepriseError(f"cannot write results: {error.strerror}", hint) from None
    return 0 if outcome.error is None else EXIT_FAILED


def carried_out(executor: Executor, results: Path, seen: Path) -> Outcome:
    """The run's outcome, also where a defect of ours ended it: its records have a manifest all the same. What
    is told of the results has the path by which others know them, and not that by which programs have `seen`
    them.
    """
    outcome = executor.outcome
    try:
        executor.run()
    except Exception as error:
        with contextlib.suppress(OSError):
            (results / "logs/executor.log").write_text(traceback.format_exc(), encoding="utf-8")
        what = f"the executor failed: {type(error).__name__}: {error}"
        outcome.fail(what, f"report it with {shown(results)}/logs/executor.log")

    def told(text: str) -> str:
        return text.replace(str(seen), str(results))

    outcome.error, outcome.hint = outcome.error and told(outcome.error), told(outcome.hint)
    outcome.unclean_because = [told(reason) for reason in outcome.unclean_because]
    return outcome


def manifest(plan: Plan, host: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    told = asdict(outcome)
    return {
        "schema": MANIFEST_SCHEMA,
        "run": plan.run,
        "versions": machine.versions(plan.experiment),
        "commit": machine.commit(),
        "experiment": experiments.as_dict(plan.experiment),
        "given": list(plan.given),
        "host": {**host, "refused_sysctls": told.pop("refused_sysctls")},
        **told,
        "unclean_because": [one for one in outcome.unclean_because if one != outcome.server_died],
        "warnings": [*plan.warnings, *outcome.warnings],
    }


def as_text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"


# --- after the sandbox ------------------------------------------------------------------------------------


def finish(folder: Folder, status: int) -> int:
    """Report and final name for a run that ended in order; otherwise the folder stays partial, or goes if
    there are no records in it.
    """
    found = as_json(folder.partial / "manifest.json")
    if not has_records(folder.partial):
        print_error(found, status, "nothing had been replayed, run it again")
        if folder.partial.name not in str(found.get("hint")):  # which names a log there
            shutil.rmtree(folder.partial, ignore_errors=True)
        return EXIT_FAILED
    if not found:
        print_error(found, status, _again(folder.partial))
        return EXIT_FAILED
    trouble = _report_trouble(folder.partial)
    if trouble is not None:
        complain(RepriseError(str(found.get("error") or trouble), _again(folder.partial)).line())
        return EXIT_FAILED
    folder.partial.rename(folder.final)
    summary = as_json(folder.final / "summary.json")
    if found.get("error"):
        complain(_headline(found, summary, folder).line())
    if summary:
        sys.stdout.write(table(summary))
        for warning in summary.get("warnings", []):
            if warning not in found.get("warnings", []):  # which were told before the replay
                complain(f"reprise: warning: {warning}")
    sys.stdout.write(f"report: {shown(folder.final / 'report.html')}\n")
    sys.stdout.writelines(f"next: {line}\n" for line in _next(folder.final, found, summary))
    clean = summary.get("clean") is True
    if summary and not clean and not found.get("error"):
        complain(_headline(found, summary, folder).line())
    expected = as_dict(found.get("experiment")).get("expect")
    missed = bool(summary and expected and not as_expected(folder.final, expected))
    return EXIT_FAILED if status or not clean or missed else 0


def _next(folder: Path, found: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """Two commands that are worth a try after a clean run."""
    if not summary.get("clean"):
        return []
    experiment, place = as_dict(found.get("experiment")), shown(folder)
    responses = as_dict(as_json(folder / "controller.json").get("reader")).get("responses")
    first = f"reprise export {place} --csv   # a row for each query"
    if responses and as_dict(experiment.get("replay")).get("answers"):
        first = f"reprise compare {place}   # each answer beside the recorded one"
    command = "fire" if experiment.get("name") == "fire" else "run"
    return [first, f"reprise {command} ... --set repeat.n=5   # how far runs of the same spread"]


def as_expected(folder: Path, limits: dict[str, Any]) -> bool:
    """Whether a run, or the clean runs of each variant of a series, miss no limit that needs no baseline.
    Prints a line for each.
    """
    from report import expect, series  # noqa: PLC0415  (slow to import, and rarely needed)

    states = []
    try:
        wanted = [one for one in expect.limits(limits) if not one.of_baseline]
        sides = series.sides_of(folder)
        for side in sides:
            for one in (expect.judge(limit, side.clean or side.runs) for limit in wanted):
                sys.stdout.write(f"{side.label}: {one.words}\n" if len(sides) > 1 else f"{one.words}\n")
                states.append(one.state)
    except ReportError as error:
        complain(RepriseError(error.what, error.hint).line())
        return False
    return "missed" not in states


def has_records(folder: Path) -> bool:
    """Whether queriers have begun to write there: then nothing of it is ever removed."""
    return any(folder.glob(planned.RECORDS))


def _again(folder: Path) -> str:
    return f"its records are kept, use `reprise report {shown(folder)}`"


def _report_trouble(folder: Path) -> str | None:
    """Writes the report; what went wrong, if anything: without a report the folder stays partial."""
    try:
        error = report(folder)
    except KeyboardInterrupt:
        return "interrupted while the report was written"
    return f"the run has no report: {error.partition('; ')[0]}" if error else None


def _headline(found: dict[str, Any], summary: dict[str, Any], folder: Folder) -> RepriseError:
    """The error line of a run with a report: its first reason, which is what caused the others.

    What ended the run is told in the words of who saw it, where nothing else has led to it.
    """
    error = str(found.get("error") or "")
    reasons = [str(one) for one in summary.get("unclean_because", [])]
    first = reasons[0] if reasons else error or "no reason given"
    if error and (error in first or first in error):
        hint = str(found.get("hint") or "")  # a log that it names is where the folder has gone since
        return RepriseError(error, hint.replace(folder.partial.name, folder.final.name))
    hint = f"see {shown(folder.final / 'report.html')} and the logs beside it"
    return RepriseError(f"the run is not clean: {first}", hint)


def print_error(found: dict[str, Any], status: int = 0, hint: str = "") -> None:
    """The one error line of a run without a report: that of its manifest, or of a run that a signal ended;
    one that failed otherwise has said so itself.
    """
    if found.get("error"):
        complain(RepriseError(str(found["error"]), str(found.get("hint") or "")).line())
    elif status < 0:
        complain(RepriseError(f"the run was killed ({linux.describe_exit(status)})", hint).line())


def report(folder: Path) -> str:
    """Writes summary.json, plots and report.html; what went wrong, "" where nothing did: a failing report is
    a failed run with its results kept.
    """
    # The plotting library keeps its fonts' list in the home folder; users without one get another place.
    if not os.access(os.environ.get("HOME", "/nonexistent"), os.W_OK):
        os.environ.setdefault("MPLCONFIGDIR", str(sandbox.runtime_folder().parent / "matplotlib"))
    from report.__main__ import attempt  # noqa: PLC0415  (slow to import, and needed at the end only)

    with contextlib.redirect_stdout(io.StringIO()):
        return attempt(["report", str(folder)])[1]


def table(summary: dict[str, Any]) -> str:
    return as_table([(name, one_line(text)) for name, text in rows_of(summary, "run")], frozenset()) + "\n"
