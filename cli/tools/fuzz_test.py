"""`reprise fuzz`: the list of targets, and what a run came to; nothing is built."""

import argparse
import re
from pathlib import Path

import pytest

from cli import programs, steps
from cli.__main__ import build_parser
from cli.errors import UsageError
from cli.tools import fuzz


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "reprise/fuzz"


def options(words: str) -> argparse.Namespace:
    return build_parser().parse_args(["fuzz", *words.split()])


def test_every_target_has_seeds_and_every_folder_of_seeds_a_target() -> None:
    folders = ("core", "mutator", "zonebuilder", "controller", "querier", "proxy")
    files = (one for folder in folders for one in (programs.ROOT / folder).rglob("CMakeLists.txt"))
    defined = re.findall(r"reprise_fuzz\((\w+)", "".join(one.read_text(encoding="utf-8") for one in files))
    assert sorted(defined) == fuzz.targets()
    assert all(any((programs.ROOT / "tests/fuzz" / name).iterdir()) for name in defined)
    assert len(defined) >= 25


def said(monkeypatch: pytest.MonkeyPatch, status: int, text: str) -> None:
    """Has libFuzzer end with a status after a text."""
    monkeypatch.setattr(fuzz, "run", lambda *argv: steps.Done(argv, status, text))


def test_new_inputs_are_written_to_the_users_cache_and_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "reader_dns").mkdir(parents=True)
    (cache / "reader_dns/one").write_bytes(b"1")
    given: list[str] = []

    def run(*argv: str) -> steps.Done:
        given.extend(argv)
        return steps.Done(argv, 0, "stat::number_of_executed_units: 1000\n")

    monkeypatch.setattr(fuzz, "run", run)
    assert fuzz.fuzz("reader_dns", 1) == ("reader_dns: 1000 inputs tried, 1 kept", "")
    assert given[-2:] == [str(cache / "reader_dns"), str(programs.ROOT / "tests/fuzz/reader_dns")]


def test_a_finding_says_how_to_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    output = "==1== ERROR: libFuzzer: deadly signal\nTest unit written to /x/reader_dns-crash-5\n"
    said(monkeypatch, 1, output)
    line, shown = fuzz.fuzz("reader_dns", 1)
    program = programs.ROOT / "build/fuzz/bin/reader_dns"
    assert line.endswith(f"; FAILED; replay it: {program} /x/reader_dns-crash-5")
    assert shown == output
    said(monkeypatch, -9, "")
    line, shown = fuzz.fuzz("reader_dns", 1)
    assert line.endswith("; FAILED without an input, see above") and shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seconds 0", "--seconds 0: out of range"),
        ("--jobs -1", "--jobs -1: out of range"),
        ("--seeds /no/such", "--seeds /no/such: no such folder"),
        ("reader_nothing", "reader_nothing"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_built(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fuzz.command_fuzz(options(words))
