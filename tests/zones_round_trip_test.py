"""A run, its capture, zones rebuilt from it, the same questions: every answer equals the first run's."""

import functools
from pathlib import Path
from typing import Any

import dns.flags
import pytest

from cli.zones import world as cli_world
from cli.zones.world_model import Settings
from tests.hierarchy_bed import Ask, Result, play, write_trace
from tests.zones_build_test import asks_of, made, told

pytestmark = pytest.mark.netns


class Walk:
    """A signed hierarchy that was queried once."""

    def __init__(self, folder: Path, name: str) -> None:
        world = folder / "world"
        cli_world.write(cli_world.make(Settings(zones=20, seed=4, signed=True)), world)
        names = (world / "names.txt").read_text().split()
        asks = {
            "positive": [Ask(f"{one.rstrip('.')}.", do="1") for one in names[::4]],
            "mixed": [Ask(one.name, one.kind, do="1") for one in asks_of(world)],
        }
        self.folder = folder
        self.trace = write_trace(folder / "trace.tsv", asks[name])
        resolver = {"positive": "unbound", "mixed": "bind"}[name]
        walked = play(
            made(folder / "first"), world, self.trace, sample__capture=True, hierarchy__resolver=resolver
        )
        assert walked.status == 0, walked.said
        assert walked.folder is not None
        self.capture = walked.folder / "capture-meta.pcap"
        self.answers = walked.answers()

    def again(self, folder: Path, **keys: Any) -> Result:
        return play(made(folder / "again"), None, self.trace, hierarchy__capture=self.capture, **keys)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return functools.cache(lambda name: Walk(tmp_path_factory.mktemp(name), name))


def _cases() -> list[Any]:
    every = [
        ("mixed", dnssec, engine, resolver)
        for dnssec in ("keep", "strip", "resign")
        for engine in ("bind", "nsd")
        for resolver in ("bind", "unbound", "knot-resolver")
        if (dnssec, resolver) != ("keep", "knot-resolver")  # asks for proofs that BIND did not need
    ]
    every += [("positive", "keep", engine, one) for engine in ("bind", "nsd") for one in ("bind", "unbound")]
    return every


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dnssec", "engine", "resolver"), _cases())
def test_a_rebuilt_world_answers_as_the_first(
    tmp_path: Path, walk: Any, name: str, dnssec: str, engine: str, resolver: str
) -> None:
    first: Walk = walk(name)
    keys = {"hierarchy__dnssec": dnssec, "hierarchy__engine": engine, "hierarchy__resolver": resolver}
    again = first.again(tmp_path, **keys)
    assert again.status == 0, again.said
    answers = again.answers()
    pairs = zip(map(told, first.answers), map(told, answers), strict=True)
    different = [(one, other) for one, other in pairs if one != other]
    assert not different, different
    secure, validated = ([bool(one.flags & dns.flags.AD) for one in run] for run in (first.answers, answers))
    assert sum(secure) > len(secure) / 2
    if dnssec == "keep":
        assert validated == secure
    else:  # all zones are signed anew, also those that were not, or none is
        assert all(validated) if dnssec == "resign" else not any(validated)
