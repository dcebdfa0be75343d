"""Runs on hosts of which one was booted with systemd: its agent is a service there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs
from cli.hosts import unit
from tests.bed import wait_for
from tests.site_test import EXPERIMENT, begun, run_of, states, summary
from tests.testbed_hosts import GROUPS, Testbed, opened

pytestmark = [pytest.mark.netns, pytest.mark.slow]

HOST = "load2"
EXPOSURE = 5.5  # of 10, as systemd-analyze rates what is left to a service; 9.6 where nothing is denied
SHOWN_OTHERWISE = ("TimeoutStopSec", "SystemCallFilter", "SystemCallErrorNumber")  # as numbers and calls


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Testbed]:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    with opened(tmp_path / "bed", GROUPS, with_systemd=(HOST,)) as made:
        yield made


def units(hosts: Testbed) -> list[str]:
    """Names of the units of runs."""
    listed = hosts.on(HOST, "systemctl list-units --all --plain --no-legend 'reprise-*'")
    return [line.split()[0] for line in listed.splitlines()]


def the_unit(hosts: Testbed) -> str:
    (found,) = units(hosts)
    assert re.fullmatch(r"reprise-site-\d{8}T\d{6}Z-\w{4}\.service", found)
    return found


def properties(hosts: Testbed, name: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in hosts.on(HOST, f"systemctl show {name}").splitlines())


def groups(hosts: Testbed) -> dict[str, str]:
    """Control groups by the command lines of processes."""
    lines = hosts.on(HOST, "ps -ww -eo cgroup:200,args").splitlines()[1:]
    return {words: group for group, words in (line.split(maxsplit=1) for line in lines)}


def nothing_is_left(hosts: Testbed, before: dict[str, str]) -> None:
    assert states(hosts) == before
    assert units(hosts) == []
    assert not [words for words in groups(hosts) if "reprise-" in words and "cgroup:200" not in words]
    assert hosts.on(HOST, "ls -d /tmp/systemd-private-*-reprise-* 2>/dev/null || true") == ""


def test_an_agent_and_its_run_are_one_service(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    length = ("--set", "synth.duration=15")
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory), *length)
    name = the_unit(hosts)
    shown = properties(hosts, name)
    assert shown["ActiveState"] == "active"
    for key, value in unit._PROPERTIES.items():
        if key not in SHOWN_OTHERWISE:
            assert set(shown[key].upper().split()) == set(value.upper().split()), key
    assert f"cli.hosts.changes.repair run={name[8:-8]}" in shown["ExecStopPostEx"]
    own = {
        words: group.rpartition("::")[2]
        for words, group in groups(hosts).items()
        if re.match(r"\S*(reprise-querier|/python -P -m cli\.call cli\.hosts\.agent)", words)
    }
    assert len(own) >= 3
    assert set(own.values()) == {shown["ControlGroup"]} == {f"/system.slice/{name}"}, own
    assert "active (running)" in hosts.on(HOST, f"systemctl status --no-pager {name}")
    rated = hosts.on(HOST, f"systemd-analyze security --no-pager {name}").splitlines()[-1]
    found = re.search(r"exposure level for \S+: ([\d.]+)", rated)
    assert found and float(found[1]) <= EXPOSURE, rated
    assert first.wait(120) == 0, (tmp_path / "log").read_text()
    nothing_is_left(hosts, before)
    local = hosts.run("run", "site.toml", *length, "-o", "near", cwd=tmp_path)
    assert local.returncode == 0, local.stderr
    far, near = (summary(run_of(tmp_path / one)) for one in ("far", "near"))
    for one in (far, near):
        del one["queries"]["send_unsure"]  # calls in which this machine was busy with others
    assert far["queries"] == near["queries"]
    assert far["clean"]


@pytest.mark.parametrize("how", ["kill --signal=KILL --kill-who=main", "stop"])
def test_a_service_that_is_ended_is_a_lost_host_and_repaired(
    hosts: Testbed, tmp_path: Path, how: str
) -> None:
    """At once, and not by the next run."""
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory), "--set", "synth.duration=20")
    hosts.on(HOST, f"systemctl {how} {the_unit(hosts)}")
    wait_for(lambda: units(hosts) == [], "the end of the unit")
    assert "./undo/" not in hosts.state(HOST)
    assert first.wait(120) == 1
    found = summary(run_of(tmp_path / "far"))
    assert not found["clean"]
    assert found["queries"]["lost"] > 0
    assert any(f"{HOST} cannot be reached: its agent ended" in one for one in found["unclean_because"])
    nothing_is_left(hosts, before)


def test_a_service_ends_with_its_operator(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory))
    assert the_unit(hosts)
    first.kill()
    wait_for(lambda: units(hosts) == [], "the end of the unit", 60)
    for name in hosts.names:
        wait_for(lambda name=name: "./undo/" not in hosts.state(name), f"{name} to be as before", 60)  # type: ignore[misc]
        hosts.on(name, "rm -r /var/lib/reprise/runs/*")
    nothing_is_left(hosts, before)


def test_a_service_that_runs_already_is_sampled(hosts: Testbed) -> None:
    """By its name, on the host where it runs."""
    nsd = "nsd -d -a 127.0.0.1 -p 5353 -P /run/own.pid"
    build, python = programs.BUILT, programs.ROOT / ".venv/bin/python"
    hosts.on(HOST, f"systemd-run --quiet --unit=own {nsd}")
    wait_for(lambda: "pid" in hosts.on(HOST, "ss -Hlunp sport = :5353"), "the server listens")
    fire = "fire --server 127.0.0.1:5353 --trace /run/made.pcap --rate 2000 -o /run/results --set {}"
    words = f"cd {programs.ROOT} && {python} -m cli {fire} 2>&1 || true"
    hosts.on(HOST, f"{build}/reprise-mutator synth --queries 4000 --rate 100 -o /run/made.pcap 2>&1")
    assert "none.service has no main process" in hosts.on(HOST, words.format("server.service=none.service"))
    said = hosts.on(HOST, words.format("server.service=own.service"))
    assert re.search(r"^clean +yes", said, re.MULTILINE), said
    _, *cpu = hosts.on(HOST, "cut -d, -f7 /run/results/*/server.csv").splitlines()
    assert float(cpu[-1]) > float(cpu[0])
