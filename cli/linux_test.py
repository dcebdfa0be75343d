"""System calls: processes that are bound to this one."""

from __future__ import annotations

import subprocess
import sys

from cli import programs

_SIGNAL_IN_THE_FORK = """
import os, signal
from cli import errors, linux
errors.interrupt_in_order()
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    linux.start_bound(["sleep", "60"])
    print("went on")
except KeyboardInterrupt:
    print("interrupted")
"""
_MASK_OF_A_CHILD = """
from cli import linux
raise SystemExit(linux.start_bound(["grep", "-q", "^SigBlk:\\t0*$", "/proc/self/status"]).wait())
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs it in a process of its own."""
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, cwd=programs.ROOT, capture_output=True, text=True, timeout=30, check=False)


def test_a_signal_while_a_process_starts_is_not_lost() -> None:
    done = python(_SIGNAL_IN_THE_FORK)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_started_process_can_be_interrupted() -> None:
    assert python(_MASK_OF_A_CHILD).returncode == 0
