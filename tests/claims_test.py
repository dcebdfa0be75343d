"""What a run says of itself: it is clean only where the server was asked on time and answered."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from cli.plan import network
from report.rqfile import Status
from tests.bed import PORT, Bed, MakeBed, accounted, progress, synth, wait_for, wait_for_answers

pytestmark = pytest.mark.netns

SECOND = 10**9
EVEN = ("--tcp-share", "0", "--arrival", "fixed")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 s of 200 q/s over UDP, evenly spaced."""
    options = (
        "--rate",
        "200",
        "--duration",
        "6",
        "--clients",
        "20",
        "--tcp-share",
        "0",
        "--arrival",
        "fixed",
    )
    return synth(tmp_path_factory.mktemp("trace") / "steady.pcap", *options)


def test_a_run_without_answers_is_not_clean(bed: Bed, trace: Path) -> None:
    bed.start_distributor(1, queriers=1)
    controller = bed.start_controller(trace, extra=("--speed", "8", "--timeout-s", "0.3"))
    assert controller.wait() == 1, controller.text()
    account = bed.account()
    sent = account["queries"]["sent"]
    assert account["because"] == [f"the server answered none of {sent} queries sent"]
    assert f"done clean=false because={account['because'][0]}" in controller.text()
    assert accounted(account["queries"]) == account["queries"]["read"] == sent


def test_a_run_that_could_send_nothing_is_not_clean(bed: Bed, trace: Path) -> None:
    for family, address in (("-4", network.SERVICE_V4), ("-6", network.SERVICE_V6)):
        bed.ip("client1", family, "route", "del", address)
    bed.start_distributor(1, queriers=1)
    controller = bed.start_controller(trace, extra=("--speed", "8"))
    assert controller.wait() == 1, controller.text()
    account = bed.account()
    failed = account["queries"]["send_failed"]
    assert failed == account["queries"]["read"] == accounted(account["queries"])
    assert account["because"] == [f"no query reached the server: {failed} could not be sent"]


def test_a_querier_that_stood_still_is_told(bed: Bed, trace: Path) -> None:
    """Stopped for 1 s of 3, which is less than makes the run end."""
    bed.start_server()
    distributor = bed.start_distributor(1, queriers=1)
    extra = ("--max-lateness-s", "20", "--late-ms", "100", "--limit", "600")
    controller = bed.start_controller(trace, extra=extra)
    wait_for_answers(controller)
    (querier,) = bed.queriers(distributor)
    os.kill(querier, signal.SIGSTOP)
    end = time.monotonic() + 1  # how long it stands still is part of the fault
    wait_for(lambda: time.monotonic() >= end, "the end of the pause")
    os.kill(querier, signal.SIGCONT)
    assert controller.wait() == 1, controller.text()
    account = bed.account()
    queries = account["queries"]
    assert queries["answered"] == queries["read"] == accounted(queries)
    (file,) = bed.records()
    late = file.records["send_ns"] - file.records["due_ns"] > 0.1 * SECOND
    assert queries["sent_late"] == late.sum() > 150
    (because,) = account["because"]
    assert "were sent over 100 ms after their time" in because


def test_a_fast_replay_ends_on_time(bed: Bed, trace: Path) -> None:
    """Far more was handed out before than can be sent in the time: what is left is skipped and counted."""
    bed.start_server()
    bed.start_distributor(1, queriers=1)
    extra = ("--fast", "--duration-s", "1.5", "--loop", "0", "--in-flight", "1")
    controller = bed.start_controller(trace, extra=extra)
    assert controller.wait() == 0, controller.text()
    account = bed.account()
    queries = account["queries"]
    assert accounted(queries) == queries["read"]
    assert queries["answered"] == queries["sent"] > 0
    (file,) = bed.records()
    skipped = file.records["status"] == Status.SKIPPED
    assert skipped.sum() > 10_000
    assert set(file.records["reason"][skipped].tolist()) == {4}
    sent = file.records["send_ns"][~skipped] - account["start"]["mono_ns"]
    assert np.all(sent <= 2.5 * SECOND)  # the last may be held up on their way to the kernel
    assert set(account["skipped"]) <= {"duration"}


def test_times_of_sending_bound_latencies_from_above(bed: Bed, trace: Path) -> None:
    """Whatever happens in between: an answer never comes before its query was sent."""
    bed.start_server()
    bed.start_distributor(1, queriers=1)
    extra = ("--fast", "--limit", "100000", "--loop", "0", "--in-flight", "1000")
    controller = bed.start_controller(trace, extra=extra)
    assert controller.wait() == 0, controller.text()
    (file,) = bed.records()
    answered = file.records["status"] == Status.ANSWERED
    assert np.all(file.records["latency_ns"][answered] > 0)
    assert np.all(file.records["recv_ns"][answered] > file.records["send_ns"][answered])
    unsure = (file.records["marks"] & 8192) != 0
    assert bed.account()["queries"]["send_unsure"] == unsure.sum()


def test_a_family_that_nobody_hears_does_not_hold_up_the_other(make_bed: MakeBed, tmp_path: Path) -> None:
    bed = make_bed("addresses")
    bed.start_server()
    options = (
        "--rate",
        "500",
        "--duration",
        "3",
        "--clients",
        "50",
        "--tcp-share",
        "0",
        "--ipv6-share",
        "0.5",
    )
    trace = synth(tmp_path / "both.pcap", *options, "--client-prefix", "203.0.0.0/16", "--arrival", "fixed")
    nobody = ("fd00:198:19:1::dead", "dev", "data")
    bed.ip("client1", "-6", "route", "replace", network.SERVICE_V6, "via", *nobody)
    bed.start_distributor(1, queriers=1)
    extra = ("--source-mode", "addresses", "--timeout-s", "1")
    controller = bed.start_controller(trace, extra=extra)
    assert controller.wait() == 0, controller.text()
    queries = bed.account()["queries"]
    assert accounted(queries) == queries["read"]
    (file,) = bed.records()
    assert 480 < queries["answered"] < 1020
    assert queries["timed_out"] + queries["send_failed"] == queries["read"] - queries["answered"]
    late = file.records["send_ns"] - file.records["due_ns"] > SECOND // 2
    assert late.sum() < 300  # of those of the other family; a busy machine may hold up some
    assert progress(controller)["answered"] > 0


def test_a_distributors_key_commands_nobody(bed: Bed, trace: Path) -> None:
    """Of this run, and signed by its authority; but a certificate says what its key is good for."""
    first = bed.start_distributor(1, queriers=1)
    second = bed.start_distributor(
        2, queriers=1, host="client1", feeds=(f"client1={network.control_address(1)}:{PORT}",)
    )
    assert second.wait() == 1
    wait_for(lambda: "event=refused" in first.text(), "the refusal")
    assert "purpose" in first.text() or "certificate" in first.text()
    assert not first.has_ended()
    bed.start_server()
    controller = bed.start_controller(trace, extra=("--speed", "8"))
    assert controller.wait() == 0, controller.text()
