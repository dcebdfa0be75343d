"""What commands are carried out by."""

import argparse
from collections.abc import Iterator

import pytest

from cli import __main__ as command
from report.errors import ReportError

PASSED_ON = {"run", "report", "compare", "check", "export", "trace", "mutate"}  # or chosen by the experiment


def commands(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Each command, or each of its steps."""
    below = [
        one
        for one in parser._actions
        if isinstance(one, argparse._SubParsersAction) and one.dest != "testbed"
    ]
    if not below:
        yield words
    for action in below:
        for name, one in action.choices.items():
            yield from commands(one, *words, name)


@pytest.mark.parametrize("words", list(commands(command.build_parser())), ids=" ".join)
def test_each_command_has_a_function(words: tuple[str, ...]) -> None:
    if words[0] not in PASSED_ON:
        options = argparse.Namespace(**dict(zip(("command", "step"), words, strict=False)))
        assert callable(command.function_of(options))
    assert {" ".join(one) for one in commands(command.build_parser())} >= command._MODULES.keys()


def test_what_a_report_lacks_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def search(_options: argparse.Namespace) -> int:
        raise ReportError("expect.p98: the run has no such figure", "name another", 2)

    monkeypatch.setattr(command, "run_command", search)
    assert command.main(["doctor"]) == 2
    assert capsys.readouterr().err == "reprise: error: expect.p98: the run has no such figure; name another\n"
