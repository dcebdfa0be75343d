"""What `reprise test` looks at, what a name given to it means, and its last lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli import programs
from cli.errors import UsageError
from cli.tools import checking, cpp_checks, selftest
from cli.tools.checking import Check
from cli.tools.counts import Counts, Timed, junit

CASES = ["Address.Reads", "Address.Sorts", "Frame.Reads"]
FUNCTIONS = [
    "cli/plan/plan_test.py::test_one",
    "cli/plan/plan_test.py::test_two_of_them",
    "tests/proxy_test.py::test_one",
]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """The arguments of pytest and the filter of GoogleTest that a check was made with, by its name."""
    ran: dict[str, tuple[str, ...]] = {}

    def note(kind: str, *words: str) -> Counts:
        ran[kind] = words
        return Counts(passed=1)

    monkeypatch.setattr(selftest, "tests", lambda: (CASES, FUNCTIONS))
    monkeypatch.setattr(selftest, "ctest_programs", lambda: {"core_test": "", "proxy_test": ""})
    monkeypatch.setattr(selftest, "ctest", lambda *_, only, **__: note("ctest", *only))
    monkeypatch.setattr(selftest, "gtest", lambda forms: note("gtest", *forms.split(":")[::3]))
    monkeypatch.setattr(selftest, "_pytest", lambda words: note("pytest", *words[2:]))
    return ran


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("core_test", {"ctest": ("core_test",)}),
        ("proxy_test", {"ctest": ("proxy_test",), "pytest": (FUNCTIONS[2],)}),
        ("tests/proxy_test.py", {"pytest": (FUNCTIONS[2],)}),
        ("plan_test.py", {"pytest": (FUNCTIONS[0], FUNCTIONS[1])}),
        ("test_one", {"pytest": (FUNCTIONS[0], FUNCTIONS[2])}),
        ("test_one[a-b]", {"pytest": (f"{FUNCTIONS[0]}[a-b]", f"{FUNCTIONS[2]}[a-b]")}),
        (FUNCTIONS[0], {"pytest": (FUNCTIONS[0],)}),
        ("two_of", {"pytest": (FUNCTIONS[1],)}),
        ("Address.Sorts", {"gtest": ("Address.Sorts",)}),
        ("Address", {"gtest": ("Address.Reads", "Address.Sorts")}),
        ("Reads", {"gtest": ("Address.Reads", "Frame.Reads")}),
        ("fra", {"gtest": ("Frame.Reads",)}),
    ],
)
def test_what_a_name_means(
    known: dict[str, tuple[str, ...]], name: str, found: dict[str, tuple[str, ...]]
) -> None:
    for check in selftest.chosen(name, slow=False):
        check.run()
    assert known == found


def test_a_check_by_its_name_looks_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "tests", lambda: pytest.fail("tests were looked for"))
    assert [one.name for one in selftest.chosen("RUFF", slow=False)] == ["ruff"]


def test_a_name_that_means_nothing_is_a_usage_error(known: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(UsageError) as caught:
        selftest.chosen("no such name", slow=False)
    assert (caught.value.status, caught.value.hint) == (2, "see ./reprise test --list")


def test_names_are_read_from_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x_test.cc").write_text("TEST(A, B) {\n}\nTEST_P(\n    A, C) {}\n  TEST(No, Test)\n")
    (tmp_path / "y_test.py").write_text("def test_one() -> None:\n    pass\n\n\ndef helper() -> None:\n")
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    monkeypatch.setattr(selftest, "files", lambda _: ["x_test.cc", "y_test.py"])
    assert selftest.tests() == (["A.B", "A.C"], ["y_test.py::test_one"])


# --- what changed -----------------------------------------------------------------------------------------


class Folder:
    """A repository with files that include each other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "-q", "-b", "main")
        self.write("core/a.hh", "#pragma once\n")
        self.write("core/b.hh", '#include "core/a.hh"\n')
        self.write("core/b.cc", '#include "b.hh"\n#include <vector>\n')
        self.write("core/c.cc", '#  include "core/none.hh"\n#include "core/wire.pb.h"\n')
        self.write("core/wire.proto", "")
        self.write("proxy/d.cc", 'text("#include core/a.hh");\n')
        self.commit()

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.", "-c", "commit.gpgsign=false")
        argv = ["git", *who, *words]
        done = subprocess.run(argv, cwd=self.path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_text(text)

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    made = Folder(tmp_path)
    monkeypatch.setattr(cpp_checks, "git", lambda *words, root=None: checking.git(*words, root=tmp_path))
    return made


@pytest.mark.parametrize(
    ("names", "looked_at"),
    [
        ((), set()),
        (("README.md", "cli/a.py"), set()),
        (("core/a.hh",), {"core/b.hh", "core/b.cc"}),
        (("core/wire.proto",), {"core/c.cc"}),
        (("proxy/d.cc", "core/b.hh"), {"core/b.cc"}),
        (("gone.cc",), set()),
    ],
)
def test_what_includes_a_changed_file_is_looked_at(
    folder: Folder, names: tuple[str, ...], looked_at: set[str]
) -> None:
    assert cpp_checks.affected(names) == looked_at | set(names)


def test_what_differs_from_the_main_branch_is_looked_at(folder: Folder) -> None:
    folder.git("update-ref", "refs/remotes/origin/main", "HEAD")
    left = folder.git("rev-parse", "HEAD")
    folder.write("core/b.cc", "changed\n")
    folder.commit()
    folder.write("proxy/d.cc", "not committed\n")
    folder.write("proxy/new.hh", "new\n")
    assert cpp_checks.changed() == ({"core/b.cc", "proxy/d.cc", "proxy/new.hh"}, left[:10])


def test_of_the_main_branch_itself_the_last_commits_are_looked_at(folder: Folder) -> None:
    assert cpp_checks.changed() is None  # there are not as many: everything is
    for number in range(cpp_checks._RECENT):
        folder.write(f"{number}.cc", "x\n")
        folder.commit()
    folder.git("update-ref", "refs/remotes/origin/main", "HEAD")
    found = cpp_checks.changed()
    assert found is not None
    assert found[0] == {f"{number}.cc" for number in range(cpp_checks._RECENT)}


def test_outside_a_repository_everything_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cpp_checks.changed() is None


# --- the last lines ---------------------------------------------------------------------------------------


def test_the_last_line_comes_after_what_took_longest(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check("it", lambda: Counts(passed=2, times=(Timed(3, "slow one"),)))
    assert selftest._finish([selftest._carried_out(check)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "it: 2 passed, 0 failed, 0 skipped in 0 s",
        "what took longest:",
        "    3.0 s  slow one",
        "2 passed, 0 failed, 0 skipped",
    ]


def test_failures_are_named_again_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    found = junit(
        '<testsuite><testcase classname="a_test" name="b" time="0"><failure message="x&#10; y">z</failure>'
        '</testcase><testcase name="c" status="fail" time="0"/></testsuite>'
    )
    parts = [Check("one", lambda: found), Check("other", lambda: Counts(failed=1))]
    assert selftest._finish(selftest._carried_out(check) for check in parts) == 1
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "what failed:",
        "  a_test: b: x y",
        "  c",
        "  other",
        "0 passed, 3 failed, 0 skipped",
    ]
