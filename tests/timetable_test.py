"""[[fault]]: what a real server's host and the clients see of faults, and what a run says of them."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.rqfile import Records, Status, read_rq
from tests import packets
from tests.bed import ZONE
from tests.desk import TEXT_EXPERIMENT, Ended, run, started
from tests.slow import slow

pytestmark = pytest.mark.netns

SOURCES = ("203.0.113.1", "2001:db8::3")
NAMES = {"com.": 1, "mid.": 3, "big.": 15}  # strings in their answers: small, of one packet, of several
RATE, SECONDS = 200, 3
EARLY_S = 0.2  # how long before a fault a query may be due or sent that it touches, on a busy machine
LATE_S = 1.0  # how much later than planned a fault may begin there


def text(name: str, strings: int) -> str:
    return f"{name} 300 IN TXT " + " ".join(f'"{number:0250}"' for number in range(strings)) + "\n"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a zone and a trace of 3 s, from an address of each family, for each name in turn."""
    (tmp_path / "zone").write_text(ZONE + text("mid.", 3) + text("big.", 15), encoding="ascii")
    rows = ["#reprise-text 1", "time\tsource\tport\tid\tname\ttype\tedns"]
    for number in range(SECONDS * RATE):
        name = list(NAMES)[number // 2 % 3]
        cells = (number / RATE, SOURCES[number % 2], 2_000 + number, number, name, "TXT", 4_096)
        rows.append("\t".join(map(str, cells)))
    (tmp_path / "trace.txt").write_text("\n".join(rows) + "\n", encoding="ascii")
    return tmp_path


def write(desk: Path, *faults: str) -> None:
    tables = "".join(f"[[fault]]\n{one}\n" for one in faults)
    (desk / "good.toml").write_text(TEXT_EXPERIMENT + tables, encoding="ascii")


def records(ended: Ended) -> Records:
    (folder,) = ended.results
    found: Records = np.concatenate([read_rq(path).records for path in folder.glob("queries-*.rq")])
    return found[np.argsort(found["seq"])]


def sound(ended: Ended) -> list[dict[str, Any]]:
    """The faults of a run on a sound testbed with a sound server."""
    assert ended.status == 0, ended.errors
    summary = ended.summary()
    assert (summary["clean"], summary["server_faults"]) == (True, []), summary["unclean_because"]
    (folder,) = ended.results
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["server_died"], manifest["replaced"]) == (None, [])
    found: list[dict[str, Any]] = summary["faults"]
    return found


def test_queries_are_lost_and_the_server_stands_still(desk: Path) -> None:
    write(
        desk,
        'at = 0.5\nfor = 1\ntarget = "link"\nloss = 0.5\ndirection = "queries"',
        'at = 2\nfor = 0.2\ntarget = "server"\nstall = true',
    )
    ended = run(desk, "sample.capture=true")
    lossy, stall = sound(ended)
    (folder,) = ended.results
    seen = packets.read(folder / "capture.pcap")
    answers = {(one.ident, one.destination): one.time for one in seen if one.source_port == 53}
    queries = [one for one in seen if one.is_query]
    begin = queries[0].time
    queries = [one for one in queries if one.ident // 2 % 3 < 2]  # whose answers are in one packet
    lost = [one for one in queries if (one.ident, one.source) not in answers]
    at_s = [(one.time - begin) / 1e9 for one in lost]
    assert min(at_s) >= 0.5 - EARLY_S and max(at_s) < 1.5 + LATE_S
    assert lossy["text"] == "link: loss 50 % (queries)"
    assert lossy["packets"] == ended.summary()["queries"]["timed_out"]
    assert 0.3 < len(lost) / (RATE * 2 / 3) < 0.7
    late = [(time - begin) / 1e9 for time in sorted(answers.values()) if time - begin > (2 - EARLY_S) * 1e9]
    assert max(np.diff(late)) > 0.5 * stall["seconds"]
    assert stall["text"] == "server: stall"
    assert stall["packets"] is None
    assert stall["at_s"] >= 2 and 0 < stall["seconds"] < 0.2 + LATE_S  # its end is planned
    latest = max(
        (answers[one.ident, one.source] - one.time) / 1e9
        for one in queries
        if (one.ident, one.source) in answers
    )
    assert 0.5 * stall["seconds"] < latest < 0.2 + LATE_S


@pytest.mark.parametrize(("drop", "lost"), [slow("udp>512", {"mid.", "big."}), ("fragments", {"big."})])
def test_large_answers_are_lost_and_no_others(desk: Path, drop: str, lost: set[str]) -> None:
    write(desk, f'at = 0.5\nfor = 1\ndrop = "{drop}"')
    ended = run(desk)
    (fault,) = sound(ended)
    assert isinstance(fault["packets"], int)
    assert fault["packets"] > 0
    found = records(ended)
    assert len(found) == SECONDS * RATE
    missing = np.flatnonzero(found["status"] != Status.ANSWERED)
    assert {list(NAMES)[number // 2 % 3] for number in missing} == lost
    assert {SOURCES[number % 2] for number in missing} == set(SOURCES)
    at_s = missing / RATE
    assert min(at_s) >= 0.5 - EARLY_S
    assert max(at_s) < 1.5 + LATE_S
    assert len(missing) >= 0.7 * RATE * len(lost) / 3


@pytest.mark.skipif(os.geteuid() != 0, reason="BPF programs need root")
@pytest.mark.parametrize("truncated", [slow(False), True])
def test_truncation_by_a_front_gets_large_answers_through(desk: Path, truncated: bool) -> None:
    """What is lost on the way to the client has passed the front."""
    write(desk, 'at = 0.5\nfor = 1.5\ndrop = "udp>512"\ndirection = "answers"')
    front = ("server.front=bpf", f"front.truncate_udp={512 * truncated}", "replay.tcp_fallback=true")
    ended = run(desk, *front)
    (fault,) = sound(ended)
    queries = ended.summary()["queries"]
    if truncated:
        assert (fault["packets"], queries["answered"]) == (0, queries["read"])
        assert ended.summary()["tcp_fallbacks"] > RATE
    else:
        assert queries["timed_out"] > RATE / 2


def test_a_rate_loses_what_is_more(desk: Path) -> None:
    write(desk, 'at = 0.5\nfor = 2\nrate = "1Mb/s"\ndirection = "answers"')
    ended = run(desk)
    (fault,) = sound(ended)
    found = records(ended)
    missing = np.flatnonzero(found["status"] != Status.ANSWERED)
    assert fault["text"] == "link: rate 1Mb/s (answers)"
    assert RATE / 2 < len(missing) < 2 * RATE
    during = found[round((0.5 + LATE_S) * RATE) : round(2.5 * RATE)]
    # Without the fault it would be 325,000 bytes.
    assert 30_000 < sum(during["reply_size"][during["status"] == Status.ANSWERED]) < 125_000 * 1.3


@pytest.mark.parametrize("kind", ["nsd", *map(slow, ("bind", "knot", "pdns"))])
def test_a_server_is_started_again_and_its_connections_with_it(desk: Path, kind: str) -> None:
    reload = 'at = 2\ntarget = "server"\nreload = true'
    write(
        desk,
        'at = 0.5\nfor = 0.5\ntarget = "server"\nrestart = true',
        *((reload,) if kind != "pdns" else ()),
    )
    ended = run(desk, f"server.kind={kind}", "replay.transport=tcp", "sample.capture=true")
    first, *_ = sound(ended)
    assert first["text"] == "server: restart"
    assert first["at_s"] >= 0.5
    assert round(first["at_s"] + first["seconds"], 3) >= 1
    found = records(ended)
    missing = np.flatnonzero(found["status"] != Status.ANSWERED) / RATE
    assert len(missing)
    assert min(missing) > 0.5 - EARLY_S
    assert max(missing) < SECONDS - EARLY_S
    (folder,) = ended.results
    seen = packets.read(folder / "capture.pcap")
    begin = min(one.time for one in seen)
    opened = [(one.time - begin) / 1e9 for one in seen if one.has(packets.SYN | packets.ACK)]
    closed = [(one.time - begin) / 1e9 for one in seen if one.flags & (packets.FIN | packets.RST)]
    assert len([one for one in opened if one < 0.5]) == len(SOURCES)
    assert [one for one in closed if 0.5 - EARLY_S < one < 2 - EARLY_S]
    assert [one for one in opened if 1 - EARLY_S < one < SECONDS]


def test_a_run_that_is_stopped_wakes_the_server_first(desk: Path) -> None:
    write(desk, 'at = 0.5\nfor = 3\ntarget = "server"\nstall = true')
    with started(desk, "run", "good.toml") as running:
        running.reaches(r"sent \d{3}")
        running.process.send(signal.SIGINT)
        ended = running.end()
    assert "interrupted" in ended.line()
    summary = ended.summary()
    assert not [one for one in summary["unclean_because"] if "killed" in one]
    (fault,) = summary["faults"]
    assert 0 < fault["seconds"] < 3
