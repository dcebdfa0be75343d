"""server.front and [front]: what is refused, and what the plan for real hosts makes of them."""

import dataclasses

import pytest

from cli.errors import RepriseError
from cli.experiment.schema import Experiment, Server, Topology
from cli.plan import facts
from cli.plan.guards_test import guard
from cli.plan.placement_test import OFFICE
from cli.plan.plan import make
from cli.plan.plan_test import ZONED
from tests.facts import FACTS


def fronted(kind: str, clients: int = 1) -> Experiment:
    server = Server(zone="/z", front=kind)  # type: ignore[arg-type]
    return dataclasses.replace(ZONED, server=server, topology=Topology(clients=clients))


def test_programs_in_the_kernel_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(RepriseError, match=r'server\.front = "bpf" needs root') as caught:
        facts.gather(fronted("bpf"), "x-1")
    assert caught.value.hint == 'run as root or use server.front = "reference"'


def test_a_machine_has_one_interface_for_all_clients() -> None:
    plan = make(fronted("reference", clients=2), FACTS, OFFICE)
    (front,) = [one for one in plan.processes if one.role == "front"]
    assert front.id == "front" and "--interface enp1 " in " ".join(front.argv)
    assert plan.setup[-1].undo == ((*front.argv[:6], "--undo"),)  # its undo comes first
    assert plan.setup[-1].host == "server"
    assert 'oifname { "lo", "reprise0", "reprise1", "stateless0" }' in guard(plan, "server")
