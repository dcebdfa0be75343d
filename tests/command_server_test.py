"""A server of the user's own that a command line starts: what it gets, and what its faults say."""

import os
from pathlib import Path

import pytest

from tests.desk import Ended, run

pytestmark = pytest.mark.netns

# NSD without anything of ours: its configuration is written by the command line itself.
NSD = r"""sh -c 'id -un >&2
printf "server:\n database: \"\"\n pidfile: \"\"\n xfrdfile: \"\"\n zonelistfile: \"$0/list\"
 username: \"\"\nremote-control:\n control-enable: no
zone:\n name: \"$1\"\n zonefile: \"$2\"\n" > $0/nsd.conf
shift 2; exec nsd -d -c $0/nsd.conf -p {port} "$@"' {folder} {origin} {zone} -a {address}"""


def start(desk: Path, command: str, *settings: str) -> Ended:
    return run(desk, "server.kind=command", f"server.command={command}", *settings)


def test_a_server_is_started_by_a_command_line(desk: Path) -> None:
    much = ("replay.transport=tcp", "replay.rate=2000", "replay.loop=10")  # NSD limits answers over UDP
    ended = start(desk, f"{NSD} -a {{address6}}", *much)
    summary = ended.summary()
    assert summary["clean"], ended.errors
    assert summary["queries"]["answered"] == summary["queries"]["read"]
    assert summary["cpu_s"]["server"] > 0 and summary["peak_rss_bytes"]["server"] > 1e6
    (folder,) = ended.results
    user = (folder / "logs/server.log").read_text(encoding="utf-8").partition("\n")[0]
    assert user == ("nobody" if os.geteuid() == 0 else "root")  # mapped, in a user namespace


def test_queries_of_a_family_without_an_address_are_skipped(desk: Path) -> None:
    ended = start(desk, NSD, "replay.speed=0.5")  # NSD limits answers over UDP
    queries = ended.summary()["queries"]
    assert queries["skipped"] > 0 and queries["answered"] + queries["skipped"] == queries["read"]
    assert "the server has no address of that family; have {address6} in server.command" in ended.errors


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sh -c 'exec sleep 60' {port} {zone} {address}",
         "server was not ready within 1 s (198.19.255.53 over TCP: "),
        ("nsd -d -c /none {port} {zone} {address}", "server ended before it was ready (exit status 1): "),
    ],
)  # fmt: skip
def test_a_server_that_does_not_serve_is_told(desk: Path, command: str, words: str) -> None:
    line = start(desk, command, "server.ready_s=1").line()
    assert line.startswith(f"reprise: error: {words}"), line
    assert "correct server.command, which has to serve . over UDP and TCP, see " in line


def test_a_program_that_is_not_there_is_told(desk: Path) -> None:
    hint = "correct server.command: give the name of an installed program, or the whole path of yours"
    for name in ("no-such-server", "./mydns", str(desk / "zone")):
        line = start(desk, f"{name} {{port}} {{zone}} {{address}}").line()
        assert line == f"reprise: error: no program {name}; {hint}"


def test_a_server_without_tls_is_refused_it(desk: Path) -> None:
    line = start(desk, NSD, "replay.transport=tls").line()
    assert line.endswith("a server of server.command serves no DNS over TLS; use another server or transport")
