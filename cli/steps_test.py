"""The line that tells how far a long step is: recorded output in, lines out, with a clock of the test's."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli import programs, steps
from cli.progress import Progress


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_line_shows_the_last_of_the_output() -> None:
    stream = io.StringIO()
    script = "printf 'one\\n7 of 9: two\\n'; sleep 0.5"
    steps.run(steps.Job("step 2 of 3: it", ("sh", "-c", script)), Progress(stream, quiet_s=0.0))
    assert "reprise: step 2 of 3: it: 7 of 9: two\n" in stream.getvalue()


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


def test_output_is_kept() -> None:
    stream = io.StringIO()
    script = "echo E: no; printf half; exit 3"
    done = steps.run(steps.Job("it", ("sh", "-c", script)), Progress(stream))
    assert (done.returncode, done.stdout) == (3, "E: no\nhalf")
    assert "done" not in stream.getvalue()
    good = steps.run(steps.Job("it", ("sh", "-c", "echo x $A"), env={"A": "y"}), Progress(stream))
    assert (good.returncode, good.stdout) == (0, "x y")
    assert stream.getvalue().endswith("reprise: it: done in 0 s\n")
    assert steps.run(steps.Job("it", ("/no/such/program",)), Progress(stream)).returncode == 127


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
