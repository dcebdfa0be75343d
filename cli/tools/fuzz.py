"""`reprise fuzz`: libFuzzer on every parser of foreign input.

Inputs that reach something new are kept in the user's cache, so that a run begins where the last one ended.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path

from cli import programs, progress
from cli.errors import EXIT_FAILED, RepriseError, want, want_choice
from cli.tools.checking import built, run, show, together

_SEEDS = programs.ROOT / "tests/fuzz"  # a folder for each target
_PROGRAMS = programs.ROOT / "build/fuzz/bin"
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


def command_fuzz(options: argparse.Namespace) -> int:
    """1 where an input broke a parser."""
    want(options.seconds >= 1, f"--seconds {options.seconds}: out of range", "give 1 or more")
    want(options.jobs >= 1, f"--jobs {options.jobs}: out of range", "give 1 or more")
    for folder in options.seeds:
        want(folder.is_dir(), f"--seeds {folder}: no such folder", "give a folder of traces and zones")
    known = targets()
    for name in options.targets:
        want_choice("fuzz target", name, known)
    chosen = [one for one in known if not options.targets or one in options.targets]
    if not built("fuzz", *chosen, *([_CONVERTER] if options.seeds else [])):
        raise RepriseError("the build failed", "see above")
    if options.seeds:
        # Each target gets what it reads of the files: packets, messages, records, or their beginning.
        folders = (str(one.resolve()) for one in options.seeds)
        done = run(str(_PROGRAMS / _CONVERTER), str(programs.cache() / "fuzz"), *folders)
        show(done.stdout)
        if done.returncode != 0:
            raise RepriseError(f"{_CONVERTER} failed", "see above")
    _FINDINGS.mkdir(parents=True, exist_ok=True)
    least = progress.seconds_in_words(-(-len(chosen) // options.jobs) * options.seconds)
    sys.stdout.write(f"{len(chosen)} targets, {options.seconds} s each: {least}\n")
    failed = 0
    for line, output in together([partial(fuzz, name, options.seconds) for name in chosen], options.jobs):
        failed += 1 if output else 0
        show(output)
        print(line, flush=True)
    sys.stdout.write(f"{len(chosen) - failed} passed, {failed} failed\n")
    return EXIT_FAILED if failed else 0


def targets() -> list[str]:
    return sorted(one.name for one in _SEEDS.iterdir() if one.is_dir())


def fuzz(target: str, seconds: int) -> tuple[str, str]:
    """Looks for inputs that break a parser; new ones are kept. Returns a line on what a target came to, and
    what its program printed if it failed.
    """
    program, words = str(_PROGRAMS / target), _SEEDS / f"{target}.dict"
    corpus = programs.cache() / "fuzz" / target  # of all runs of this user
    corpus.mkdir(parents=True, exist_ok=True)
    options = (
        f"-max_total_time={seconds}",
        "-timeout=25",
        "-report_slow_units=25",
        "-print_final_stats=1",
        "-close_fd_mask=3",  # what parsers print; libFuzzer and the sanitizers keep theirs
        f"-artifact_prefix={_FINDINGS}/{target}-",
        *([f"-dict={words}"] if words.is_file() else []),
    )
    done = run(program, *options, str(corpus), str(_SEEDS / target))  # new ones go to the first
    found = _EXECUTED.search(done.stdout)
    executed, kept = int(found[1]) if found else 0, sum(1 for _ in corpus.iterdir())
    line = f"{target}: {executed} inputs tried, {kept} kept"
    if done.returncode == 0:
        return line, ""
    written = _WRITTEN.search(done.stdout)
    what = f"; replay it: {program} {written[1]}" if written else " without an input, see above"
    return f"{line}; FAILED{what}", done.stdout or "it printed nothing"
