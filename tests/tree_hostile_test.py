"""The replay tree against strangers, early ends and odd traces: no hang, no crash, no lost count."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from cli import linux
from cli.plan import network
from tests.bed import PORT, Bed, accounted, progress, synth, wait_for, wait_for_answers

pytestmark = pytest.mark.netns


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 s of 300 q/s."""
    options = ("--rate", "300", "--duration", "6", "--clients", "300", "--seed", "9")
    return synth(tmp_path_factory.mktemp("trace") / "short.pcap", *options)


def test_a_silent_stranger_does_not_lock_the_controller_out(bed: Bed, trace: Path) -> None:
    bed.start_server()
    distributor = bed.start_distributor(1)
    with linux.inside(bed.hosts.of("controller")):
        stranger = socket.create_connection((network.control_address(1), PORT))
    controller = bed.start_controller(trace, extra=("--speed", "4"))
    assert controller.wait() == 0, controller.text() + distributor.text()
    stranger.close()


class Strangers:
    """500 of the controller's host: they say nothing, half a handshake, or junk, again and again."""

    COUNT = 500
    # Nothing, a ClientHello's first bytes, words of another protocol, a frame of ours.
    WORDS = (
        b"",
        bytes.fromhex("160301020001000001fc0303"),
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x10\0\0\0" + b"\xff" * 16,
    )

    def __init__(self, bed: Bed) -> None:
        self._bed, self._done, self.met = bed, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_for(lambda: self.met >= self.COUNT, "strangers")

    def _run(self) -> None:
        network_of_controller = self._bed.hosts.of("controller")
        assert network_of_controller is not None
        linux.setns(network_of_controller)  # of this thread only
        held: list[socket.socket] = []
        while not self._done.wait(0.001):  # a thousand a second
            held.append(self._come())
            if len(held) > self.COUNT:
                held.pop(0).close()
        for one in held:
            one.close()

    def _come(self) -> socket.socket:
        one = socket.socket()
        one.settimeout(0.2)
        with contextlib.suppress(OSError):  # nobody listens, once the parent is there
            one.connect((network.control_address(1), PORT))
            one.send(self.WORDS[self.met % len(self.WORDS)])
        self.met += 1
        return one

    def __enter__(self) -> Strangers:
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def test_strangers_change_nothing(bed: Bed, trace: Path) -> None:
    """The controller's one connection is not lost among theirs; once it stands, nobody listens."""
    bed.start_server()
    distributor = bed.start_distributor(1)
    with Strangers(bed) as strangers:
        controller = bed.start_controller(trace, extra=("--speed", "2"))
        wait_for_answers(controller)
        with linux.inside(bed.hosts.of("controller")), pytest.raises(ConnectionRefusedError):
            socket.create_connection((network.control_address(1), PORT))
        assert controller.wait() == 0, controller.text() + distributor.text()
        assert strangers.met > Strangers.COUNT
    queries = bed.account()["queries"]
    assert queries["answered"] == queries["read"] == accounted(queries)
    assert distributor.wait() == 0
    assert distributor.text().count("event=refused ") <= 20


def test_a_pipe_that_pauses_does_not_stop_the_run(bed: Bed, trace: Path) -> None:
    """In the middle of the replay nothing is handed out for longer than a child bears silence."""
    bed.start_server()
    bed.start_distributor(1)
    pipe = bed.folder / "pipe"
    os.mkfifo(pipe)
    content = trace.read_bytes()
    half = len(content) // 2  # three seconds of queries: more than is handed out ahead
    late = ("--max-lateness-s", "30", "--late-ms", "0")
    controller = bed.start_controller(pipe, extra=late)
    with os.fdopen(os.open(pipe, os.O_RDWR), "wb") as out:  # waits for no reader
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 1 << 20)
        out.write(content[:half])
        out.flush()
        wait_for(lambda: " event=start " in controller.text(), "the start", 20)
        time.sleep(5)  # the pause is what is tested
        played = progress(controller)["answered"]
        out.write(content[half:])
    assert controller.wait() == 0, controller.text()
    queries = bed.account()["queries"]
    assert queries["answered"] == queries["read"] > 1500
    assert played == pytest.approx(queries["read"] / 2, rel=0.1)


def test_time_that_goes_back_goes_on_and_is_counted(bed: Bed, trace: Path) -> None:
    """The trace twice in one file: the second half begins before the first ends."""
    content = trace.read_bytes()
    twice = bed.folder / "twice.pcap"
    twice.write_bytes(content + content[24:])
    bed.start_server()
    bed.start_distributor(1)
    controller = bed.start_controller(twice, extra=("--speed", "4"))
    assert controller.wait() == 0, controller.text()
    account = bed.account()
    assert account["reader"]["clock_steps_back"] == 1
    assert [note.split(":")[0] for note in account["reader"]["notes"]] == ["clock_steps_back 1"]
    queries = account["queries"]
    assert queries["answered"] == queries["read"] > 3000
