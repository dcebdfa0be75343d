"""`reprise bench NAME --against COMMIT`: this checkout beside another commit, which is built below
build/against/. Both are measured in turn, each by its own bench, and of each cost, rate and error of ours the
ratios of all pairs are told, those of earlier calls (`--resume`) with them. "by other tools" is the median of
the ratios over those of the row's other tools, which a machine whose speed changes does not move.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import table
from cli import programs
from cli.errors import RepriseError, complain, one_line, want

_UNITS = {"s/M", "us/query", "s CPU", "M/s", "us abs p50", "us abs p99"}  # of figures that are compared
_OPTIONS = "options"  # file with those of a folder's pairs
_Figure = tuple[str, str, str]  # row, tool and unit
_HEAD = ("row", "tool", "unit", "min", "median", "max", "by other tools", "pairs")


def measure(arguments: argparse.Namespace, words: Sequence[str]) -> int:
    """Runs the pairs and prints the table; `words` are the bench's name and its own options."""
    commit = _git("rev-parse", "--verify", f"{arguments.against}^{{commit}}")
    folder = arguments.output.absolute() / f"{arguments.bench}-against-{commit[:12]}"
    done = sum(1 for _ in folder.glob("[0-9]*-here"))
    shutil.rmtree(folder / f"{done + 1:03d}-there", ignore_errors=True)  # of a pair that was interrupted
    told = folder / _OPTIONS
    alike = told.is_file() and told.read_text(encoding="utf-8") == " ".join(words)
    hint = "give --resume and the same options to add to them, or another folder with -o"
    want(not done or (arguments.resume and alike), f"{folder} has pairs", hint)
    folder.mkdir(parents=True, exist_ok=True)
    told.write_text(" ".join(words), encoding="utf-8")
    sides = {"here": programs.ROOT, "there": _checkout(commit)}
    for pair in range(done + 1, done + arguments.pairs + 1):
        complain(f"bench: pair {pair} of {done + arguments.pairs}")
        made = {}
        for side in sorted(sides, reverse=pair % 2 == 0):
            made[side] = _run(sides[side], [*words, "--repeats", "1", "-o", str(folder / f".{pair}-{side}")])
        for side in ("there", "here"):  # a pair counts when both are there
            made[side].rename(folder / f"{pair:03d}-{side}")
            made[side].parent.rmdir()
    sys.stdout.write(table.lines([_HEAD, *_rows(folder)]) + f"\n\nraw files: {folder}\n")
    return 0


def _checkout(commit: str) -> Path:
    """A worktree of the commit; its own `reprise` builds it."""
    path = programs.ROOT / "build/against" / commit[:12]
    if not (path / "reprise").is_file():
        _git("worktree", "add", "--force", "--detach", str(path), commit)
    return path


def _run(root: Path, words: Sequence[str]) -> Path:
    """The result folder of one call of a checkout's bench, whose checks are not this bench's matter."""
    shutil.rmtree(words[-1], ignore_errors=True)  # of a call that was interrupted
    argv = [str(root / "reprise"), "bench", *words]
    said = subprocess.run(argv, cwd=root, check=False, capture_output=True, text=True)
    found = [path.parent for path in Path(words[-1]).glob("*/recomputed.json")]
    if len(found) != 1:
        raise RepriseError(f"the bench of {root} failed: {one_line(said.stderr[-400:])}", "run it by hand")
    return found[0]


def _rows(folder: Path) -> list[tuple[str, ...]]:
    """Of each figure of ours the ratios here / there."""
    ratios: dict[_Figure, list[tuple[float, float | None]]] = {}
    for here in sorted(folder.glob("[0-9]*-here")):
        there = _costs(here.with_name(here.name.replace("-here", "-there")))
        pair = {one: cost / there[one] for one, cost in _costs(here).items() if there.get(one)}
        for (row, tool, unit), ratio in pair.items():
            if "reprise" not in tool:
                continue
            others = [pair[one] for one in pair if one[::2] == (row, unit) and "reprise" not in one[1]]
            machine = statistics.geometric_mean(others) if others and min(others) > 0 else None
            ratios.setdefault((row, tool, unit), []).append((ratio, machine and ratio / machine))
    return [_row(figure, found) for figure, found in sorted(ratios.items())]


def _row(figure: _Figure, found: list[tuple[float, float | None]]) -> tuple[str, ...]:
    plain = [ratio for ratio, _ in found]
    beside = [ratio for _, ratio in found if ratio is not None]
    spread = map(table.number, (min(plain), statistics.median(plain), max(plain)))
    return (*figure, *spread, table.number(statistics.median(beside)) if beside else "-", str(len(found)))


def _costs(folder: Path) -> dict[_Figure, float]:
    entries = json.loads((folder / "recomputed.json").read_text(encoding="utf-8"))["table"]
    return {
        (one["row"], one["tool"], one["unit"]): statistics.median(one["values"])
        for one in entries
        if one["unit"] in _UNITS and one["values"]
    }


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(programs.ROOT), *words], capture_output=True, text=True, check=False
    )
    want(done.returncode == 0, f"--against: {one_line(done.stderr)}", "give a commit of this repository")
    return done.stdout.strip()
