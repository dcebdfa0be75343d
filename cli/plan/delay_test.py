"""Plans with delay lines; what they do is seen by tests/delay_test.py."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cli.errors import RepriseError
from cli.executor import figures
from cli.experiment.schema import Experiment, Hierarchy, Replay, Rtt, Server, Tls, Topology
from cli.plan import delay, network, plan
from cli.plan.planned import RESULTS, Facts, Plan, Process

FACTS = Facts(
    "run",
    cores=2,
    descriptors=1_000,
    python="python3",
    source_root="/src",
    programs={name: f"/bin/{name}" for name in ("reprise-proxy", "reprise-mutator", "reprise-controller")}
    | {name: f"/bin/{name}" for name in ("reprise-querier", "reprise-sampler", "nsd", "nsd-checkzone")},
)
EXPERIMENT = Experiment("test", trace="/trace", server=Server(zone="/zone"), rtt=Rtt(rtt_ms=20))


def planned(experiment: Experiment) -> Plan:
    return plan.make(experiment, FACTS)


@pytest.mark.parametrize(
    ("rtt", "words"),
    [
        (Rtt(rtt_ms=0), "--rtt-ms 0"),
        (Rtt(rtt_ms=12.5, seed=7, realtime=True), "--rtt-ms 12.5 --seed 7 --realtime"),
        (Rtt(table="/t", jitter_ms=2, loss_percent=0.5), "--rtt-table /t --jitter-ms 2 --loss-percent 0.5"),
        (Rtt(by="source", rtt_ms=9), f"--rtt-ms 9 --rtt-table {RESULTS}/rtts.tsv"),
        (Rtt(distribution="normal:20,5"), "--rtt-distribution normal:20,5"),
        (Rtt(observed="/o"), "--rtt-distribution /o"),
    ],
)
def test_options_are_the_keys(rtt: Rtt, words: str) -> None:
    assert " ".join(delay.options(rtt)) == words


def test_the_delay_line_comes_before_the_server_which_is_asked_beside_it() -> None:
    made = planned(EXPERIMENT)
    assert [one.id for one in made.processes[:2]] == ["delay-server", "server"]
    assert made.processes[1].ready.source == network.SERVER
    assert {one.host for one in made.setup} == {network.SERVER}
    without = planned(dataclasses.replace(EXPERIMENT, rtt=None))
    assert not without.setup
    assert without.processes[0].ready.source == network.client(1)


def test_all_ports_of_the_service_are_delayed() -> None:
    tls = dataclasses.replace(EXPERIMENT, replay=Replay(transport="tls"), tls=Tls(port=8_853))
    for experiment, ports in ((EXPERIMENT, {53}), (tls, {53, 8_853})):
        (rules,) = [one for one in delay.setup(experiment) if one.id == "delay-rules-server"]
        added = [command[-1].rpartition("; ")[2] for command in rules.apply]
        assert {int(one.split("sport ")[1].split()[0]) for one in added} == ports
        assert len(added) == 4 * len(ports)


@pytest.mark.parametrize("front", ["bpf", "reference"])
def test_before_a_front_every_client_has_a_delay_line(front: str) -> None:
    """A front answers handshakes itself, without a route."""
    fronted = dataclasses.replace(
        EXPERIMENT,
        server=Server(zone="/zone", front=front),  # type: ignore[arg-type]
        topology=Topology(clients=2),
    )
    assert [one.host for one in delay.processes(fronted, FACTS)] == ["client1", "client2"]
    steps = {one.id: one for one in delay.setup(fronted)}
    rule = steps["delay-rules-client2"].apply[0][-1].rpartition("; ")[2]
    assert rule == "ip -4 rule add pref 1 iif data ipproto udp sport 53 lookup 53101"
    assert "rule add pref 2 lookup local" in steps["delay-local-client2"].apply[0][-1]
    assert "rule add pref 0 lookup local" in steps["delay-local-client2"].undo[0][-1]


def test_every_resolver_has_a_delay_line() -> None:
    emulated = Hierarchy(resolver=("bind", "unbound"))
    experiment = dataclasses.replace(EXPERIMENT, server=Server(kind="hierarchy"), hierarchy=emulated)
    assert [one.host for one in delay.processes(experiment, FACTS)] == ["server", "server2"]


def test_round_trips_are_taken_of_the_trace_that_is_played() -> None:
    by_source = dataclasses.replace(EXPERIMENT, rtt=Rtt(by="source"), replay=Replay(source_mode="addresses"))
    (step,) = [one for one in planned(by_source).prepare if one.id == "rtts"]
    assert step.argv[:5] == ("/bin/reprise-mutator", "rtts", "/trace", "-o", f"{RESULTS}/rtts.tsv")


def test_a_device_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepriseError, match="cannot be opened: No such file or directory") as caught:
        delay.check_device(str(tmp_path / "tun"))
    assert "modprobe tun" in caught.value.hint


def test_what_proxies_dropped_is_told(tmp_path: Path) -> None:
    for name, overflow, unread in (
        ("delay-server-0", 3, 0),
        ("proxy-meta1-1", 0, 4),
        ("proxy-server-0", 0, 0),
    ):
        packets = {"packets": {"overflow": overflow, "unread": unread}}
        (tmp_path / f"{name}.json").write_text(json.dumps(packets), encoding="ascii")
    (tmp_path / "delay-server2-0.json").write_text('{"packets": {"overflow": 0}}', encoding="ascii")
    proxies = [
        Process(name, "proxy", "h", ())
        for name in ("delay-server", "delay-server2", "proxy-meta1", "proxy-server", "proxy-meta2")
    ]
    assert figures.reasons(delay.figures(proxies), tmp_path) == [
        "delay-server dropped 3 packets: its delay line was full",
        "what delay-server2 dropped could not be read",
        "proxy-meta1 dropped 4 packets that came faster than it could read",
        "what proxy-meta2 dropped could not be read",
    ]
