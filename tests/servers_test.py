"""Authoritative servers of the run: lines of the user's own, another build, response rate limiting; each
effect as the answers show it.
"""

from __future__ import annotations

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
from report.papers import answers
from report.rafile import join
from report.run import open_run
from tests.desk import Ended, reprise, run

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
def test_the_users_lines_reach_the_server(desk: Path, kind: str) -> None:
    (desk / "own.conf").write_text(OWN[kind], encoding="ascii")
    ended = run(desk, f"server.kind={kind}", "server.config=own.conf", "replay.answers=true", NAMED)
    assert ended.summary()["clean"], ended.errors
    (folder,) = ended.results
    found = join("run", list(open_run(folder).answer_paths)).between(0, 1 << 62)
    replies = [one.reply for one in found]
    options = [option for one in replies for option in dns.message.from_wire(one).options]
    assert {option.to_wire() for option in options if option.otype == dns.edns.NSID} == {b"me"}


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


@pytest.mark.parametrize("kind", get_args(Authoritative))
def test_rate_limiting_is_off_unless_asked_for(desk: Path, kind: str) -> None:
    free = run(desk, f"server.kind={kind}").summary()
    assert free["truncated"] == 0 and free["queries"]["timed_out"] == 0
    if "rrl" in KINDS[kind].unused:
        refused = reprise(desk, "run", "good.toml", "--set", f"server.kind={kind}", "--set", "server.rrl=5")
        assert "PowerDNS has no use for server.rrl; leave it out" in refused.line()
        return
    limited = run(desk, f"server.kind={kind}", "server.rrl=5", "replay.timeout_s=0.5")
    queries, truncated = limited_of(limited)
    assert queries["timed_out"] + truncated > 100


def limited_of(ended: Ended) -> tuple[dict[str, int], int]:
    """Of the newest of two runs."""
    newest = max(ended.results, key=lambda one: one.stat().st_mtime)
    summary = json.loads((newest / "summary.json").read_text(encoding="utf-8"))
    return summary["queries"], summary["truncated"]


@pytest.mark.parametrize("kind", get_args(Authoritative))
def test_what_the_server_counts_stands_beside_what_the_replay_counts(desk: Path, kind: str) -> None:
    """With several processes or threads, over TCP too; of what it drops it counts no answer, but for NSD."""
    both = "mutate.rule=[{kind='transport',to='tcp',share=30}]"
    summary = run(desk, f"server.kind={kind}", "server.processes=2", both).summary()
    queries, over = summary["queries"], summary["transport"]
    assert summary["clean"] and over["tcp"] > 50 and over["udp"] > 50
    assert summary["server_counts"] == {
        "queries": queries["sent"],
        "tcp_queries": over["tcp"],
        "answers": queries["answered"],
    }


@pytest.mark.parametrize("kind", get_args(Authoritative))
def test_a_server_has_zones_of_given_number_and_size(desk: Path, kind: str) -> None:
    made = ("server.zone=", "trace=", "synth.duration=2", "synth.rate=100", "replay.answers=true")
    ended = run(desk, f"server.kind={kind}", *made, "server.wildcard.zones=30", "server.wildcard.names=20")
    assert ended.summary()["clean"], ended.errors
    (folder,) = ended.results
    found = join("run", list(open_run(folder).answer_paths)).between(0, 1 << 62)
    answers = [dns.message.from_wire(one.reply) for one in found]
    asked = {one.question[0].name.to_text() for one in answers}
    assert len(asked) > 50 and any(one.endswith(".z30.example.com.") for one in asked)
    assert all(one.rcode() == dns.rcode.NOERROR and one.flags & dns.flags.AA for one in answers)


def test_what_delays_segments_may_be_changed(desk: Path) -> None:
    keys = ("socket.quickack=false", "socket.nagle=false", "socket.offload=false")
    ended = run(desk, "replay.transport=tcp", *keys)
    assert ended.summary()["clean"], ended.errors
    (folder,) = ended.results
    controller = json.loads((folder / "controller.json").read_text(encoding="utf-8"))
    assert controller["options"]["socket"] == {"quickack": False}
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert {one["id"] for one in plan["setup"]} >= {"offload-client1-data", "offload-server-data1"}


def test_a_zone_is_built_of_a_capture(desk: Path) -> None:
    """Of the answers that a server gave: another server that has it gives the same."""
    first = run(desk, "replay.answers=true", "sample.capture=true")
    (recorded,) = first.results
    capture = f"server.capture={recorded}/capture.pcap"
    again = run(desk, "server.zone=", "server.kind=bind", "server.origin=.", capture, "replay.answers=true")
    assert again.status == 0, again.errors
    (folder,) = set(again.results) - {recorded}
    assert answers.differing(recorded, folder) == 0
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
