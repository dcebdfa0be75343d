"""`reprise report`, `export`, `check` and `compare`: the package's rim. All else takes and gives values."""

import argparse
import functools
import json
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from report import beside, differences, expect, export, figures, html, series, several_plots, whole_file
from report.again import Again, Ask
from report.classify import Evidence, Finding
from report.compare import compare
from report.container import scratch
from report.errors import Parser, ReportError, printable
from report.plots import draw_all
from report.rafile import AnswerSet
from report.rows import runs_table
from report.run import Json, Run
from report.sources import digested, open_source, reading_arguments, trace_of, zone_of
from report.summary import summarize
from report.tables import comparison_text, fitted, table
from report.tally import Measured, measure
from report.verdicts import Pair, Seen
from report.zone import read_zone, same_text

_SILENCE_S = 5.0
_PLOTS = ".plots"  # ends the name of the folder beside a page of several runs


def main(argv: Sequence[str], ask: Ask | None = None) -> int:
    """Exit status: 0 done and clean, 1 it could not be done or a run is not clean, 2 usage. Errors are one
    line on standard error. `ask` starts the servers of `compare --again`.
    """
    status, error = attempt(argv, ask)
    if error:
        print(f"reprise: error: {printable(' '.join(error.split()))}", file=sys.stderr)
    return status


def attempt(argv: Sequence[str], ask: Ask | None = None) -> tuple[int, str]:
    """Like main(), with the error in words, `WHAT; HINT`, for the caller to say."""
    try:
        arguments = parser().parse_args(list(argv), argparse.Namespace(ask=ask))
    except SystemExit as stop:
        return (stop.code if isinstance(stop.code, int) else 2), ""
    try:
        return int(arguments.run(arguments)), ""
    except ReportError as error:
        return error.status, str(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1, ""
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return 1, f"{where}{error.strerror or error}; check the disk's space and the folder's permissions"
    except MemoryError:
        return 1, "out of memory; free some"


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="reprise", description="Summaries, reports and comparisons of runs.")
    commands = top.add_subparsers(dest="command", required=True)
    one = commands.add_parser(
        "report", help="write summary.json, plots and report.html; compare several runs"
    )
    one.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    one.add_argument(
        "-o", "--output", type=Path, help="page for several runs (default: comparison.html beside them)"
    )
    one.add_argument("--pdf", action="store_true", help="write the plots as PDF, too, beside SVG and PNG")
    one.set_defaults(run=_report)
    two = commands.add_parser("export", help="write the records of runs as one table")
    two.description = "A row a query, in the order of the traces; docs/formats.md has the columns."
    two.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders that `reprise run` wrote")
    form = two.add_mutually_exclusive_group(required=True)
    form.add_argument("--parquet", action="store_true", help="Parquet, which needs pyarrow")
    form.add_argument("--csv", action="store_true", help="CSV, as text")
    two.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write (CSV: standard output; Parquet: the first run's name with .parquet)",
    )
    two.set_defaults(run=_export)
    _add_check(commands.add_parser("check", help="check runs against limits and a baseline"))
    _add_compare(
        commands.add_parser(
            "compare", help="compare answers: a run with its trace, or any of run, trace, .ra"
        )
    )
    return top


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        metavar="RUN",
        help="a run or a series; of several variants the first is the baseline",
    )
    parser.add_argument("--baseline", type=Path, metavar="RUN", help="the run or series to compare with")
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="'FIGURE LIMIT'",
        help="a limit beside those of the experiment, such as 'p99 <= 10 ms'; repeatable",
    )
    parser.add_argument("--busy", action="store_true", help="judge figures that a busy machine affects, too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the verdicts as JUnit XML")
    parser.set_defaults(run=_check)


def _add_compare(three: argparse.ArgumentParser) -> None:
    three.add_argument("sides", nargs="+", type=Path, metavar="RUN|TRACE|FILE.ra")
    three.add_argument("--zone", type=Path, help="served zone (default: the run's)")
    three.add_argument("--origin", help="the zone's origin (default: its SOA's owner)")
    three.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON, too")
    three.add_argument("--html", type=Path, metavar="FILE", help="write a page with pairs that differ, too")
    three.add_argument("--all", action="store_true", help="print every part of the result")
    three.add_argument(
        "--list", metavar="CLASS", help="print both answers of each pair of a class, such as TTL or glue"
    )
    three.add_argument(
        "--again",
        action="store_true",
        help="start the servers of both runs again, ask once more what they answer differently, and say "
        "which differences persist",
    )
    three.add_argument("--programs", type=Path, help="folder of reprise-mutator (default: the release build)")
    three.set_defaults(run=_compare)


def _progress(what: str) -> Callable[[int, int], None]:
    """Tells now and then how far it is."""
    next_s = time.monotonic() + _SILENCE_S

    def seen(done: int, of: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + _SILENCE_S
            print(f"reprise: {what}: {done:,} of {of:,} records read", file=sys.stderr, flush=True)

    return seen


def _export(arguments: argparse.Namespace) -> int:
    target = arguments.output
    if target is None and arguments.parquet:
        target = Path(f"{arguments.runs[0].resolve().name}.parquet")
    _want_parent(target)
    export.command(arguments.runs, target, arguments.parquet)
    if target is not None:
        print(target)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Status 0 where all limits are met, 1 where one is missed, 125 where the runs do not tell."""
    _want_parent(arguments.junit)
    sides = series.sides_of(arguments.folder)
    base = series.side_of(arguments.baseline) if arguments.baseline else None
    given = expect.limits(series.expected(arguments.folder, sides[0]))
    named = (re.findall(r"\s*([^\s<>]*)\s*(.*)", one, re.DOTALL)[0] for one in arguments.expect)
    wanted = [*given, *(expect.limit(*one) for one in named)]
    if base is None and len(sides) > 1:
        base = sides[0]
    if not wanted:
        raise ReportError(
            "there is nothing to check", "give --expect 'p99 <= 10 ms', or [expect] in the experiment", 2
        )
    checked = []
    for side in sides:
        own = [one for one in wanted if not one.of_baseline or side is not base]
        if not own:
            continue
        compared = base if base and any(one.of_baseline for one in own) else None
        unsound = [why for one in (side, compared) if one for why in one.unsound()]
        against = compared.runs if compared else ()
        sound = [] if unsound else [expect.judge(one, side.runs, against, arguments.busy) for one in own]
        checked.append(expect.Checked(side.label, tuple(own), tuple(sound), tuple(unsound)))
        begin = f"{side.label}: " if len(sides) > 1 else ""
        for line in [*(one.words for one in sound), *(f"no verdict: {why}" for why in unsound)]:
            print(printable(begin + line))
    if arguments.junit:
        whole_file.write_named(arguments.junit, expect.as_junit(arguments.folder.resolve().name, checked))
    return expect.status(checked)


def _want_parent(path: Path | None) -> None:
    """What is written at the end must have a place before the work begins."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ReportError(f"{path}: its folder is not there", "make it, or give another name", 2)


def _report(arguments: argparse.Namespace) -> int:
    """Status 1 where a run is not clean. Pages next to runs and their plots (`report results/*`) are
    ignored.
    """
    _want_parent(arguments.output)
    if [(one / series.FILE).is_file() for one in arguments.runs] == [True]:
        return 0 if series.write(arguments.runs[0], arguments.pdf) else 1
    pages = {one for one in arguments.runs if one.suffix == ".html" and not one.is_dir()}
    pages |= {one for one in arguments.runs if one.suffix == _PLOTS}
    folders = [one for one in arguments.runs if one not in pages] or arguments.runs
    measured = [measure(Run(folder), _progress(folder.name)) for folder in folders]
    summaries = [_write_report(one, arguments.pdf) for one in measured]
    for folder, summary in zip(folders, summaries, strict=True):
        print(folder / "report.html")
        if not summary["clean"]:
            print(f"{folder} is not clean: {summary['unclean_because'][0]}")
    if len(summaries) > 1:
        target = arguments.output or folders[0].resolve().parent / "comparison.html"
        runs = [one.run for one in measured]
        names = beside.labels_of(runs)
        drawn = several_plots.side_by_side(
            {name: [several_plots.Seen.of(one)] for name, one in zip(names, measured, strict=True)}
        )
        differing, main = beside.differences(runs, names), beside.main_figures(summaries, names)
        figures.write(target.with_suffix(_PLOTS), drawn, arguments.pdf)
        html.write(target, html.comparison_page(summaries, names, differing, main, drawn))
        named = [[name, run.name] for name, run in zip(names, runs, strict=True) if name != run.name]
        whole = [["", *names], *runs_table(summaries)]
        right = frozenset(range(1, len(whole[0])))
        told = [table(named, frozenset()), fitted(differing), fitted(main), fitted(whole, right), str(target)]
        print("", "\n\n".join(filter(None, told)), sep="\n")
    return 0 if all(summary["clean"] for summary in summaries) else 1


def _write_report(measured: Measured, pdf: bool = False) -> Json:
    summary = summarize(measured)
    folder = measured.run.folder
    whole_file.write(folder / "summary.json", json.dumps(summary, indent=2) + "\n")
    drawn = draw_all(measured, summary)
    figures.write(folder / "plots", drawn, pdf)
    html.write(folder / "report.html", html.run_page(measured.run, summary, drawn))
    return summary


def _compare(arguments: argparse.Namespace) -> int:
    _want_parent(arguments.json)
    _want_parent(arguments.html)
    listed = differences.class_named(arguments.list) if arguments.list else None
    with tempfile.TemporaryDirectory(prefix="reprise-compare-", dir=scratch()) as folder:
        first, *others = _sides(arguments, Path(folder))
        evidence, asked, seed = _evidence(arguments, first, *others), Again(), secrets.randbits(64)
        made_by = arguments.programs, evidence.zone, seed
        first, *others = sides = [digested(one, *made_by, _progress(one.name)) for one in (first, *others)]
        page = differences.Page([one.name for one in sides])
        results = []
        for other in others:
            names = (first.name, other.name)
            seen = [page.collector(*names)] if arguments.html else []
            seen += [_lister(listed, names)] if listed else []
            seen += [asked.seen] if arguments.again else []
            results.append(compare(first, other, evidence, seen, _progress("compare")))
        told = _progress("compare all sides")
        alike, alone = differences.alone(sides, evidence, told) if len(sides) > 2 else (None, [])
        if asked.differing:
            runs = [one.run for one in sides if one.run]
            asked.ask(runs, arguments.ask, Path(folder), evidence, arguments.programs)
    run = others[0].run if first.recorded and len(others) == 1 else None
    whole: Json = results[0] if alike is None else {"schema": 1, "against_first": results, "alike": alike}
    if asked.names:
        whole["again"] = asked.as_json()
    locked = run.folder if run and not os.access(run.folder, os.W_OK) else None  # as one of another user is
    text = json.dumps(whole, indent=2) + "\n"
    if arguments.json:
        whole_file.write_named(arguments.json, text)
    if run and not locked:
        whole_file.write(run.folder / "compare.json", text)
        if (run.folder / "summary.json").exists():
            _write_report(measure(Run(run.folder)))
    if arguments.html:
        whole_file.write_named(arguments.html, page.text(results, alike, alone, asked))
    if not listed:
        whole_text = [*map(comparison_text, results), *([differences.alone_text(alike)] if alike else [])]
        whole_text += [differences.again_text(whole["again"])] if asked.names else []
        print(
            "\n\n".join(whole_text)
            if arguments.all
            else differences.short_text(results, alike, whole.get("again"))
        )
    if others[0].run and not run and not (arguments.json or arguments.html or listed):
        print("not saved: a run's compare.json compares the run with its trace; --json FILE saves this one")
    if locked and not arguments.json:
        print(f"not saved: you may not write to {locked}; --json FILE saves the result")
    return 0


def _lister(kind: str, names: tuple[str, str]) -> Seen:
    def seen(pair: Pair, found: list[Finding]) -> None:
        if any(one.kind == kind for one in found):
            print(differences.pair_text(pair, found, names))

    return seen


def _sides(arguments: argparse.Namespace, folder: Path) -> list[AnswerSet]:
    """What was recorded comes first, however the sides are named."""
    if arguments.again and not (len(arguments.sides) == 2 and all(path.is_dir() for path in arguments.sides)):
        raise ReportError("--again needs two runs", "name two folders that `reprise run` wrote", 2)
    if arguments.again and arguments.ask is None:
        raise ReportError("--again starts servers", "use `reprise compare`", 2)
    run = next((Run(path) for path in arguments.sides if path.is_dir()), None)
    opened = functools.partial(
        open_source, folder=folder, arguments=reading_arguments(run), programs=arguments.programs
    )
    sides = [opened(path) for path in arguments.sides]
    if len(sides) == 1:
        if run is None:
            raise ReportError(
                f"{arguments.sides[0]} is compared with nothing", "name a second side, or a run folder", 2
            )
        sides.insert(0, opened(trace_of(run)))
    most = len(differences.LETTERS)
    if len(sides) > most:
        raise ReportError(f"{len(sides)} sides, where at most {most} are compared", "name fewer", 2)
    return sorted(sides, key=lambda one: not one.recorded)


def _evidence(arguments: argparse.Namespace, first: AnswerSet, *others: AnswerSet) -> Evidence:
    """With the given zone, else that of the first run that has one, the first side last; and whether the
    first side served the same.
    """
    runs = [one.run for one in (*others, first) if one.run]
    served = next(((path, run) for run in runs if (path := zone_of(run))), None)
    path, origin = arguments.zone, arguments.origin
    if path is None and served is not None:
        path = served[0]
        origin = origin or served[1].setting("server.origin")
    own = zone_of(first.run) if first.run else None
    if own and first.run and own.parent != first.run.folder:  # it may have been written since
        own = own if own.stat().st_mtime <= first.files[0].path.stat().st_mtime else None
    same = path is not None and own is not None and same_text(path, own)
    return Evidence(read_zone(path, origin) if path else None, same_zone=same)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
