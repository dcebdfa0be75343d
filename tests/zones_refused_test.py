"""Zones of captures that BIND does not load: what prevents loading is removed or reported, at every step."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.zones.zone_check_test import refuses_few_labels
from tests import command
from tests.hierarchy_bed import Ask, play, write_trace
from tests.zones_build_test import check
from tests.zones_hostile_test import ANSWER, COM, LEAF, query_of, response_of, walk

_OTHER = "203.0.114.9"
_WHY = "does not load: NS 'ns.bad.com' is below a DNAME 'bad.com' (illegal); --skip-bad leaves them out"


def capture(path: Path, bad: bool = False) -> Path:
    """Answers of example.com with a CDS record of an algorithm that no key has, not even the key made up for
    the signature; a DS record of two bytes; and a signature over fewer labels than its signer has. On request
    also those of a zone that cannot be loaded at all.
    """
    tape = walk()
    tape.exchange(LEAF, ANSWER)
    tape.exchange(LEAF, response_of("example.com. IN CDS", f"example.com. 60 IN CDS 1 13 2 {'AB' * 32}"))
    times = "60 20200101000000 20190101000000 12345"
    signed = f"t.example.com. 60 IN TXT x\nt.example.com. 60 IN RRSIG TXT 8 1 {times} example.com. AAAA"
    tape.exchange(LEAF, response_of("t.example.com. IN TXT", signed))
    cut = response_of(
        "a.sub.example.com. IN A",
        "",
        "sub.example.com. 60 IN NS ns.sub.example.com.\nsub.example.com. 60 IN TYPE65280 \\# 6 00010802AABB",
        "ns.sub.example.com. 60 IN A 203.0.114.7",
        flags="QR",
    )
    tape.ask(LEAF, query_of(cut))
    tape.tell(LEAF, cut.to_wire().replace(b"\xff\x00\x00\x01", b"\x00\x2b\x00\x01"))
    if bad:
        glue = ("bad.com. 60 IN NS ns.bad.com.", f"ns.bad.com. 60 IN A {_OTHER}")
        tape.exchange(COM, response_of("www.bad.com. IN A", "", *glue, flags="QR"))
        tape.exchange(_OTHER, response_of("bad.com. IN DNAME", "bad.com. 60 IN DNAME x.example."))
    return tape.write(path)


def build(folder: Path, *words: str, bad: bool = False) -> subprocess.CompletedProcess[str]:
    upstream = capture(folder / "upstream.pcap", bad)
    return command.run("zones", "build", str(upstream), "-o", str(folder / "zones"), *words, cwd=folder)


def plan(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command.run("zones", "plan", "zones", "-o", "plan", *words, cwd=folder)


def listed(file: Path, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())[key]
    return found


def test_records_that_bind_refuses_do_not_cost_their_zone(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    removed = {one["type"]: one for one in listed(tmp_path / "zones/build.json", "removed")}
    signature = {"RRSIG": "t.example.com."} if refuses_few_labels() else {}
    want = {"CDS": "example.com.", "DS": "sub.example.com."} | signature
    assert {kind: one["owner"] for kind, one in removed.items()} == want
    assert removed["CDS"]["why"] == "CDS/CDNSKEY consistency checks failed"
    assert "1 records removed because BIND does not load their zone: CDS/CDNSKEY" in done.stdout
    assert 't.example.com. 60 IN TXT "x"' in (tmp_path / "zones/example.com.zone").read_text()
    assert plan(tmp_path).returncode == 0
    assert listed(tmp_path / "plan/plan.json", "failed") == []


def test_a_zone_that_bind_refuses_is_told_when_it_is_built(tmp_path: Path) -> None:
    done = build(tmp_path, bad=True)
    assert done.returncode == 1
    assert f"error: BIND does not load 1 of the zones: zone bad.com. (bad.com.zone) {_WHY}" in done.stderr
    assert [one["zone"] for one in listed(tmp_path / "zones/build.json", "refused")] == ["bad.com."]


def test_a_plan_lists_what_bind_refuses_and_the_planner_can_read(tmp_path: Path) -> None:
    builder = [programs.own("reprise-zonebuilder"), "build", str(capture(tmp_path / "upstream.pcap"))]
    subprocess.run([*builder, "-o", str(tmp_path / "zones")], check=True, capture_output=True)
    done = plan(tmp_path)
    assert done.returncode == 1
    assert "1 zone does not load: example.com.zone line " in done.stderr
    assert "; fix them, or --skip-bad keeps the rest" in done.stderr
    assert plan(tmp_path, "--skip-bad").returncode == 0
    (failed,) = listed(tmp_path / "plan/plan.json", "failed")
    assert failed["zone"] == "example.com."
    assert failed["why"] in (  # of BIND 9.18 and 9.20
        "near 'example.com.': out of range",
        "near eol: unexpected end of input",
    )
    assert LEAF not in (tmp_path / "plan/map.tsv").read_text()


@pytest.mark.parametrize("dnssec", ["keep", "resign"])
def test_zones_that_bind_refuses_may_be_left_out(tmp_path: Path, dnssec: str) -> None:
    done = build(tmp_path, "--skip-bad", "--dnssec", dnssec, bad=True)
    assert done.returncode == 0, done.stderr
    assert "reprise: warning: 1 zones built from the capture are left out: zone bad.com." in done.stderr
    assert [one["zone"] for one in listed(tmp_path / "zones/build.json", "refused")] == ["bad.com."]
    assert "bad.com." not in (tmp_path / "zones/zones.json").read_text()


@pytest.mark.netns
def test_a_run_lists_the_zones_that_it_leaves_out(tmp_path: Path) -> None:
    upstream = capture(tmp_path / "upstream.pcap", bad=True)
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com.")])
    keys: dict[str, object] = {"hierarchy__capture": upstream, "hierarchy__validate": False}
    refused = play(tmp_path, None, trace, **keys)
    assert refused.status == 1
    assert "zone bad.com. (bad.com.zone) does not load" in refused.said
    assert "hierarchy.skip_bad leaves them out" in refused.said
    left = play(tmp_path, None, trace, **keys, hierarchy__skip_bad=True)
    assert left.status == 0, left.said
    assert "warning: 1 zones built from the capture are left out: zone bad.com." in left.said
    assert left.folder is not None
    report = (left.folder / "report.html").read_text(encoding="utf-8")
    assert "zones built from the capture are left out: zone bad.com." in report


@pytest.mark.netns
def test_the_check_says_why_an_answer_is_not_as_recorded(tmp_path: Path) -> None:
    local = "127.0.0.5"
    tape = walk()
    for serial in (7, 8):
        soa = f"example.com. 60 IN SOA ns.example.com. h.example.com. {serial} 1 2 3 60"
        tape.exchange(LEAF, response_of(f"no{serial}.example.com. IN A", "", soa, rcode="NXDOMAIN"))
    for name, server in (("bad.com.", _OTHER), ("local.com.", local)):
        servers = (f"{name} 60 IN NS ns.{name}", f"ns.{name} 60 IN A {server}")
        tape.exchange(COM, response_of(f"www.{name} IN A", "", *servers, flags="QR"))
        tape.exchange(server, response_of(f"{name} IN DNAME", f"{name} 60 IN DNAME x.example."))
    upstream = tape.write(tmp_path / "upstream.pcap")
    command.run("zones", "build", str(upstream), "-o", str(tmp_path / "zones"), cwd=tmp_path)
    found = {one["question"]: one for one in check(tmp_path / "zones", upstream)["differences"]}
    assert {question: one["reason"] for question, one in found.items()} == {
        "no8.example.com. A": "changed_during_capture",
        "bad.com. DNAME": "zone_not_loaded",
        "local.com. DNAME": "server_unroutable",
    }
    assert found["no8.example.com. A"]["differs"] == ["authority"]
