"""`reprise fuzz`: the list of targets, what a run came to, and the lines of a parser; nothing is built."""

import argparse
import json
import re
from pathlib import Path

import pytest

from cli import programs, steps
from cli.__main__ import build_parser
from cli.errors import UsageError
from cli.tools import fuzz
from cli.tools.fuzz import Target, read_targets, sum_lines
from cli.tools.needs_test import needs_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "reprise/fuzz"


def options(words: str) -> argparse.Namespace:
    return build_parser().parse_args(["fuzz", *words.split()])


def test_targets_are_read_in_the_order_of_their_names() -> None:
    found = read_targets("reader_b\t/x/b.cc\nreader_a\t/x/a.cc\t/x/c.cc\n")
    assert found == [
        Target("reader_a", (Path("/x/a.cc"), Path("/x/c.cc"))),
        Target("reader_b", (Path("/x/b.cc"),)),
    ]


def test_every_target_has_seeds_and_a_parser() -> None:
    """Whether every folder of seeds belongs to a target is for fuzz_seeds_test."""
    found = 0
    folders = ("core", "mutator", "zonebuilder", "controller", "querier", "proxy")
    for path in (one for folder in folders for one in (programs.ROOT / folder).rglob("CMakeLists.txt")):
        for name, rest in re.findall(r"reprise_fuzz\((\w+)([^)]*)\)", path.read_text(encoding="utf-8")):
            parsers = rest.partition("PARSERS")[2].partition("PIECES")[0].split()
            assert parsers, name
            assert all((path.parent / one).is_file() for one in parsers), (name, parsers)
            assert any((programs.ROOT / "tests/fuzz" / name).iterdir())
            found += 1
    assert found >= 25


def said(monkeypatch: pytest.MonkeyPatch, status: int, text: str) -> None:
    """Has libFuzzer end with a status after a text."""
    monkeypatch.setattr(fuzz, "run", lambda *argv: steps.Done(argv, status, text))


def test_new_inputs_are_written_to_the_users_cache_and_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target("reader_dns", ())
    found, seeds = target.inputs
    assert found == str(cache / "reader_dns")
    assert seeds == str(programs.ROOT / "tests/fuzz/reader_dns")
    (cache / "reader_dns/one").write_bytes(b"1")
    said(monkeypatch, 0, "stat::number_of_executed_units: 1000\n")
    assert fuzz.fuzz(target, 1) == ("reader_dns: 1000 inputs tried, 1 kept", "", 1000)


def test_a_finding_says_how_to_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("reader_dns", ())
    output = "==1== ERROR: libFuzzer: deadly signal\nTest unit written to /x/reader_dns-crash-5\n"
    said(monkeypatch, 1, output)
    found = fuzz.fuzz(target, 1)
    program = programs.ROOT / "build/fuzz/bin/reader_dns"
    assert found.line.endswith(f"; FAILED; replay it: {program} /x/reader_dns-crash-5")
    assert found.output == output
    said(monkeypatch, -9, "")
    found = fuzz.fuzz(target, 1)
    assert found.line.endswith("; FAILED without an input, see above") and found.output


def test_runs_are_added_up() -> None:
    target = Target("reader_dns", ())
    assert target.inputs
    fuzz.add_run(target, 100, 20)
    fuzz.add_run(target, 50, 10)
    assert fuzz._runs() == {"reader_dns": (150, 30)}


def test_lines_are_those_of_the_parser_alone() -> None:
    root = programs.ROOT
    target = Target("reader_dns", (root / "core/dns/message.cc",))
    lines = {"summary": {"lines": {"count": 10, "covered": 9}}}
    names = (f"{root}/core/../core/dns/message.cc", f"{root}/core/base/address.cc")
    exported = {"data": [{"files": [{"filename": name, **lines} for name in names]}]}
    assert target.inputs
    fuzz.add_run(target, 1500, 20)
    words = fuzz.row(target, *sum_lines(target, json.dumps(exported))).split()
    assert words == ["reader_dns", "10", "9", "90.0", "1500", "20", "core/dns/message.cc"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seconds 0", "--seconds 0: out of range"),
        ("--jobs -1", "--jobs -1: out of range"),
        ("--seeds /no/such", "--seeds /no/such: no such folder"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_built(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fuzz.command_fuzz(options(words))


def test_only_the_coverage_needs_its_package() -> None:
    assert "coverage" not in needs_of(["fuzz", "reader_dns"]).sections
    assert "coverage" in needs_of(["fuzz", "--coverage"]).sections
    assert "coverage" not in needs_of(["test"]).sections
