"""`reprise test`: layout, lint, types, spelling, unit tests under two presets, Python tests.

Each check yields counts of passed, failed and skipped; the last line is `N passed, N failed, N skipped`.
Output of a check is shown only when it fails, and every skip with its reason. Files that did not
change since clang-tidy passed them are left to the long suite; see cli/tools/changes.py.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from cli import programs
from cli.errors import EXIT_FAILED, RepriseError, UsageError
from cli.tools import building, only, packages
from cli.tools.building import Release
from cli.tools.checking import Check, files, together, tool
from cli.tools.checking import run as _run
from cli.tools.checking import show as _show
from cli.tools.counts import Counts, Timed, junit, longest
from cli.tools.cpp_checks import clang_tidy, ctest, ctest_programs, gtest, headers

_DATA_SKIP = re.compile(  # the reasons to skip that CI accepts: data that are not there, and a container
    r"shared data|\w+_data_test:|kernel threads are not visible in this PID namespace$"
)
_AT_ONCE = 3  # Python tests
_MOST = 50  # failures that are named at the end
_CPP = (".cc", ".hh")
# Words of the field, names, and parts of "\\n" and "\\t" with what follows, that codespell takes for slips.
_DNS_WORDS = "abd,additionals,adresses,caf,ede,filp,iif,kno,nin,te,nd,sufix,thex,tyes,uper"


def command_test(slow: bool, name: str | None = None, listing: bool = False) -> int:
    """Runs every check, also after a failure, or what a name means; 1 when anything failed."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background job; tests inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if listing:
        sys.stdout.writelines(f"{line}\n" for line in known_names().lines())
        return 0
    if name is not None:
        return _finish(_carried_out(check) for check in chosen(name, slow))
    return _finish(_all(slow))


def _all(slow: bool) -> Iterable[Counts]:
    """What costs little comes first, several at once."""
    cheap = linters()
    yield from together([partial(_carried_out, check) for check in cheap])
    for check in checks(slow):
        yield _carried_out(check)


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
        Check("mypy", lambda: tool(sys.executable, "-m", "mypy")),
        Check("shellcheck", lambda: tool("shellcheck", *scripts)),
        Check("codespell", lambda: tool("codespell", "-L", _DNS_WORDS, *words)),
    ]


def checks(slow: bool) -> list[Check]:
    """What builds, in the order of its price."""
    return [
        Check("ctest asan", partial(ctest, "asan", slow)),
        *(slow_checks() if slow else []),
        Check("programs", release),
        Check("pytest, clang-tidy and headers beside it", partial(pytest_and_tidy, slow)),
    ]


def slow_checks() -> list[Check]:
    """What the long suite adds before the Python tests; slow ones of these come with the others."""
    return [
        Check("ctest dev", partial(ctest, "dev", slow=True)),
        Check("ctest tsan, the reader's thread", partial(ctest, "tsan", slow=True, only="controller_test")),
        Check("ctest tsan, mutate's threads", partial(ctest, "tsan", slow=True, only="mutator_pipe_test")),
    ]


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


def pytest_and_tidy(slow: bool) -> Counts:
    """clang-tidy computes while the Python tests mostly wait; it is niced, so it does not disturb them."""
    beside = [lambda: pytest(slow), lambda: clang_tidy(slow) + headers(slow)]
    return sum(together(beside), Counts())


def pytest(slow: bool) -> Counts:
    """The Python tests, those with real namespaces and servers among them."""
    marks = ("-m", "") if slow else ()  # pyproject.toml leaves out slow ones
    return _pytest(*marks, "-n", str(_AT_ONCE), "--dist", "worksteal")  # they wait more than they compute


def _pytest(*arguments: str) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "pytest.xml")
        done = _run(sys.executable, "-m", "pytest", "-q", f"--junit-xml={out}", *arguments)
        counts = junit(out.read_text(encoding="utf-8")) if out.is_file() else Counts(failed=1)
    if done.returncode != 0:
        _show(done.stdout)
    return counts if counts.failed or done.returncode == 0 else counts + Counts(failed=1)


# --- by name ----------------------------------------------------------------------------------------------


def single_checks(slow: bool) -> list[Check]:
    """Everything that can be asked for by its name alone."""
    looked = [
        Check("clang-tidy", partial(clang_tidy, slow)),
        Check("headers", partial(headers, slow)),
        Check("ctest asan", partial(ctest, "asan", slow)),
        Check("programs", release),
        Check("pytest", partial(_built_pytest, slow)),
    ]
    return [*linters(), *looked, *slow_checks()]


def known_names() -> only.Names:
    """Checks and tests; those of C++ as they stand in the sources."""
    tests = [one for one in files(("_test.py", "_test.cc")) if not one.startswith("docs/")]
    sources = {one: (programs.ROOT / one).read_text(encoding="utf-8") for one in tests}
    return only.names(
        [one.name for one in single_checks(False)], [one.name for one in ctest_programs()], sources
    )


def chosen(name: str, slow: bool) -> list[Check]:
    """The checks that a name means; it is a usage error when there are none."""
    if checks := [one for one in single_checks(slow) if one.name.lower() == name.lower()]:
        return checks
    found = only.match(name, known_names())
    if not found:
        raise UsageError(f"--only {name}: no check and no test has this name", "see ./reprise test --list")
    checks = [Check(one, partial(ctest, "asan", slow=True, only=one)) for one in found.programs]
    checks += [Check("C++ tests", partial(gtest, found.filter))] if found.filter else []
    return checks + ([Check("Python tests", partial(_python_tests, found.python))] if found.python else [])


def _built_pytest(slow: bool) -> Counts:
    built = release()
    return built if built.failed else pytest(slow)


def _python_tests(arguments: tuple[str, ...]) -> Counts:
    """Also slow ones."""
    built = release()
    return built if built.failed else _pytest("-m", "", *arguments)
