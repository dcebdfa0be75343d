"""Fronts on the hosts of an inventory: all clients come in by the server's one interface, and the host is
left as it was.
"""

import json
from pathlib import Path

import pytest

from bench.veth import SEND_CHECKSUMS, has_offload
from cli import programs
from tests.site_test import EXPERIMENT, begun, run_of, states, summary
from tests.testbed_hosts import GROUPS, Testbed, opened

pytestmark = [pytest.mark.netns, pytest.mark.slow]


@pytest.mark.parametrize("front", ["bpf", "reference"])
@pytest.mark.parametrize("with_systemd", [(), ("dns",)], ids=["plain", "systemd"])
def test_a_front_on_a_host_serves_all_clients_and_leaves_nothing(
    tmp_path: Path, front: str, with_systemd: tuple[str, ...]
) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    settings = (f"server.front={front}", "replay.transport=stateless-tcp", "synth.duration=3")
    words = [word for one in settings for word in ("--set", one)]
    with opened(tmp_path / "bed", GROUPS, with_systemd=with_systemd) as hosts:
        before = states(hosts)
        done = hosts.run(
            "run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far", *words, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    assert found["clean"]
    assert found["queries"]["answered"] == found["queries"]["read"] == found["front"]["queries"] > 500
    assert found["transport"]["stateless-tcp"] == found["connections"]["opened"]
    told = json.loads((run_of(tmp_path / "far") / "front.json").read_text(encoding="utf-8"))
    assert (told["front"], told["interface"]) == (front, "exp0")
    assert found["cpu_s"]["front"] is not None


def test_dnsdist_stands_before_the_server_of_an_inventory(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    with opened(tmp_path / "bed", GROUPS) as hosts:
        before = states(hosts)
        words = (
            "--set",
            "server.front=dnsdist",
            "--set",
            "replay.transport=tls",
            "--set",
            "synth.duration=3",
        )
        done = hosts.run(
            "run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far", *words, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    queries = found["queries"]
    assert found["clean"] and queries["answered"] == queries["read"] > 500
    assert found["server_counts"]["tcp_queries"] == queries["sent"]
    assert found["cpu_s"]["front"] > 0 and found["cpu_s"]["server"] > 0


def state(hosts: Testbed) -> tuple[dict[str, str], bool]:
    """Of all hosts, and whether the server's interface computes checksums."""
    return states(hosts), has_offload(hosts.bed.hosts.of("dns"), "exp0", SEND_CHECKSUMS)


@pytest.mark.parametrize("front", ["bpf", "reference"])
def test_a_front_that_is_killed_leaves_nothing_on_its_host(tmp_path: Path, front: str) -> None:
    """The kernel's TCP serves the next run, and no program of the killed front does."""
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    transport = ("--set", "replay.transport=stateless-tcp")
    with opened(tmp_path / "bed", GROUPS) as hosts:
        before = state(hosts)
        where = ("--inventory", str(hosts.inventory), "--no-deploy")
        running = begun(hosts, tmp_path, *where, *transport, "--set", f"server.front={front}")
        hosts.kill("dns", "stateless")
        assert running.wait(120) == 1
        assert "front died during the run" in (tmp_path / "log").read_text()
        assert state(hosts) == before
        words = ("--set", "synth.duration=2", "-o", "next")
        done = hosts.run("run", "site.toml", *where, *transport, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert summary(run_of(tmp_path / "next"))["clean"]


def test_a_run_and_the_teardown_refuse_what_others_left_on_the_servers_interface(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    with opened(tmp_path / "bed", GROUPS) as hosts:
        words = ("run", "site.toml", "--inventory", str(hosts.inventory), "--no-deploy")
        argv = [programs.own("reprise-proxy"), "stateless", "--front", "bpf", "--interface", "exp0"]
        hosts.bed.start("dns", argv, "front").until("event=ready").kill()
        done = hosts.run(*words, cwd=tmp_path)
        assert done.returncode == 1
        line = f"exp0 has programs of a front; remove it: {' '.join(argv)} --undo"
        assert done.stderr.splitlines()[-1] == f"reprise: error: dns: {line}"
        python = f"PYTHONPATH={programs.ROOT} {programs.ROOT}/.venv/bin/python -P -m cli.call"
        told = hosts.on("dns", f"{python} cli.hosts.changes.tear_down 2>&1; true")
        assert told.strip() == f"reprise: error: {line}"
        hosts.on("dns", *argv, "--undo")
        hosts.on("dns", "ip", "rule", "add", "pref", "100", "iif", "exp0", "blackhole")
        done = hosts.run(*words, cwd=tmp_path)
        assert done.stderr.splitlines()[-1] == (
            "reprise: error: dns: a routing rule, preference 100, is for exp0; "
            "remove it: ip -4 rule del pref 100"
        )
