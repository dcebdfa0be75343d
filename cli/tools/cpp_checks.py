"""The checks of the C++ code that take long: unit tests by ctest, clang-tidy by ninja.

The preset `tidy` has every file read by clang-tidy as it is compiled, and compiles every header alone. So
ninja knows what has passed in this folder and did not change since, and ccache what has in others. Files that
do not differ from the branch that is to take them are left to `--slow`.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from cli import programs
from cli.tools.checking import git, run, show, tool
from cli.tools.counts import Counts, Timed, junit

_PRESET = "tidy"
_TESTS = "reprise_tests"  # the target of all test programs
_BUILD = programs.ROOT / "build" / _PRESET
_RECENT = 20  # commits that are looked at where the main branch itself is checked out
_CPP = ("*.cc", "*.hh", "*.h", "*.c", "*.proto")
_TEST_FILE = re.compile(r"(_test|_fuzz|/testing/[a-z_]+|/test_[a-z_]+)\.cc$")
_NICE = ("nice", "-n", "5")  # behind the Python tests; more would starve beside a busy machine's other work
_HEADER_OBJECT = re.compile(
    r"^(\S+_verify_interface_header_sets\.dir/\w+_verify_interface_header_sets/(\S+)\.cxx\.o):", re.MULTILINE
)
_LINKED = re.compile(r"Linking CXX executable \S*?([^/\s]+_test)$", re.MULTILINE)


# --- tests ------------------------------------------------------------------------------------------------


def configured(preset: str) -> bool:
    """Configures a preset; what fails is shown."""
    done = run("cmake", "--preset", preset)
    if done.returncode != 0:
        show(done.stdout)
    return done.returncode == 0


def built(preset: str, *targets: str) -> bool:
    """Configures and builds a preset, or only some of its targets; what fails is shown."""
    if not configured(preset):
        return False
    target = ("-t", *targets) if targets else ()
    return not tool("cmake", "--build", "--preset", preset, *target, title=f"building {preset}").failed


def ctest(preset: str, slow: bool, only: Iterable[str] = ()) -> Counts:
    """Builds a preset and runs its tests, or only some; a build that fails is one failure."""
    begin, only = time.monotonic(), list(only)
    if not built(preset, *(only or [_TESTS])):
        return Counts(failed=1)
    building = Timed(time.monotonic() - begin, f"building {preset}")
    options = ["-j", str(os.cpu_count() or 1), "--no-tests=error", *(() if slow else ("-LE", "slow"))]
    options += ["--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000"]
    options += ["-R", f"^({'|'.join(map(re.escape, only))})$"] if only else []
    counts = reported("ctest", "--preset", preset, *options, report="--output-junit {}")
    return counts + Counts(times=(building,))


def reported(*argv: str, report: str, cwd: Path = programs.ROOT) -> Counts:
    """Runs tests that write a report in JUnit's form; `report` are the words for its name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.xml")
        done = run(*argv, *report.format(out).split(), cwd=cwd)
        counts = junit(out.read_text(encoding="utf-8")) if out.is_file() else Counts(failed=1)
    if done.returncode != 0 or counts.failed:
        show(done.stdout)
    return counts if counts.failed or done.returncode == 0 else counts + Counts(failed=1)


def ctest_programs(preset: str = "asan") -> dict[str, tuple[str, Path]]:
    """What ctest knows once the preset is configured: each test's program and folder; nothing is built."""
    if not configured(preset):
        return {}
    found = {}
    for test in json.loads(run("ctest", "--preset", preset, "--show-only=json-v1").stdout)["tests"]:
        properties = {one["name"]: one["value"] for one in test["properties"]}
        program = test.get("command", [str(programs.ROOT / "build" / preset / test["name"])])[0]
        found[test["name"]] = (program, Path(properties["WORKING_DIRECTORY"]))
    return found


def gtest(wanted: str) -> Counts:
    """Single tests by a filter, in every program of the asan preset that has one of them."""
    if not built("asan", _TESTS):
        return Counts(failed=1)
    argvs = [(program, f"--gtest_filter={wanted}", folder) for program, folder in ctest_programs().values()]
    total = Counts()
    for program, chosen, folder in dict.fromkeys(argvs):
        if "  " in run(program, chosen, "--gtest_list_tests", cwd=folder).stdout:
            total += reported(program, chosen, report="--gtest_output=xml:{}", cwd=folder)
    return total if total.passed or total.failed or total.skipped else Counts(failed=1)


def to_be_linked() -> list[str]:
    """Test programs of the asan preset whose parts changed since they were built."""
    done = run("ninja", "-n", "-C", str(programs.ROOT / "build/asan"), _TESTS) if configured("asan") else None
    return sorted(set(_LINKED.findall(done.stdout))) if done else []


# --- what changed -----------------------------------------------------------------------------------------


def changed() -> tuple[set[str], str] | None:
    """Files that differ from where this branch left the main one, or in the last commits of that one itself,
    and since when in words; None where git does not know.
    """
    head = git("rev-parse", "--verify", "HEAD")
    base = (head and git("merge-base", "HEAD", "origin/main")) or head
    if base and base == head:
        base = git("rev-parse", "--verify", f"HEAD~{_RECENT}")
    differing = git("diff", "--name-only", "--no-renames", base[0]) if base else None
    if base is None or differing is None:
        return None
    return {*differing, *(git("ls-files", "--others", "--exclude-standard") or ())}, base[0][:10]


def affected(names: Iterable[str], root: Path = programs.ROOT) -> set[str]:
    """C++ files of these names and those that include one, directly or by way of others; by the names of
    headers without their folders.
    """
    found: set[str] = set()
    more = set(names)
    while more:
        found |= more
        stems = {re.escape(Path(one).stem) for one in more if one.endswith((".hh", ".h", ".proto"))}
        pattern = rf'^ *# *include "(.*/)?({"|".join(sorted(stems))})(\.pb)?\.hh?"'
        words = ("grep", "--untracked", "-lE", pattern, "--", *_CPP)
        more = set(git(*words, root=root) or ()) - found if stems else set()
    return found


def clang_tidy(slow: bool) -> Counts:
    """Builds what changed, or all: translation units, which clang-tidy reads, those of tests only in the slow
    suite; and every header alone, as it includes what it uses.
    """
    if not configured(_PRESET):
        return Counts(failed=1)
    commands = json.loads((_BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    units = [one["file"] for one in commands if not one["file"].startswith(str(programs.ROOT / "build"))]
    targets = {os.path.relpath(one, programs.ROOT): f"{one}^" for one in units}
    targets = {one: target for one, target in targets.items() if slow or not _TEST_FILE.search(one)}
    listed = run("ninja", "-C", str(_BUILD), "-t", "targets", "all").stdout
    targets |= {name: target for target, name in _HEADER_OBJECT.findall(listed)}
    known = None if slow else changed()
    chosen = sorted(
        targets[one] for one in targets.keys() & (affected(known[0]) if known else targets.keys())
    )
    remark = f"{len(chosen)} of {len(targets)} files" + (f" changed since {known[1]}" if known else "")
    words = (*_NICE, "ninja", "-C", str(_BUILD), "-k", "0", *chosen)
    return (tool(*words, title="clang-tidy") if chosen else Counts(passed=1)) + Counts(remarks=(remark,))
