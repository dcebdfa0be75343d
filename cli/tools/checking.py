"""What checks are made of: running a tool quietly, showing why it failed, and what git knows of the files."""

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


def run(*argv: str, cwd: Path = programs.ROOT, title: str = "") -> steps.Done:
    """Runs a tool and keeps its output; with a title a line tells what it does."""
    job = steps.Job(title or argv[0], argv, steps.NINJA_ENVIRONMENT, cwd, _PATIENCE_S)
    return steps.run(job, Progress(quiet_s=steps.LINE_EVERY_S) if title else None)


def show(output: str) -> None:
    """The end of what a tool printed."""
    lines = output.splitlines()
    if len(lines) > steps.TAIL_LINES:
        sys.stdout.write(f"  ({len(lines) - steps.TAIL_LINES} lines before)\n")
    sys.stdout.writelines(f"  {line}\n" for line in lines[-steps.TAIL_LINES :])


def tool(*argv: str, title: str = "") -> Counts:
    """A check that a program makes with its exit status."""
    done = run(*argv, title=title)
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


def git(*words: str, root: Path = programs.ROOT) -> list[str] | None:
    """Lines of git's output; None where git is missing, refuses or finds nothing."""
    argv = ["git", "-c", f"safe.directory={root}", "-c", "core.quotePath=false", *words]
    try:
        done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def files(endings: Iterable[str]) -> list[str]:
    """The project's files with one of the endings, relative to its root."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", *(f"*{one}" for one in endings))
    return sorted(one for one in listed or () if (programs.ROOT / one).exists())
