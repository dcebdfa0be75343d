"""`reprise run` with each front before NSD and BIND: the same queries are answered as by the kernel's TCP,
each on a connection of its own, and what the front did is in the summary.
"""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import packets
from tests.desk import ANSWERED, SLOWLY, Ended, started
from tests.desk import run as run_desk
from tests.privileges_test import NET_ADMIN, NOBODY, status
from tests.slow import slow
from tests.streams import flows

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="BPF programs and captures need root"),
]

FRONTS = ("reference", "bpf")
STATELESS = "replay.transport=stateless-tcp"
NET_RAW, DAC_OVERRIDE, PERFMON, BPF = (1 << number for number in (13, 1, 38, 39))
RIGHTS = {"reference": NET_ADMIN | NET_RAW | DAC_OVERRIDE, "bpf": NET_ADMIN | PERFMON | BPF}
LEFT = {"reference": NET_ADMIN | NET_RAW, "bpf": NET_ADMIN}  # once a front serves
_MINUTE_LIMIT_S = 180.0


def played(desk: Path, front: str, *settings: str) -> tuple[Ended, Path, dict[str, Any]]:
    """A clean run, its results and its summary."""
    shutil.rmtree(desk / "results", ignore_errors=True)
    ended = run_desk(desk, STATELESS, f"server.front={front}", *settings)
    assert ended.status == 0, ended.errors + ended.output
    return ended, ended.results[0], ended.summary()


def ends(summary: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on who speaks TCP."""
    named = ("read", "answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")
    return {"rcode": summary["rcode"], **{name: summary["queries"][name] for name in named}}


@pytest.mark.parametrize("server", ["nsd", slow("bind")])
def test_a_front_answers_what_the_kernels_tcp_answers(desk: Path, server: str) -> None:
    _, folder, kernel = played(desk, "kernel", f"server.kind={server}")
    assert kernel["front"]["kind"] is None and not list(folder.glob("front*.json"))
    assert kernel["queries"]["answered"] == kernel["queries"]["read"]
    for front in FRONTS:
        ended, folder, summary = played(desk, front, f"server.kind={server}", "sample.capture=true")
        sent, counts, taken = summary["queries"]["sent"], summary["connections"], summary["front"]
        assert ends(summary) == ends(kernel)
        assert (counts["opened"], counts["reused_queries"], counts["failures"]) == (sent, 0, {})
        assert summary["transport"]["stateless-tcp"] == sent
        assert (taken["kind"], taken["syn"], taken["queries"]) == (front, sent, sent)
        assert taken["replies"] == sent and taken["promoted"] == taken["not_promoted"] == {}
        assert taken["evictions"] == taken["expired"] == taken["late"] == taken["malformed"] == 0
        assert taken["bytes_per_entry"] > 0 and summary["cpu_s"]["front"] is not None
        assert re.search(rf"^front +{front}$", ended.output, re.MULTILINE)
        assert re.search(rf"^front: queries +{sent}$", ended.output, re.MULTILINE)
        assert summary["cpu_s"]["packets"] > 0
        seen = flows(packets.read(folder / "capture.pcap"), 53)
        assert [(len(one.queries()), len(one.answers())) for one in seen] == [(1, 1)] * sent
        assert {one.ended_by() for one in seen} == {"server" if front == "bpf" else "client"}


def test_the_front_in_user_space_serves_all_clients(desk: Path) -> None:
    _, folder, summary = played(desk, "reference", "topology.clients=2", "front.loglevel=2")
    assert summary["queries"]["answered"] == summary["queries"]["read"] == summary["front"]["queries"]
    told = json.loads((folder / "front.json").read_text(encoding="utf-8"))
    assert (told["interface"], told["syn"]) == ("data1,data2", summary["front"]["syn"])
    assert "event=second" in (folder / "logs/front.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("front", "mode", "clients"),
    [
        ("reference", "addresses", 1),
        slow("bpf", "mapped", 2),
        slow("bpf", "addresses", 1),
        slow("reference", "mapped", 2),
    ],
)
def test_a_path_before_a_front_delays_all_that_clients_get(
    desk: Path, front: str, mode: str, clients: int
) -> None:
    """A handshake and an answer take a round trip each; an entry of the front lives as without."""
    settings = ("rtt.rtt_ms=40", f"topology.clients={clients}", f"replay.source_mode={mode}")
    _, _, summary = played(desk, front, *settings)
    assert summary["queries"]["answered"] == summary["queries"]["read"]
    assert 80_000 <= summary["latency_us"]["min"] < 100_000  # others wait for a busy machine
    assert 0 < summary["front"]["entry_life_us"] < 40_000
    assert summary["front"]["entries_mean"] < summary["front"]["entries_peak"]
    _, _, summary = played(desk, front, *settings, "replay.transport=udp")
    assert 40_000 <= summary["latency_us"]["min"] < 60_000


def test_every_client_has_a_front_before_it(desk: Path) -> None:
    _, folder, summary = played(desk, "bpf", "topology.clients=2")
    assert summary["queries"]["answered"] == summary["queries"]["read"] == summary["front"]["queries"]
    told = [json.loads((folder / f"front-data{n}.json").read_text(encoding="utf-8")) for n in (1, 2)]
    assert [one["interface"] for one in told] == ["data1", "data2"]
    assert all(one["queries"] > 0 for one in told)


def texts(desk: Path, count: int, sources: str = "192.0.2.") -> str:
    """Fifty queries, of which every fifth has a reply with so many texts of 250 bytes; the setting."""
    zone = (desk / "zone").read_text(encoding="ascii")
    (desk / "zone").write_text(zone + "".join(f". TXT {'x' * 249}{n}\n" for n in range(count)))
    rows = [f"{1 + n / 50:.2f}\t{sources}{n}\t.\t{'TXT' if n % 5 == 0 else 'NS'}\t4096" for n in range(1, 51)]
    lines = ["#reprise-text 1", "time\tsource\tname\ttype\tedns", *rows, ""]
    (desk / "trace.txt").write_text("\n".join(lines))
    return "trace=trace.txt"


def test_replies_beyond_a_segment_are_promoted_or_reset_as_told(desk: Path) -> None:
    """Clients see the end of a connection that is reset; each query still has its end."""
    trace = texts(desk, 10)
    _, _, summary = played(desk, "bpf", trace)
    assert summary["queries"]["answered"] == 50
    assert sum(summary["front"]["promoted"].values()) == 10
    assert summary["front"]["promoted_share"] == 0.2
    _, _, summary = played(desk, "bpf", trace, "front.promote=false")
    assert (summary["queries"]["answered"], summary["queries"]["connection_failed"]) == (40, 10)
    assert sum(summary["front"]["not_promoted"].values()) >= 10  # a client tries again on a new connection
    assert any("the front did not fully serve" in one for one in summary["warnings"])


@pytest.mark.parametrize(
    ("front", "sources"),
    [
        ("bpf", "192.0.2."),
        slow("bpf", "2001:db8::"),
        slow("reference", "192.0.2."),
        ("reference", "2001:db8::"),
    ],
)
def test_long_replies_over_udp_send_clients_to_tcp(desk: Path, front: str, sources: str) -> None:
    """`reference` asks the server over UDP for those, too, and gets them whole. Over IPv6 the server's host
    cuts them into fragments itself.
    """
    settings = ("replay.transport=udp", "replay.tcp_fallback=true", "front.truncate_udp=512")
    _, _, summary = played(desk, front, texts(desk, 10, sources), *settings)
    assert (summary["queries"]["answered"], summary["tcp_fallbacks"]) == (50, 10)
    assert summary["front"]["truncated"] == summary["front"]["syn"] == 10
    assert summary["truncated"] == 0  # of the answers in the end


@pytest.mark.parametrize("front", ["bpf", slow("reference")])
def test_a_front_that_dies_ends_the_run_and_had_no_rights_but_its_own(desk: Path, front: str) -> None:
    """The kernel would answer in its place, and nobody would know."""
    settings = ("--set", STATELESS, "--set", f"server.front={front}", *SLOWLY)
    with started(desk, "run", "good.toml", *settings) as running:
        running.reaches(ANSWERED)
        (victim,) = running.offspring("reprise-proxy stateless")
        found = status(victim)
        os.kill(victim, signal.SIGKILL)
        ended = running.end()
    assert found is not None
    assert (found.user, found.effective, found.bounding) == (NOBODY, LEFT[front], RIGHTS[front])
    assert "front died during the run (signal SIGKILL)" in ended.line()
    assert ended.summary()["unclean_because"][0].startswith("front died during the run")


MINUTE = """schema = 1
name = "minute"
trace = "minute.pcap"
[server]
kind = "nsd"
zone = "root.zone"
edns_size = 4096
[replay]
transport = "stateless-tcp"
source_mode = "mapped"
[topology]
clients = 1
queriers = 1
"""


@pytest.mark.slow
def test_the_real_minute_goes_by_each_front(
    tmp_path: Path, real: tuple[Path, Path], record_property: Callable[[str, object], None]
) -> None:
    """A minute at a root server, turned to stateless TCP: nothing is lost, and what was promoted is told."""
    for one in real:
        shutil.copy(one, tmp_path / one.name)
    (tmp_path / "minute.toml").write_text(MINUTE, encoding="ascii")
    found: dict[str, dict[str, Any]] = {}
    for front in ("kernel", *FRONTS):
        shutil.rmtree(tmp_path / "results", ignore_errors=True)
        with started(tmp_path, "run", "minute.toml", "--set", f"server.front={front}") as running:
            ended = running.end(_MINUTE_LIMIT_S)
        assert ended.status == 0, ended.errors + ended.output
        found[front] = ended.summary()
        told = found[front]["front"]
        record_property(front, {name: told[name] for name in ("queries", "promoted", "promoted_share")})
        print(front, ends(found[front]), told, found[front]["cpu_s"])
    kernel = ends(found["kernel"])
    assert kernel["answered"] > 0.99 * kernel["read"]
    assert ends(found["bpf"]) == kernel
    assert found["reference"]["queries"]["answered"] >= 0.99 * kernel["answered"]
