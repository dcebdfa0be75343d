"""Authoritative servers of the run: lines of the user's own, another build, response rate limiting; each
effect as the answers show it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import dns.edns
import dns.message
import pytest

from cli import programs
from cli.experiment.schema import Authoritative
from cli.servers.kinds import KINDS
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
    if not KINDS[kind].rate_limits:
        refused = reprise(desk, "run", "good.toml", "--set", f"server.kind={kind}", "--set", "server.rrl=5")
        assert "does not limit the rate of responses; leave server.rrl out" in refused.line()
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


def test_a_server_without_tls_is_refused_it(desk: Path) -> None:
    ended = run(desk, "server.kind=knot", "replay.transport=tls")
    assert ended.line() == "reprise: error: Knot DNS serves no DNS over TLS; use another server or transport"
    assert KINDS["nsd"].over_tls
