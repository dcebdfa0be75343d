"""What checks are made of: tools, builds and tests that are run quietly, and what git knows of the files."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar
from xml.etree import ElementTree

from cli import programs, steps
from cli.progress import Progress

_Result = TypeVar("_Result")
_PATIENCE_S = 30.0  # for an interrupted tool: tests take down what they set up
_LINE = 300  # characters at most of a failure
_WENT_WELL = re.compile(r"\d+ (of \d+: |warnings generated\.)")
# GoogleTest's lines. To ctest a program is one test, whatever it holds.
_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.MULTILINE)
_FAILED = re.compile(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", re.MULTILINE)
_SKIPPED = re.compile(r": Skipped\n(.*)\n+\[  SKIPPED \] ([\w/]+\.[\w/]+)")


class Found(NamedTuple):
    """What checks came to: how much passed, a line for each failure and each skip with its reason, and what
    took how many seconds.
    """

    passed: int = 0
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    times: tuple[tuple[float, str], ...] = ()

    def text(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def total(found: Iterable[Found]) -> Found:
    passed, *others = zip(Found(), *found, strict=True)
    return Found(sum(passed), *(tuple(one for part in parts for one in part) for parts in others))


def run(*argv: str, title: str = "") -> steps.Done:
    """Runs a tool and keeps its output; with a title a line tells what it does."""
    job = steps.Job(title or argv[0], argv, steps.NINJA_ENVIRONMENT, programs.ROOT, _PATIENCE_S)
    return steps.run(job, Progress(quiet_s=steps.LINE_EVERY_S) if title else None)


def show(output: str) -> None:
    """The end of what a tool printed, without ninja's and clang-tidy's lines of what went well."""
    lines = [line for line in output.splitlines() if not _WENT_WELL.match(line)]
    if len(lines) > steps.TAIL_LINES:
        sys.stdout.write(f"  ({len(lines) - steps.TAIL_LINES} lines before)\n")
    sys.stdout.writelines(f"  {line}\n" for line in lines[-steps.TAIL_LINES :])


def good(*argv: str, title: str = "") -> bool:
    """Whether a tool ends with 0; where it does not, what it printed is shown."""
    done = run(*argv, title=title)
    if done.returncode != 0:
        show(done.stdout)
    return done.returncode == 0


def built(preset: str, *targets: str) -> bool:
    """Configures and builds some targets of a preset; what fails is shown."""
    words = ("cmake", "--build", "--preset", preset, "-t", *targets)
    return good("cmake", "--preset", preset) and good(*words, title=f"building {preset}")


def tested(title: str, *argv: str, report: str) -> Found:
    """Runs tests that write a report in JUnit's form to the file that follows the option `report`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.xml")
        done = run(*argv, report, str(out), title=title)
        found = junit(out.read_text(encoding="utf-8")) if out.is_file() else Found()
    if done.returncode != 0:
        show(done.stdout)
        return found if found.failed else total([found, Found(failed=(title,))])
    return found


def junit(text: str) -> Found:
    """What a JUnit file says: that of pytest of each test, that of ctest of programs, whose output tells of
    GoogleTest's tests.
    """
    return total(map(_case, ElementTree.fromstring(text).iter("testcase")))


def _case(case: ElementTree.Element) -> Found:
    name, group = case.get("name", ""), case.get("classname", "")
    times = ((float(case.get("time", 0)), name if group == name else f"{group}: {name}"),)
    bad, skip = _said(case, "failure", "error"), _said(case, "skipped")
    output = case.findtext("system-out") or ""
    failed = [f"{name}: {one}" for one in dict.fromkeys(_FAILED.findall(output))]
    if (bad is not None or case.get("status") == "fail") and not failed:  # a program that crashed
        failed = [f"{times[0][1]}: {bad or ''}"[:_LINE].removesuffix(": ")]
    skipped = [f"{name}: {one}: {why}" for why, one in _SKIPPED.findall(output)]
    skipped += [f"{name}: {skip}"] if skip is not None else []
    passed = _PASSED.search(output)
    count = int(passed[1]) if passed else int("status" not in case.attrib and not failed and not skipped)
    return Found(count, tuple(failed), tuple(skipped), times)


def _said(case: ElementTree.Element, *kinds: str) -> str | None:
    found = next((one for kind in kinds if (one := case.find(kind)) is not None), None)
    return None if found is None else " ".join(found.get("message", "").split())


def together(calls: Sequence[Callable[[], _Result]], jobs: int | None = None) -> Iterator[_Result]:
    """As many at once as there are processors or `jobs`, the results in order. An interruption ends those
    under way.
    """
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        try:
            yield from pool.map(lambda call: call(), calls)
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


def files(*endings: str) -> list[str]:
    """The project's files with one of the endings, relative to its root."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", *(f"*{one}" for one in endings))
    return sorted(one for one in listed or () if (programs.ROOT / one).exists())
