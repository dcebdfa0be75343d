"""The colored server answers byte for byte as if every zone set had a server of its own: random worlds."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli.zones.world_model import Settings
from tests import conflicts, worlds
from tests.worlds import Data, Ground, Planned, Question, Where

pytestmark = pytest.mark.netns

_EVERYTHING = 1_000_000  # questions at an address


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    tmp_path.chmod(0o755)
    with Ground(tmp_path) as made:
        yield made


def asked_of(data: Data, planned: Planned, seed: int, most: int) -> dict[str, list[Question]]:
    """Questions at every address that the map leads somewhere."""
    source = random.Random(f"questions {seed}")
    return {one: worlds.questions(data, one, source, most) for one in data.at if one in planned.slot}


@dataclass
class Examiner:
    """Asks the truth once, and then every other server the same."""

    ground: Ground
    asked: dict[str, list[Question]]
    truth: Where
    wanted: dict[bool, worlds.Answers] = field(default_factory=dict)  # by whether it is over TCP

    def expect_same(self, other: Where, name: str) -> None:
        """Every answer byte for byte: over UDP, and every third question over TCP."""
        for tcp in (False, True):
            asked = {one: many[::3] if tcp else many for one, many in self.asked.items()}
            if tcp not in self.wanted:
                self.wanted[tcp] = worlds.ask(self.ground, asked, self.truth, tcp=tcp)
            found = worlds.differences(
                asked, self.wanted[tcp], worlds.ask(self.ground, asked, other, tcp=tcp)
            )
            total = sum(len(one) for one in asked.values())
            shown = "\n\n".join(one.text() for one in found[:3])
            assert not found, f"{name}, tcp={tcp}: {len(found)} of {total} differ\n{shown}"
            shortest = min(len(answer) for answers in self.wanted[tcp].values() for answer in answers)
            assert shortest > 10, "all answered"


def compare_bind(
    ground: Ground, settings: Settings, forms: dict[str, tuple[str, ...]], most: int, *, minimal: bool
) -> Planned:
    """Each form of the plan against the truth; returns the last plan."""
    data = worlds.make(ground.folder / "zones", settings)
    plans = {
        form: worlds.plan(data.folder, ground.folder / form, "--form", form, *more)
        for form, more in forms.items()
    }
    last = [*plans.values()][-1]
    truth = worlds.start_truth(ground, "truth", worlds.true_views(data), minimal)
    examiner = Examiner(ground, asked_of(data, last, settings.seed, most), truth)
    for form, planned in plans.items():
        examiner.expect_same(planned.start_bind(ground, form, minimal), form)
    return last


def test_colored_views_answer_as_one_view_per_address(ground: Ground) -> None:
    settings = Settings(zones=70, seed=1, signed=True)
    planned = compare_bind(ground, settings, {"colored": ()}, 80, minimal=False)
    assert planned.report["colors"] < len(planned.report["groups"]) / 3


def test_views_of_papers_form_answer_as_one_view_per_address(ground: Ground) -> None:
    settings = Settings(zones=40, seed=1)
    compare_bind(ground, settings, {"paper": (), "separate": ()}, 60, minimal=True)


def test_one_view_for_everything_is_found_wrong(ground: Ground) -> None:
    """The questions tell right from wrong: without colors, many answers differ."""
    data = worlds.make(ground.folder / "zones", Settings(zones=60, seed=1))
    asked = asked_of(data, worlds.plan(data.folder, ground.folder / "plan"), 1, 60)
    truth = worlds.start_truth(ground, "truth", worlds.true_views(data), minimal=False)
    wrong = worlds.start_truth(ground, "wrong", worlds.one_view(data), minimal=False)
    wanted, got = (worlds.ask(ground, asked, where, tcp=False) for where in (truth, wrong))
    assert len(worlds.differences(asked, wanted, got)) > 0.05 * sum(len(one) for one in asked.values())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_planner_finds_the_conflicts_that_pairs_show(tmp_path: Path, seed: int) -> None:
    """Counted by a simple computation that shares no code with it."""
    data = worlds.make(tmp_path / "zones", Settings(zones=120, seed=seed))
    planned = worlds.plan(data.folder, tmp_path / "plan")
    groups = conflicts.groups_of(data)
    pairs = conflicts.conflicts(groups)
    assert len(planned.report["groups"]) == len(groups)
    assert planned.report["edges"] == sum(len(one) for one in pairs.values()) // 2


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["", *conflicts.CONDITIONS])
def test_every_condition_is_needed(ground: Ground, left_out: str) -> None:
    """Views made without one of them give wrong answers, and the questions show it."""
    wrong = 0
    for seed in (1, 2, 3):
        data = worlds.make(ground.folder / f"zones{seed}", Settings(zones=100, seed=seed))
        source = random.Random(f"questions {seed}")
        asked = {one: worlds.questions(data, one, source, _EVERYTHING) for one in data.at}
        views = conflicts.views(data, conflicts.CONDITIONS.replace(left_out, ""))
        truth = worlds.start_truth(ground, f"truth{seed}", worlds.true_views(data), minimal=True)
        tried = worlds.start_truth(ground, f"tried{seed}", views, minimal=True)
        wanted, got = (worlds.ask(ground, asked, where, tcp=False) for where in (truth, tried))
        wrong += len(worlds.differences(asked, wanted, got))
    assert (wrong > 0) == bool(left_out)


def compare_nsd(ground: Ground, settings: Settings, most: int) -> Planned:
    """An nsd for each color against one for each group of addresses."""
    data = worlds.make(ground.folder / "zones", settings)
    plans = {
        form: worlds.plan(data.folder, ground.folder / form, "--engine", "nsd", "--form", form)
        for form in ("colored", "separate")
    }
    wheres = {form: planned.start_nsd(ground, form) for form, planned in plans.items()}
    assert len(plans["separate"].slots) == len(worlds.groups(data))
    asked = asked_of(data, plans["colored"], settings.seed, most)
    Examiner(ground, asked, wheres["separate"]).expect_same(wheres["colored"], "nsd")
    return plans["colored"]


@pytest.mark.slow
def test_an_nsd_for_each_color_answers_as_one_for_each_address(ground: Ground) -> None:
    planned = compare_nsd(ground, Settings(zones=36, seed=1, signed=True), 60)
    assert len(planned.slots) < len(planned.report["groups"])


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_form_answers_every_question_alike(ground: Ground, seed: int, signed: bool) -> None:
    settings = Settings(zones=150, seed=seed, signed=signed)
    forms = {"colored": ("--instances", "3"), "paper": (), "separate": ("--instances", "2")}
    compare_bind(ground, settings, forms, _EVERYTHING, minimal=seed == 2)


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nsd_answers_alike_in_every_world(ground: Ground, seed: int, signed: bool) -> None:
    compare_nsd(ground, Settings(zones=100, seed=seed, signed=signed), 500)
