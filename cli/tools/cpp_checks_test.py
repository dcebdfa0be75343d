"""What clang-tidy's output means."""

from __future__ import annotations

import subprocess

import pytest

from cli.tools import cpp_checks
from cli.tools.changes import Choice

_BOTH = "[1/2][3.1s] clang-tidy-19 -quiet a.cc\n[ 2/2][4.0s] clang-tidy-19 -quiet b.cc\n"
_ONE = "[1/2][3.1s] clang-tidy-19 -quiet a.cc\n\nCtrl-C detected, goodbye.\n"


@pytest.mark.parametrize(
    ("status", "output", "failed"),
    [(0, _BOTH, 0), (0, _ONE, 1), (1, _BOTH + "a.cc:1:1: error: no [x]\n", 1)],
    ids=["all files", "interrupted", "a finding"],
)
def test_only_a_look_at_every_file_passes(
    status: int, output: str, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, status if "run-clang-tidy-19" in argv else 0, output)

    monkeypatch.setattr(cpp_checks, "run", run)
    assert cpp_checks._tidy(Choice(("a.cc", "b.cc"), "")).failed == failed
