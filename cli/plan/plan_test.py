"""Plans: placeholders, order, command lines, JSON."""

from __future__ import annotations

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
from cli.experiment.schema import (
    Experiment,
    Generate,
    Mutate,
    Replay,
    RootLike,
    Sample,
    Server,
    Tls,
    Topology,
    Wildcard,
)
from cli.plan import mutation, network, planned, replay_options
from cli.plan.plan import as_json, make
from cli.plan.planned import Facts, Folder, Plan
from cli.programs import flags

FACTS = Facts(
    run="x-1",
    cores=4,
    descriptors=20_000,
    python="/python",
    source_root="/src",
    programs={
        name: f"/bin/{name}"
        for name in (
            "reprise-controller", "reprise-querier", "reprise-mutator", "reprise-sampler", "nsd",
            "nsd-checkzone", "named", "named-checkzone", "tcpdump",
        )
    },
)  # fmt: skip
ZONED = Experiment(name="x", trace="/t.pcap", server=Server(zone="/z"))


def argv_of(plan: Plan, ident: str) -> str:
    return " ".join(next(one.argv for one in plan.processes if one.id == ident))


def test_processes_start_in_the_order_of_their_needs() -> None:
    plan = make(dataclasses.replace(ZONED, topology=Topology(clients=2), sample=Sample(capture=True)), FACTS)
    names = [one.id for one in plan.processes]
    assert names == [
        "server",
        "conditions-server",
        "sampler",
        "watch-server",
        "capture",
        "distributor-client1",
        "distributor-client2",
        "controller",
    ]
    assert plan.main == "controller"
    for index, process in enumerate(plan.processes):
        assert set(process.after) <= set(names[:index])


def test_every_process_runs_on_a_host_of_the_network() -> None:
    plan = make(dataclasses.replace(ZONED, topology=Topology(clients=3)), FACTS)
    hosts = {host.name for host in plan.network.hosts}
    assert {process.host for process in plan.processes} <= hosts
    assert {link.a for link in plan.network.links} | {link.b for link in plan.network.links} == hosts


def test_no_route_leads_out() -> None:
    for route in make(ZONED, FACTS).network.routes:
        assert route.to.startswith(("198.19.", "fd00:"))


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
    plan = make(dataclasses.replace(ZONED, replay=asked), FACTS)
    assert "/t.pcap --run-id x-1 --distributor client1=198.18.1.2:8053" in argv_of(plan, "controller")
    assert argv_of(plan, "distributor-client1").endswith("--cpus 1")
    assert "198.19.255.54/32" in {one.address for one in plan.network.addresses}
    assert "ip-address: 198.19.255.54" in (plan.files[0].content or "")
    assert settings_of(ZONED) == {"replay": {}}


def test_our_own_server_speaks_tls_with_a_certificate_of_the_run() -> None:
    replay = Replay(transport="tls")
    for kind, words in (
        ("nsd", 'tls-service-key: "@run@/server/server.key"'),
        ("bind", "listen-on-v6 port 853 tls service { fd00:198:19:ff::53; };"),
    ):
        asked = dataclasses.replace(ZONED, replay=replay, server=Server(kind=kind, zone="/z"))  # type: ignore[arg-type]
        plan = make(asked, FACTS)
        assert words in (plan.files[0].content or "")
        assert argv_of(plan, "controller").endswith("--set tls.ca=@run@/tls/server-ca.pem")
        name = {"name": "server.reprise.test"}
        assert settings_of(asked) == {"replay": {"transport": "tls"}, "tls": name}
        step = " ".join(next(one.argv for one in plan.prepare if one.id == "certificates"))
        assert 'addresses=["198.19.255.53", "fd00:198:19:ff::53"]' in step
        assert plan.processes[0].ready.ports["tls"] == 853


def test_tls_settings_differ_from_the_defaults_only() -> None:
    changed: dict[str, Any] = {
        "port": 8853, "version": "1.3", "name": "x.test", "verify": False, "resume": True, "early_data": True
    }  # fmt: skip
    asked = dataclasses.replace(ZONED, tls=Tls(**changed, ca="/ca", key="rsa-2048"))
    assert settings_of(asked)["tls"] == changed
    assert argv_of(make(asked, FACTS), "controller").endswith("--set tls.ca=/ca")
    server = Server(kind="address", addresses=("127.0.0.1",))
    asked = dataclasses.replace(ZONED, tls=Tls(resume=True), server=server)
    assert settings_of(asked)["tls"] == {"resume": True}
    assert "tls.ca" not in argv_of(make(asked, FACTS), "controller")


def test_captures_hold_every_port_of_the_server() -> None:
    sampled = dataclasses.replace(ZONED, sample=Sample(capture=True))
    assert argv_of(make(sampled, FACTS), "capture").endswith("-w - port 53")
    assert argv_of(make(dataclasses.replace(sampled, tls=Tls()), FACTS), "capture").endswith(
        "port 53 or port 853"
    )


def test_clients_are_sampled_when_asked() -> None:
    plan = make(dataclasses.replace(ZONED, sample=Sample(clients=True), topology=Topology(clients=2)), FACTS)
    names = [one.id for one in plan.processes]
    assert names[-3:] == ["sampler-client1", "sampler-client2", "controller"]
    argv = argv_of(plan, "sampler-client2")
    assert "--process querier=@pid:distributor-client2@" in argv
    assert argv.endswith("@results@/client2.csv")


def test_a_generator_takes_the_place_of_the_trace() -> None:
    generator = dataclasses.replace(
        ZONED,
        trace=None,
        synth={"seed": 1},
        generate=Generate(name="www.example.com", type="AAAA", sources=5),
        replay=Replay(fast=True, duration_s=2.5),
    )
    plan = make(generator, FACTS)
    argv = argv_of(plan, "controller")
    assert "--generate www.example.com/AAAA --generate-sources 5 --run-id" in argv
    assert settings_of(generator) == {"replay": {"fast": True, "duration_s": 2.5}}
    assert "synth" not in [step.id for step in plan.prepare]


def routes_of(source_mode: str, clients: int = 1) -> set[str]:
    replay = Replay(source_mode=source_mode)  # type: ignore[arg-type]
    plan = make(dataclasses.replace(ZONED, replay=replay, topology=Topology(clients=clients)), FACTS)
    return {
        " ".join(
            filter(None, (one.host, one.kind, one.to, one.via, one.interface, one.table.replace("main", "")))
        )
        for one in plan.network.routes
        if not one.to.startswith(("198.19.255", "fd00:198"))
    }


def test_source_modes_have_their_routes() -> None:
    back = {"server 0.0.0.0/0 198.19.1.1", "server ::/0 fd00:198:19:1::1"}
    assert routes_of("ports") == set()
    assert routes_of("addresses") == back | {"client1 local 0.0.0.0/0 lo", "client1 local ::/0 lo"}
    assert routes_of("packet") == back | {
        "client1 local 0.0.0.0/0 lo 100",
        "client1 local ::/0 lo 100",
        "client1 blackhole 0.0.0.0/0 101",
        "client1 blackhole ::/0 101",
    }
    assert routes_of("mapped", 2) == {
        "client1 local 10.0.0.0/9 lo",
        "client1 local fd00:6d61:1::/64 lo",
        "client2 local 10.128.0.0/9 lo",
        "client2 local fd00:6d61:2::/64 lo",
        "server 10.0.0.0/9 198.19.1.1",
        "server fd00:6d61:1::/64 fd00:198:19:1::1",
        "server 10.128.0.0/9 198.19.2.1",
        "server fd00:6d61:2::/64 fd00:198:19:2::1",
    }


def test_the_testbeds_own_addresses_are_no_sources_where_the_server_sees_them() -> None:
    for mode, skipped in (("ports", False), ("mapped", False), ("addresses", True), ("packet", True)):
        asked = dataclasses.replace(ZONED, replay=Replay(source_mode=mode, skip_sources=("192.0.2.0/24",)))  # type: ignore[arg-type]
        left_out = settings_of(asked)["replay"]["skip_sources"]
        own = ["198.19.255.0/24", "fd00:198:19:ff::/64", "198.18.1.0/24"]
        assert left_out[:4] == ["192.0.2.0/24", *(own if skipped else ())]
        assert ("--confirm-return-path" in argv_of(make(asked, FACTS), "controller")) == skipped


def test_mapped_queriers_know_their_prefixes_and_packet_has_one_querier() -> None:
    mapped = make(dataclasses.replace(ZONED, replay=Replay(source_mode="mapped")), FACTS)
    assert argv_of(mapped, "distributor-client1").endswith(
        "--source-prefix 10.0.0.0/8 --source-prefix fd00:6d61:1::/64"
    )
    packet = make(dataclasses.replace(ZONED, replay=Replay(source_mode="packet")), FACTS)
    assert "--queriers 1 " in argv_of(packet, "distributor-client1") + " "
    assert {one.mac for one in packet.network.neighbors} == {
        mac for link in packet.network.links for mac in (link.a_mac, link.b_mac) if mac
    }


def test_queriers_share_the_cores_unless_told() -> None:
    def queriers(topology: Topology) -> str:
        argv = argv_of(make(dataclasses.replace(ZONED, topology=topology), FACTS), "distributor-client1")
        return argv.split("--queriers ")[1].split()[0]

    assert queriers(Topology()) == "4"
    assert queriers(Topology(clients=3)) == "1"
    assert queriers(Topology(queriers=7)) == "7"


def test_a_trace_wins_over_synth_and_a_zone_over_root_like() -> None:
    both = dataclasses.replace(ZONED, synth={"seed": 1}, server=Server(zone="/z", root_like=RootLike()))
    assert [step.id for step in make(both, FACTS).prepare] == ["unpack", "checkzone", "certificates"]


def test_a_wildcard_zone_is_made_and_checked() -> None:
    asked = dataclasses.replace(ZONED, server=Server(wildcard=Wildcard()), replay=Replay(answers=True))
    steps = make(asked, dataclasses.replace(FACTS, origin="example.com.")).prepare
    assert [step.id for step in steps] == ["zone", "keep", "checkzone", "certificates"]
    assert steps[0].argv[-5:] == (
        "cli.zones.wildcard.write", "target=@run@/zone", "origin=example.com.", "zones=1", "names=0"
    )  # fmt: skip


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
    own = map(ipaddress.ip_network, network.own_prefixes(made.topology.clients))
    assert not any(one.overlaps(clients) for one in own if one.version == clients.version)
    argv = make(dataclasses.replace(made, synth={"client_prefix": "203.0.113.0/24"}), FACTS).prepare[0].argv
    assert argv[argv.index("--client-prefix") + 1] == "203.0.113.0/24"


def test_server_and_checker_read_a_copy_of_the_zone() -> None:
    plan = make(ZONED, dataclasses.replace(FACTS, users={"nsd": "nsd"}))
    bring, check = plan.prepare[:2]
    assert bring.argv[2:] == (
        "cli.call", "cli.zones.server_zone.bring", "source=/z", "target=@run@/world/zone", "origin=.",
    )  # fmt: skip
    assert check.argv[2:] == (
        "cli.call", "cli.zones.server_zone.check", 'argv=["/bin/nsd-checkzone", "."]',
        "zone=@run@/world/zone", "warnings=@run@/world/warnings.txt",
    )  # fmt: skip
    assert 'username: "nsd"' in (plan.files[0].content or "")
    assert 'zonefile: "@run@/world/zone"' in (plan.files[0].content or "")


def test_a_server_at_an_address_needs_no_network_and_no_server_process() -> None:
    server = Server(kind="address", addresses=("127.0.0.1", "::1"), port=5300)
    plan = make(dataclasses.replace(ZONED, server=server), FACTS)
    assert plan.network.kind == "host"
    assert [one.id for one in plan.processes] == ["distributor-client1", "controller"]
    assert "--server 127.0.0.1 --server ::1 --server-port 5300" in argv_of(plan, "controller")


def test_a_server_at_an_address_is_asked_by_the_replays_transport() -> None:
    server = Server(kind="address", addresses=("127.0.0.1",), port=5300)
    for transport, words in (
        ("trace", 'port=5300 addresses=["127.0.0.1"]'),
        ("tcp", 'port=5300 addresses=["127.0.0.1"] transport=tcp'),
        ("tls", 'port=853 addresses=["127.0.0.1"] transport=tls'),
    ):
        replay = Replay(transport=transport)  # type: ignore[arg-type]
        plan = make(dataclasses.replace(ZONED, server=server, replay=replay), FACTS)
        assert " ".join(plan.prepare[0].argv).endswith(words)


def test_json_has_the_documented_keys_and_nothing_private() -> None:
    value = json.loads(
        json.dumps(as_json(make(dataclasses.replace(ZONED, server=Server(kind="bind", zone="/z")), FACTS)))
    )
    assert value["schema"] == 2
    assert {"run", "experiment", "network", "files", "prepare", "processes", "main"} <= set(value)
    assert value["files"][1] == {"path": "@run@/named", "from": "/bin/named", "mode": "0755", "owner": ""}
    assert "PRIVATE KEY" not in json.dumps(value)


def test_a_changed_trace_is_made_first_where_it_is_kept() -> None:
    rules = (
        {"kind": "edns", "do": True, "where": {"type": ["A", "AAAA"]}},
        {"kind": "transport", "to": "tls"},
    )
    mutate = Mutate(rules="/r.toml", rule=rules, seed=7, keep=True)
    plan = make(dataclasses.replace(ZONED, mutate=mutate), FACTS)
    step = next(one for one in plan.prepare if one.id == "mutate")
    assert " ".join(step.argv) == (
        "/bin/reprise-mutator mutate /t.pcap -o @results@/trace.rps --report @results@/mutate.json --port 53"
        " --jobs 4 --rules /r.toml --rules @run@/rules.toml"
    )
    assert argv_of(plan, "controller").startswith("/bin/reprise-controller @results@/trace.rps ")
    assert "--set tls.ca=" in argv_of(plan, "controller")
    written = next(file.content for file in plan.files if file.path == mutation.RULE_FILE) or ""
    assert tomllib.loads(written) == {"seed": 7, "rule": [dict(rule) for rule in rules]}


def test_rules_are_the_controllers_where_they_can_be() -> None:
    mutate = Mutate(rules="/r.toml", rule=({"kind": "shift", "seconds": 2},), malformed="drop")
    plan = make(dataclasses.replace(ZONED, mutate=mutate), FACTS)
    assert "mutate" not in {one.id for one in plan.prepare}
    argv = argv_of(plan, "controller")
    assert argv.startswith("/bin/reprise-controller /t.pcap ")
    assert " --rules /r.toml --rules @run@/rules.toml " in argv
    assert plan.checks[-1].argv[-2:] == ("--check", "trace")


@pytest.mark.parametrize(
    ("rule", "whole"),
    [
        ("kind = 'heavy'\ntop = 3", True),
        ("kind = 'jitter'\nus = 3", True),
        ("kind = 'shift'\nseconds = 3\nshare = 20", True),
        ("kind = 'shift'\nseconds = 3\nwhere.type = 'A'", True),
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
    assert mutation.is_written(dataclasses.replace(ZONED, mutate=Mutate(rules=str(path))), facts) == whole
    argv = [programs.own("reprise-controller"), "t.pcap", "--rules", str(path), "--check", "options"]
    argv += [*flags(run_id="x", distributor="127.0.0.1:1", cert="c", key="k", ca="a", server="127.0.0.1")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if whole else 0), done.stderr
    assert ("change the trace before it is played" in done.stderr) == whole


def test_values_of_rules_survive_the_rule_file() -> None:
    rule = {"kind": "type", "to": {"A": 50, "AAAA": 50.5}, "where": {"name": 'a"\\.example.', "0x20": False}}
    assert tomllib.loads(mutation.rule_file(Mutate(rule=(rule,)))) == {"rule": [rule]}


def test_programs_start_with_the_rights_they_need() -> None:
    facts = dataclasses.replace(
        FACTS,
        user="nobody",
        user_group=65534,
        programs={**FACTS.programs, "setpriv": "/bin/setpriv", "unshare": "/bin/unshare"},
    )

    def rights(replay: Replay, ident: str) -> str:
        plan = make(dataclasses.replace(ZONED, replay=replay), facts)
        argv = next(one.argv for one in plan.processes if one.id == ident)
        assert argv[:3] == ("/bin/setpriv", "--reuid", "nobody")
        assert "--no-new-privs" in argv
        given = [argv[argv.index(f"--{kind}") + 1] for kind in ("bounding-set", "inh-caps", "ambient-caps")]
        assert len(set(given)) == 1
        return given[0]

    assert rights(Replay(), "controller") == "-all,+dac_read_search"
    assert rights(Replay(), "distributor-client1") == "-all,+net_admin"
    assert rights(Replay(realtime=True), "distributor-client1") == "-all,+net_admin,+sys_nice"
    packet = rights(Replay(source_mode="packet"), "distributor-client1")
    assert packet == "-all,+net_admin,+net_raw,+bpf,+perfmon,+ipc_lock"
    plan = make(ZONED, facts)
    assert plan.folders[0] == Folder("@results@", "1775", "", "nobody"), "what is root's stays root's"
    alone = ("/bin/unshare", "--net", "--", "/bin/setpriv", "--reuid", "nobody")
    begun = {one.id: one.argv[:6] for one in plan.prepare}
    assert begun.pop("certificates")[0] == "/python"
    assert set(begun.values()) == {alone}
    asked = dataclasses.replace(ZONED, server=Server(kind="address", addresses=("127.0.0.1",)))
    assert make(asked, facts).prepare[0].argv[:3] == alone[3:], "it needs a network"
    assert "@run@/reprise-querier" in argv_of(plan, "distributor-client1")
    copies = [file.copy_of for file in plan.files if file.path == "@run@/reprise-querier"]
    assert copies == ["/bin/reprise-querier"]
    assert all("/bin/setpriv" not in one.argv for one in make(ZONED, FACTS).processes)


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
    for experiment in (
        ZONED,
        dataclasses.replace(ZONED, title="a\udcff", mutate=Mutate(rule=({"kind": "edns"},)), tls=Tls()),
    ):
        plan = make(experiment, FACTS)
        assert planned.read(json.loads(json.dumps(as_json(plan)))) == plan


def test_a_plan_of_another_schema_is_refused() -> None:
    value = {**as_json(make(ZONED, FACTS)), "schema": 1}
    with pytest.raises(RepriseError, match="the plan has schema 1, and this version carries out 2"):
        planned.read(value)
