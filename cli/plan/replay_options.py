"""What is played, when, and as whom, for the plan; and [mutate]: rules that change it then or before."""

import dataclasses
import tomllib
from collections.abc import Mapping
from typing import Any

from cli.experiment.rules import peer
from cli.experiment.schema import Experiment, Mutate
from cli.experiment.settings import ReplaySettings, SocketSettings, TlsSettings
from cli.experiment.tables import line
from cli.plan import network
from cli.plan.planned import RESULTS, RUN, Facts, File, Step
from cli.programs import flags

SETTINGS = f"{RUN}/settings.toml"
RULE_FILE = f"{RUN}/rules.toml"
CHANGED = f"{RESULTS}/trace.rps"
REPORT = f"{RESULTS}/mutate.json"


def trace_or_generator(experiment: Experiment, facts: Facts) -> tuple[str, ...]:
    """What the controller plays: the trace's path, or the generator."""
    generate = experiment.generate
    if generate is None:
        return (played_path(experiment, facts),)
    return flags(
        generate=f"{generate.name}/{generate.type}",
        generate_sources=generate.sources,
        generate_rd=experiment.wants_recursion,
    )


def file(experiment: Experiment, name: str) -> File:
    """The settings that differ from the controller's defaults; `name`: of our own server's certificate."""
    replay = _changed(experiment.replay, ReplaySettings())
    if experiment.rate:
        replay["rate"] = experiment.rate
    if experiment.replay.shows_trace_addresses:  # the testbed's own addresses cannot be sources
        own = network.own_prefixes(experiment.topology.clients, bool(experiment.emulated))
        replay["skip_sources"] = (*experiment.replay.skip_sources, *own)
    tables = {"replay": replay}
    if experiment.over_tls:
        changed = _changed(experiment.tls_settings, TlsSettings())
        tables["tls"] = {**({"name": name} if experiment.own_server else {}), **changed, "ca": None}
    if experiment.socket is not None:
        tables["socket"] = _changed(experiment.socket, SocketSettings())
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(line(name, one) for name, one in values.items() if one is not None)]
    return File(SETTINGS, content="\n".join(lines) + "\n")


def _changed(values: object, defaults: Any) -> dict[str, Any]:
    """What differs from the defaults, of the settings that the controller knows."""
    usual = dataclasses.asdict(defaults)
    return {key.rstrip("_"): found for key in usual if (found := getattr(values, key)) != usual[key]}


def authority(experiment: Experiment, own: str) -> tuple[str, ...]:
    """Whose certificates are trusted for the server; `own`: for our own server. A path, so not in the file:
    it need not be UTF-8.
    """
    path = (experiment.tls and experiment.tls.ca) or (own if experiment.own_server else "")
    return ("--set", f"tls.ca={path}") if path and experiment.over_tls else ()


def peers(experiment: Experiment) -> tuple[str, ...]:
    """Addresses of our own servers that hedged queries go to, beside those that all clients ask."""
    own = (network.SERVICE_V4, network.SERVICE_V6)
    addresses = [str(peer(text)[0]) for text in experiment.replay.peers]
    return tuple(dict.fromkeys(one for one in addresses if one not in own))


# --- [mutate] ---------------------------------------------------------------------------------------------


def trace_path(experiment: Experiment) -> str:
    """The trace as it is given; one that is made lies in the results."""
    return experiment.trace or f"{RESULTS}/trace.pcap"


def is_written(experiment: Experiment, facts: Facts) -> bool:
    """Whether the mutator writes the changed trace before it is played: where that is wanted, and for rules
    that must see more of it first.
    """
    mutate = experiment.mutate
    return mutate is not None and (
        mutate.keep or any(map(_needs_whole, (*_rules_of(facts.rule_lines), *mutate.rule)))
    )


def _needs_whole(rule: Mapping[str, Any]) -> bool:
    """Whether the controller refuses the rule."""
    some = rule.get("share", 100) != 100 or any(key.startswith("where") for key in rule)
    return rule.get("kind") in ("heavy", "jitter") or (rule.get("kind") == "shift" and some)


def _rules_of(lines: str) -> list[Mapping[str, Any]]:
    """Of what is no rule file none: the program that reads it says what is wrong."""
    try:
        found = tomllib.loads(lines).get("rule")
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def played_path(experiment: Experiment, facts: Facts) -> str:
    """The trace that the controller reads: one that was changed before lies in the results."""
    return CHANGED if is_written(experiment, facts) else trace_path(experiment)


def rule_files(experiment: Experiment, facts: Facts) -> tuple[File, ...]:
    """What the experiment itself says of rules, as a rule file; they may hold keys."""
    mutate = experiment.mutate
    if mutate is None or not (text := rule_file(mutate)):
        return ()
    return (File(RULE_FILE, text, mode="0600", owner=facts.user, places={RULE_FILE: "[mutate]"}),)


def _rule_files(mutate: Mutate) -> tuple[str, ...]:
    """The user's file before the experiment's own, of which what both say counts."""
    return flags(rules=(mutate.rules or None, RULE_FILE if rule_file(mutate) else None))


def rules(experiment: Experiment, facts: Facts) -> tuple[str, ...]:
    """Those of whoever reads the trace that is played, where it was not changed before."""
    mutate = experiment.mutate
    return () if mutate is None or is_written(experiment, facts) else _rule_files(mutate)


def steps(experiment: Experiment, facts: Facts) -> tuple[Step, ...]:
    """The mutator's run from the trace to CHANGED, where it is needed."""
    mutate, trace = experiment.mutate, trace_path(experiment)
    if mutate is None or not is_written(experiment, facts):
        return ()
    words = flags(report=REPORT, port=experiment.replay.ports, jobs=facts.cores if facts.cores > 1 else None)
    argv = (facts.programs["reprise-mutator"], "mutate", trace, "-o", CHANGED, *words, *_rule_files(mutate))
    return (Step("mutate", "changing the trace", argv),)


def rule_file(mutate: Mutate) -> str:
    """The text of a rule file; empty where the experiment only names one."""
    said = {"seed": mutate.seed, "malformed": mutate.malformed}
    lines = [line(key, one) for key, one in said.items() if one is not None]
    for rule in mutate.rule:
        lines += ["[[rule]]", *(line(key, one) for key, one in rule.items())]
    return "".join(f"{one}\n" for one in lines)
