"""What a run on several hosts has to carry: as many queries as the machine can, round trips, hierarchies with
several meta-DNS-servers, a root server's real minute by the playbooks.
"""

from pathlib import Path

import pytest

from cli import programs
from tests.bed import accounted
from tests.site_test import EXPERIMENT, run_of, states, summary
from tests.testbed_hosts import opened

pytestmark = [pytest.mark.netns, pytest.mark.slow]

EXPERIMENTS = programs.ROOT / "experiments"
FOUR = {"controller": ["boss"], "clients": ["load1", "load2", "load3", "load4"], "servers": ["dns"]}


def test_four_clients_as_fast_as_they_can_lose_count_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    load = ("synth.rate=20000", "synth.duration=20", "topology.clients=4")
    settings = (*load, "replay.fast=true", "replay.in_flight=64")  # more would only be lost at the server
    words = [word for one in settings for word in ("--set", one)]
    with opened(tmp_path / "bed", FOUR) as hosts:
        done = hosts.run(
            "run", "site.toml", *words, "--inventory", str(hosts.inventory), "-o", "far", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    found = summary(run_of(tmp_path / "far"))
    queries = found["queries"]
    assert queries["read"] > 350_000
    assert accounted(queries) == queries["read"]
    assert queries["lost"] == queries["skipped"] == queries["send_failed"] == 0
    assert queries["answered"] > 0.99 * queries["read"]
    assert len(list(run_of(tmp_path / "far").glob("queries-client*.rq"))) == 4


def test_round_trips_across_hosts(tmp_path: Path) -> None:
    """The delay line is on the server's host."""
    (tmp_path / "site.toml").write_text(EXPERIMENT + "[rtt]\nrtt_ms = 40\n")
    groups = {"controller": ["boss"], "clients": ["load1", "load2"], "servers": ["dns"]}
    with opened(tmp_path / "bed", groups) as hosts:
        before = states(hosts)
        done = hosts.run("run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    assert found["queries"]["answered"] == found["queries"]["read"] > 600
    assert 40_000 <= found["latency_us"]["median"] < 50_000


def test_a_hierarchy_with_two_meta_dns_servers_across_hosts(tmp_path: Path) -> None:
    groups = {"controller": ["boss"], "clients": ["load1"], "servers": ["res"], "metas": ["meta1", "meta2"]}
    settings = ("hierarchy.instances=2", "hierarchy.synth.zones=60", "synth.duration=15")
    words = [word for one in settings for word in ("--set", one)]
    with opened(tmp_path / "bed", groups) as hosts:
        before = states(hosts)
        argv = ("run", str(EXPERIMENTS / "hierarchy.toml"), *words)
        done = hosts.run(*argv, "--inventory", str(hosts.inventory), "-o", "far", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    assert found["clean"]
    assert found["queries"]["answered"] == found["queries"]["read"] > 50


def test_the_real_minute_all_over_tcp_by_the_playbooks(tmp_path: Path, real: tuple[Path, Path]) -> None:
    trace, zone = real
    groups = {"controller": ["boss"], "clients": ["load1", "load2"], "servers": ["dns"]}
    settings = f'["topology.clients=2", "trace={trace}", "server.zone={zone}"]'
    words = ("-e", f"experiment={EXPERIMENTS}/all-tcp.toml", "-e", f'{{"reprise_set": {settings}}}')
    with opened(tmp_path / "bed", groups) as hosts:
        before = states(hosts)
        book = str(programs.ROOT / "playbooks/site.yml")
        argv = ("ansible", "playbook", book, "-i", str(hosts.inventory), *words)
        done = hosts.run_python(*argv, cwd=tmp_path, limit_s=300)
        assert done.returncode == 0, done.stderr
        assert states(hosts) == before
    found = summary(run_of(tmp_path / "results"))
    assert found["clean"]
    assert accounted(found["queries"]) == found["queries"]["read"] == 10_432
