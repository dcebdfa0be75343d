"""A server that stands still for 200 ms every 2 s: what the report says of it is what the capture shows."""

import collections
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests import independent_timing
from tests.bed import synth
from tests.desk import Running, furnish, started
from tests.slow import slow
from tests.udp_faults_test import pause

pytestmark = pytest.mark.netns

STALL_S, EVERY_S, STALLS = 0.2, 2.0, 2
SHARES = (500, 990, 999)  # per mille


def stall(running: Running, program: str) -> list[float]:
    """Stops all processes of the server for a moment again and again; at the end it reads its zones again.
    Returns when they were stopped.
    """
    victims = running.offspring(program)
    assert victims
    stopped = []
    for turn in range(STALLS):
        pause(EVERY_S - STALL_S if turn else 0.5)
        stopped.append(time.monotonic())
        for pid in victims:
            os.kill(pid, signal.SIGSTOP)
        pause(STALL_S)
        for pid in victims:
            os.kill(pid, signal.SIGCONT)
    os.kill(victims[0], signal.SIGHUP)
    return stopped


def responses_us(run: Path) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """By tshark alone: from when each query was due to when its answer left the server's host."""
    account = json.loads((run / "controller.json").read_text(encoding="utf-8"))
    start = account["start"]
    left: dict[tuple[str, ...], collections.deque[int]] = collections.defaultdict(collections.deque)
    for at, key in independent_timing.queries(str(run / "capture.pcap"), responses=True):
        left[key].append(at)
    asked = independent_timing.queries(account["trace"])
    due = [(start["real_ns"] + at - start["trace_first_ns"], key) for at, key in asked]
    return np.array([(left[key].popleft() - at) / 1000 for at, key in due], np.float64)


@pytest.mark.parametrize(
    ("kind", "program", "event"), [slow("nsd", "/nsd -d", "reloading"), ("bind", "/named -g", "succeeded")]
)
def test_response_time_and_stalls_are_those_of_the_capture(
    tmp_path: Path, kind: str, program: str, event: str
) -> None:
    trace = synth(tmp_path / "made.pcap", "--rate=500", "--duration=8", "--tcp-share=0", "--seed=3")
    desk = furnish(tmp_path, trace)
    settings = (f"server.kind={kind}", "sample.capture=true", "replay.timeout_s=2")
    words = [word for one in settings for word in ("--set", one)]
    with started(desk, "run", "good.toml", *words) as running:
        running.reaches(r"answered [1-9]\d\d")
        stopped = stall(running, program)
        ended = running.end()
    summary = ended.summary()
    assert summary["clean"], summary["unclean_because"]
    seen = np.sort(responses_us(ended.results[0]))
    assert len(seen) == summary["queries"]["answered"] == summary["queries"]["read"]
    assert float(np.mean(seen > 10_000)) > 0.02  # of the queries waited in a stall, or were late themselves

    # The capture lacks the way back to the client, and our records lack nothing: some microseconds apart.
    told = [summary["response_us"][name] for name in ("median", "p99", "p999")]
    by_capture = [seen[-(-len(seen) * share // 1000) - 1] for share in SHARES]
    for ours, theirs in zip(told, by_capture, strict=True):
        assert theirs - 5 <= ours <= theirs + max(2_000, 0.02 * theirs), (told, by_capture)

    stalls = summary["stalls"]
    whole = [one for one in stalls["spans"] if one["seconds"] >= STALL_S - 0.05]
    account = json.loads((ended.results[0] / "controller.json").read_text(encoding="utf-8"))
    for at_s in (moment - account["start"]["mono_ns"] / 1e9 for moment in stopped):
        assert any(abs(one["at_s"] - at_s) < 0.25 for one in whole), (at_s, stalls)
    assert stalls["longest_s"] >= STALL_S - 0.03
    assert any(event in line for one in whole for line in one["events"]), stalls
    assert "no answer came" in ended.output
