"""Plans: settings, rules, JSON; whole plans are transcripts of tests/plans_test.py."""

import dataclasses
import ipaddress
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import RepriseError
from cli.experiment.schema import Experiment, Generate, Mutate, Replay, Server
from cli.plan import network, planned, replay_options
from cli.plan.plan import as_json, make
from cli.plan.planned import Plan
from cli.programs import flags
from tests.facts import FACTS

ZONED = Experiment(name="x", trace="/t.pcap", server=Server(zone="/z"))


def argv_of(plan: Plan, ident: str) -> str:
    return " ".join(next(one.argv for one in plan.processes if one.id == ident))


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """What the plan's file of settings says."""
    plan = make(experiment, FACTS)
    assert f"--options {replay_options.SETTINGS}" in argv_of(plan, "controller")
    return tomllib.loads(next(one.content or "" for one in plan.files if one.path == replay_options.SETTINGS))


def test_the_controller_gets_the_settings_that_are_no_defaults() -> None:
    replay: dict[str, Any] = {
        "answers": True,
        "ports": [53, 5353],
        "timeout_s": 1.5,
        "from": "2016-10-06T13:55:51Z",
        "until": 100.5,
        "loop": 0,
        "limit": 1_000_000,
        "hedge_ms": 1.5,
        "peers": ["198.19.255.54", "[fd00:198:19:ff::54]:53"],
        "skip_sources": ["192.0.2.0/24"],
        "sample_sources": 'a"b\\\x7fü',
    }
    values = {f"{key}_" if key == "from" else key: value for key, value in replay.items()}
    asked = Replay(**values, cpus="1", speed=1.0)
    assert settings_of(dataclasses.replace(ZONED, replay=asked)) == {"replay": replay}
    assert settings_of(ZONED) == {"replay": {}}


def test_synth_keys_become_options() -> None:
    synth = {"seed": 1, "junk_share": 0.5, "sorted": True, "other": False, "type": ["A", "AAAA"]}
    step = make(dataclasses.replace(ZONED, trace=None, synth=synth), FACTS).prepare[0]
    assert " ".join(step.argv[1:]) == (
        "synth --seed 1 --junk-share 0.5 --sorted --type A --type AAAA -o @results@/trace.pcap"
    )


def test_clients_that_the_server_sees_are_not_at_the_testbeds_addresses() -> None:
    made = dataclasses.replace(ZONED, trace=None, replay=Replay(source_mode="addresses"))
    argv = make(dataclasses.replace(made, synth={"seed": 1}), FACTS).prepare[0].argv
    clients = ipaddress.ip_network(argv[argv.index("--client-prefix") + 1])
    own = map(ipaddress.ip_network, network.own_prefixes(made.topology.clients, hierarchy=False))
    assert not any(one.overlaps(clients) for one in own if one.version == clients.version)
    argv = make(dataclasses.replace(made, synth={"client_prefix": "203.0.113.0/24"}), FACTS).prepare[0].argv
    assert argv[argv.index("--client-prefix") + 1] == "203.0.113.0/24"


def test_json_has_the_documented_keys_and_nothing_private() -> None:
    value = json.loads(
        json.dumps(as_json(make(dataclasses.replace(ZONED, server=Server(kind="bind", zone="/z")), FACTS)))
    )
    assert value["schema"] == 2
    assert {"run", "experiment", "network", "files", "prepare", "processes", "main"} <= set(value)
    copy = {"path": "@run@/named", "from": "/bin/named", "mode": "0755", "owner": "", "places": {}}
    assert value["files"][1] == copy
    assert "PRIVATE KEY" not in json.dumps(value)


@pytest.mark.parametrize(
    ("rule", "whole"),
    [
        ("kind = 'heavy'\ntop = 3", True),
        ("kind = 'jitter'\nus = 3", True),
        ("kind = 'shift'\nseconds = 3\nshare = 20", True),
        ("kind = 'shift'\nseconds = 3\nwhere.type = 'A'", True),
        ("kind = 'shift'\nseconds = 3\n'where.type' = 'A'", True),
        ("kind = 'shift'\nseconds = 3", False),
        ("kind = 'speed'\nfactor = 3\nshare = 20", False),
    ],
)
def test_rules_run_before_are_those_that_the_controller_refuses(
    tmp_path: Path, rule: str, whole: bool
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"[[rule]]\n{rule}\n", encoding="ascii")
    facts = dataclasses.replace(FACTS, rule_lines=path.read_text(encoding="ascii"))
    mutated = dataclasses.replace(ZONED, mutate=Mutate(rules=str(path)))
    assert replay_options.is_written(mutated, facts) == whole
    argv = [programs.own("reprise-controller"), "t.pcap", "--rules", str(path), "--check", "options"]
    argv += [*flags(run_id="x", distributor="127.0.0.1:1", cert="c", key="k", ca="a", server="127.0.0.1")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if whole else 0), done.stderr
    assert ("change the trace before it is played" in done.stderr) == whole


def test_what_is_no_rule_file_is_left_to_the_program_that_reads_it() -> None:
    for lines in ("rule = ", f"rule = {'[' * 5_000}", "rule = 5", "rule = [5]"):
        facts = dataclasses.replace(FACTS, rule_lines=lines)
        assert not replay_options.is_written(dataclasses.replace(ZONED, mutate=Mutate(rules="/r")), facts)


def test_values_of_rules_survive_the_rule_file() -> None:
    rule = {"kind": "type", "to": {"A": 50, "AAAA": 50.5}, "where": {"name": 'a"\\.example.', "0x20": False}}
    assert tomllib.loads(replay_options.rule_file(Mutate(rule=(rule,)))) == {"rule": [rule]}


def test_generated_queries_ask_resolvers_for_recursion() -> None:
    generate = Generate(name="www.example.com")
    base = Experiment(name="x", generate=generate, replay=Replay(rate=5, limit=5))
    asked = {}
    for kind in ("nsd", "address", "hierarchy"):
        asked[kind] = dataclasses.replace(base, server=Server(kind=kind)).wants_recursion
    assert asked == {"nsd": False, "address": True, "hierarchy": True}
    said = dataclasses.replace(
        base, generate=dataclasses.replace(generate, rd=True), server=Server(zone="/z")
    )
    assert "--generate-rd" in argv_of(make(said, FACTS), "controller")
    assert "--generate-rd" not in argv_of(
        make(dataclasses.replace(base, server=Server(zone="/z")), FACTS), "controller"
    )


def test_a_plan_is_read_back_from_its_json() -> None:
    plan = make(dataclasses.replace(ZONED, title="a\udcff"), FACTS)
    assert planned.read(json.loads(json.dumps(as_json(plan)))) == plan


def test_a_plan_of_another_schema_is_refused() -> None:
    value = {**as_json(make(ZONED, FACTS)), "schema": 1}
    with pytest.raises(RepriseError, match="the plan has schema 1, and this version carries out 2"):
        planned.read(value)
