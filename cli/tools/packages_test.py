"""Installing Debian packages where the system does not know all of them, or is not one that was tested."""

import os
from pathlib import Path

import pytest

from cli import linux
from cli.tools import packages

# Knows every package but two, and notes its command lines.
_APT = """#!/bin/sh
echo "$@" >> log
case "$*" in *clang-99*)
    echo 'E: Unable to locate package clang-99' >&2
    echo "E: Package 'drool' has no installation candidate" >&2
    exit 100
esac
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an apt-get of ours; returns its log."""
    (tmp_path / "apt-get").write_text(_APT.replace("log", str(tmp_path / "log")))
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(packages, "_POLICY", tmp_path / "policy")
    monkeypatch.setattr(packages, "_UNKNOWN_NOTED", tmp_path / "unknown")
    monkeypatch.setattr(packages, "_LISTS", tmp_path / "lists")
    (tmp_path / "lists").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "log"


def test_a_package_that_the_system_does_not_know_is_told_and_left_out(
    apt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(linux, "system", lambda: ("Ubuntu 24.04 LTS", False))
    packages.install(("nsd", "clang-99", "drool"), "step 1 of 1: Debian packages")
    last = apt.read_text().splitlines()[-1]
    assert last.endswith(" install --no-install-recommends nsd")
    assert packages.unknown() == ["clang-99", "drool"]  # and so not tried by every command
    os.utime(packages._LISTS, (2**32, 2**32))
    assert packages.unknown() == []
    said = capsys.readouterr().err
    assert "reprise: Ubuntu 24.04 LTS is not tested; Reprise is tested on Debian 12 and 13\n" in said
    assert "reprise: warning: no package clang-99, drool on this system; going on without\n" in said


def test_nothing_is_said_of_a_system_that_is_tested(
    apt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(linux, "system", lambda: ("Debian GNU/Linux 13 (trixie)", True))
    packages.install(("nsd",), "step 1 of 1: Debian packages")
    assert len(apt.read_text().splitlines()) == 1
    assert "tested" not in capsys.readouterr().err
