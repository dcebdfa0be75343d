"""What a replay comes to, by what is known of its trace."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from cli.experiment.schema import Experiment, Generate, Mutate, Replay, Sample, Server, Topology
from cli.plan import estimate
from cli.plan.estimate import Estimate, Extent
from cli.plan.plan import make
from cli.plan.plan_test import FACTS, ZONED

MINUTE = Extent(60_000, 60.0, 40, 200)  # 1000 queries a second


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
    assert found.queries == pytest.approx(queries)
    assert found.seconds == (None if seconds is None else pytest.approx(seconds))
    assert found.at_most == ("fast" in replay)


def test_what_is_generated_is_as_long_as_it_is_told() -> None:
    generated = Experiment(name="x", server=Server(zone="/z"), generate=Generate(name="a."))
    assert of(None, generated, rate=100.0, limit=1_000).seconds == 10
    assert of(None, generated, rate=100.0, duration_s=3.0).queries == 300


def test_without_a_look_at_the_trace_nothing_is_known() -> None:
    found = of(None)
    assert found.seconds is None
    assert found.whole == math.inf
    assert of(None, duration_s=5.0).seconds == 5
    assert estimate.read({"queries": "0", "span_s": "0", "query_bytes": "0", "response_bytes": "0"}) is None
    assert estimate.read({"left_s": "unknown"}) is None


@pytest.mark.parametrize("replay", [{"from_": 10}, {"until": "25.5"}, {"sample_sources": "50%"}])
def test_the_part_of_a_synthesized_trace_that_is_played_is_not_known(replay: dict[str, Any]) -> None:
    made = Experiment(name="x", server=Server(zone="/z"), synth={})
    assert of(experiment=made, **replay).rough
    assert not of(**replay).rough


def test_each_host_writes_its_part() -> None:
    two = dataclasses.replace(ZONED, topology=Topology(clients=2), sample=Sample(capture=True))
    plain, kept = of(experiment=two), of(experiment=two, answers=True)
    records = 60_000 * 80 / 2
    assert plain.on(["client1"]) == pytest.approx(records, rel=0.1)
    assert plain.on(["client1", "client2"]) == pytest.approx(2 * records, rel=0.1)
    assert kept.on(["client1"]) == pytest.approx(30_000 * (80 + 36 + 240), rel=0.1)
    assert plain.on(["server"]) == pytest.approx(60_000 * (116 + 240), rel=0.1)
    assert plain.whole > plain.on(["client1", "client2", "server", "controller"])


def test_rules_make_it_rough_and_the_changed_trace_is_kept() -> None:
    changed = dataclasses.replace(ZONED, mutate=Mutate(rule=({"kind": "edns"},)))
    found = of(experiment=changed)
    assert found.rough
    assert not of().rough
    assert found.on(["controller"]) > of().on(["controller"]) + 60_000 * 40
