"""Hosts that differ, that fill up, or that go away in the middle: what a run on several hosts makes of it."""

import json
import platform
from pathlib import Path

import pytest

from cli import VERSION, programs
from cli.hosts import changes
from tests.bed import accounted, wait_for
from tests.site_test import EXPERIMENT, begun, run_of, states, summary
from tests.testbed_hosts import OPERATOR, Testbed, opened

pytestmark = pytest.mark.netns


@pytest.fixture
def hosts(hosts: Testbed, tmp_path: Path) -> Testbed:
    """With an experiment beside them."""
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    return hosts


def refused(hosts: Testbed, folder: Path, *words: str) -> str:
    """The last line of a run that is refused before anything is done."""
    argv = ("run", "site.toml", "--inventory", str(hosts.inventory), *words)
    done = hosts.run(*argv, cwd=folder)
    assert done.returncode in (1, 2), done.stderr
    assert not (folder / "results").exists()
    return done.stderr.splitlines()[-1]


def replaced(hosts: Testbed, host: str, path: str, text: str) -> None:
    """A file of the system or of Reprise, on one host only."""
    new = hosts.folder / f"{host}-{Path(path).name}"
    new.write_text(text)
    new.chmod(0o755)
    hosts.on(host, "mount", "--bind", str(new), path)


@pytest.mark.slow
def test_hosts_with_other_versions_are_named(hosts: Testbed, tmp_path: Path) -> None:
    linux, package = programs.ROOT / "cli/linux.py", programs.ROOT / "cli/__init__.py"
    replaced(hosts, "load2", str(linux), linux.read_text() + "\n")
    try:
        other_files = refused(hosts, tmp_path, "--no-deploy")
        replaced(hosts, "load1", str(package), package.read_text().replace(VERSION, "0.0.1"))
        other_version = refused(hosts, tmp_path, "--no-deploy")
    finally:
        for name in ("load1", "load2"):
            hosts.on(name, f"umount {linux} {package} 2> /dev/null; true")
    assert other_files == (
        f"reprise: error: load2 has Reprise {VERSION}, but not with the same files as this machine; "
        "run it without --no-deploy"
    )
    assert other_version.startswith(
        f"reprise: error: load1 has Reprise 0.0.1, and this machine has {VERSION}; install the same version"
    )


FAULTS = """[[fault]]
at = 0.5
for = {seconds}
loss = 0.3
[[fault]]
at = 1
for = {seconds}
target = "server"
stall = true
"""


@pytest.mark.slow
def test_faults_happen_on_hosts_and_nothing_of_them_stays(hosts: Testbed, tmp_path: Path) -> None:
    restart = '[[fault]]\nat = 2.2\nfor = 0.3\ntarget = "server"\nrestart = true\n'
    (tmp_path / "site.toml").write_text(EXPERIMENT + FAULTS.format(seconds=1) + restart)
    before = states(hosts)
    lenient = ("--set", "replay.late_ms=5000", "--set", "replay.max_lateness_s=20")
    words = ("--no-deploy", "--set", "synth.duration=4", *lenient, "-o", "far")
    done = hosts.run("run", "site.toml", "--inventory", str(hosts.inventory), *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    assert found["clean"]
    lossy, stall, again = found["faults"]
    assert lossy["packets"] > 50
    begun_s = [one["at_s"] for one in (lossy, stall, again)]
    assert all(at_s >= planned for at_s, planned in zip(begun_s, (0.5, 1, 2.2), strict=True)), begun_s
    assert begun_s == sorted(begun_s) and begun_s[-1] < 4
    assert found["queries"]["timed_out"] > 50


@pytest.mark.slow
def test_faults_end_with_an_agent_that_is_killed(hosts: Testbed, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT + FAULTS.format(seconds=50))
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory))
    wait_for(lambda: "expires" in hosts.on("dns", "nft list ruleset"), "the fault", 30)
    hosts.kill("dns", "cli.hosts.agent")
    hosts.kill("load1", "cli.hosts.agent")
    assert first.wait(120) == 1
    words = ("run", "site.toml", "--inventory", str(hosts.inventory), "--set", "fault=[]", "-o", "again")
    again = hosts.run(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    for name in ("dns", "load1"):
        hosts.on(name, "rm -rf /var/lib/reprise/runs/*")  # which nobody could fetch
    assert states(hosts) == before


@pytest.mark.slow
def test_hosts_whose_user_is_not_root(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    for name in hosts.names:
        for path, line in (
            ("/etc/passwd", "worker:x:4711:4711::/tmp:/bin/sh"),
            ("/etc/shadow", "worker:*:19000:0:99999:7:::"),
            ("/etc/group", "worker:x:4711:"),
        ):
            replaced(hosts, name, path, Path(path).read_text() + line + "\n")
        replaced(hosts, name, "/etc/sudoers", "root ALL=(ALL) ALL\nworker ALL=(ALL) NOPASSWD: ALL\n")
        hosts.on(name, "chmod", "0440", "/etc/sudoers")
    with hosts.inventory.open("a") as file:
        file.write("ansible_user=worker\nansible_become=true\n")
    argv = ("run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far")
    done = hosts.run(*argv, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summary(run_of(tmp_path / "far"))["queries"]["answered"] > 600
    assert states(hosts) == before


@pytest.mark.slow
def test_a_kernel_that_is_too_old_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    old = ("setarch", platform.machine(), "--uname-2.6")
    groups = {"controller": ["boss"], "clients": ["load"], "servers": ["dns"]}
    one = ("--set", "topology.clients=1")
    with opened(tmp_path / "bed", groups, {"dns": old}) as hosts:
        assert refused(hosts, tmp_path, *one, "--no-deploy").startswith("reprise: error: dns: kernel 2.6.")
        said = refused(hosts, tmp_path, *one)
        assert "dns: Refuse systems that Reprise is not built for: dns runs Debian with kernel 2.6." in said
        assert "kernel 5.10 or later" in said


@pytest.mark.slow
def test_a_host_with_a_full_disk_ends_the_run_in_order(hosts: Testbed, tmp_path: Path) -> None:
    before = states(hosts)
    hosts.on("load1", "mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(changes.STATE))
    argv = ("run", "site.toml", "--set", "synth.rate=2000", "--set", "synth.duration=60", "-o", "far")
    done = hosts.run(*argv, "--inventory", str(hosts.inventory), cwd=tmp_path)
    assert done.returncode == 1
    assert "load1: no space left for results in /var/lib/reprise/runs" in done.stderr, done.stderr
    found = summary(run_of(tmp_path / "far"))
    assert found["queries"]["lost"] == 0
    assert accounted(found["queries"]) == found["queries"]["read"] > 5_000
    hosts.on("load1", "umount", str(changes.STATE))
    assert states(hosts) == before


CUT = f"""#!/bin/sh
# Sends a part of a run's results, and then waits for whoever cuts the link.
case " $* " in
*" send "*) {{ENV}} "$@" | {{{{ head -c 20000; touch {changes.STATE}/cut; sleep 60; }}}} ;;
*) exec {{ENV}} "$@" ;;
esac
"""


@pytest.mark.slow
def test_a_host_that_goes_away_while_results_are_copied(hosts: Testbed, tmp_path: Path) -> None:
    """Its link is cut in the middle; what is left is collected later, and the run is clean then."""
    before = states(hosts)
    real = tmp_path / "env"
    real.write_bytes(Path("/usr/bin/env").read_bytes())
    real.chmod(0o755)
    replaced(hosts, "load2", "/usr/bin/env", CUT.format(ENV=real))
    log = tmp_path / "log"
    length = ("--set", "synth.duration=5")
    argv = ("run", "site.toml", "--inventory", str(hosts.inventory), *length, "-o", "results")
    started = hosts.start(*argv, cwd=tmp_path, log=log)
    cut = hosts.folder / "state/load2/cut"
    wait_for(lambda: cut.exists() or started.has_ended(), "results to be copied", 120)
    assert not started.has_ended(), log.read_text()
    link = f"to{hosts.names.index('load2') + 1}"
    hosts.bed.ip(OPERATOR, "link", "set", link, "down")
    assert started.wait(120) == 1
    said = log.read_text()
    assert "reprise: results of load2 were not collected: load2 cannot be reached: " in said
    assert "playbooks/collect.yml does it later" in said
    folder = run_of(tmp_path / "results")
    assert not summary(folder)["clean"]
    hosts.bed.ip(OPERATOR, "link", "set", link, "up")
    hosts.on("load2", "umount", "--lazy", "/usr/bin/env")  # its shell may still wait
    book = str(programs.ROOT / "playbooks/collect.yml")
    done = hosts.run_python("ansible", "playbook", book, "-i", str(hosts.inventory), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = summary(folder)
    assert found["clean"], found["unclean_because"]
    assert found["queries"]["answered"] == found["queries"]["read"] > 600
    assert json.loads((folder / "manifest.json").read_text())["uncollected"] == {}
    cut.unlink()
    assert states(hosts) == before


@pytest.mark.slow
def test_a_server_that_dies_is_told_by_the_playbooks_after_they_have_torn_down(
    hosts: Testbed, tmp_path: Path
) -> None:
    before = states(hosts)
    log = tmp_path / "log"
    book = str(programs.ROOT / "playbooks/site.yml")
    words = (
        book,
        "-i",
        str(hosts.inventory),
        "-e",
        "experiment=site.toml",
        "-e",
        "reprise_set=synth.duration=60",
    )
    started = hosts.start_python("ansible", "playbook", *words, cwd=tmp_path, log=log)
    records = hosts.folder / "state/load1/runs"
    wait_for(
        lambda: (
            any(one.stat().st_size > 10_000 for one in records.glob("*/queries-*.rq*")) or started.has_ended()
        ),
        "records",
        120,
    )
    assert not started.has_ended(), log.read_text()
    hosts.kill("dns", "nsd.conf")
    assert started.wait(120) != 0
    assert "the run failed or was not clean, see above" in log.read_text()
    found = summary(run_of(tmp_path / "results"))
    assert any("the server died: " in one for one in found["unclean_because"])
    assert accounted(found["queries"]) == found["queries"]["read"]
    assert states(hosts) == before


@pytest.mark.slow
def test_all_hosts_that_lose_the_operator_are_as_before(hosts: Testbed, tmp_path: Path) -> None:
    """The operator's connections are cut, but nothing is killed."""
    before = states(hosts)
    first = begun(hosts, tmp_path, "--inventory", str(hosts.inventory))
    for number in range(1, len(hosts.names) + 1):
        hosts.bed.ip(OPERATOR, "link", "set", f"to{number}", "down")
    assert first.wait(180) == 1
    for number in range(1, len(hosts.names) + 1):
        hosts.bed.ip(OPERATOR, "link", "set", f"to{number}", "up")
    for name in hosts.names:
        wait_for(lambda name=name: "./undo/" not in hosts.state(name), f"{name} to be as before", 120)  # type: ignore[misc]
        hosts.on(name, "rm", "-rf", f"{changes.STATE}/runs")
        hosts.on(name, "mkdir", "-p", f"{changes.STATE}/runs")
    assert states(hosts) == before
    assert "cannot be reached" in (tmp_path / "log").read_text()
