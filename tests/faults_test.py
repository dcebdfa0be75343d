"""What users do wrong and what breaks under them, through the whole command with the real programs.

Each fault must end within its bound with one line `reprise: error: WHAT; HINT`, status 1 or 2, no traceback,
no process left, and no results folder that looks whole without being so.
"""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.plan import network
from tests import command
from tests.bed import BareBed, synth, wait_for
from tests.desk import LIMIT_S, QUERIES, reprise, run, started

AT_ADDRESS = """schema = 1
name = "fault"
trace = "trace.pcap"
[server]
kind = "address"
addresses = ["127.0.0.1"]
port = {port}
"""


# --- bad traces -------------------------------------------------------------------------------------------


@pytest.mark.netns
def test_a_cut_capture_replays_what_is_good_and_says_so(desk: Path) -> None:
    whole = (desk / "trace.pcap").read_bytes()
    (desk / "cut.pcap").write_bytes(whole[: len(whole) * 3 // 4 + 1])
    ended = run(desk, "trace=cut.pcap")
    assert "the trace is cut or corrupt after" in ended.line()
    assert "what came before is replayed and counted" in ended.line()
    queries = ended.summary()["queries"]
    assert QUERIES / 2 < queries["answered"] == queries["read"] < QUERIES


@pytest.mark.netns
def test_noise_in_the_middle_replays_what_came_before(desk: Path) -> None:
    data = bytearray((desk / "trace.pcap").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2_000] = b"\xa5" * 2_000
    (desk / "noise.pcap").write_bytes(data)
    ended = run(desk, "trace=noise.pcap")
    assert ended.line()
    assert 0 < ended.summary()["queries"]["answered"] < QUERIES


# --- bad zones, servers and settings ----------------------------------------------------------------------


@pytest.mark.netns
def test_a_zone_for_another_origin_names_its_line(desk: Path) -> None:
    ended = run(desk, "server.origin=example.org.")
    assert "checking the zone failed" in ended.line()
    assert all(folder.name.endswith(".partial") for folder in ended.results)


def test_programs_that_are_not_built_are_named(desk: Path) -> None:
    ended = reprise(desk, "run", "good.toml", environment={"REPRISE_PROGRAMS": str(desk)})
    assert "is not built" in ended.line()


@pytest.fixture
def own_server(desk: Path) -> Iterator[Path]:
    """An experiment against a server of the user's own, which refuses every query."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (desk / "address.toml").write_text(AT_ADDRESS.format(port=port), encoding="ascii")
    with BareBed(desk, network.Network("host")) as bed:
        bed.start_dns_server("", f"127.0.0.1:{port}", "refuse")
        yield desk


@pytest.mark.netns
def test_a_control_port_in_use_is_named(own_server: Path) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", 18053))
        except OSError as error:
            assert error.errno == errno.EADDRINUSE  # somebody else takes it, which serves as well
        else:
            other.listen()
        ended = run(own_server, experiment="address.toml")
    assert "listen on 127.0.0.1:18053 (is the port in use? choose another)" in ended.line()


@pytest.mark.netns
def test_ipv6_queries_have_nowhere_to_go_on_a_server_without_ipv6(own_server: Path) -> None:
    synth(own_server / "six.pcap", "--queries", "20", "--rate", "200", "--ipv6-share", "1")
    ended = run(own_server, "trace=six.pcap", experiment="address.toml")
    assert "six.pcap" in ended.line()
    assert not ended.results


# --- the server and our own processes in trouble ----------------------------------------------------------


@pytest.mark.netns
def test_a_server_that_stops_answering_costs_timeouts_and_is_told(desk: Path) -> None:
    with started(desk, "run", "good.toml") as running:
        running.reaches("starting distributor")
        servers = running.offspring("/nsd -d")
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: bool(list(desk.glob("results/*/controller.json"))), "the end of the replay")
        for pid in servers:
            os.kill(pid, signal.SIGCONT)
        ended = running.end()
    assert "the server answered none of" in ended.line()
    queries = ended.summary()["queries"]
    assert queries["timed_out"] + queries["connection_failed"] == QUERIES


# --- the user's hands -------------------------------------------------------------------------------------


@pytest.mark.netns
@pytest.mark.parametrize(
    "phase", ["making the network", "starting server", "starting distributor", "replaying"]
)
def test_ctrl_c_before_the_first_query_leaves_nothing(desk: Path, phase: str) -> None:
    with started(desk, "run", "good.toml") as running:
        running.reaches(phase)
        os.killpg(running.pid, signal.SIGINT)
        ended = running.end()
    assert "the run was interrupted" in ended.line()
    kept = "results up to here are kept" in ended.line()  # as on a busy machine, where it went on meanwhile
    assert [(folder / "summary.json").is_file() for folder in ended.results] == [True] * kept


@pytest.mark.netns
def test_an_interrupted_report_leaves_a_partial_folder(desk: Path) -> None:
    with started(desk, "run", "good.toml", save=command.save_for_ever) as running:
        running.reaches(command.SAVING)
        os.killpg(running.pid, signal.SIGINT)
        ended = running.end()
    (folder,) = ended.results
    assert "interrupted while the report was written" in ended.line()
    assert folder.name.endswith(".partial")
    assert reprise(desk, "report", str(folder)).status == 0


@pytest.mark.netns
def test_two_runs_at_once_do_not_meet(desk: Path) -> None:
    other = desk / "other"
    shutil.copytree(desk, other)
    with started(desk, "run", "good.toml") as one, started(other, "run", "good.toml") as two:
        ends = (one.end(), two.end())
    assert [end.summary()["queries"]["answered"] for end in ends] == [QUERIES, QUERIES]


@pytest.mark.netns
def test_a_run_goes_on_without_output_streams(desk: Path) -> None:
    line = f'exec "{sys.executable}" -m cli run good.toml <&- >&- 2>&-'
    environment = {**os.environ, "PYTHONPATH": command.UNRENDERED}
    done = subprocess.run(["/bin/sh", "-c", line], cwd=desk, env=environment, timeout=LIMIT_S, check=False)
    (folder,) = (desk / "results").iterdir()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["queries"]["answered"] == QUERIES
    assert done.returncode == (0 if summary["clean"] else 1)


def test_a_full_output_is_one_line(desk: Path) -> None:
    ended = reprise(desk, "plan", "good.toml", output=Path("/dev/full"))
    assert "cannot write the output: No space left on device" in ended.line()
