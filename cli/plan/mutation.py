"""[mutate] of an experiment: rules that change the trace before it is played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cli.experiment.schema import Experiment
from cli.plan.planned import RESULTS, RUN, Facts, File, Step
from cli.programs import flags

RULE_FILE = f"{RUN}/rules.toml"
CHANGED = f"{RESULTS}/trace.rps"
REPORT = f"{RESULTS}/mutate.json"


def trace_path(experiment: Experiment) -> str:
    """The trace as it is given; one that is made lies in the results."""
    if experiment.generate is not None:
        return f"{RESULTS}/generated.tsv"
    return experiment.trace or f"{RESULTS}/trace.pcap"


def played_path(experiment: Experiment) -> str:
    """The trace that is replayed: a changed one lies in the results."""
    return CHANGED if experiment.mutate else trace_path(experiment)


def files(experiment: Experiment, facts: Facts) -> tuple[File, ...]:
    """The rules written in the experiment, as a rule file; they may hold keys."""
    mutate = experiment.mutate
    rules = rule_file(mutate.rule) if mutate and mutate.rule else None
    return (File(RULE_FILE, rules, mode="0600", owner=facts.user),) if rules else ()


def steps(experiment: Experiment, facts: Facts, trace: str) -> tuple[Step, ...]:
    """The mutator's run from `trace` to CHANGED, with the rules of the file before the experiment's own."""
    mutate = experiment.mutate
    if mutate is None:
        return ()
    words = flags(
        report=REPORT,
        port=experiment.replay.ports,
        rules=(mutate.rules or None, RULE_FILE if mutate.rule else None),
        seed=mutate.seed,
        malformed=mutate.malformed or None,
        jobs=facts.cores if facts.cores > 1 else None,
    )
    argv = (facts.programs["reprise-mutator"], "mutate", trace, "-o", CHANGED, *words)
    return (Step("mutate", "changing the trace", argv),)


def rule_file(rules: tuple[Mapping[str, Any], ...]) -> str:
    """Rule tables of an experiment as the text of a rule file."""
    lines = (("[[rule]]", *(f"{_key(key)} = {_value(one)}" for key, one in rule.items())) for rule in rules)
    return "".join(f"{line}\n" for rule in lines for line in rule)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def _value(value: Any) -> str:
    """A TOML value; what JSON writes for texts, numbers, booleans and lists of them is TOML too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value)
