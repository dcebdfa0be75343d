"""`reprise fuzz`: libFuzzer on every parser of foreign input, and the lines that its inputs reach.

Inputs that reach something new are kept in the user's cache, so that a run begins where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cli import programs, progress
from cli.errors import EXIT_FAILED, RepriseError, want, want_choice
from cli.tools.checking import built, configured, run, show, together
from report.run import as_json

_SEEDS = programs.ROOT / "tests/fuzz"
_FINDINGS = programs.ROOT / "build/fuzz/findings"
_CONVERTER = "reprise-fuzz-inputs"
_EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_WRITTEN = re.compile(r"Test unit written to (\S+)")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("fuzz", help="look for input that breaks a parser (for developers)")
    parser.add_argument("targets", nargs="*", metavar="NAME", help="targets, such as reader_dns (all)")
    parser.add_argument("--seconds", type=int, default=240, metavar="N", help="time of each target (240)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="targets at once (one a processor)"
    )
    parser.add_argument(
        "--seeds",
        action="append",
        type=Path,
        default=[],
        metavar="FOLDER",
        help="traces and zones to begin with, beside the seeds in tests/fuzz",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="do not fuzz: print how many lines of each parser are reached by the inputs found so far",
    )


def command_fuzz(options: argparse.Namespace) -> int:
    """Fuzzes, or counts lines; 1 where an input broke a parser."""
    want(options.seconds >= 1, f"--seconds {options.seconds}: out of range", "give 1 or more")
    want(options.jobs >= 1, f"--jobs {options.jobs}: out of range", "give 1 or more")
    for folder in options.seeds:
        want(folder.is_dir(), f"--seeds {folder}: no such folder", "give a folder of traces and zones")
    preset = "coverage" if options.coverage else "fuzz"
    targets = _chosen(options.targets, preset)
    _build(preset, [one.name for one in targets])
    if options.seeds:
        _convert(options.seeds)
    work: Callable[[Target], Result] = partial(fuzz, seconds=options.seconds)
    if options.coverage:
        work = cover
        sys.stdout.write(_HEAD)
    else:
        _FINDINGS.mkdir(parents=True, exist_ok=True)
        least = progress.seconds_in_words(-(-len(targets) // options.jobs) * options.seconds)
        sys.stdout.write(f"{len(targets)} targets, {options.seconds} s each: {least}\n")
    results = together([partial(work, target) for target in targets], options.jobs)
    failed = 0
    for target, one in zip(targets, results, strict=True):
        failed += 1 if one.output else 0
        show(one.output)
        sys.stdout.write(one.line + "\n")
        sys.stdout.flush()
        if not options.coverage:
            add_run(target, one.executed, options.seconds)
    if not options.coverage:
        sys.stdout.write(f"{len(targets) - failed} passed, {failed} failed\n")
    return EXIT_FAILED if failed else 0


class Result(NamedTuple):
    """A line on what a target came to, what its program printed if it failed, and inputs that were tried."""

    line: str
    output: str = ""
    executed: int = 0


# --- targets ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A libFuzzer program, and the files of the parser that it is about."""

    name: str
    parsers: tuple[Path, ...]

    @property
    def corpus(self) -> Path:
        """Inputs found by all runs of this user."""
        return _corpora() / self.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """Folders of inputs; new ones are written to the first."""
        self.corpus.mkdir(parents=True, exist_ok=True)
        return (str(self.corpus), str(_SEEDS / self.name))

    def program(self, preset: str) -> str:
        return str(programs.ROOT / "build" / preset / "bin" / self.name)


def read_targets(text: str) -> list[Target]:
    """What CMake lists: a name and the files of its parser, with tabs between them."""
    rows = (line.split("\t") for line in text.splitlines() if line)
    return sorted((Target(row[0], tuple(map(Path, row[1:]))) for row in rows), key=lambda one: one.name)


def _chosen(names: Sequence[str], preset: str) -> list[Target]:
    if not configured(preset):
        raise RepriseError("cmake failed", "see above")
    listed = programs.ROOT / "build" / preset / "fuzz-targets.tsv"
    known = read_targets(listed.read_text(encoding="utf-8"))
    for name in names:
        want_choice("fuzz target", name, [one.name for one in known])
    return [one for one in known if not names or one.name in names]


def _build(preset: str, names: Sequence[str]) -> None:
    if not built(preset, *names):
        raise RepriseError("the build failed", "see above")


def _corpora() -> Path:
    return programs.cache() / "fuzz"


def _convert(folders: Iterable[Path]) -> None:
    """Each target gets what it reads of the files: packets, messages, records, or their beginning."""
    _build("fuzz", [_CONVERTER])
    converter = str(programs.ROOT / "build/fuzz/bin" / _CONVERTER)
    done = run(converter, str(_corpora()), *(str(one.resolve()) for one in folders))
    show(done.stdout)
    if done.returncode != 0:
        raise RepriseError(f"{_CONVERTER} failed", "see above")


# --- fuzzing ----------------------------------------------------------------------------------------------


def fuzz(target: Target, seconds: int) -> Result:
    """Looks for inputs that break the parser."""
    words = _SEEDS / f"{target.name}.dict"
    options = (
        f"-max_total_time={seconds}",
        "-timeout=25",
        "-report_slow_units=25",
        "-print_final_stats=1",
        "-close_fd_mask=3",  # what parsers print; libFuzzer and the sanitizers keep theirs
        f"-artifact_prefix={_FINDINGS}/{target.name}-",
        *([f"-dict={words}"] if words.is_file() else []),
    )
    done = run(target.program("fuzz"), *options, *target.inputs)
    found = _EXECUTED.search(done.stdout)
    executed, kept = int(found[1]) if found else 0, sum(1 for _ in target.corpus.iterdir())
    line = f"{target.name}: {executed} inputs tried, {kept} kept"
    if done.returncode == 0:
        return Result(line, executed=executed)
    written = _WRITTEN.search(done.stdout)
    replay = f"{target.program('fuzz')} {written[1]}" if written else ""
    what = f"; replay it: {replay}" if written else " without an input, see above"
    return Result(f"{line}; FAILED{what}", done.stdout or "it printed nothing", executed)


def add_run(target: Target, executed: int, seconds: int) -> None:
    """Adds to the sums of all runs, which stand beside the coverage."""
    sums = _runs()
    before, passed = sums.get(target.name, (0, 0))
    sums[target.name] = (before + executed, passed + seconds)
    (_corpora() / "runs.json").write_text(json.dumps(sums), encoding="utf-8")


def _runs() -> dict[str, tuple[int, int]]:
    """Inputs tried and seconds of every target."""
    sums = as_json(_corpora() / "runs.json")
    return {name: (int(executed), int(seconds)) for name, (executed, seconds) in sums.items()}


# --- coverage ---------------------------------------------------------------------------------------------

_HEAD = f"{'target':20} {'lines':>6} {'covered':>8} {'%':>6} {'inputs tried':>12} {'seconds':>8}  files\n"


def cover(target: Target) -> Result:
    """Replays all inputs once and asks clang's tools which lines ran."""
    program = target.program("coverage")
    raw, merged = f"{program}.profraw", f"{program}.profdata"
    for argv in (
        ("env", f"LLVM_PROFILE_FILE={raw}", program, "-runs=0", *target.inputs),
        ("llvm-profdata-19", "merge", "-sparse", raw, "-o", merged),
        ("llvm-cov-19", "export", "-summary-only", f"-instr-profile={merged}", program),
    ):
        done = run(*argv)
        if done.returncode != 0:
            return Result(row(target, 0, 0), done.stdout or f"{argv[0]} failed")
    return Result(row(target, *sum_lines(target, done.stdout)))


def row(target: Target, lines: int, covered: int) -> str:
    share = 100 * covered / lines if lines else 0
    executed, seconds = _runs().get(target.name, (0, 0))
    files = " ".join(os.path.relpath(one, programs.ROOT) for one in target.parsers)
    return f"{target.name:20} {lines:6} {covered:8} {share:6.1f} {executed:12} {seconds:8}  {files}"


def sum_lines(target: Target, exported: str) -> tuple[int, int]:
    """Lines of the parser's files alone, and of these the ones that ran, by the JSON of `llvm-cov export`."""
    files = json.loads(exported)["data"][0]["files"]
    ours = [one["summary"]["lines"] for one in files if Path(one["filename"]).resolve() in target.parsers]
    return sum(one["count"] for one in ours), sum(one["covered"] for one in ours)
