"""What a replay comes to, by what is known of its trace."""

import dataclasses
import math
from typing import Any

import pytest

from cli.experiment.schema import Experiment, Generate, Mutate, Replay, Sample, Server
from cli.plan import estimate
from cli.plan.estimate import Estimate, Extent
from cli.plan.plan import make
from cli.plan.plan_test import ZONED
from tests.facts import FACTS

MINUTE = Extent(60_000, 60.0)  # 1000 queries a second


def of(extent: Extent | None = MINUTE, experiment: Experiment = ZONED, **replay: Any) -> Estimate:
    plan = make(dataclasses.replace(experiment, replay=Replay(**replay)), FACTS)
    return estimate.of(plan, extent)


@pytest.mark.parametrize(
    ("replay", "queries", "seconds"),
    [
        ({}, 60_000, 60),
        ({"speed": 2.0}, 60_000, 30),
        ({"rate": 500.0}, 60_000, 120),
        ({"loop": 3}, 180_000, 180),
        ({"loop": 3, "limit": 90_000}, 90_000, 90),
        ({"loop": 0, "duration_s": 10.0}, 10_000, 10),
        ({"duration_s": 100.0}, 60_000, 60),
        ({"fast": True}, 60_000, None),
        ({"fast": True, "duration_s": 5.0, "loop": 0}, math.inf, 5),
    ],
)
def test_length_and_queries(replay: dict[str, Any], queries: float, seconds: float | None) -> None:
    found = of(**replay)
    assert found.size == pytest.approx(1.4e6 + 80 * queries)
    assert found.seconds == (None if seconds is None else pytest.approx(seconds))


def test_what_is_generated_is_as_long_as_it_is_told() -> None:
    generated = Experiment(name="x", server=Server(zone="/z"), generate=Generate(name="a."))
    assert of(None, generated, rate=100.0, limit=1_000).seconds == 10
    assert of(None, generated, rate=100.0, duration_s=3.0).size == 1.4e6 + 80 * 300


def test_without_a_look_at_the_trace_nothing_is_known() -> None:
    found = of(None)
    assert found.seconds is None
    assert found.size == math.inf
    assert of(None, duration_s=5.0).seconds == 5
    assert estimate.read({"queries": "0", "span_s": "0"}) is None
    assert estimate.read({"left_s": "unknown"}) is None


@pytest.mark.parametrize("replay", [{"from_": 10}, {"until": "25.5"}, {"sample_sources": "50%"}])
def test_the_part_of_a_synthesized_trace_that_is_played_is_not_known(replay: dict[str, Any]) -> None:
    made = Experiment(name="x", server=Server(zone="/z"), synth={})
    assert of(experiment=made, **replay).rough
    assert not of(**replay).rough


def test_answers_and_captures_hold_messages() -> None:
    both = dataclasses.replace(ZONED, sample=Sample(capture=True))
    assert of(answers=True).size - of().size == 60_000 * 400
    assert of(experiment=both, answers=True).size - of().size == 2 * 60_000 * 400


def test_memory_is_that_of_the_replay_or_of_the_report() -> None:
    """Four queriers; where the hosts are others, only the report is made here."""
    plan = make(ZONED, FACTS)
    assert estimate.of(plan, MINUTE).memory == 140e6 + 4 * 35e6
    assert estimate.of(plan, MINUTE, alone=False).memory == 110e6 + 7 * 60_000
    assert of(loop=1_000).memory == 110e6 + 7 * 60_000_000


def test_rules_make_it_rough_and_the_changed_trace_is_kept() -> None:
    mutate = Mutate(rule=({"kind": "edns"},))
    assert not of(experiment=dataclasses.replace(ZONED, mutate=mutate)).rough
    changed = dataclasses.replace(ZONED, mutate=dataclasses.replace(mutate, keep=True))
    found = of(experiment=changed)
    assert found.rough
    assert not of().rough
    assert found.size == of().size + 60_000 * 90
