"""Plans with faults; what they do is seen by tests/timetable_test.py."""

import dataclasses

import pytest

from cli.errors import UsageError
from cli.experiment.schema import Experiment, Fault, Hierarchy, Server, Topology, World
from cli.plan import faults
from cli.plan.delay_test import planned
from cli.plan.planned import RUN, Management

ONE = Experiment("test", trace="/trace", server=Server(zone="/zone"))
TWO = Experiment(
    "test",
    trace="/trace",
    server=Server(kind="hierarchy"),
    hierarchy=Hierarchy(resolver=("bind", "unbound"), synth=World()),
    topology=Topology(clients=3),
)
LOSS = Fault(at=1, for_=2.5, loss=0.25)
STALL = Fault(at=1, for_=2, target="server", stall=True)
HOSTS = Management(
    ("192.0.2.0/24",),
    interfaces=dict.fromkeys(("server", "server2", "client1", "client2", "client3", "meta1"), "exp0"),
)


def lossy(experiment: Experiment, management: Management | None = None) -> faults.Hosts:
    return faults.lossy(experiment, planned(dataclasses.replace(experiment, fault=())).network, management)


def rulesets(experiment: Experiment, management: Management | None = None) -> dict[str, list[str]]:
    """The rules that jump to a fault's, by host."""
    return {
        one.path.removeprefix(f"{RUN}/faults-").removesuffix(".nft"): [
            line.strip().partition("@")[2] for line in (one.content or "").splitlines() if "jump" in line
        ]
        for one in faults.files(lossy(experiment, management))
    }


def test_packets_are_lost_where_they_come_to() -> None:
    experiment = dataclasses.replace(ONE, fault=(LOSS, dataclasses.replace(LOSS, direction="answers")))
    made = planned(experiment)
    assert {one.id for one in made.setup} == {"faults-server", "faults-client1"}
    assert rulesets(experiment) == {
        "server": [
            "fault1 ip daddr { 198.19.255.53/32 } jump fault1",
            "fault1 ip6 daddr { fd00:198:19:ff::53/128 } jump fault1",
        ],
        "client1": [
            f"fault{number} {word} saddr {{ {address} }} jump fault{number}"
            for number in (1, 2)
            for word, address in (("ip", "198.19.255.53/32"), ("ip6", "fd00:198:19:ff::53/128"))
        ],
    }
    first, second = made.faults
    assert [one.host for one in first.begin] == ["server", "client1"]
    assert [one.host for one in second.begin] == ["client1"]
    (command,) = second.begin[0].apply
    assert command[-2:] == ("fault2", "{ ip timeout 2500ms, ip6 timeout 2500ms }")
    assert (second.end, second.text) == ((), "link: loss 25 % (answers)")


@pytest.mark.parametrize(("loss", "most"), [(0.000_001, 0), (0.25, 249_999), (1, 999_999)])
def test_any_loss_is_in_the_range_of_nftables(loss: float, most: int) -> None:
    (file, *_) = faults.files(lossy(dataclasses.replace(ONE, fault=(dataclasses.replace(LOSS, loss=loss),))))
    assert f"numgen random mod 1000000 <= {most} " in (file.content or "")


@pytest.mark.parametrize(
    ("rate", "window_ms", "quota"), [("10Mb/s", 60, 75_000), ("0.1Mb/s", 240, 3_000), ("0.5Mb/s", 60, 3_750)]
)
def test_little_of_a_rate_comes_at_once(rate: str, window_ms: int, quota: int) -> None:
    limited = Fault(at=1, for_=2, rate=rate)
    (file, *_) = faults.files(lossy(dataclasses.replace(ONE, fault=(limited,))))
    text = file.content or ""
    assert f"set fault1_came {{ type pkt_type; flags dynamic, timeout; timeout {window_ms}ms; }}" in text
    assert f"add @fault1_came {{ meta pkttype quota over {quota} bytes }} goto fault1_lost" in text


def test_only_the_servers_that_are_named_are_concerned() -> None:
    behind = dataclasses.replace(LOSS, target="upstream", servers=(2,))
    experiment = dataclasses.replace(
        TWO, fault=(dataclasses.replace(LOSS, servers=(1,)), behind, dataclasses.replace(STALL, servers=(2,)))
    )
    found = rulesets(experiment)
    assert {host: {one.split()[0] for one in rules} for host, rules in found.items()} == {
        "server": {"fault1"},
        "server2": {"fault2"},
        "client1": {"fault1"},
        "client3": {"fault1"},
        "meta1": {"fault2"},
    }
    assert all('iifname { "resolver2" }' in one for one in found["meta1"])
    stall = faults.of(experiment, lossy(experiment))[2]
    assert [one.apply for one in (*stall.begin, *stall.end)] == [
        (("kill", "-STOP", "--", "-@pid:server2@"),),
        (("kill", "-CONT", "--", "-@pid:server2@"),),
    ]
    with pytest.raises(UsageError, match="fault 2: packets of some resolvers cannot be told from others"):
        lossy(experiment, HOSTS)
    answers = dataclasses.replace(behind, direction="answers")
    (told, *_) = faults.files(lossy(dataclasses.replace(TWO, fault=(answers,)), HOSTS))
    assert "exp0" in (told.content or "")


def test_only_a_server_that_is_to_be_started_again_has_a_shell_above_it() -> None:
    restart = Fault(at=1, target="server", restart=True)
    server = next(one for one in planned(ONE).processes if one.id == "server")
    found = next(
        one for one in planned(dataclasses.replace(ONE, fault=(restart,))).processes if one.id == "server"
    )
    assert found.argv[-len(server.argv) :] == server.argv
    assert found.argv[:2] == ("sh", "-c")
    assert (
        next(one for one in planned(dataclasses.replace(ONE, fault=(STALL,))).processes if one.id == "server")
        == server
    )


def test_a_server_that_cannot_reload_is_refused() -> None:
    reload = (Fault(at=1, target="server", reload=True),)
    server = Server(kind="pdns", zone="/zone")
    with pytest.raises(UsageError, match="fault 1: PowerDNS cannot be told to reload"):
        faults.of(dataclasses.replace(ONE, server=server, fault=reload), {})
