"""System calls: processes that are bound to this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
_FOLLOWS_NO_LINK = """
import sys
from pathlib import Path
from cli.plan import privileges
seen = privileges.lend(Path(sys.argv[1]), Path(sys.argv[2]))
(seen / "link").symlink_to("/usr")
print((seen / "link").exists())
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


def test_links_are_forbidden_on_a_mount_with_other_flags(tmp_path: Path) -> None:
    """A user namespace may not clear the flags of a mount that it did not make."""
    results, run = tmp_path / "results", tmp_path / "run"
    results.mkdir()
    run.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "--")
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make namespaces")
    mounted = 'mount -t tmpfs -o noexec,noatime results "$1" && shift && exec "$@"'
    code = (sys.executable, "-c", _FOLLOWS_NO_LINK, str(results), str(run))
    argv = [*apart, "sh", "-c", mounted, "sh", str(results), *apart, *code]
    done = subprocess.run(argv, cwd=programs.ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
