"""Authoritative servers of the run: lines of the user's own, another build, response rate limiting; each
effect as the answers show it.
"""

import json
import re
from pathlib import Path
from typing import get_args

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

from cli import programs
from cli.experiment.settings import Authoritative
from cli.servers.kinds import KINDS
from report.papers.found import differing
from report.rafile import join
from report.run import Run
from report.sources import digested
from tests.desk import reprise, run
from tests.slow import slow

pytestmark = pytest.mark.netns

OWN = {  # lines by which a server names itself
    "nsd": 'server:\n    nsid: "6d65"\n',
    "bind": 'server-id "me";\n',
    "knot": 'server:\n    nsid: "me"\n',
    "pdns": "server-id=me\n",
}
WRONG = {
    "nsd": r"server\.config:2: .*nonsense",
    "bind": r"server\.config:1: .*nonsense",
    "knot": r"config, file .*, line \d+, item 'nonsense'",
    "pdns": r"unknown setting 'nonsense'",
}
NAMED = "mutate.rule=[{kind='edns',nsid='on'}]"


@pytest.mark.parametrize("kind", get_args(Authoritative))
def test_a_server_serves_and_counts_as_it_was_told(desk: Path, kind: str) -> None:
    """Lines of the user's own, zones of given number and size, no rate limiting, and counts beside those of
    the replay: with several processes or threads, over TCP too.
    """
    (desk / "own.conf").write_text(OWN[kind], encoding="ascii")
    server = (f"server.kind={kind}", "server.config=own.conf", "server.processes=2")
    zones = ("server.zone=", "server.wildcard.zones=30", "server.wildcard.names=20")
    played = ("trace=", "synth.duration=1", "synth.rate=400", "synth.tcp_share=0.3")
    ended = run(desk, *server, *zones, *played, NAMED, "replay.answers=true")
    summary = ended.summary()
    queries, over = summary["queries"], summary["transport"]
    assert summary["clean"], ended.errors
    assert over["tcp"] > 50 and over["udp"] > 50
    assert summary["truncated"] == 0 and queries["timed_out"] == 0
    assert summary["server_counts"] == {
        "queries": queries["sent"],
        "tcp_queries": over["tcp"],
        "answers": queries["answered"],
    }
    (folder,) = ended.results
    found = digested(join("run", Run(folder).answer_paths)).between(0, 1 << 62)
    answers = [dns.message.from_wire(one.reply) for one in found]
    options = [option for one in answers for option in one.options]
    assert {option.to_wire() for option in options if option.otype == dns.edns.NSID} == {b"me"}
    asked = {one.question[0].name.to_text() for one in answers}
    assert len(asked) > 50 and any(one.endswith(".z30.example.com.") for one in asked)
    assert all(one.rcode() == dns.rcode.NOERROR and one.flags & dns.flags.AA for one in answers)


@pytest.mark.parametrize("kind", get_args(Authoritative))
def test_a_line_that_a_server_does_not_know_is_named(desk: Path, kind: str) -> None:
    other = {"bind": "nonsense 1;\n", "pdns": "nonsense=1\n"}
    wrong = other.get(kind, "server:\n    nonsense: 1\n")
    (desk / "own.conf").write_text(wrong, encoding="ascii")
    ended = run(desk, f"server.kind={kind}", "server.config=own.conf")
    assert "correct server.config" in ended.line()
    assert re.search(WRONG[kind], ended.line()), ended.line()


def test_another_build_of_a_server_is_started_and_named(desk: Path) -> None:
    own = (
        f'#!/bin/sh\n[ "$1" != -v ] || exec echo "NSD version 4.6.99"\nexec {programs.packaged("nsd")} "$@"\n'
    )
    (desk / "other-nsd").write_text(own, encoding="ascii")
    (desk / "other-nsd").chmod(0o755)
    ended = run(desk, f"server.binary={desk / 'other-nsd'}")
    assert ended.summary()["clean"]
    (folder,) = ended.results
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    (server,) = (one for one in plan["processes"] if one["id"] == "server")
    assert str(desk / "other-nsd") in server["argv"]
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["versions"]["nsd"] == "NSD version 4.6.99"
    (desk / "no-server").write_text("", encoding="ascii")
    refused = reprise(desk, "run", "good.toml", "--set", f"server.binary={desk / 'no-server'}")
    assert "no program" in refused.errors


@pytest.mark.parametrize("kind", ["nsd", "pdns", slow("bind"), slow("knot")])
def test_rates_are_limited_where_asked_for(desk: Path, kind: str) -> None:
    """And not otherwise, see above."""
    if "rrl" in KINDS[kind].unused:
        refused = reprise(desk, "run", "good.toml", "--set", f"server.kind={kind}", "--set", "server.rrl=5")
        assert "PowerDNS has no use for server.rrl; leave it out" in refused.line()
        return
    summary = run(desk, f"server.kind={kind}", "server.rrl=5", "replay.timeout_s=0.5").summary()
    assert summary["queries"]["timed_out"] + summary["truncated"] > 100


def test_what_delays_segments_may_be_changed(desk: Path) -> None:
    keys = ("socket.quickack=false", "socket.nagle=false", "socket.offload=false")
    ended = run(desk, "replay.transport=tcp", *keys)
    assert ended.summary()["clean"], ended.errors
    (folder,) = ended.results
    controller = json.loads((folder / "controller.json").read_text(encoding="utf-8"))
    assert controller["options"]["socket"] == {"quickack": False}
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert {one["id"] for one in plan["setup"]} >= {"offload-client1-data", "offload-server-data1"}


@pytest.mark.slow
def test_a_zone_is_built_of_a_capture(desk: Path) -> None:
    """Of the answers that a server gave: another server that has it gives the same."""
    first = run(desk, "replay.answers=true", "sample.capture=true")
    (recorded,) = first.results
    capture = f"server.capture={recorded}/capture.pcap"
    again = run(desk, "server.zone=", "server.kind=bind", "server.origin=.", capture, "replay.answers=true")
    assert again.status == 0, again.errors
    (folder,) = set(again.results) - {recorded}
    assert differing(recorded, folder) == 0
    assert (folder / "zones/build.json").is_file()
    wrong = reprise(
        desk, "run", "good.toml", "--set", "server.zone=", "--set", "server.origin=other.", "--set", capture
    )
    assert re.search(
        r"zone other\. was not built of the capture; it holds .*: set server\.origin", wrong.line()
    )


def test_a_server_without_tls_is_refused_it(desk: Path) -> None:
    ended = run(desk, "server.kind=knot", "replay.transport=tls")
    assert ended.line() == "reprise: error: Knot DNS serves no DNS over TLS; use another server or transport"
    assert KINDS["nsd"].over_tls
