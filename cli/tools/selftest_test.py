"""What `reprise test` looks at, what a name given to it means, and its last lines."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli import programs
from cli.errors import UsageError
from cli.tools import checking, selftest
from cli.tools.checking import Found, junit

CASES = ["Address.Reads", "Address.Sorts", "Frame.Reads"]
FUNCTIONS = [
    "cli/plan/plan_test.py::test_one",
    "cli/plan/plan_test.py::test_two_of_them",
    "tests/proxy_test.py::test_one",
]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """What ctest, GoogleTest and pytest were asked for."""
    ran: dict[str, tuple[str, ...]] = {}

    def note(kind: str, words: Sequence[str]) -> Found:
        ran[kind] = tuple(words)
        return Found(1)

    def ctest(_: str, only: Sequence[str] = (), cases: str = "") -> Found:
        return note("gtest", cases.split(":")) if cases else note("ctest", only)

    monkeypatch.setattr(selftest, "tests", lambda: (["core_test", "proxy_test"], CASES, FUNCTIONS))
    monkeypatch.setattr(selftest, "_ctest", ctest)
    monkeypatch.setattr(selftest, "_pytest", lambda words: note("pytest", words[2:]))
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
        ("Address.Sorts", {"gtest": ("*Address.Sorts*",)}),
        ("Address", {"gtest": ("*Address.Reads*", "*Address.Sorts*")}),
        ("Reads", {"gtest": ("*Address.Reads*", "*Frame.Reads*")}),
        ("fra", {"gtest": ("*Frame.Reads*",)}),
    ],
)
def test_what_a_name_means(
    known: dict[str, tuple[str, ...]], name: str, found: dict[str, tuple[str, ...]]
) -> None:
    for check in selftest.chosen(name, slow=False).values():
        check()
    assert known == found


def test_a_check_by_its_name_looks_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "tests", lambda: pytest.fail("tests were looked for"))
    assert [*selftest.chosen("RUFF", slow=False)] == ["ruff"]


def test_each_program_of_tests_is_run_once() -> None:
    """By its label."""
    first, second = (
        checks[name].keywords["options"]  # type: ignore[attr-defined]
        for checks, name in (
            (selftest.compiled(False), "ctest asan"),
            (selftest.beside(False), "ctest asan unit"),
        )
    )
    assert (first, second) == (("-LE", "unit"), ("-L", "unit"))


def test_a_name_that_means_nothing_is_a_usage_error(known: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(UsageError) as caught:
        selftest.chosen("no such name", slow=False)
    assert (caught.value.status, caught.value.hint) == (2, "see ./reprise test --list")


def test_names_are_read_from_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x_test.cc").write_text("TEST(A, B) {\n}\nTEST_P(\n    A, C) {}\n  TEST(No, Test)\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "if(X)\n    reprise_test(b_test LABEL unit\nreprise_test(a_test)\n"
    )
    (tmp_path / "y_test.py").write_text("def test_one() -> None:\n    pass\n\n\ndef helper() -> None:\n")
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    monkeypatch.setattr(
        selftest, "files", lambda end: [one.name for one in tmp_path.iterdir() if one.name.endswith(end)]
    )
    assert selftest.tests() == (["a_test", "b_test"], ["A.B", "A.C"], ["y_test.py::test_one"])


# --- what changed -----------------------------------------------------------------------------------------


class Folder:
    """A repository with files that include each other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "-q", "-b", "main")
        self.write("core/a.hh", "#pragma once\n")
        self.write("core/b.hh", '#include "core/a.hh"\n')
        self.write("core/b.cc", '#include "core/b.hh"\n#include "core/a.hh"\n')
        self.write("proxy/d.cc", '#include "core/a.hh"\n')
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
    monkeypatch.setattr(selftest, "git", lambda *words, root=None: checking.git(*words, root=tmp_path))
    return made


def test_a_changed_header_is_looked_at_in_a_file_that_includes_it(folder: Folder) -> None:
    units = ("core/b.cc", "proxy/d.cc")
    assert selftest._read_by(["core/b.hh"], units) == {"core/b.cc"}
    assert selftest._read_by(["core/a.hh"], units) == {"core/b.cc"}
    assert selftest._read_by(["core/none.hh"], units) == set()
    assert folder.path


def test_what_differs_from_the_main_branch_is_looked_at(folder: Folder) -> None:
    folder.git("update-ref", "refs/remotes/origin/main", "HEAD")
    folder.write("core/b.cc", "changed\n")
    folder.commit()
    folder.write("proxy/d.cc", "not committed\n")
    folder.write("proxy/new.hh", "new\n")
    assert selftest._changed() == {"core/b.cc", "proxy/d.cc", "proxy/new.hh"}


def test_of_the_main_branch_itself_the_last_commits_are_looked_at(folder: Folder) -> None:
    assert selftest._changed() is None  # there are not as many: everything is
    for number in range(selftest._RECENT):
        folder.write(f"{number}.cc", "x\n")
        folder.commit()
    folder.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert selftest._changed() == {f"{number}.cc" for number in range(selftest._RECENT)}


def test_outside_a_repository_everything_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert selftest._changed() is None


# --- the last lines ---------------------------------------------------------------------------------------


def test_the_last_line_comes_after_what_took_longest(capsys: pytest.CaptureFixture[str]) -> None:
    found = Found(2, times=((3.0, "slow one"), (0.1, "quick one")))
    assert selftest._finish([selftest._carried_out("it", lambda: found)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "it: 2 passed, 0 failed, 0 skipped in 0 s",
        "what took longest:",
        "    3.0 s  slow one",
        "2 passed, 0 failed, 0 skipped",
    ]


def test_failures_are_named_again_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    found = junit(
        '<testsuite><testcase classname="a_test" name="b" time="0"><failure message="x&#10; y">z</failure>'
        '</testcase><testcase name="c" classname="c" status="fail" time="0"/></testsuite>'
    )
    parts: selftest.Checks = {"one": lambda: found, "other": lambda: Found(failed=("other",))}
    assert selftest._finish(selftest._carried_out(*one) for one in parts.items()) == 1
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "what failed:",
        "  a_test: b: x y",
        "  c",
        "  other",
        "0 passed, 3 failed, 0 skipped",
    ]


def test_what_is_skipped_is_told_with_its_reason_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "1")
    skips = ("a_test: A.B: no shared data at /x", "b: no root")
    assert selftest._finish([selftest._carried_out("it", lambda: Found(1, (), skips))]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[1:3] == ["  skipped: a_test: A.B: no shared data at /x", "  skipped: b: no root"]
    assert said[-2:] == ["  not to be skipped in CI: b: no root", "1 passed, 1 failed, 2 skipped"]


# --- reports ----------------------------------------------------------------------------------------------


def test_a_report_of_pytest() -> None:
    text = """<testsuites><testsuite><testcase classname="a_test" name="a" time="2.5"/>
    <testcase classname="a_test" name="b"><failure/></testcase>
    <testcase classname="a_test" name="c"><skipped message="no data"/></testcase></testsuite></testsuites>"""
    assert junit(text) == Found(
        1,
        ("a_test: b",),
        ("c: no data",),
        ((2.5, "a_test: a"), (0.0, "a_test: b"), (0.0, "a_test: c")),
    )


_SKIPPED = "[ RUN      ] A.B\n/a.cc:3: Skipped\nno data\n\n[  SKIPPED ] A.B (0 ms)\n"


@pytest.mark.parametrize(
    ("status", "output", "found"),
    [
        ("run", "[  PASSED  ] 3 tests.\n", Found(3)),
        ("run", f"{_SKIPPED}[  PASSED  ] 3 tests.\n", Found(3, (), ("x_test: A.B: no data",))),
        ("fail", _SKIPPED, Found(0, ("x_test",), ("x_test: A.B: no data",))),
        (
            "fail",
            "[  FAILED  ] A/B.C/0, where GetParam() = 1 (0 ms)\n[  PASSED  ] 2 tests.\n"
            "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A/B.C/0, where GetParam() = 1\n",
            Found(2, ("x_test: A/B.C/0",)),
        ),
    ],
)
def test_a_report_of_ctest_tells_of_the_tests_in_a_program(status: str, output: str, found: Found) -> None:
    case = f'<testcase name="x_test" classname="x_test" status="{status}" time="1"><system-out>'
    text = f"<testsuite>{case}{output}</system-out></testcase></testsuite>"
    assert junit(text) == found._replace(times=((1.0, "x_test"),))
