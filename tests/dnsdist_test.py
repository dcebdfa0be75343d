"""dnsdist before a server of the run: what clients get through it, its own lines, its death."""

import csv
import os
import signal
from pathlib import Path

import pytest

from tests.command_server_test import NSD
from tests.desk import ANSWERED, QUERIES, SLOWLY, run, started
from tests.slow import slow

pytestmark = pytest.mark.netns
FRONT = "server.front=dnsdist"


@pytest.mark.parametrize("kind", ["nsd", *map(slow, ("bind", "knot", "pdns"))])
def test_queries_pass_through_to_every_server(desk: Path, kind: str) -> None:
    much = ("replay.rate=2000", "replay.loop=10")
    ended = run(desk, FRONT, f"server.kind={kind}", "server.processes=2", *much)
    summary = ended.summary()
    assert summary["clean"], ended.errors
    assert summary["queries"]["answered"] == 10 * QUERIES
    assert summary["rcode"].keys() <= {"NOERROR", "NXDOMAIN"}
    assert "CPU of the front per query " in ended.output and "memory of the front, at most " in ended.output
    for figure in ("cpu_s", "peak_rss_bytes"):
        assert summary[figure]["server"] > 0 and summary[figure]["front"] > 0
    (folder,) = ended.results
    with (folder / "server.csv").open(encoding="ascii") as file:
        assert {row["process"] for row in csv.DictReader(file)} == {"server", "front"}
    assert " behind dnsdist " in (folder / "report.html").read_text(encoding="utf-8")


def test_a_server_without_tls_has_it_by_the_front(desk: Path) -> None:
    summary = run(desk, FRONT, "server.kind=pdns", "replay.transport=tls").summary()
    assert summary["clean"] and summary["queries"]["answered"] == QUERIES


def test_a_server_started_by_a_command_line_is_behind_it(desk: Path) -> None:
    slowly = "replay.speed=0.5"  # NSD limits answers over UDP
    ended = run(desk, FRONT, "server.kind=command", f"server.command={NSD}", "rtt.rtt_ms=2", slowly)
    summary = ended.summary()
    assert summary["clean"] and summary["queries"]["answered"] == QUERIES


def test_lines_of_the_users_own_reach_the_front(desk: Path) -> None:
    own = desk / "own.lua"
    own.write_text("addAction(NotRule(QTypeRule(DNSQType.SOA)), RCodeAction(DNSRCode.REFUSED))\n", "ascii")
    summary = run(desk, FRONT, "front.config=own.lua").summary()
    assert summary["rcode"]["REFUSED"] > 0.9 * QUERIES
    own.write_text("-- a line\nnonsense(1)\n", "ascii")
    line = run(desk, FRONT, "front.config=own.lua", "name=wrong").line()
    assert "front: dnsdist " in line and " refuses its configuration: " in line
    assert "front.config:2: attempt to call global 'nonsense' (a nil value); correct front.config" in line


def test_a_front_that_dies_ends_the_run(desk: Path) -> None:
    with started(desk, "run", "good.toml", "--set", FRONT, *SLOWLY) as running:
        running.reaches(ANSWERED)
        os.kill(running.offspring("dnsdist --supervised")[0], signal.SIGKILL)
        ended = running.end()
    assert "front died during the run (signal SIGKILL)" in ended.line()
