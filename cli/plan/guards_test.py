"""Who has a guard, where its steps stand in the plan, and what cannot be a management network."""

import dataclasses

import pytest

from cli.errors import UsageError
from cli.experiment.schema import Experiment, Hierarchy, Replay, Rtt, Server, Tls, Topology, World
from cli.plan import guards
from cli.plan.plan import make
from cli.plan.planned import Management, Plan
from tests.facts import FACTS

PLAIN = Experiment(name="x", trace="/t.pcap", server=Server(kind="nsd", zone="/z"), rtt=Rtt(rtt_ms=5))
WORLD = dataclasses.replace(
    PLAIN,
    server=Server(kind="hierarchy"),
    hierarchy=Hierarchy(synth=World(zones=20)),
    topology=Topology(clients=2),
)
OFFICE = Management(("192.0.2.0/24", "2001:db8:1::/64", "192.0.2.128/25"))


def planned(experiment: Experiment, management: Management | None = None) -> Plan:
    return make(experiment, FACTS, management)


def guard(plan: Plan, host: str) -> str:
    return next(one.content or "" for one in plan.files if one.path == f"@run@/guard-{host}.nft")


def test_local_runs_guard_hierarchies_and_confirm_nothing() -> None:
    assert not [one for one in planned(PLAIN).setup if "guard" in one.id]
    plan = planned(WORLD)
    assert [one.id for one in plan.setup[:2]] == ["guard-server", "guard-meta1"]
    assert [one.id for one in plan.setup if "guard" in one.id] == ["guard-server", "guard-meta1"]
    assert not [one for one in plan.setup if one.new_connection]
    assert "192.0.2" not in guard(plan, "server") and "timeout" not in guard(plan, "server")


@pytest.mark.parametrize(
    ("experiment", "hosts"),
    [
        (PLAIN, ["server", "client1"]),
        (WORLD, ["server", "meta1", "client1", "client2"]),
    ],
)
def test_on_real_hosts_the_guard_is_the_first_step_and_the_last_undo(
    experiment: Experiment, hosts: list[str]
) -> None:
    """Processes start after all steps of set-up, and end before the first undo."""
    plan = planned(experiment, OFFICE)
    assert {one.host for one in plan.setup} == set(hosts)
    assert {one.host for one in plan.processes} - set(hosts) == {"controller"}
    for host in hosts:
        steps = [one for one in plan.setup if one.host == host]
        assert [one.id for one in steps[:2]] == [f"guard-{host}", f"guard-{host}-confirm"]
        assert [one.new_connection for one in steps] == [False, True, *(False for _ in steps[2:])]
        undone = [one for one in reversed(steps) if one.undo]
        assert "delete table inet reprise_guard" in undone[-1].undo[0][2]
        assert "elements = { ip timeout 60000ms, ip6 timeout 60000ms }" in guard(plan, host)
        assert "60" in steps[1].apply[0]
    first = [one.id for one in plan.setup].index
    assert max(first(f"guard-{host}-confirm") for host in hosts) == 2 * len(hosts) - 1
    assert {one.id for one in plan.finish} >= {f"guard-{host}-counters" for host in hosts}


def test_the_guards_of_real_hosts_let_the_management_network_through() -> None:
    tls = dataclasses.replace(PLAIN, tls=Tls(port=8853), replay=Replay(transport="tls"))
    plan = planned(tls, OFFICE)
    for host in ("server", "client1"):
        assert "ip daddr { 192.0.2.0/24 } ip saddr != { 198.1" in guard(plan, host)
        assert "ip6 daddr { 2001:db8:1::/64 } ip6 saddr != { fd00:198:19:" in guard(plan, host)
    assert "sport { 53, 8853 }" in guard(plan, "server")
    assert 'oifname { "data", "control" } ip daddr' in guard(plan, "client1")
    assert "sport" not in guard(plan, "client1")


MAPPED = dataclasses.replace(PLAIN, replay=Replay(source_mode="mapped"))


def test_the_guards_of_real_hosts_know_all_that_the_experiment_s_packets_come_to_or_from() -> None:
    """They count the rest as packets of others, which a firewall may drop."""
    plan = planned(MAPPED, OFFICE)
    for host in ("server", "client1"):
        for hook in ("prerouting", "input", "forward"):
            chain = guard(plan, host).split(f"chain {hook} {{")[1].split("}\n    }")[0]
            assert "ip daddr { 10.0.0.0/8, 198.18.1.0/24, " in chain
            assert ", fd00:6d61:1::/64 } accept" in chain
    server = Server(kind="address", addresses=("203.0.113.1", "2001:db8::1"))
    ruleset = guard(planned(dataclasses.replace(PLAIN, server=server), OFFICE), "client1")
    assert ruleset.count("ip saddr { 203.0.113.1/32 } accept") == 3
    assert ruleset.count("ip6 saddr { 2001:db8::1/128 } accept") == 3


@pytest.mark.parametrize(
    ("experiment", "prefix", "what"),
    [
        (PLAIN, "office", "office is not ADDRESS/BITS"),
        (PLAIN, "192.0.2.1", "192.0.2.1 is not ADDRESS/BITS"),
        (PLAIN, "192.0.2.1/24", "192.0.2.1/24 is not ADDRESS/BITS with the host bits zero"),
        (PLAIN, "ff02::/16", "ff02::/16 is not ADDRESS/BITS"),
        (PLAIN, "0.0.0.0/0", "0.0.0.0/0 is so large"),
        (PLAIN, "128.0.0.0/1", "128.0.0.0/1 is so large"),
        (PLAIN, "::/0", "::/0 is so large"),
        (PLAIN, "2000::/3", "2000::/3 is so large"),
        (PLAIN, "198.19.1.128/25", "198.19.1.128/25 overlaps 198.19.1.0/24"),
        (PLAIN, "fd00:198::/32", "fd00:198::/32 overlaps fd00:198:19:"),
        (WORLD, "198.18.200.0/24", "198.18.200.0/24 overlaps 198.18.128.0/17"),
        (MAPPED, "10.1.0.0/16", "10.1.0.0/16 overlaps 10.0.0.0/8"),
    ],
)
def test_what_cannot_be_a_management_network(experiment: Experiment, prefix: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(experiment, Management((prefix,)))
    assert caught.value.what.startswith(f"management prefix {what}")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("experiment", "management", "what"),
    [
        (PLAIN, Management(()), "there is no management prefix"),
        (
            dataclasses.replace(PLAIN, replay=Replay(source_mode="packet")),
            OFFICE,
            'source_mode = "packet" takes all routes',
        ),
        (dataclasses.replace(PLAIN, server=Server(kind="address")), OFFICE, "no host that could be guarded"),
        (
            dataclasses.replace(PLAIN, topology=Topology(kind="host")),
            OFFICE,
            'kind = "host" is for a run from this machine',
        ),
    ],
)
def test_what_cannot_be_guarded(experiment: Experiment, management: Management, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        guards.check(experiment, management)
