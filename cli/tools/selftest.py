"""`reprise test`: linters, C++ tests under sanitizers, the release build, Python tests and clang-tidy.

The tests are run by ctest and pytest, clang-tidy by ninja: the preset `tidy` has every file read by
clang-tidy as it is compiled, and compiles every header alone, so ninja knows what has passed in this folder
and did not change since, and ccache what has in others. What a check prints is shown only when it fails, and
every skip with its reason. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cli import programs
from cli.errors import EXIT_FAILED, RepriseError, UsageError
from cli.tools import building, packages
from cli.tools.building import Release
from cli.tools.checking import Found, built, files, git, good, run, tested, together, total

_DATA_SKIP = re.compile(  # the reasons to skip that CI accepts: data that are not there, and a container
    r"shared data|\w+_data_test:|kernel threads are not visible in this PID namespace$"
)
_AT_ONCE = ("-n", str((os.cpu_count() or 1) + 2), "--dist", "worksteal")  # Python tests mostly wait
_RECENT = 20  # commits that are looked at where the main branch itself is checked out
_MOST = 50  # failures that are named at the end
_LONGEST = 10  # tests and checks that are named with their times
_TESTS = "reprise_tests"  # the target of all test programs
_NICE = ("nice", "-n", "5")  # beside the Python tests; more would starve beside a busy machine's other work
_OF_TESTS = re.compile(r"(_test|_fuzz|/testing/[a-z_/]+)\.cc$")
_HEADER_OBJECT = re.compile(
    r"^(\S+_verify_interface_header_sets\.dir/\w+_verify_interface_header_sets/(\S+)\.cxx\.o):", re.MULTILINE
)
# Words of the field, names, cut words, and parts of "\\n" and "\\t" with what follows.
_DNS_WORDS = (
    "abd,additionals,adresses,caf,ede,filp,iif,inflight,kno,kown,nin,optio,te,nd,sufix,thex,tyes,uper"
)
Checks = dict[str, Callable[[], Found]]  # parts of the suite by their names


def command_test(options: argparse.Namespace) -> int:
    """Runs every check, also after a failure, or what a name means; 1 when anything failed."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background job; tests inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    slow = options.slow
    if options.list:
        known = [*linters(), *compiled(True), *beside(False)]
        titles = ("checks", "C++ test programs", "C++ tests", "Python tests")
        for title, names in zip(titles, (known, *tests()), strict=True):
            sys.stdout.write("".join(f"{line}\n" for line in (f"{title}:", *(f"  {one}" for one in names))))
        return 0
    groups: list[tuple[Checks, int | None]] = [(linters(), None), (compiled(slow), 1), (beside(slow), None)]
    if options.only is not None:
        groups = [(chosen(options.only, slow), 1)]
    elif options.changed:
        groups = [(linters(), None), (changed_checks(), 1)]
    calls = (([partial(_carried_out, *one) for one in checks.items()], at_once) for checks, at_once in groups)
    return _finish(found for group in calls for found in together(*group))


def _carried_out(name: str, check: Callable[[], Found]) -> Found:
    begin = time.monotonic()
    found = check()
    passed_s = time.monotonic() - begin
    lines = [f"{name}: {found.text()} in {passed_s:.0f} s"]
    lines += [f"  skipped: {one}" for one in found.skipped]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
    return found if found.times else found._replace(times=((passed_s, name),))


def _finish(parts: Iterable[Found]) -> int:
    found = total(parts)
    if os.environ.get("CI"):
        odd = (f"not to be skipped in CI: {one}" for one in found.skipped if not _DATA_SKIP.search(one))
        found = total([found, Found(failed=tuple(odd))])
    longest = [one for one in sorted(found.times, reverse=True)[:_LONGEST] if one[0] >= 1]
    lines = ["what took longest:"] if longest else []
    lines += [f"{seconds:7.1f} s  {name}" for seconds, name in longest]
    lines += ["what failed:", *(f"  {one}" for one in found.failed[:_MOST])] if found.failed else []
    sys.stdout.writelines(f"{line}\n" for line in (*lines, found.text()))
    return EXIT_FAILED if found.failed else 0


# --- the suite --------------------------------------------------------------------------------------------


def _tool(name: str, *argv: str) -> Found:
    """A check that a program makes with its exit status."""
    return Found(1) if good(*argv) else Found(failed=(name,))


def linters() -> Checks:
    """What builds nothing and takes seconds."""
    python = str(Path(sys.executable).parent)
    tools = {
        "clang-format": ("clang-format-19", "--dry-run", "--Werror", *files(".cc", ".hh")),
        "ruff": (f"{python}/ruff", "check", "."),
        "ruff format": (f"{python}/ruff", "format", "--check", "."),
        "mypy": (sys.executable, "-m", "mypy"),
        "shellcheck": ("shellcheck", "reprise", ".ci/run", *files(".sh")),
        "codespell": ("codespell", "-L", _DNS_WORDS, *files(".md", ".py", ".toml", ".cc", ".hh")),
    }
    return {name: partial(_tool, name, *argv) for name, argv in tools.items()}


def compiled(slow: bool) -> Checks:
    """C++ tests by ctest that send packets or whose threads take turns, those of the long suite, and then the
    programs that the Python tests start.
    """
    longer: Checks = {
        "ctest dev": partial(_ctest, "dev"),
        "ctest tsan, the reader's thread": partial(_ctest, "tsan", only=["controller_test"]),
        "ctest tsan, mutate's threads": partial(_ctest, "tsan", only=["mutator_pipe_test"]),
    }
    asan = partial(_ctest, "asan", options=("-LE", "unit"))
    return {"ctest asan": asan, **(longer if slow else {}), "programs": release}


def beside(slow: bool) -> Checks:
    """Unit tests and clang-tidy compute while the Python tests, also those with real namespaces, mostly wait;
    they are niced, so they do not disturb those. pyproject.toml leaves out slow ones.
    """
    words = (*(("-m", "") if slow else ()), *_AT_ONCE)
    return {
        "pytest": partial(_pytest, words),
        "ctest asan unit": partial(_ctest, "asan", options=("-L", "unit"), before=_NICE),
        "clang-tidy": partial(_clang_tidy, slow),
    }


def changed_checks() -> Checks:
    """C++ test programs that are to be linked anew, Python tests that changed or stand beside what did."""
    stems = {one[:-3].removesuffix("_test") for one in _changed() or files(".py") if one.endswith(".py")}
    python = sorted(one for stem in stems if (programs.ROOT / (one := f"{stem}_test.py")).exists())
    ninja = ("ninja", "-n", "-C", str(programs.ROOT / "build/asan"), _TESTS)
    said = run(*ninja).stdout if good("cmake", "--preset", "asan") else ""
    linked = sorted(set(re.findall(r"Linking CXX executable \S*?([^/\s]+_test)$", said, re.MULTILINE)))
    return {
        **({"ctest asan": partial(_ctest, "asan", linked)} if linked else {}),
        **({"pytest": partial(_pytest, python)} if python else {}),
        "clang-tidy": partial(_clang_tidy, False),
    }


def _ctest(
    preset: str,
    only: Sequence[str] = (),
    options: Sequence[str] = (),
    cases: str = "",
    before: Sequence[str] = (),
) -> Found:
    """Builds a preset and runs its tests, or only some programs, or some of their tests; a build that fails
    is one failure.
    """
    title = f"ctest {preset}"
    if not built(preset, *(only or [_TESTS])):
        return Found(failed=(title,))
    names = ("-R", f"^({'|'.join(only)})$") if only else ()
    filtered = ("env", f"GTEST_FILTER={cases}") if cases else ()
    kept = [word for kind in ("passed", "failed") for word in (f"--test-output-size-{kind}", "10000000")]
    jobs = str((os.cpu_count() or 1) + 2)  # some wait
    words = (*before, *filtered, "ctest", "--preset", preset, "-j", jobs, *names, *options, *kept)
    return tested(title, *words, "--no-tests=error", report="--output-junit")


def release() -> Found:
    """The programs that the Python tests start, man pages and all."""
    names = {name for section in packages.listed().values() for name in section}
    build = Release(("all",), sorted(names.difference(packages.missing(names))))
    try:
        with building.alone(programs.ROOT / "build" / building.LOCK):
            if not build.is_built():
                build.build("building release")
    except RepriseError as error:
        return Found(failed=(f"programs: {error.what}",))
    return Found(1)


def _pytest(words: Sequence[str]) -> Found:
    found = release()
    argv = (sys.executable, "-m", "pytest", "-q", "--tb=short", *words)
    return found if found.failed else tested("pytest", *argv, report="--junit-xml")


# --- clang-tidy -------------------------------------------------------------------------------------------


def _changed() -> set[str] | None:
    """Files that differ from where this branch left the main one, or in the last commits of that one itself;
    None where git does not know.
    """
    head = git("rev-parse", "--verify", "HEAD")
    base = (head and git("merge-base", "HEAD", "origin/main")) or head
    if base and base == head:
        base = git("rev-parse", "--verify", f"HEAD~{_RECENT}")
    differing = git("diff", "--name-only", "--no-renames", base[0]) if base else None
    if differing is None:
        return None
    return {*differing, *(git("ls-files", "--others", "--exclude-standard") or ())}


def _read_by(headers: Iterable[str], units: Iterable[str]) -> set[str]:
    """For each header a unit that reads it, so that it is looked at too: its own, or the first that includes
    it.
    """
    found = set()
    for one in headers:
        own = f"{one.removesuffix('.hh')}.cc"
        including = git("grep", "--untracked", "-lF", f'#include "{one}"', "--", "*.cc") or ()
        found |= {own} if own in units else set(sorted(set(including).intersection(units))[:1])
    return found


def _clang_tidy(slow: bool) -> Found:
    """Builds what changed, or all: translation units, which clang-tidy reads, those of tests only in the slow
    suite; and every header alone, as it includes what it uses.
    """
    name, folder = "clang-tidy", programs.ROOT / "build/tidy"
    if not good("cmake", "--preset", "tidy"):
        return Found(failed=(name,))
    commands = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    units = {os.path.relpath(one["file"], programs.ROOT) for one in commands}
    units = {one for one in units if not one.startswith("build/") and (slow or not _OF_TESTS.search(one))}
    targets = {one: f"{programs.ROOT / one}^" for one in units}
    listed = run("ninja", "-C", str(folder), "-t", "targets", "all").stdout
    headers = {header: target for target, header in _HEADER_OBJECT.findall(listed)}
    targets |= headers
    changed = None if slow else _changed()
    chosen = set(targets) if changed is None else changed & set(targets)
    chosen |= _read_by(chosen & set(headers), targets)
    sys.stdout.write(f"clang-tidy: {len(chosen)} of {len(targets)} files\n")
    words = (*_NICE, "ninja", "-C", str(folder), "-k", "0", *(targets[one] for one in sorted(chosen)))
    return Found(1) if not chosen or good(*words, title=name) else Found(failed=(name,))


# --- by name ----------------------------------------------------------------------------------------------


def tests() -> tuple[list[str], list[str], list[str]]:
    """Test programs, SUITE.CASE of GoogleTest's tests, and FILE::FUNCTION of pytest's, as they stand in the
    sources, so that nothing is built.
    """
    ours = _defined("CMakeLists.txt", r"^ *reprise_test\((\w+)")
    cases = _defined("_test.cc", r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
    functions = _defined("_test.py", r"^def (test_\w+)\(")
    return (
        sorted(name for _, name in ours),
        sorted(name for _, name in cases),
        [f"{file}::{name}" for file, name in functions],
    )


def _defined(ending: str, pattern: str) -> Iterator[tuple[str, str]]:
    """What a pattern finds in each of the files; several groups of it are joined by dots."""
    for file in files(ending):
        text = (programs.ROOT / file).read_text(encoding="utf-8")
        yield from ((file, ".".join(one.groups())) for one in re.finditer(pattern, text, re.MULTILINE))


def chosen(name: str, slow: bool) -> Checks:
    """The checks that a name means: checks, test programs, and tests that it is a part of. It is a usage
    error when there are none.
    """
    known = {**linters(), **compiled(True), **beside(slow)}
    if checks := {one: check for one, check in known.items() if one.lower() == name.lower()}:
        return checks
    plain = name.split("[", 1)[0]  # pytest's words for what a test is given
    ours, cases, functions = ([one for one in names if plain.lower() in one.lower()] for names in tests())
    cases = [] if ours else cases
    if not (ours or cases or functions):
        raise UsageError(f"--only {name}: no check and no test has this name", "see ./reprise test --list")
    found: Checks = {"ctest asan": partial(_ctest, "asan", ours)} if ours else {}
    if cases:
        found["C++ tests"] = partial(_ctest, "asan", cases=":".join(f"*{one}*" for one in cases))
    if functions:
        python = (one + name[len(plain) :] for one in functions)
        found["Python tests"] = partial(_pytest, ("-m", "", *python))
    return found
