"""Plans for hosts that are machines of their own."""

import dataclasses

import pytest

from cli.errors import UsageError
from cli.plan.guards_test import PLAIN, WORLD, guard, planned
from cli.plan.plan import make
from cli.plan.planned import Management, Plan
from tests.facts import FACTS

INTERFACES = {"controller": "eno1", "client1": "eno2", "client2": "eno3", "server": "enp1", "meta1": "enp2"}
OFFICE = Management(("192.0.2.0/24",), interfaces=INTERFACES)


def commands(plan: Plan, ident: str) -> list[str]:
    step = next(one for one in plan.setup if one.id == ident)
    return [" ".join(command) for command in step.apply]


def test_links_become_addresses_and_routes_of_an_interface() -> None:
    plan = planned(PLAIN, OFFICE)
    assert plan.network.kind == "hosts"
    added = commands(plan, "network-addresses-client1")
    assert "ip addr replace 198.18.1.2/24 dev eno2" in added
    assert "ip addr replace fd00:198:19:1::1/64 dev eno2 nodad" in added
    assert "ip addr replace 198.19.255.53/32 dev lo" in commands(plan, "network-addresses-server")
    assert "ip route replace 198.19.255.53/32 via 198.19.1.2 table main" in commands(
        plan, "network-routes-client1"
    )


def test_every_change_has_its_undo_and_the_way_to_the_operator_is_left_alone() -> None:
    for step in planned(WORLD, OFFICE).setup:
        looks = step.new_connection or step.id.startswith("network-neighbors")
        assert not step.apply or bool(step.undo) != looks, step.id
        words = " ".join(word for command in step.apply for word in command)
        if step.id.startswith("network-settings"):
            assert "ipv6" not in words and "ip_forward" not in words


def test_guards_and_captures_name_the_interface() -> None:
    experiment = dataclasses.replace(PLAIN, sample=dataclasses.replace(PLAIN.sample, capture=True))
    plan = planned(experiment, OFFICE)
    assert 'oifname { "eno2" } ip daddr' in guard(plan, "client1")
    assert 'oifname { "enp1" } udp sport { 53 }' in guard(plan, "server")
    assert '"data' not in guard(plan, "server")
    (capture,) = [one for one in plan.processes if one.role == "capture"]
    assert capture.argv[capture.argv.index("-i") + 1] == "enp1"
    assert capture.argv[-1].startswith("(port 53 or ip[6:2] & 0x1fff != 0 or ip6[6] == 44) and (host ")


def test_hosts_look_for_their_neighbors_when_all_have_their_addresses() -> None:
    plan = planned(WORLD, OFFICE)
    ids = [one.id for one in plan.setup]
    first = ids.index("network-neighbors-controller")
    assert plan.setup[first].after_all
    assert all("network-addresses" not in one for one in ids[first:])
    assert [one for one in commands(plan, "network-neighbors-client1") if "198.18.1.1 eno2" in one]


def test_a_host_without_a_machine_is_a_usage_error() -> None:
    some = {name: interface for name, interface in INTERFACES.items() if name != "meta1"}
    with pytest.raises(UsageError, match="there is no machine for meta1"):
        planned(WORLD, dataclasses.replace(OFFICE, interfaces=some))


def test_queriers_are_as_many_as_their_machines_cores() -> None:
    facts = dataclasses.replace(FACTS, cores_of={"client1": 24, "client2": 6})
    plan = make(WORLD, facts, OFFICE)
    counts = [
        one.argv[one.argv.index("--queriers") + 1] for one in plan.processes if one.role == "distributor"
    ]
    assert counts == ["24", "6"]
