"""`reprise test`: layout, lint, types, spelling, unit tests under two presets, Python tests.

Each check yields counts of passed, failed and skipped; the last line is `N passed, N failed, N skipped`.
Output of a check is shown only when it fails, and every skip with its reason. What clang-tidy has passed and
what did not change is left to the long suite; see cli/tools/cpp_checks.py.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cli import programs
from cli.errors import EXIT_FAILED, RepriseError, UsageError
from cli.tools import building, cpp_checks, packages
from cli.tools.building import Release
from cli.tools.checking import Check, files, together, tool
from cli.tools.counts import Counts, Timed, longest
from cli.tools.cpp_checks import clang_tidy, ctest, ctest_programs, gtest, reported

_DATA_SKIP = re.compile(  # the reasons to skip that CI accepts: data that are not there, and a container
    r"shared data|\w+_data_test:|kernel threads are not visible in this PID namespace$"
)
_AT_ONCE = max(3, os.cpu_count() or 1)  # Python tests, which wait more than they compute
_GTEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_PYTEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
_PYTHON = (sys.executable, "-m")
_MOST = 50  # failures that are named at the end
_CPP = (".cc", ".hh")
# Words of the field, names, and parts of "\\n" and "\\t" with what follows, that codespell takes for slips.
_DNS_WORDS = "abd,additionals,adresses,caf,ede,filp,iif,inflight,kno,kown,nin,te,nd,sufix,thex,tyes,uper"


def command_test(
    slow: bool, name: str | None = None, listing: bool = False, only_changed: bool = False
) -> int:
    """Runs every check, also after a failure, or what a name means; 1 when anything failed."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background job; tests inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if listing:
        cases, functions = tests()
        known = [one.name for one in (*linters(), *compiled(True), *beside(False))]
        parts = {"checks": known, "C++ test programs": ctest_programs()}
        for title, names in {**parts, "C++ tests": cases, "Python tests": functions}.items():
            sys.stdout.write("".join(f"{line}\n" for line in (f"{title}:", *(f"  {one}" for one in names))))
        return 0
    if name is not None:
        return _finish(map(_carried_out, chosen(name, slow)))
    if only_changed:
        return _finish(_all(linters(), changed_checks(), []))
    return _finish(_all(linters(), compiled(slow), beside(slow)))


def _all(cheap: Sequence[Check], dear: Sequence[Check], last: Sequence[Check]) -> Iterator[Counts]:
    """What costs little comes first, several at once, and what can be done beside each other last."""
    yield from together([partial(_carried_out, check) for check in cheap])
    yield from map(_carried_out, dear)
    yield from together([partial(_carried_out, check) for check in last])


def _carried_out(check: Check) -> Counts:
    """Runs a check and prints what it came to."""
    begin = time.monotonic()
    counts = check.run()
    passed_s = time.monotonic() - begin
    lines = [f"{check.name}: {counts.text()} in {passed_s:.0f} s"]
    lines += [f"  {remark}" for remark in counts.remarks]
    lines += [f"  skipped: {note}" for note in counts.notes]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
    if counts.failed and not counts.failures:
        counts += Counts(failures=(check.name,))
    return counts if counts.times else counts + Counts(times=(Timed(passed_s, check.name),))


def _finish(found: Iterable[Counts]) -> int:
    total = sum(found, Counts())
    if os.environ.get("CI") and (unexpected := [n for n in total.notes if not _DATA_SKIP.search(n)]):
        sys.stdout.writelines(f"not to be skipped in CI: {note}\n" for note in unexpected)
        total = total + Counts(failed=len(unexpected))
    if lines := longest(total.times):
        sys.stdout.write("what took longest:\n" + "".join(f"{line}\n" for line in lines))
    if total.failures:  # once more, where they are found
        sys.stdout.write("what failed:\n" + "".join(f"  {line}\n" for line in total.failures[:_MOST]))
    sys.stdout.write(total.text() + "\n")
    return EXIT_FAILED if total.failed else 0


# --- the suite --------------------------------------------------------------------------------------------


def linters() -> list[Check]:
    """What builds nothing and takes seconds."""
    python = Path(sys.executable).parent
    cpp, scripts = files(_CPP), ["reprise", ".ci/run", *files((".sh",))]
    words = files((".md", ".py", ".toml", *_CPP))
    return [
        Check("clang-format", lambda: tool("clang-format-19", "--dry-run", "--Werror", *cpp)),
        Check("ruff", lambda: tool(f"{python}/ruff", "check", ".")),
        Check("ruff format", lambda: tool(f"{python}/ruff", "format", "--check", ".")),
        Check("mypy", lambda: tool(*_PYTHON, "mypy")),
        Check("shellcheck", lambda: tool("shellcheck", *scripts)),
        Check("codespell", lambda: tool("codespell", "-L", _DNS_WORDS, *words)),
    ]


def compiled(slow: bool) -> list[Check]:
    """C++ tests by ctest, those of the long suite too, and then the programs that the Python tests start."""
    asan, tsan = partial(ctest, "asan", slow), partial(ctest, "tsan", slow=True)
    longer = [
        Check("ctest dev", partial(ctest, "dev", slow=True)),
        Check("ctest tsan, the reader's thread", partial(tsan, only=["controller_test"])),
        Check("ctest tsan, mutate's threads", partial(tsan, only=["mutator_pipe_test"])),
    ]
    return [Check("ctest asan", asan), *(longer if slow else []), Check("programs", release)]


def beside(slow: bool) -> list[Check]:
    """clang-tidy computes while the Python tests, also those with real namespaces, mostly wait; it is niced,
    so it does not disturb them. pyproject.toml leaves out slow ones.
    """
    words = (*(("-m", "") if slow else ()), "-n", str(_AT_ONCE), "--dist", "worksteal")
    return [Check("pytest", partial(_pytest, words)), Check("clang-tidy", partial(clang_tidy, slow))]


def release() -> Counts:
    """The programs that the Python tests start, man pages and all."""
    names = {name for section in packages.listed().values() for name in section}
    build = Release(("all",), sorted(names.difference(packages.missing(names))))
    try:
        with building.alone(programs.ROOT / "build" / building.LOCK):
            if not build.is_built():
                build.build("building release")
    except RepriseError as error:
        sys.stdout.write(f"  {error.what}\n")
        return Counts(failed=1)
    return Counts(passed=1)


def _pytest(words: tuple[str, ...]) -> Counts:
    built = release()
    return built if built.failed else reported(*_PYTHON, "pytest", "-q", *words, report="--junit-xml={}")


def changed_checks() -> list[Check]:
    """C++ test programs that are to be linked anew, Python tests that changed or stand beside what did."""
    found = cpp_checks.changed()
    names = sorted(found[0]) if found else files((".py",))
    beside = {
        one if one.endswith("_test.py") else f"{one[:-3]}_test.py" for one in names if one.endswith(".py")
    }
    python = sorted(one for one in beside if (programs.ROOT / one).exists())
    linked = cpp_checks.to_be_linked()
    return [
        *([Check("ctest asan", partial(ctest, "asan", slow=False, only=linked))] if linked else []),
        *([Check("Python tests", partial(_pytest, tuple(python)))] if python else []),
        Check("clang-tidy", partial(clang_tidy, False)),
    ]


# --- by name ----------------------------------------------------------------------------------------------


def tests() -> tuple[list[str], list[str]]:
    """Single tests as they stand in the sources, so that nothing is built: GoogleTest's SUITE.CASE, pytest's
    FILE::FUNCTION.
    """
    texts = {
        one: (programs.ROOT / one).read_text(encoding="utf-8") for one in files(("_test.py", "_test.cc"))
    }
    cpp = (match for one, text in texts.items() if one.endswith(".cc") for match in _GTEST.findall(text))
    python = (f"{one}::{name}" for one, text in texts.items() for name in _PYTEST.findall(text))
    return sorted(map(".".join, cpp)), list(python)


def fitting(name: str, known: Iterable[str]) -> list[str]:
    """Those of which it is the whole name, or a whole part of it."""
    return [
        one for one in known if name == one or one.startswith(f"{name}::") or name in re.split("::|[./]", one)
    ]


def chosen(name: str, slow: bool) -> list[Check]:
    """The checks that a name means: checks, whole names of tests or parts of them. It is a usage error when
    there are none.
    """
    known = (*linters(), *compiled(True), *beside(slow))
    if checks := [one for one in known if one.name.lower() == name.lower()]:
        return checks
    cases, functions = tests()
    plain = name.split("[", 1)[0]
    built = fitting(name, ctest_programs())
    cpp, python = fitting(name, cases), [one + name[len(plain) :] for one in fitting(plain, functions)]
    if not (built or cpp or python):
        cpp, python = ([one for one in known if name.lower() in one.lower()] for known in (cases, functions))
    if not (built or cpp or python):
        raise UsageError(f"--only {name}: no check and no test has this name", "see ./reprise test --list")
    forms = ":".join(
        f"{one}:*/{one}/*:{one.replace('.', '/*.')}" for one in cpp
    )  # by itself, with parameters
    found = [Check(one, partial(ctest, "asan", slow=True, only=[one])) for one in built]
    found += [Check("C++ tests", partial(gtest, forms))] if cpp else []
    return found + ([Check("Python tests", partial(_pytest, ("-m", "", *python)))] if python else [])
