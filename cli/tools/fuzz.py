"""`reprise fuzz`: libFuzzer on every parser of foreign input, and the lines that its inputs reach.

Inputs that reach something new are kept in the user's cache, so that a run begins where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cli import programs, progress
from cli.errors import EXIT_FAILED, RepriseError, want, want_choice
from cli.tools.checking import built, configured, run, show, together

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
    if options.coverage:
        return _covered(targets, options.jobs)
    return _fuzzed(targets, options.seconds, options.jobs)


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

    @property
    def kept(self) -> int:
        return sum(1 for _ in self.corpus.iterdir())

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


@dataclass(frozen=True)
class Fuzzed:
    """What a run of a target came to. `output` is empty where nothing was found."""

    target: Target
    executed: int
    output: str = ""

    def line(self) -> str:
        text = f"{self.target.name}: {self.executed} inputs tried, {self.target.kept} kept"
        if not self.output:
            return text
        written = _WRITTEN.search(self.output)
        if written is None:
            return f"{text}; FAILED without an input, see above"
        return f"{text}; FAILED; replay it: {self.target.program('fuzz')} {written[1]}"


def _fuzzed(targets: Sequence[Target], seconds: int, jobs: int) -> int:
    _FINDINGS.mkdir(parents=True, exist_ok=True)
    least = -(-len(targets) // jobs) * seconds
    sys.stdout.write(f"{len(targets)} targets, {seconds} s each: {progress.seconds_in_words(least)}\n")
    failed = 0
    for one in together([partial(_fuzz, target, seconds) for target in targets], jobs):
        if one.output:
            failed += 1
            show(one.output)
        sys.stdout.write(one.line() + "\n")
        sys.stdout.flush()
        _add_run(one, seconds)
    sys.stdout.write(f"{len(targets) - failed} passed, {failed} failed\n")
    return EXIT_FAILED if failed else 0


def _fuzz(target: Target, seconds: int) -> Fuzzed:
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
    executed = _EXECUTED.search(done.stdout)
    output = (done.stdout or "it printed nothing") if done.returncode != 0 else ""
    return Fuzzed(target, int(executed[1]) if executed else 0, output)


def _add_run(fuzzed: Fuzzed, seconds: int) -> None:
    """Adds to the sums of all runs, which stand beside the coverage."""
    sums = _runs()
    executed, before = sums.get(fuzzed.target.name, (0, 0))
    sums[fuzzed.target.name] = (executed + fuzzed.executed, before + seconds)
    (_corpora() / "runs.json").write_text(json.dumps(sums), encoding="utf-8")


def _runs() -> dict[str, tuple[int, int]]:
    """Inputs tried and seconds of every target."""
    try:
        sums = json.loads((_corpora() / "runs.json").read_text(encoding="utf-8"))
        return {name: (int(executed), int(seconds)) for name, (executed, seconds) in sums.items()}
    except (OSError, ValueError):
        return {}


# --- coverage ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """Lines of a target's parser. `output` is empty where all inputs were taken."""

    target: Target
    lines: int = 0
    covered: int = 0
    output: str = ""

    def row(self, executed: int, seconds: int) -> str:
        share = 100 * self.covered / self.lines if self.lines else 0
        files = " ".join(os.path.relpath(one, programs.ROOT) for one in self.target.parsers)
        figures = f"{self.lines:6} {self.covered:8} {share:6.1f} {executed:12} {seconds:8}"
        return f"{self.target.name:20} {figures}  {files}"


def _covered(targets: Sequence[Target], jobs: int) -> int:
    head = f"{'target':20} {'lines':>6} {'covered':>8} {'%':>6} {'inputs tried':>12} {'seconds':>8}  files"
    sys.stdout.write(head + "\n")
    failed = 0
    for one in together([partial(_cover, target) for target in targets], jobs):
        failed += 1 if one.output else 0
        show(one.output)
        sys.stdout.write(one.row(*_runs().get(one.target.name, (0, 0))) + "\n")
        sys.stdout.flush()
    return EXIT_FAILED if failed else 0


def _cover(target: Target) -> Coverage:
    """Replays all inputs once and asks clang's tools which lines ran."""
    program = target.program("coverage")
    raw, merged = f"{program}.profraw", f"{program}.profdata"
    for argv in (
        ("env", f"LLVM_PROFILE_FILE={raw}", program, "-runs=0", *target.inputs),
        ("llvm-profdata-19", "merge", "-sparse", raw, "-o", merged),
    ):
        done = run(*argv)
        if done.returncode != 0:
            return Coverage(target, output=done.stdout or f"{argv[0]} failed")
    done = run("llvm-cov-19", "export", "-summary-only", f"-instr-profile={merged}", program)
    return sum_lines(target, done.stdout) if done.returncode == 0 else Coverage(target, output=done.stdout)


def sum_lines(target: Target, exported: str) -> Coverage:
    """Of the parser's files alone, by the JSON of `llvm-cov export`."""
    files = json.loads(exported)["data"][0]["files"]
    ours = [one["summary"]["lines"] for one in files if Path(one["filename"]).resolve() in target.parsers]
    return Coverage(target, sum(one["count"] for one in ours), sum(one["covered"] for one in ours))
