"""Functions that plans call by name."""

import inspect
import re
from pathlib import Path

import pytest

from cli import call, programs
from cli.experiment.experiment import load
from cli.plan import facts, plan
from cli.plan.planned import Plan


def _calls(made: Plan) -> list[list[str]]:
    steps = [one.argv for one in made.prepare] + [one.argv for one in made.processes]
    steps += [argv for one in (*made.setup, *made.begin, *made.finish) for argv in one.apply]
    calls = [argv[argv.index("cli.call") + 1 :] for argv in steps if "cli.call" in argv]
    return [[re.sub("@pid:.+@", "1", word) for word in words] for words in calls]


@pytest.mark.parametrize(
    "path", sorted((programs.ROOT / "experiments").glob("*.toml")), ids=lambda one: one.stem
)
@pytest.mark.parametrize("settings", [(), ("replay.transport=tls",), ("server.kind=bind",)])
def test_what_experiments_call_is_there_and_takes_what_it_gets(path: Path, settings: tuple[str, ...]) -> None:
    experiment = load(path, [])
    if experiment.emulated is None:
        experiment = load(path, list(settings))
    made = plan.make(experiment, facts.gather(experiment, "x"))
    for words in (found := _calls(made)):
        function, given = call.read(words)
        inspect.signature(function).bind(**given)
    assert any(words[0] == "cli.plan.certificates.write" for words in found)


def _given(text: str, path: Path, names: list[str], ports: dict[str, int], number: int = 3) -> str:
    return f"{text} {path.name} {names} {ports} {number}"


def test_values_arrive_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"text": 'a "b"=c', "path": Path("/x/{y}"), "names": ("[", "é"), "ports": {"a b": 53}}
    assert call.main(list(call.words("cli.call_test._given", **values))) == 0
    assert capsys.readouterr().out == """a "b"=c {y} ['[', 'é'] {'a b': 53} 3\n"""
