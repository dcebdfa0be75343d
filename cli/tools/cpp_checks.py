"""The checks of the C++ code that take long: unit tests, clang-tidy, headers alone."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import programs
from cli.tools import changes
from cli.tools.changes import Changes, Choice, Repository, Stamp
from cli.tools.checking import build, files, run, show, tool
from cli.tools.counts import Counts, Timed, junit

_FOLDERS = ("core", "mutator", "zonebuilder", "controller", "querier", "proxy", "cli", "bench", "tests")
_PRESET = "tidy"  # whose compile commands clang-tidy and the check of headers read
_TESTS = "reprise_tests"  # the target of all test programs
_BUILD = programs.ROOT / "build" / _PRESET
_CONFIGURATION = (
    "CMakePresets.json",
    "CMakeLists.txt",
    "cmake/RepriseOptions.cmake",
    "cmake/RepriseDependencies.cmake",
    "cmake/RepriseBpf.cmake",
)
_TEST_FILE = re.compile(r"(_test|_fuzz|/testing/[a-z_]+|/test_[a-z_]+)\.cc$")
_NICE = ("nice", "-n", "5")  # behind the Python tests; more would starve beside a busy machine's other work
_FINDING = re.compile(r": (error|warning): ")
_LOOKED_AT = re.compile(r"^\[ *\d+/\d+\]", re.MULTILINE)  # the line of run-clang-tidy for each file
_HEADER_OBJECT = re.compile(
    r"^(\S+_verify_interface_header_sets\.dir/\w+_verify_interface_header_sets/(\S+)\.cxx\.o):", re.MULTILINE
)


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
    done = build(f"building {preset}", "cmake", "--build", "--preset", preset, *target)
    if done.returncode != 0:
        show(done.stdout)
    return done.returncode == 0


def ctest(preset: str, slow: bool, only: str = "") -> Counts:
    """Builds a preset and runs its tests, or only one; a build that fails is one failure."""
    begin = time.monotonic()
    if not built(preset, *_targets(preset, only)):
        return Counts(failed=1)
    building = Timed(time.monotonic() - begin, f"building {preset}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "ctest.xml")
        leave_out = () if slow else ("-LE", "slow")
        chosen = ("-R", f"^{re.escape(only)}$") if only else ()
        at_once = ("-j", str(os.cpu_count() or 1))
        whole = ("--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000")
        options = (*at_once, *whole, "--no-tests=error", "--output-junit", str(out), *leave_out, *chosen)
        done = run("ctest", "--preset", preset, *options)
        counts = junit(out.read_text(encoding="utf-8")) if out.is_file() else Counts(failed=1)
    if counts.failed or done.returncode != 0:
        show(done.stdout)
    counts += Counts(times=(building,))
    return counts if done.returncode == 0 or counts.failed else counts + Counts(failed=1)


def _targets(preset: str, only: str) -> set[str]:
    """The program of a single test, which has its name; without one, all test programs. Of what is not built
    yet ctest knows the name alone.
    """
    if not only:
        return {_TESTS}
    return {one.name for one in ctest_programs(preset) if one.name == only}


@dataclass(frozen=True)
class CtestProgram:
    """A test of ctest: its command line, and where it runs."""

    name: str
    argv: tuple[str, ...]
    folder: Path


def ctest_programs(preset: str = "asan") -> list[CtestProgram]:
    """What ctest knows once the preset is configured; nothing is built."""
    if not configured(preset):
        return []
    listed = json.loads(run("ctest", "--preset", preset, "--show-only=json-v1").stdout or "{}")
    found = []
    for test in listed.get("tests", []):
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        folder = Path(properties.get("WORKING_DIRECTORY", str(programs.ROOT)))
        found.append(CtestProgram(test["name"], tuple(test.get("command", ())), folder))
    return found


def gtest(wanted: str) -> Counts:
    """Single tests by a filter, in every program of the asan preset that has one of them."""
    if not built("asan", _TESTS):
        return Counts(failed=1)
    total = Counts()
    for program, folder in {one.argv[0]: one.folder for one in ctest_programs() if one.argv}.items():
        chosen = f"--gtest_filter={wanted}"
        if "  " not in run(program, chosen, "--gtest_list_tests", cwd=folder).stdout:
            continue
        with tempfile.TemporaryDirectory() as place:
            out = Path(place, "gtest.xml")
            done = run(program, chosen, f"--gtest_output=xml:{out}", cwd=folder)
            counts = junit(out.read_text(encoding="utf-8")) if out.is_file() else Counts(failed=1)
        if done.returncode != 0:
            show(done.stdout)
        total += counts if counts.failed or done.returncode == 0 else counts + Counts(failed=1)
    return total if total.passed or total.failed or total.skipped else Counts(failed=1)


# --- what changed -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """A check of single files that leaves a stamp where nothing is found."""

    stamp: str
    configuration: str
    candidates: Callable[[bool], Sequence[str]]
    look: Callable[[Choice], Counts]

    def run(self, slow: bool) -> Counts:
        """Everything where the suite is the long one or nothing is known of earlier passes."""
        if not configured(_PRESET):
            return Counts(failed=1)
        path, repository = changes.stamp_path(self.stamp), Repository(programs.ROOT)
        stamp = changes.read_stamp(path)
        found = repository.everything() if slow else repository.changes(stamp, self.configuration)
        candidates = self.candidates(slow)
        if not candidates:
            show(f"{self.stamp}: no file was found to check")
            return Counts(failed=1)
        choice = changes.choose(candidates, found, _graph(found))
        begin = time.monotonic()
        counts = self.look(choice) if choice.files else Counts(passed=1)
        counts += Counts(times=(Timed(time.monotonic() - begin, self.stamp),))
        counts += Counts(failures=(self.stamp,) if counts.failed else ())
        if not counts.failed and found.commit and repository.everything().commit == found.commit:
            changes.write_stamp(path, Stamp(found.commit, self.configuration))
        return counts + Counts(remarks=(f"{self.stamp}: {choice.remark}",))


def _graph(found: Changes) -> dict[str, set[str]]:
    if found.files is None:
        return {}
    texts = {name: (programs.ROOT / name).read_text("utf-8", "replace") for name in files(changes.SOURCES)}
    return changes.include_graph(texts)


def clang_tidy(slow: bool) -> Counts:
    """Translation units as clang-tidy reads them."""
    paths = [programs.ROOT / one for one in (".clang-tidy", *_CONFIGURATION)]
    configuration = changes.fingerprint(paths, run("clang-tidy-19", "--version").stdout)
    return Checked("clang-tidy", configuration, _translation_units, _tidy).run(slow)


def _translation_units(slow: bool) -> list[str]:
    """Ours among those that the preset compiles; generated ones lie in the build folder. Those of tests are
    left to the slow suite.
    """
    commands = json.loads((_BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    found = {os.path.relpath(one["file"], programs.ROOT) for one in commands}
    ours = sorted(one for one in found if one.split("/")[0] in _FOLDERS)
    return [one for one in ours if slow or not _TEST_FILE.search(one)]


def _tidy(choice: Choice) -> Counts:
    generated = ("reprise_wire", "reprise_dnstap")
    done = run(*_NICE, "cmake", "--build", "--preset", _PRESET, "-t", *generated)
    if done.returncode == 0:
        pattern = f"^{re.escape(str(programs.ROOT))}/({'|'.join(map(re.escape, choice.files))})$"
        jobs = ("-j", str(os.cpu_count() or 1))
        done = run(*_NICE, "run-clang-tidy-19", "-quiet", "-p", str(_BUILD), *jobs, pattern)
        if done.returncode == 0 and len(_LOOKED_AT.findall(done.stdout)) >= len(choice.files):
            return Counts(passed=1)  # an interrupted run-clang-tidy also ends with status 0
    findings = [line for line in done.stdout.splitlines() if _FINDING.search(line)]
    show("\n".join(findings or done.stdout.splitlines()))
    return Counts(failed=1)


def headers(slow: bool) -> Counts:
    """Every header is compiled alone: it includes what it uses."""
    paths = [programs.ROOT / one for one in _CONFIGURATION]
    configuration = changes.fingerprint(paths, run("c++", "--version").stdout)
    objects: dict[str, str] = {}

    def candidates(_slow: bool) -> list[str]:
        listed = run("ninja", "-C", str(_BUILD), "-t", "targets", "all").stdout
        objects.update({header: target for target, header in _HEADER_OBJECT.findall(listed)})
        return list(objects)

    def look(choice: Choice) -> Counts:
        targets = (objects[one] for one in choice.files)
        return tool(*_NICE, "ninja", "-C", str(_BUILD), *targets)

    return Checked("headers", configuration, candidates, look).run(slow)
