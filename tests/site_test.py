"""Runs on several hosts: the experiment that a local run carries out, by an inventory."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment import experiment as experiments
from cli.hosts import inventory
from cli.process import Process
from tests.bed import ZONE, synth, wait_for
from tests.slow import slow
from tests.testbed_hosts import Testbed

pytestmark = pytest.mark.netns

EXPERIMENT = """schema = 1
name = "site"
[synth]
rate = 400
duration = 2
clients = 200
[server]
kind = "nsd"
[server.root_like]
seed = 1
[topology]
clients = 2
queriers = 1
[replay]
source_mode = "ports"
late_ms = 1000
"""


def run_of(parent: Path) -> Path:
    (found,) = parent.iterdir()
    return found


def summary(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return value


@pytest.fixture
def hosts(hosts: Testbed, tmp_path: Path) -> Testbed:
    """With an experiment beside them."""
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    return hosts


def states(hosts: Testbed) -> dict[str, str]:
    return {name: hosts.state(name) for name in hosts.names}


def begun(hosts: Testbed, folder: Path, *words: str) -> Process:
    """A run in the middle of its replay."""
    log = folder / "log"
    started = hosts.start(
        "run", "site.toml", "--set", "synth.duration=60", "-o", "far", *words, cwd=folder, log=log
    )
    wait_for(lambda: " answered " in started.text() or started.has_ended(), "answers", 240)
    assert not started.has_ended(), log.read_text()
    return started


@pytest.mark.slow
def test_a_series_runs_on_hosts(hosts: Testbed, tmp_path: Path) -> None:
    """They are prepared once for what all variants want of them."""
    (tmp_path / "site.toml").write_text(EXPERIMENT + "[repeat]\nn = 1\n[sweep]\nreplay.speed = [1, 2]\n")
    before, lenient = states(hosts), ("--set", "replay.late_ms=5000", "--set", "replay.max_lateness_s=20")
    done = hosts.run("run", "site.toml", "--inventory", str(hosts.inventory), *lenient, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert states(hosts) == before
    assert "speed 2 against speed 1:" in done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    runs = [summary(one) for one in folder.iterdir() if (one / "summary.json").is_file()]
    assert [one["clean"] for one in runs] == [True, True]


def test_a_run_on_hosts_equals_the_local_one_and_leaves_nothing(hosts: Testbed, tmp_path: Path) -> None:
    """Of a trace and a zone that are only here."""
    synth(tmp_path / "t.pcap", "--queries", "800", "--rate", "400")
    (tmp_path / "zone").write_text(ZONE)
    (tmp_path / "site.toml").write_text(
        'trace = "t.pcap"\n' + EXPERIMENT.replace("[server.root_like]\nseed = 1\n", 'zone = "zone"\n')
    )
    before = states(hosts)
    done = hosts.run("run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert states(hosts) == before
    assert re.search(r"^reprise: \d+ s of replay, about [\d.]+ MB of results \(", done.stderr, re.MULTILINE)
    local = hosts.run("run", "site.toml", "-o", "near", cwd=tmp_path)
    assert local.returncode == 0, local.stderr
    far, near = (summary(run_of(tmp_path / name)) for name in ("far", "near"))
    assert far["clean"]
    for one in (far, near):
        del one["queries"]["send_unsure"]  # calls in which this machine was busy with others
    assert far["queries"] == near["queries"]
    assert far["queries"]["answered"] == far["queries"]["read"] > 600
    manifest = json.loads((run_of(tmp_path / "far") / "manifest.json").read_text())
    assert manifest["experiment"]["trace"] == str(tmp_path / "t.pcap")
    assert {one["machine"]: one["hosts"] for one in manifest["hosts"]} == {
        "boss": ["controller"], "load1": ["client1"], "load2": ["client2"], "dns": ["server"],
    }  # fmt: skip
    rows = {one["host"]: one for one in far["hosts"]}
    assert [one["machine"] for one in rows.values()] == ["boss", "load1", "load2", "dns"]
    assert all(one["kernel"] == os.uname().release and one["steal_s"] is not None for one in rows.values())
    sent = [rows[name]["queries"] for name in ("client1", "client2")]
    assert sum(one["sent"] for one in sent) == far["queries"]["sent"]
    assert {one["lost"] for one in sent} == {0}


@pytest.mark.slow
def test_a_second_run_is_refused_and_an_interrupted_one_leaves_nothing(
    hosts: Testbed, tmp_path: Path
) -> None:
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory))
    for key in ("client1.key", "ca.key"):  # a host has its own key, and nobody the authority's
        assert "No such file" in hosts.on("dns", f"ls /run/reprise/*/tls/{key} 2>&1; true")
    other = "setpriv --reuid daemon --regid daemon --clear-groups"  # who must not see or stop anything
    for name in ("boss", "load1", "dns"):
        own = ("/run/reprise/site-*/server",) if name == "dns" else ()
        for place in ("/var/lib/reprise", "/run/reprise/locks", *own):
            assert "Permission denied" in hosts.on(name, f"ls -d {place}; {other} ls {place}/ 2>&1; true")
    words = ("run", "site.toml", "--no-deploy", "--inventory", str(hosts.inventory))
    second = hosts.run(*words, cwd=tmp_path)  # while the first one replays
    assert second.returncode == 1
    assert re.search(r"error: boss: in use by run site-\S+; wait for it to finish", second.stderr)
    first.send(signal.SIGINT)
    assert first.wait(60) == 1
    assert "the run was interrupted; results up to here are kept" in (tmp_path / "log").read_text()
    assert states(hosts) == before
    assert not summary(run_of(tmp_path / "far"))["clean"]


@pytest.mark.slow
def test_a_client_that_is_lost_makes_the_run_unclean_and_is_repaired(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory), "--set", "synth.duration=15")
    hosts.kill("load2", "cli.hosts.agent")  # with all that it has started
    assert first.wait(90) == 1
    found = summary(run_of(tmp_path / "far"))
    assert not found["clean"]
    assert found["queries"]["lost"] > 0
    assert any("load2 cannot be reached" in reason for reason in found["unclean_because"])
    assert "the guard of client2 could not be read" in found["unclean_because"]
    again = hosts.run("run", "site.toml", "--inventory", str(hosts.inventory), "-o", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "reprise: load2: cleaned up after run site-" in again.stderr
    hosts.on("load2", "rm -rf /var/lib/reprise/runs/*")  # what nobody could fetch
    assert states(hosts) == before


@pytest.mark.slow
def test_an_operator_who_is_gone_leaves_nothing_on_the_hosts(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory))
    first.kill()
    for name in hosts.names:
        wait_for(lambda name=name: "./undo/" not in hosts.state(name), f"{name} to be as before", 60)  # type: ignore[misc]
        hosts.on(name, "rm -r /var/lib/reprise/runs/*")
    assert states(hosts) == before


def test_a_host_that_refuses_ssh_is_named(hosts: Testbed, tmp_path: Path) -> None:
    text = hosts.inventory.read_text()
    (tmp_path / "hosts.ini").write_text(text.replace("load2 reprise", "load2 ansible_port=1 reprise"))
    words = ("run", "site.toml", "--inventory", "hosts.ini")
    done = hosts.run(*words, cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.search(r"the hosts could not be prepared: load2: .*reached over ssh", last)
    done = hosts.run(*words, "--no-deploy", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("reprise: error: load2 cannot be reached: ssh: connect to host")
    assert "Connection refused; try it by hand: ssh " in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_server_that_already_runs_on_a_servers_host_is_named(hosts: Testbed, tmp_path: Path) -> None:
    """A client's host may have one, and so may a server's for itself."""
    words = ("run", "site.toml", "--inventory", str(hosts.inventory), "--no-deploy")
    with contextlib.ExitStack() as opened_sockets:
        for name, address in (("dns", "::"), ("dns", "127.0.0.1"), ("load1", "0.0.0.0")):
            with hosts.bed.inside(name):
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                one = opened_sockets.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind((address, 53))
        done = hosts.run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(r"error: dns: port 53 or 853 is in use by \S+; stop it there", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[controller]\na\n[clients]\nb\n[servers]\nc\n",
            "needs 2 hosts in group clients, but the inventory has 1",
        ),
        ("[controller]\na\n[clients]\nb\nc\n", "needs 1 hosts in group servers, but the inventory has 0"),
        ("[controller]\na\n[clients]\nb\nc\n[servers]\nc\n", "c: assigned two roles in the experiment"),
        (
            "[controller]\na\n[querier]\nb\n",
            "unknown group querier, whose hosts are in none of the known groups",
        ),
        ("[controller\n", "cannot be read"),
    ],
)
def test_an_inventory_that_does_not_fit_is_a_usage_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    (tmp_path / "hosts").write_text(text)
    experiment = experiments.load(tmp_path / "site.toml", [])
    with pytest.raises(UsageError, match=message):
        inventory.place(experiment, inventory.read(tmp_path / "hosts"))


@pytest.fixture
def running(hosts: Testbed, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a server on a host that is none of the experiment's: its own one of IPv6, and one as
    if it were public, with the way to it.
    """
    addresses = ("198.41.0.4", "fd10:1::4")
    hosts.on("dns", "ip", "addr", "add", f"{addresses[0]}/32", "dev", "exp0")
    for name in ("boss", "load1", "load2"):
        hosts.on(name, "ip", "route", "add", addresses[0], "via", "172.16.1.4")
    listen = "".join(f"  ip-address: {one}\n" for one in addresses)
    (tmp_path / "served").write_text(ZONE)
    files = "".join(
        f'  {key}: "{tmp_path}/nsd.{key}"\n' for key in ("pidfile", "xfrdfile", "zonelistfile", "logfile")
    )
    (tmp_path / "nsd.conf").write_text(
        f'server:\n{listen}{files}  username: ""\n  zonesdir: "{tmp_path}"\n  database: ""\n'
        "  rrl-ratelimit: 0\n"
        "remote-control:\n  control-enable: no\n"
        "zone:\n  name: .\n  zonefile: served\n"
    )
    with hosts.bed.inside("dns"):
        server = subprocess.Popen([programs.packaged("nsd"), "-d", "-c", tmp_path / "nsd.conf"])
    yield addresses
    for name in ("boss", "load1", "load2"):
        hosts.on(name, "ip", "route", "del", addresses[0])
    hosts.on("dns", "ip", "addr", "del", f"{addresses[0]}/32", "dev", "exp0")
    server.terminate()
    server.wait(10)


@pytest.mark.slow
def test_a_running_server_is_asked_from_hosts(
    hosts: Testbed, running: tuple[str, str], tmp_path: Path
) -> None:
    """And nothing else is: the guard lets queries to it pass, and no others."""
    synth(tmp_path / "t.pcap", "--queries", "800", "--rate", "400")
    text = EXPERIMENT.replace("[server.root_like]\nseed = 1\n", f"addresses = {list(running)}\n")
    (tmp_path / "site.toml").write_text('trace = "t.pcap"\n' + text.replace('"nsd"', '"address"'))
    before = states(hosts)
    words = ("run", "site.toml", "--inventory", str(hosts.inventory), "--no-deploy", "-o", "far")
    done = hosts.run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"reprise: error: server address {running[0]} is public; ask who runs")
    allowed = ("--set", "server.allow_public=true")
    done = hosts.run(*words, *allowed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    assert found["clean"]
    assert found["queries"]["answered"] == found["queries"]["read"] > 600
    guard = json.loads((run_of(tmp_path / "far") / "guard-client1.json").read_text())
    counters = [one["counter"] for one in guard["nftables"] if "counter" in one]
    refused = [one for one in counters if not one["name"].startswith(("strangers", "groups"))]
    assert {one["packets"] for one in refused} == {0}
    done = hosts.run("run", "site.toml", "-o", "near", *allowed, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"reprise: error: server address {running[0]} is not on this machine; use hosts"
    )


def playbook(hosts: Testbed, name: str, folder: Path, *words: str) -> str:
    """What ansible-playbook says on the operator's host; it has to succeed."""
    argv = [
        str(programs.ROOT / f"playbooks/{name}.yml"),
        "-i",
        str(hosts.inventory),
        "-e",
        "experiment=site.toml",
    ]
    done = hosts.run_python("ansible", "playbook", *argv, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def changed(recap: str) -> dict[str, int]:
    """Changes by host, as ansible-playbook counts them."""
    return {
        name: int(count)
        for name, count in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", recap, re.MULTILINE)
    }


@pytest.mark.slow
def test_playbooks_alone_deploy_replay_collect_and_tear_down(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    said = playbook(hosts, "site", tmp_path)
    assert re.search(r"\bclean +yes\b", said)
    assert "the clock of load1 is not synchronized" in said or "synchronized" not in said
    assert summary(run_of(tmp_path / "results"))["queries"]["answered"] > 600
    assert states(hosts) == before


@pytest.mark.slow
def test_playbooks_deploy_once_and_collect_what_was_left(hosts: Testbed, tmp_path: Path) -> None:
    playbook(hosts, "deploy", tmp_path)
    before = states(hosts)
    assert set(changed(playbook(hosts, "deploy", tmp_path)).values()) == {0}
    run = "site-left-20260101T000000Z-0000"
    left = f"/var/lib/reprise/runs/{run}"  # as of a run whose operator could not copy it
    hosts.on(
        "load2", f"mkdir -p {left}/logs; echo x > {left}/queries-client2-0.rq; echo y > {left}/logs/a.log"
    )
    playbook(hosts, "collect", tmp_path)
    assert (tmp_path / f"results/{run}.partial/logs/a.log").read_text() == "y\n"
    assert states(hosts) == before


@pytest.mark.parametrize(
    "argv",
    [
        slow(["ansible-lint", "--offline", "--profile", "production", "-q"]),
        ["yamllint", "--strict", "."],
    ],
    ids=lambda argv: argv[0],
)
def test_playbooks_are_lint_free(argv: list[str]) -> None:
    places = {"PATH": f"{programs.ROOT}/.venv/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        argv, cwd=programs.ROOT / "playbooks", env=places, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
