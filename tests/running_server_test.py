"""A server that runs already and whose process is known: what it uses is sampled beside the replay."""

import csv
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.experiment.schema import Server
from cli.plan import network
from cli.process import Process
from cli.servers import nsd, running
from cli.servers.kind import Site
from report.run import Run
from tests.bed import ZONE, BareBed
from tests.desk import QUERIES, SLOWLY, run, started

pytestmark = pytest.mark.netns
ADDRESSES = ("127.0.0.1", "::1")
EXPERIMENT = """schema = 1
name = "watched"
trace = "trace.pcap"
[server]
kind = "address"
addresses = ["127.0.0.1", "::1"]
port = {port}
[replay]
timeout_s = 1
late_ms = 1000
max_lateness_s = 20
[topology]
queriers = 1
[sample]
hz = 10
"""


@dataclass(frozen=True)
class Served:
    """A folder with an experiment, and the NSD that it asks."""

    folder: Path
    server: Process


@pytest.fixture
def served(desk: Path) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind((ADDRESSES[0], 0))
        port = free.getsockname()[1]
    (desk / "watched.toml").write_text(EXPERIMENT.format(port=port), encoding="ascii")
    (desk / "nsd.zone").write_text(ZONE, encoding="ascii")
    site = Site(str(desk), ((".", str(desk / "nsd.zone")),), ADDRESSES, "", 1_024)
    config = desk / "nsd.conf"
    config.write_text(nsd.config(Server(port=port, processes=2), site), encoding="ascii")
    with BareBed(desk, network.Network("host")) as bed:
        yield Served(desk, bed.start_nsd("", config))


def test_a_running_server_is_sampled(served: Served) -> None:
    pid = served.server.pid
    much = ("replay.transport=tcp", "replay.rate=2000", "replay.loop=10")
    ended = run(served.folder, f"server.pid={pid}", *much, experiment="watched.toml")
    summary = ended.summary()
    assert summary["clean"], ended.errors
    assert summary["queries"]["answered"] == 10 * QUERIES
    assert 0.02 < summary["cpu_s"]["server"] < 5 and summary["peak_rss_bytes"]["server"] > 1e6
    (folder,) = ended.results
    with (folder / "server.csv").open(encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["pid_count"]) for row in rows} == {4}  # NSD, its xfrd and two that serve
    assert Run(folder).conditions["server"]["processes"] == 4
    most = max(int(row["tcp_established"]) for row in rows)
    assert 0 < most <= summary["connections"]["peak_open"]  # the clients' ends are no connections of its


def test_a_server_that_ends_meanwhile_is_told(served: Served) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        watched = ("--set", f"server.pid={other.pid}")
        with started(served.folder, "run", "watched.toml", *watched, *SLOWLY) as command:
            command.reaches("replaying")
            other.kill()
            ended = command.end()
    assert "the server's process ended during the run" in ended.line()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (f"server.pid={1 << 22}", f"there is no process {1 << 22}; set server.pid to "),
        ("server.service=none.service", "none.service has no main process: "
         if running._BOOTED.is_dir() else "server.service needs systemd, which does not run here; "),
    ],
)  # fmt: skip
def test_a_process_that_is_not_there_is_told(served: Served, setting: str, words: str) -> None:
    assert words in run(served.folder, setting, experiment="watched.toml").line()
