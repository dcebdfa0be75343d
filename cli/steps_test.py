"""The line that tells how far a long step is: recorded output in, lines out, with a clock of the test's."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from cli import programs, steps
from cli.progress import Progress

# What apt-get and dpkg write to APT::Status-Fd, with lines of their ordinary output between.
APT = """\
Reading package lists...
dlstatus:1:0:Retrieving file 1 of 3
dlstatus:2:40.5:Retrieving file 2 of 3
pmstatus:dpkg-exec:0:Running dpkg
Selecting previously unselected package nsd.
pmstatus:nsd:20:Preparing nsd (amd64)
pmstatus:dpkg-exec:60:Running dpkg
"""
NINJA = ["[1/200] Building CXX object core/a.cc.o", "core/a.cc:3: warning: [7/9] x", "[50/200] Linking CXX"]


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def lines(read: steps.Read, output: Iterable[tuple[float, str]]) -> list[str]:
    """The live line after each line of a program that began at 100 s."""
    tracker = steps.Tracker("step 2 of 3: it", read, 100.0)
    found = []
    for now, line in output:
        tracker.take(line, 100.0 + now)
        found.append(tracker.text(100.0 + now).removeprefix("step 2 of 3: it"))
    return found


def test_apt_is_followed_from_fetching_to_installing() -> None:
    assert lines(steps.read_apt, zip((0, 1, 10, 20, 20, 44, 72), APT.splitlines(), strict=True)) == [
        "",
        ": 0 % fetched, time left not yet known",
        ": 40 % fetched, less than a minute left",
        ": 0 % installed, time left not yet known",
        ": 0 % installed, time left not yet known",
        ": 20 % installed, about 2 min left",
        ": 60 % installed, less than a minute left",
    ]


def test_ninja_is_followed_by_its_files() -> None:
    assert lines(steps.read_ninja, zip((1, 40, 60), NINJA, strict=True)) == [
        ": 1 of 200 files, 0 %, time left not yet known",
        ": 1 of 200 files, 0 %, time left not yet known",
        ": 50 of 200 files, 25 %, about 3 min left",
    ]


def test_pip_is_followed_by_its_packages() -> None:
    output = ["Collecting numpy==1", "  Downloading numpy", "Requirement already satisfied: xxhash"]
    assert lines(steps.read_pip(3), [(1, one) for one in output]) == [
        ": 1 of 3 packages, time left not yet known",
        ": 1 of 3 packages, time left not yet known",
        ": 2 of 3 packages, time left not yet known",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute left"),
        (44, "less than a minute left"),
        (46, "about 1 min left"),
        (200, "about 3 min left"),
    ],
)
def test_what_is_left_in_words(seconds: float, words: str) -> None:
    assert steps.left_in_words(seconds) == words


def test_where_nobody_watches_a_line_comes_every_15_seconds() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream, steps.LINE_EVERY_S, lambda: now[0])
    for second in range(32):
        now[0] = float(second)
        progress.show(f"{second} s")
    progress.end("done")
    assert stream.getvalue().splitlines() == [f"reprise: {one}" for one in ("0 s", "15 s", "30 s", "done")]


def test_on_a_terminal_one_line_is_rewritten() -> None:
    stream = Terminal()
    progress = Progress(stream, steps.LINE_EVERY_S)
    progress.show("long line")
    progress.show("short")
    progress.end("end")
    assert stream.getvalue() == "\rreprise: long line\rreprise: short    \rreprise: end  \n"


def test_output_is_kept_and_status_lines_are_not() -> None:
    stream = io.StringIO()
    script = "echo E: no; echo pmstatus:a:50:x; printf half; exit 3"
    done = steps.run(steps.Job("it", ("sh", "-c", script), steps.read_apt), Progress(stream))
    assert (done.status, done.output) == (3, "E: no\nhalf")
    assert "done" not in stream.getvalue()
    good = steps.run(steps.Job("it", ("sh", "-c", "echo x $A"), env={"A": "y"}), Progress(stream))
    assert (good.status, good.output) == (0, "x y")
    assert stream.getvalue().endswith("reprise: it: done in 0 s\n")
    assert steps.run(steps.Job("it", ("/no/such/program",)), Progress(stream)).status == 127


@pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"])
def test_an_interruption_ends_the_program_first(tmp_path: Path, before: str) -> None:
    """The program takes a while to end in order; what we started is not left behind."""
    (tmp_path / "slow").write_text(
        f"#!/bin/sh\ntrap 'sleep 0.3; touch {tmp_path}/ended; exit 1' INT\ntouch {tmp_path}/began\n"
        "while :; do sleep 0.05; done\n"
    )
    code = (
        f"import signal\nfrom cli import steps, errors\n{before}errors.interrupt_in_order()\n"
        f"try:\n    steps.run(steps.Job('it', ('sh', '{tmp_path}/slow')))\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(
        argv, cwd=programs.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        end = time.monotonic() + 30
        while not (tmp_path / "began").exists() and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGTERM)
        assert child.communicate(timeout=30)[0] == b"interrupted\n"
    assert (tmp_path / "ended").exists()
