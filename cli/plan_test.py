"""Plans: placeholders, order, command lines, JSON."""

from __future__ import annotations

import dataclasses
import json

from cli.experiment import Experiment, Replay, RootLike, Sample, Server, Topology
from cli.plan import Facts, Plan, as_json, make

FACTS = Facts(
    run="x-1",
    cores=4,
    descriptors=20_000,
    python="/python",
    source_root="/src",
    programs={
        name: f"/bin/{name}"
        for name in (
            "reprise-controller", "reprise-querier", "reprise-mutator", "nsd", "nsd-checkzone", "named",
            "named-checkzone", "tcpdump",
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
        "sampler",
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


def test_the_controller_gets_the_replay_options() -> None:
    replay = Replay(answers=True, all_opcodes=True, ports=(53, 5353), timeout_s=1.5)
    argv = argv_of(make(dataclasses.replace(ZONED, replay=replay), FACTS), "controller")
    assert "/t.pcap --run-id x-1 --distributor client1=198.18.1.2:8053" in argv
    assert "--port 53 --port 5353" in argv
    assert "--timeout-s 1.5" in argv
    assert argv.endswith("--all-opcodes --answers")


def test_queriers_share_the_cores_unless_told() -> None:
    def queriers(topology: Topology) -> str:
        argv = argv_of(make(dataclasses.replace(ZONED, topology=topology), FACTS), "distributor-client1")
        return argv.split("--queriers ")[1].split()[0]

    assert queriers(Topology()) == "4"
    assert queriers(Topology(clients=3)) == "1"
    assert queriers(Topology(queriers=7)) == "7"


def test_a_trace_wins_over_synth_and_a_zone_over_root_like() -> None:
    both = dataclasses.replace(ZONED, synth={"seed": 1}, server=Server(zone="/z", root_like=RootLike()))
    assert [step.id for step in make(both, FACTS).prepare] == ["checkzone", "certificates"]


def test_synth_keys_become_options() -> None:
    synth = {"seed": 1, "junk_share": 0.5, "sorted": True, "other": False, "type": ["A", "AAAA"]}
    step = make(dataclasses.replace(ZONED, trace=None, synth=synth), FACTS).prepare[0]
    assert " ".join(step.argv[1:]) == (
        "synth --seed 1 --junk-share 0.5 --sorted --type A --type AAAA -o @results@/trace.pcap"
    )


def test_compressed_zones_are_unpacked_into_the_runtime_folder() -> None:
    plan = make(ZONED, dataclasses.replace(FACTS, zone_compression="xz"))
    assert plan.prepare[0].argv[-2:] == ("/z", "@run@/zone")
    assert 'zonefile: "@run@/zone"' in (plan.files[0].content or "")


def test_zones_are_copied_where_the_server_drops_to_another_user() -> None:
    plan = make(ZONED, dataclasses.replace(FACTS, server_user="nsd"))
    assert plan.prepare[0].argv[-2:] == ("/z", "@run@/zone")
    assert 'username: "nsd"' in (plan.files[0].content or "")


def test_a_server_at_an_address_needs_no_network_and_no_server_process() -> None:
    server = Server(kind="address", addresses=("127.0.0.1", "::1"), port=5300)
    plan = make(dataclasses.replace(ZONED, server=server), FACTS)
    assert plan.network.kind == "host"
    assert [one.id for one in plan.processes] == ["distributor-client1", "controller"]
    assert "--server 127.0.0.1 --server ::1 --server-port 5300" in argv_of(plan, "controller")


def test_json_has_the_documented_keys_and_nothing_private() -> None:
    value = json.loads(
        json.dumps(as_json(make(dataclasses.replace(ZONED, server=Server(kind="bind", zone="/z")), FACTS)))
    )
    assert value["schema"] == 1
    assert {"run", "experiment", "network", "files", "prepare", "processes", "main"} <= set(value)
    assert value["files"][1] == {"path": "@run@/named", "from": "/bin/named", "mode": "0755"}
    assert "PRIVATE KEY" not in json.dumps(value)
