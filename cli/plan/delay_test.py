"""Plans with delay lines; what they do is seen by tests/delay_test.py."""

import dataclasses
import json
from pathlib import Path
from typing import Literal

import pytest

from cli.errors import RepriseError
from cli.executor import outcome
from cli.experiment.schema import Experiment, Hierarchy, Replay, Rtt, Server
from cli.plan import delay, plan
from cli.plan.planned import Plan, Process
from tests.facts import FACTS

EXPERIMENT = Experiment("test", trace="/trace", server=Server(zone="/zone"), rtt=Rtt(rtt_ms=20))


def planned(experiment: Experiment) -> Plan:
    return plan.make(experiment, FACTS)


def test_every_resolver_has_a_delay_line() -> None:
    emulated = Hierarchy(resolver=("bind", "unbound"))
    experiment = dataclasses.replace(EXPERIMENT, server=Server(kind="hierarchy"), hierarchy=emulated)
    assert [one.host for one in delay.processes(experiment, FACTS)] == ["server", "server2"]


def test_a_device_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepriseError, match="cannot be opened: No such file or directory") as caught:
        delay.check_device(str(tmp_path / "tun"))
    assert "modprobe tun" in caught.value.hint


def test_what_proxies_dropped_is_told(tmp_path: Path) -> None:
    for name, overflow, unread, refused in (
        ("delay-server-0", 3, 0, 5),
        ("proxy-meta1-1", 0, 4, 0),
        ("proxy-server-0", 0, 0, 0),
    ):
        packets = {"packets": {"overflow": overflow, "unread": unread, "refused": refused}}
        (tmp_path / f"{name}.json").write_text(json.dumps(packets), encoding="ascii")
    (tmp_path / "delay-server2-0.json").write_text('{"packets": {"overflow": 0}}', encoding="ascii")
    proxies = [
        Process(name, "proxy", "h", ())
        for name in ("delay-server", "delay-server2", "proxy-meta1", "proxy-server", "proxy-meta2")
    ]
    assert outcome.read(delay.figures(proxies), tmp_path)[0] == [
        "delay-server dropped 3 packets: its delay line was full",
        "delay-server lost 5 packets that the kernel did not take back",
        "what delay-server2 dropped could not be read",
        "proxy-meta1 dropped 4 packets that came faster than it could read",
        "what proxy-meta2 dropped could not be read",
    ]


def test_options_keep_all_digits() -> None:
    asked = Rtt(rtt_ms=1_234.567_8, jitter_ms=0.1, loss_percent=12.345_678)
    assert delay.options(asked) == (
        "--rtt-ms",
        "1234.5678",
        "--jitter-ms",
        "0.1",
        "--loss-percent",
        "12.345678",
    )


@pytest.mark.parametrize(
    ("rtt", "mode", "told"),
    [
        (Rtt(distribution="normal:20,5"), "ports", True),
        (Rtt(distribution="normal:20,5"), "mapped", False),
        (Rtt(rtt_ms=20), "ports", False),
    ],
)
def test_a_distribution_over_one_address_is_said(
    rtt: Rtt, mode: Literal["ports", "mapped"], told: bool
) -> None:
    found = planned(dataclasses.replace(EXPERIMENT, rtt=rtt, replay=Replay(source_mode=mode))).warnings
    assert [one.partition(" draws")[0] for one in found] == (["[rtt]"] if told else [])
