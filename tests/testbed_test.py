"""Faults of the testbed itself during a run, through the whole command: none of them may pass for clean, and
the first reason is the cause.
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from report.run import Run
from report.summary import summarize
from report.tally import measure
from tests.bed import Bed, has_ended, synth, wait_for
from tests.desk import ANSWERED, SLOWLY, Running, started, words_of
from tests.slow import slow

pytestmark = pytest.mark.netns


def take_down(running: Running, process: str, interface: str) -> None:
    """Takes an interface down on the host of one of the run's processes."""
    (pid, *_) = running.offspring(process)
    ip = [programs.packaged("ip"), "link", "set", "dev", interface, "down"]
    subprocess.run([programs.packaged("nsenter"), "-t", str(pid), "-n", *ip], check=True)


def test_a_servers_process_that_was_replaced_is_named(desk: Path) -> None:
    with started(desk, "run", "good.toml", *SLOWLY) as running:
        running.reaches(ANSWERED)
        worker = running.offspring("/nsd -d")[-1]
        os.kill(worker, signal.SIGKILL)
        ended = running.end()
    line = ended.line()
    assert re.search(r"not clean: process \d+ \(nsd.*\) of server ended during the replay", line)
    assert "died unexpectedly" in line
    assert ended.summary()["queries"]["answered"] > 0


def test_a_worker_that_nsd_replaced_without_a_loss_is_a_warning(desk: Path) -> None:
    """It reads its zones again on request, and continues with new processes."""
    with started(desk, "run", "good.toml", *SLOWLY) as running:
        running.reaches(ANSWERED)
        nsd, *workers = running.offspring("/nsd -d")
        os.kill(nsd, signal.SIGHUP)
        wait_for(lambda: has_ended(workers[-1]), "a worker to be replaced")
        ended = running.end()
    summary = ended.summary()
    assert summary["queries"]["answered"] == summary["queries"]["read"] - summary["queries"]["skipped"]
    assert ended.status == 0, ended.errors
    assert re.search(r"warning +process \d+ \(nsd.*\) of server ended during the replay", ended.output)


def test_a_sampler_that_stood_still_is_named(desk: Path) -> None:
    with started(desk, "run", "good.toml", *SLOWLY) as running:
        running.reaches(ANSWERED)
        sampler = next(pid for pid in running.offspring("reprise-sampler") if "server.csv" in words_of(pid))
        os.kill(sampler, signal.SIGSTOP)
        stopped = time.monotonic()
        wait_for(lambda: time.monotonic() > stopped + 2.5, "a gap")
        os.kill(sampler, signal.SIGCONT)
        ended = running.end()
    (warning,) = [one for one in ended.summary()["warnings"] if "gap" in one]
    assert float(re.fullmatch(r"server\.csv has a gap of ([\d.]+) s up to second [\d.]+", warning)[1]) > 2  # type: ignore[index]
    assert ended.status == 0, ended.errors


@pytest.mark.parametrize(
    ("interface", "other"), [("data", "link data1 of server"), ("control", "link control1 of controller")]
)
def test_a_link_that_went_down_is_the_first_reason(desk: Path, interface: str, other: str) -> None:
    with started(desk, "run", "good.toml", *SLOWLY) as running:
        running.reaches(ANSWERED)
        take_down(running, "reprise-querier distribute", interface)
        ended = running.end()
    assert f"the run is not clean: link {interface} of client1 was taken down" in ended.line()
    reasons = ended.summary()["unclean_because"]
    assert reasons[1] == f"{other} lost its carrier during the replay"
    assert not any("leave the experiment" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("process", "rule"), [("reprise-querier distribute", "udp sport 53"), slow("/nsd -d", "udp dport 53")]
)
def test_what_a_firewall_drops_on_arrival_makes_a_run_unclean(desk: Path, process: str, rule: str) -> None:
    """One datagram in twenty, on the host of clients or of the server."""
    chain = f"type filter hook input priority 0; {rule} numgen inc mod 20 0 drop;"
    with started(desk, "run", "good.toml", *SLOWLY) as running:
        running.reaches(ANSWERED)
        (pid, *_) = running.offspring(process)
        nft = [programs.packaged("nsenter"), "-t", str(pid), "-n", "nft", "-f", "-"]
        ruleset = f"table inet t {{ chain c {{ {chain} }}; }}\n"
        subprocess.run(nft, input=ruleset, text=True, check=True)
        ended = running.end()
    summary = ended.summary()
    told = [re.search(r": (?:at least )?([\d,]+) packets came", one) for one in summary["unclean_because"]]
    lost = sum(int(one[1].replace(",", "")) for one in told if one)
    assert 0 < lost <= summary["queries"]["timed_out"]  # of which a busy machine has more
    assert "packets came and were not delivered (Ip" in ended.line()


def test_refused_realtime_is_a_warning(bed: Bed, tmp_path: Path) -> None:
    """In the records, and so in the table and the report."""
    trace = synth(tmp_path / "few.pcap", "--queries", "50", "--rate", "200", "--clients", "20")
    bed.start_server()
    drop = (programs.packaged("setpriv"), "--inh-caps=-sys_nice", "--bounding-set=-sys_nice")
    bed.start_distributor(1, queriers=1, wrap=drop)
    controller = bed.start_controller(trace, extra=("--realtime",))
    assert controller.wait() == 0, controller.text()
    summary: dict[str, Any] = summarize(measure(Run(bed.results)))
    (warning,) = [one for one in summary["warnings"] if "realtime" in one]
    assert re.match(r"queriers of client1: realtime was refused \(.*\), other processes may have", warning)
