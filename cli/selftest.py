"""`reprise test`: layout, lint, types, spelling, unit tests under two presets, Python tests.

Each check yields counts of passed, failed and skipped; the last line is `N passed, N failed, N skipped`.
Output of a check is shown only when it fails, and every skip with its reason.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from cli import programs
from cli.errors import EXIT_FAILED

_DATA_SKIP = re.compile(r"shared data|\w+_data_test:")  # the one reason to skip that CI accepts
_TAIL_LINES = 60  # of a failing check's output
_AT_ONCE = 3  # Python tests
_CPP = (".cc", ".hh")
# Words of the field, names, and parts of "\\n" and "\\t" with what follows, that codespell takes for slips.
_DNS_WORDS = "additionals,adresses,ede,iif,kno,nin,te,nd,thex,tyes"
_CPP_FOLDERS = ("core", "mutator", "zonebuilder", "controller", "querier", "proxy", "cli", "bench", "tests")


@dataclass(frozen=True)
class Counts:
    """What a check came to; notes name the skips."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.notes + other.notes,
        )

    def text(self) -> str:
        """The form of the last line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Check:
    """A named part of the suite."""

    name: str
    run: Callable[[], Counts]


def command_test(slow: bool) -> int:
    """Runs every check, also after a failure; 1 when anything failed."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background job; tests inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    total = Counts()
    for check in checks(slow):
        begin = time.monotonic()
        counts = check.run()
        total = total + counts
        sys.stdout.write(f"{check.name}: {counts.text()} in {time.monotonic() - begin:.0f} s\n")
        sys.stdout.writelines(f"  skipped: {note}\n" for note in counts.notes)
        sys.stdout.flush()
    if os.environ.get("CI") and (unexpected := [n for n in total.notes if not _DATA_SKIP.search(n)]):
        sys.stdout.writelines(f"not to be skipped in CI: {note}\n" for note in unexpected)
        total = total + Counts(failed=len(unexpected))
    sys.stdout.write(total.text() + "\n")
    return EXIT_FAILED if total.failed else 0


def checks(slow: bool) -> list[Check]:
    """The suite in the order of its price."""
    python = Path(sys.executable).parent
    cpp, scripts = _files(_CPP), ["reprise", ".ci/run", *_files((".sh",))]
    words = _files((".md", ".py", ".toml", *_CPP))
    return [
        Check("clang-format", lambda: _tool("clang-format-19", "--dry-run", "--Werror", *cpp)),
        Check("ruff", lambda: _tool(f"{python}/ruff", "check", ".")),
        Check("ruff format", lambda: _tool(f"{python}/ruff", "format", "--check", ".")),
        Check("mypy", lambda: _tool(sys.executable, "-m", "mypy")),
        Check("shellcheck", lambda: _tool("shellcheck", *scripts)),
        Check("codespell", lambda: _tool("codespell", "-L", _DNS_WORDS, *words)),
        Check("ctest asan", partial(ctest, "asan", slow)),
        *(slow_checks() if slow else []),
        Check("pytest, clang-tidy beside it", partial(pytest_and_tidy, slow)),
    ]


def slow_checks() -> list[Check]:
    """What the long suite adds before the Python tests; slow tests and clang-tidy on tests come there."""
    alone = "all_verify_interface_header_sets"
    return [
        Check("ctest dev", partial(ctest, "dev", slow=True)),
        Check("every header alone", lambda: _tool("cmake", "--build", "--preset", "dev", "-t", alone)),
        Check("ctest tsan, the Reader's thread", partial(ctest, "tsan", slow=True, only="controller_test")),
        Check("ctest tsan, mutate's threads", partial(ctest, "tsan", slow=True, only="mutator_pipe_test")),
        Check("fuzz", fuzz),
    ]


_FINDING = re.compile(r": (error|warning): ")


def _files(endings: Iterable[str]) -> list[str]:
    """The project's files with one of the endings, relative to its root."""
    endings = tuple(endings)
    skipped = {"build", ".venv", "results", "bench-results", ".git"}
    found = []
    for folder, names, files in os.walk(programs.ROOT):
        names[:] = sorted(name for name in names if name not in skipped)
        found += [
            str(Path(folder, name).relative_to(programs.ROOT)) for name in files if name.endswith(endings)
        ]
    return sorted(found)


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, cwd=programs.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, f"cannot start {argv[0]}: {error.strerror}\n")


def _show(output: str) -> None:
    lines = output.splitlines()
    if len(lines) > _TAIL_LINES:
        sys.stdout.write(f"  ({len(lines) - _TAIL_LINES} lines before)\n")
    sys.stdout.writelines(f"  {line}\n" for line in lines[-_TAIL_LINES:])


def _tool(*argv: str) -> Counts:
    """A check that a program makes with its exit status."""
    done = _run(*argv)
    if done.returncode == 0:
        return Counts(passed=1)
    _show(done.stdout)
    return Counts(failed=1)


def ctest(preset: str, slow: bool, only: str = "") -> Counts:
    """Configures and builds a preset and runs its tests, or only one; a build that fails is one failure."""
    target = ("-t", only) if only else ()
    for argv in (("cmake", "--preset", preset), ("cmake", "--build", "--preset", preset, *target)):
        done = _run(*argv)
        if done.returncode != 0:
            _show(done.stdout)
            return Counts(failed=1)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "ctest.xml")
        leave_out = () if slow else ("-LE", "slow")
        chosen = ("-R", f"^{only}$") if only else ()
        at_once = ("-j", str(os.cpu_count() or 1))
        done = _run("ctest", "--preset", preset, *at_once, "--output-junit", str(out), *leave_out, *chosen)
        counts = junit(out.read_text(encoding="utf-8")) if out.is_file() else Counts(failed=1)
    if counts.failed or done.returncode != 0:
        _show(done.stdout)
    return counts if done.returncode == 0 or counts.failed else counts + Counts(failed=1)


def fuzz() -> Counts:
    """Every libFuzzer target for a minute each, from its seeds."""
    total = Counts()
    for argv in (("cmake", "--preset", "fuzz"), ("cmake", "--build", "--preset", "fuzz")):
        done = _run(*argv)
        if done.returncode != 0:
            _show(done.stdout)
            return Counts(failed=1)
    for target in sorted((programs.ROOT / "build/fuzz/bin").glob("reader_*")):
        seeds = programs.ROOT / "tests/fuzz" / target.name
        with tempfile.TemporaryDirectory() as corpus:
            artifacts = f"-artifact_prefix={programs.ROOT}/build/fuzz/"
            total += _tool(str(target), "-max_total_time=60", artifacts, corpus, str(seeds))
    return total if total.passed or total.failed else Counts(failed=1)


def pytest_and_tidy(slow: bool) -> Counts:
    """clang-tidy computes while the Python tests mostly wait; it is niced, so it does not disturb them."""
    prepared = [
        _tool("cmake", "--preset", "dev"),
        _tool("cmake", "--build", "--preset", "dev", "-t", "reprise_wire", "reprise_dnstap"),
    ]
    with ThreadPoolExecutor(1) as pool:
        tidy = pool.submit(clang_tidy, slow)
        counts = pytest(slow)
        return counts + tidy.result() + Counts(failed=sum(one.failed for one in prepared))


def clang_tidy(slow: bool) -> Counts:
    """One run for each translation unit of the dev preset; those of the tests are left to the slow suite."""
    folders = "|".join(_CPP_FOLDERS)
    tests = "" if slow else r"(?!(.*(_test|_fuzz)|(.*/)?testing/[a-z_]+)\.cc$)"
    pattern = f"^{re.escape(str(programs.ROOT))}/({folders})/{tests}.*\\.cc$"
    jobs = str(os.cpu_count() or 1)
    done = _run("nice", "-n", "19", "run-clang-tidy-19", "-quiet", "-p", "build/dev", "-j", jobs, pattern)
    if done.returncode == 0:
        return Counts(passed=1)
    findings = [line for line in done.stdout.splitlines() if _FINDING.search(line)]
    _show("\n".join(findings or done.stdout.splitlines()))
    return Counts(failed=1)


def pytest(slow: bool) -> Counts:
    """The Python tests, those with real namespaces and servers among them; what looks at times comes last."""
    at_once = ("-n", str(_AT_ONCE), "--dist", "worksteal")  # they wait more than they compute
    normal = "" if slow else "not slow and "
    return _pytest(f"{normal}not alone", *at_once) + _pytest(f"{normal}alone")


def _pytest(marks: str, *options: str) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "pytest.xml")
        done = _run(sys.executable, "-m", "pytest", "-q", f"--junit-xml={out}", "-m", marks, *options)
        counts = junit(out.read_text(encoding="utf-8")) if out.is_file() else Counts(failed=1)
    if done.returncode not in (0, 5):
        _show(done.stdout)
    return counts if counts.failed or done.returncode in (0, 5) else counts + Counts(failed=1)


def junit(text: str) -> Counts:
    """Counts of a JUnit file, with the reason of every skip."""
    total = Counts()
    for case in ElementTree.fromstring(text).iter("testcase"):
        skip = case.find("skipped")
        if skip is not None or case.get("status") in ("notrun", "disabled"):
            reason = (skip.get("message") if skip is not None else None) or "no reason given"
            total = total + Counts(skipped=1, notes=(f"{case.get('name')}: {reason}",))
        elif (
            case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"
        ):
            total = total + Counts(failed=1)
        else:
            total = total + Counts(passed=1)
    return total
