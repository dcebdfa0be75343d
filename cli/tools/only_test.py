"""What a name given to `reprise test --only` means."""

from __future__ import annotations

import pytest

from cli.errors import UsageError
from cli.tools import only, selftest
from cli.tools.checking import Check
from cli.tools.counts import Counts, Timed, junit
from cli.tools.only import Found

SOURCES = {
    "core/x_test.cc": "TEST(Address, Reads) {\n}\nTEST_P(\n    Address, Sorts) {}\n"
    "TEST_F(Frame, Reads) {}\n  TEST(No, Test)\n",
    "tests/proxy_test.py": "def test_one() -> None:\n    pass\n\n\ndef helper() -> None:\n    pass\n",
    "cli/plan/plan_test.py": "def test_one() -> None:\n    pass\n\n\n"
    "def test_two_of_them() -> None:\n    pass\n",
}
KNOWN = only.names(["ruff", "ctest asan"], ["proxy_test", "core_test"], SOURCES)


def test_names_are_read_from_the_sources() -> None:
    assert KNOWN.cases == ("Address.Reads", "Address.Sorts", "Frame.Reads")
    assert KNOWN.functions == (
        "cli/plan/plan_test.py::test_one",
        "cli/plan/plan_test.py::test_two_of_them",
        "tests/proxy_test.py::test_one",
    )
    lines = KNOWN.lines()
    assert lines[:3] == ["checks:", "  ruff", "  ctest asan"]
    assert "  Frame.Reads" in lines


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("core_test", Found(programs=("core_test",))),
        ("proxy_test", Found(programs=("proxy_test",), python=("tests/proxy_test.py",))),
        ("tests/proxy_test.py", Found(python=("tests/proxy_test.py",))),
        ("plan_test.py", Found(python=("cli/plan/plan_test.py",))),
        ("test_one", Found(python=("cli/plan/plan_test.py::test_one", "tests/proxy_test.py::test_one"))),
        (
            "test_one[a-b]",
            Found(python=("cli/plan/plan_test.py::test_one[a-b]", "tests/proxy_test.py::test_one[a-b]")),
        ),
        ("cli/plan/plan_test.py::test_one", Found(python=("cli/plan/plan_test.py::test_one",))),
        ("two_of", Found(python=("cli/plan/plan_test.py::test_two_of_them",))),
        ("no such name", Found()),
    ],
)
def test_what_a_name_means(name: str, found: Found) -> None:
    assert only.match(name, KNOWN) == found


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("Address.Sorts", ["Address.Sorts"]),
        ("Address", ["Address.Reads", "Address.Sorts"]),
        ("Reads", ["Address.Reads", "Frame.Reads"]),
        ("fra", ["Frame.Reads"]),
    ],
)
def test_single_tests_become_a_filter(name: str, cases: list[str]) -> None:
    """Each also as it is called with parameters."""
    found = only.match(name, KNOWN)
    assert found == Found(filter=found.filter)
    assert [one for one in found.filter.split(":") if "*" not in one] == cases
    assert f"*/{cases[0]}/*" in found.filter.split(":")


def test_a_check_by_its_name_looks_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "known_names", lambda: pytest.fail("tests were looked for"))
    assert [one.name for one in selftest.chosen("RUFF", slow=False)] == ["ruff"]


def test_a_name_that_means_nothing_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "known_names", lambda: KNOWN)
    with pytest.raises(UsageError) as caught:
        selftest.chosen("no such name", slow=False)
    assert (caught.value.status, caught.value.hint) == (2, "see ./reprise test --list")
    assert [one.name for one in selftest.chosen("proxy_test", slow=False)] == ["proxy_test", "Python tests"]


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
