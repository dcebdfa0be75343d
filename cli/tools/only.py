"""`reprise test --only NAME` and `--list`: which checks and tests a name means. Values in, values out; the
names of tests are read from their sources, so that nothing is built to find them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_GTEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_PYTEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Names:
    """Everything that can be named."""

    checks: tuple[str, ...]
    programs: tuple[str, ...]  # of ctest
    cases: tuple[str, ...]  # GoogleTest's SUITE.CASE
    functions: tuple[str, ...]  # pytest's FILE::FUNCTION

    def lines(self) -> list[str]:
        """For --list: one name a line, under what it is."""
        return [
            "checks:",
            *(f"  {one}" for one in self.checks),
            "C++ test programs:",
            *(f"  {one}" for one in self.programs),
            "C++ tests:",
            *(f"  {one}" for one in self.cases),
            "Python tests:",
            *(f"  {one}" for one in self.functions),
        ]


@dataclass(frozen=True)
class Found:
    """The tests that a name means. `filter` is for --gtest_filter, `python` are arguments of pytest."""

    programs: tuple[str, ...] = ()
    filter: str = ""
    python: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.programs or self.filter or self.python)


def names(checks: Sequence[str], programs: Sequence[str], sources: Mapping[str, str]) -> Names:
    """All names; `sources` are the texts of the tests by their path."""
    cases, functions = [], []
    for path, text in sorted(sources.items()):
        if path.endswith(".py"):
            functions += [f"{path}::{name}" for name in _PYTEST.findall(text)]
        else:
            cases += [f"{suite}.{case}" for suite, case in _GTEST.findall(text)]
    return Names(tuple(checks), tuple(sorted(programs)), tuple(sorted(cases)), tuple(functions))


def match(name: str, known: Names) -> Found:
    """Names as a whole; where no whole name fits, parts of the names of tests."""
    found = Found(
        tuple(one for one in known.programs if one == name),
        _filter(name, known.cases),
        _python(name, known.functions),
    )
    if found:
        return found
    part = name.lower()
    cases = [one for one in known.cases if part in one.lower()]
    functions = tuple(one for one in known.functions if part in one.lower())
    return Found(filter=":".join(_forms(*one.split(".")) for one in cases), python=functions)


def _filter(name: str, cases: Sequence[str]) -> str:
    """SUITE.CASE, SUITE or CASE as a filter."""
    wanted = [one for one in cases if one == name or name in one.split(".")]
    return ":".join(_forms(*one.split(".")) for one in wanted)


def _forms(suite: str, case: str) -> str:
    """A case as it is called by itself, and with parameters."""
    return f"{suite}.{case}:*/{suite}.{case}/*:{suite}/*.{case}"


def _python(name: str, functions: Sequence[str]) -> tuple[str, ...]:
    """A file by its path, name or stem; FILE::FUNCTION with its parameters; a function."""
    files = dict.fromkeys(one.split("::")[0] for one in functions)
    fits = tuple(one for one in files if name in (one, one.rsplit("/", 1)[-1], one.rsplit("/", 1)[-1][:-3]))
    plain = name.split("[", 1)[0]
    exact = [one for one in functions if plain in (one, one.split("::")[1])]
    parameters = name[len(plain) :]
    return fits or tuple(one + parameters for one in exact)
