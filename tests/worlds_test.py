"""The coloured server answers byte for byte as if every zone set had a server of its own: random worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.world_model import Settings
from tests import worlds
from tests.worlds import TRUTH, BindOptions, Data, Ground, Planned, Question, Where

pytestmark = pytest.mark.netns

_PORTS = {"coloured": 53, "paper": 54, "separate": 55}
_TRUTH_PORT, _WRONG_PORT = 56, 57
_EVERYTHING = 1_000_000  # questions at an address


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    tmp_path.chmod(0o755)
    made = Ground(tmp_path)
    yield made
    made.close()


def asked_of(data: Data, planned: Planned, seed: int, most: int) -> dict[str, list[Question]]:
    """Questions at every address that the map leads somewhere."""
    source = random.Random(f"questions {seed}")
    return {one: worlds.questions(data, one, source, most) for one in data.at if one in planned.slot}


def expect_same(
    ground: Ground, asked: dict[str, list[Question]], truth: Where, other: Where, name: str
) -> None:
    """Byte for byte, over UDP and TCP."""
    for tcp in (False, True):
        wanted = worlds.ask(ground, asked, truth, tcp=tcp)
        got = worlds.ask(ground, asked, other, tcp=tcp)
        found = worlds.differences(asked, wanted, got)
        total = sum(len(one) for one in asked.values())
        shown = "\n\n".join(one.text() for one in found[:3])
        assert not found, f"{name}, tcp={tcp}: {len(found)} of {total} differ\n{shown}"
        assert min(len(answer) for answers in wanted.values() for answer in answers) > 10, "all answered"


def compare_bind(
    ground: Ground, settings: Settings, forms: dict[str, tuple[str, ...]], most: int, options: BindOptions
) -> Planned:
    """Each form of the plan against the truth; returns the last plan."""
    data = worlds.make(ground.folder / "zones", settings)
    worlds.start_bind(ground, "truth", worlds.true_views(data), list(TRUTH), _TRUTH_PORT, options)
    for form, more in forms.items():
        planned = worlds.plan(data.folder, ground.folder / form, "--form", form, *more)
        planned.start_bind(ground, form, _PORTS[form], options)
        asked = asked_of(data, planned, settings.seed, most)
        expect_same(ground, asked, worlds.true_where(_TRUTH_PORT), planned.where(_PORTS[form]), form)
    return planned


def test_coloured_views_answer_as_one_view_per_address(ground: Ground) -> None:
    settings = Settings(zones=100, seed=1, signed=True, shape="random")
    planned = compare_bind(ground, settings, {"coloured": ()}, 120, BindOptions())
    assert planned.report["colours"] < len(planned.report["groups"]) / 3


def test_views_of_papers_form_answer_as_one_view_per_address(ground: Ground) -> None:
    settings = Settings(zones=40, seed=1, shape="random")
    compare_bind(ground, settings, {"paper": (), "separate": ()}, 60, BindOptions(minimal_responses=True))


def test_one_view_for_everything_is_found_wrong(ground: Ground) -> None:
    """The questions tell right from wrong: without colours, many answers differ."""
    data = worlds.make(ground.folder / "zones", Settings(zones=60, seed=1, shape="random"))
    asked = asked_of(data, worlds.plan(data.folder, ground.folder / "plan"), 1, 60)
    worlds.start_bind(ground, "truth", worlds.true_views(data), list(TRUTH), _TRUTH_PORT, BindOptions())
    worlds.start_bind(ground, "wrong", worlds.one_view(data), list(TRUTH), _WRONG_PORT, BindOptions())
    wanted = worlds.ask(ground, asked, worlds.true_where(_TRUTH_PORT), tcp=False)
    got = worlds.ask(ground, asked, worlds.true_where(_WRONG_PORT), tcp=False)
    assert len(worlds.differences(asked, wanted, got)) > 0.05 * sum(len(one) for one in asked.values())


def compare_nsd(ground: Ground, settings: Settings, most: int) -> Planned:
    """An nsd for each colour against one for each group of addresses."""
    data = worlds.make(ground.folder / "zones", settings)
    plans = {
        form: worlds.plan(data.folder, ground.folder / form, "--engine", "nsd", "--form", form)
        for form in ("coloured", "separate")
    }
    for form, planned in plans.items():
        planned.start_nsd(ground, form, _PORTS[form])
    assert len(plans["separate"].slots) == len(worlds.groups(data))
    asked = asked_of(data, plans["coloured"], settings.seed, most)
    truth, got = (plans[form].where(_PORTS[form]) for form in ("separate", "coloured"))
    expect_same(ground, asked, truth, got, "nsd")
    return plans["coloured"]


def test_an_nsd_for_each_colour_answers_as_one_for_each_address(ground: Ground) -> None:
    planned = compare_nsd(ground, Settings(zones=36, seed=1, signed=True, shape="random"), 100)
    assert len(planned.slots) < len(planned.report["groups"])


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_form_answers_every_question_alike(ground: Ground, seed: int, signed: bool) -> None:
    settings = Settings(zones=150, seed=seed, signed=signed, shape="random")
    forms = {"coloured": ("--instances", "3"), "paper": (), "separate": ("--instances", "2")}
    compare_bind(ground, settings, forms, _EVERYTHING, BindOptions(minimal_responses=seed == 2))


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nsd_answers_every_question_alike(ground: Ground, seed: int, signed: bool) -> None:
    compare_nsd(ground, Settings(zones=120, seed=seed, signed=signed, shape="random"), _EVERYTHING)
