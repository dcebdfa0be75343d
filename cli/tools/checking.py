"""What checks are made of: running a tool quietly, showing why it failed, and several at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cli import programs, steps
from cli.progress import Progress
from cli.tools.counts import Counts

_Result = TypeVar("_Result")
_PATIENCE_S = 30.0  # for an interrupted tool: tests take down what they set up


@dataclass(frozen=True)
class Check:
    """A named part of the suite."""

    name: str
    run: Callable[[], Counts]


def run(*argv: str, cwd: Path = programs.ROOT) -> subprocess.CompletedProcess[str]:
    """Runs a tool and keeps its output."""
    done = steps.run(steps.Job(argv[0], argv, cwd=cwd, patience_s=_PATIENCE_S))
    return subprocess.CompletedProcess(argv, done.status, done.output)


def build(title: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs ninja, or what calls it, with a line that tells how far it is."""
    job = steps.Job(title, argv, steps.read_ninja, steps.NINJA_ENVIRONMENT, programs.ROOT, _PATIENCE_S)
    done = steps.run(job, Progress(quiet_s=steps.LINE_EVERY_S))
    return subprocess.CompletedProcess(argv, done.status, done.output)


def show(output: str) -> None:
    """The end of what a tool printed."""
    lines = output.splitlines()
    if len(lines) > steps.TAIL_LINES:
        sys.stdout.write(f"  ({len(lines) - steps.TAIL_LINES} lines before)\n")
    sys.stdout.writelines(f"  {line}\n" for line in lines[-steps.TAIL_LINES :])


def tool(*argv: str) -> Counts:
    """A check that a program makes with its exit status."""
    done = run(*argv)
    if done.returncode == 0:
        return Counts(passed=1)
    show(done.stdout)
    return Counts(failed=1)


def together(checks: Sequence[Callable[[], _Result]], jobs: int | None = None) -> Iterator[_Result]:
    """As many at once as there are processors or `jobs`, the results in order. An interruption ends those
    under way.
    """
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        futures = [pool.submit(one) for one in checks]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            steps.Running.stop_all()
            raise


def files(endings: Iterable[str]) -> list[str]:
    """The project's files with one of the endings, relative to its root."""
    endings = tuple(endings)
    skipped = {"build", ".venv", "results", "bench-results", ".git"}
    found = []
    for folder, names, here in os.walk(programs.ROOT):
        names[:] = sorted(name for name in names if name not in skipped)
        found += [
            str(Path(folder, name).relative_to(programs.ROOT)) for name in here if name.endswith(endings)
        ]
    return sorted(found)
