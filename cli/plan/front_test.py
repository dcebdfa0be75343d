"""server.front and [front]: what is refused, and what the plan makes of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cli.errors import RepriseError
from cli.experiment.schema import Experiment, Front, Replay, Server, Topology
from cli.plan import facts
from cli.plan.guards_test import guard
from cli.plan.placement_test import OFFICE
from cli.plan.plan import make
from cli.plan.plan_test import FACTS, ZONED, argv_of
from cli.plan.planned import Plan, Process

PROXIED = dataclasses.replace(FACTS, programs={**FACTS.programs, "reprise-proxy": "/bin/reprise-proxy"})


def fronted(kind: str, options: Front | None = None, clients: int = 1, **server: Any) -> Experiment:
    return dataclasses.replace(
        ZONED,
        server=Server(zone="/z", front=kind, **server),  # type: ignore[arg-type]
        front=options,
        topology=Topology(clients=clients),
    )


def fronts(plan: Plan) -> list[Process]:
    return [one for one in plan.processes if one.role == "front"]


# --- rules ------------------------------------------------------------------------------------------------


def test_programs_in_the_kernel_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(RepriseError, match=r'server\.front = "bpf" needs root') as caught:
        facts.gather(fronted("bpf"), "x-1")
    assert caught.value.hint == 'run as root or use server.front = "reference"'


# --- the plan ---------------------------------------------------------------------------------------------


def test_without_a_front_the_plan_has_none() -> None:
    plan = make(ZONED, FACTS)
    assert not fronts(plan)
    assert "front" not in argv_of(plan, "sampler")


def test_a_front_comes_between_server_and_clients() -> None:
    plan = make(fronted("bpf", port=5353), PROXIED)
    names = [one.id for one in plan.processes]
    assert names[:4] == ["server", "front", "conditions-server", "sampler"]
    (front,) = fronts(plan)
    assert front.argv == (
        *("/bin/reprise-proxy", "stateless", "--front", "bpf", "--interface", "data1", "--port", "5353"),
        *("--stats", "@results@/front.json"),
    )
    assert plan.terms[front.terms].names["--no-promote"] == "front.promote = false"
    assert (front.host, front.ready.text, front.essential) == ("server", "event=ready", True)
    distributor = next(one for one in plan.processes if one.role == "distributor")
    assert "front" in distributor.after
    assert "--process server=@pid:server@ --process front=@pid:front@" in argv_of(plan, "sampler")


def test_options_of_both_fronts() -> None:
    given = Front(500, early_ack=True, axfr_detect=False, promote=False, entries=100, truncate_udp=512)
    words = argv_of(make(fronted("bpf", given), PROXIED), "front")
    assert words.endswith(
        "--timeout 500 --early-ack --axfr-detect 0 --no-promote --entries 100 --truncate-udp 512"
    )
    plan = make(
        fronted("reference", Front(early_ack=False, axfr_detect=True, loglevel=0, fin_last=True)), PROXIED
    )
    assert argv_of(plan, "front").endswith(
        "--tun stateless0 --active 1 --no-early-ack --axfr-detect 1 --loglevel 0 --fin-last"
    )
    assert "--skip-interface stateless0" in argv_of(plan, "sampler")


def test_connections_of_several_queries_are_warned_of() -> None:
    experiment = fronted("bpf")
    shared = dataclasses.replace(experiment, replay=Replay(transport="tcp"))
    apart = dataclasses.replace(experiment, replay=Replay(transport="tcp", queries_per_connection=1))
    (warning,) = make(shared, PROXIED).warnings
    assert "the front serves one query on a connection" in warning
    assert make(experiment, PROXIED).warnings == make(apart, PROXIED).warnings == ()


def test_every_interface_to_a_client_has_a_front() -> None:
    plan = make(fronted("bpf", clients=2), PROXIED)
    assert [one.id for one in fronts(plan)] == ["front-data1", "front-data2"]
    words = argv_of(plan, "front-data2")
    assert "--interface data2 " in words and "--stats @results@/front-data2.json" in words


def test_the_front_in_user_space_serves_all_interfaces() -> None:
    (front,) = fronts(make(fronted("reference", clients=2), PROXIED))
    assert front.id == "front"
    assert "--interface data1 --interface data2 " in " ".join(front.argv)


def test_a_machine_has_one_interface_for_all_clients() -> None:
    plan = make(fronted("reference", clients=2), PROXIED, OFFICE)
    (front,) = fronts(plan)
    assert front.id == "front" and "--interface enp1 " in " ".join(front.argv)
    assert plan.setup[-1].undo == ((*front.argv[:6], "--undo"),)  # its undo comes first
    assert plan.setup[-1].host == "server"
    assert 'oifname { "lo", "reprise0", "reprise1", "stateless0" }' in guard(plan, "server")


@pytest.mark.parametrize(
    ("kind", "rights"),
    [("bpf", "net_admin,+bpf,+perfmon"), ("reference", "net_admin,+net_raw,+dac_override")],
)
def test_a_front_has_the_rights_it_needs_and_no_more(kind: str, rights: str) -> None:
    programs = {**PROXIED.programs, "setpriv": "/bin/setpriv", "unshare": "/bin/unshare"}
    known = dataclasses.replace(PROXIED, user="nobody", user_group=65534, programs=programs)
    words = argv_of(make(fronted(kind), known), "front")
    assert words.startswith("/bin/setpriv ") and f"--bounding-set -all,+{rights} " in words
