"""What a replay comes to, by what is known of its trace."""

import dataclasses
import math
from typing import Any

import pytest

from cli.executor import preflight
from cli.executor.preflight import Estimate
from cli.experiment.schema import Experiment, Generate, Mutate, Replay, Sample, Server

TRACE = Experiment(name="x", trace="/t", server=Server(zone="/z"))
MINUTE = {"queries": "60000", "span_s": "60.000"}  # 1000 queries a second


def of(extent: dict[str, str] = MINUTE, experiment: Experiment = TRACE, **replay: Any) -> Estimate:
    return preflight.estimate(dataclasses.replace(experiment, replay=Replay(**replay)), extent)


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
        ({"until": 60}, 60_000, 60),
        ({"fast": True}, 60_000, math.inf),
        ({"fast": True, "duration_s": 5.0, "loop": 0}, math.inf, 5),
    ],
)
def test_length_and_queries(replay: dict[str, Any], queries: float, seconds: float) -> None:
    assert of(**replay) == pytest.approx((seconds, 1.4e6 + 80 * queries))


def test_what_is_generated_is_as_long_as_it_is_told() -> None:
    generated = Experiment(name="x", server=Server(zone="/z"), generate=Generate(name="a."))
    assert of({}, generated, rate=100.0, limit=1_000) == (10, 1.4e6 + 80 * 1_000)
    assert of({}, generated, rate=100.0, duration_s=3.0) == (3, 1.4e6 + 80 * 300)


def test_without_a_look_at_the_trace_only_limits_are_known() -> None:
    assert of({}) == of({"queries": "0", "span_s": "0.000"}) == (math.inf, math.inf)
    assert of({}, duration_s=5.0, limit=10**9) == (5, math.inf)
    assert of({}, rate=10.0, limit=100) == (10, math.inf)


@pytest.mark.parametrize("replay", [{"from_": 10}, {"until": "25.5"}, {"sample_sources": "50%"}])
def test_the_part_of_a_synthesized_trace_that_is_played_is_not_known(replay: dict[str, Any]) -> None:
    made = Experiment(name="x", server=Server(zone="/z"), synth={})
    changed = dataclasses.replace(made, mutate=Mutate(rule=({"kind": "edns"},)))
    assert of(experiment=made) == of()
    assert of(experiment=made, **replay) == of(experiment=changed) == (math.inf, math.inf)


def test_answers_and_captures_hold_messages() -> None:
    both = dataclasses.replace(TRACE, sample=Sample(capture=True))
    assert of(answers=True).size - of().size == 60_000 * 400
    assert of(experiment=both, answers=True).size - of().size == 2 * 60_000 * 400
