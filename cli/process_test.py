"""Started programs: what they say, how they end, and what ends them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import RepriseError
from cli.process import Process

_KILLED = """
import os, signal, sys
from pathlib import Path
from cli.process import Process
argv = ["sh", "-c", "echo bound; exec sleep 60"]
print(Process.started(argv, Path(sys.argv[1]), bound=True, core=0).until("bound").pid)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def sh(line: str, log: Path, **more: object) -> Process:
    return Process.started(["sh", "-c", line], log, **more)  # type: ignore[arg-type]


def test_what_it_writes_is_added_and_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("earlier\n")
    apart = sh("echo out; echo err >&2; exit 3", tmp_path / "log", output=tmp_path / "out")
    assert (apart.wait(), apart.text(), apart.last_line()) == (3, "out\nerr\n", "err")
    both = sh("echo $A; echo err >&2", tmp_path / "log", env={"A": "x", "PATH": os.environ["PATH"]})
    assert (both.wait(), both.text(), (tmp_path / "log").read_text()) == (
        *(0, "x\nerr\n"),
        "earlier\nerr\nx\nerr\n",
    )
    assert both.usage is not None and both.usage.ru_maxrss > 0


def test_its_readiness_is_a_text(tmp_path: Path) -> None:
    ready = sh("sleep 0.1; echo it is ready; exec sleep 60", tmp_path / "a").until("ready\n")
    assert not ready.has_ended()
    assert ready.stop() == -signal.SIGTERM
    with pytest.raises(RepriseError, match="sh ended: no"):
        sh("echo no", tmp_path / "b").until("ready")
    with pytest.raises(RepriseError, match="sh ended: because of it"):
        sh("echo 2026 because of it; echo the end", tmp_path / "c").until("ready", reason="because.*")
    slow = sh("exec sleep 60", tmp_path / "d", name="slow")
    with pytest.raises(RepriseError, match=r"slow has not said ready in 0\.1 s"):
        slow.until("ready", 0.1)
    with pytest.raises(RepriseError, match=r"slow did not end in 0\.1 s"):
        slow.wait(0.1)
    assert slow.exit == -signal.SIGKILL
    slow.send(signal.SIGTERM)  # it has ended: nothing happens
    with pytest.raises(RepriseError, match="cannot start /no/such: No such file"):
        Process.started(["/no/such"], tmp_path / "e")


def test_signals_that_are_blocked_or_ignored_here_reach_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        fields = ("grep", "-cE", "^Sig(Blk|Ign):.*0{7}$", "/proc/self/status")
        assert Process.started(fields, tmp_path / "log").until("2\n").wait() == 0
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        signal.signal(signal.SIGINT, before)


def test_nothing_is_left_of_one_that_is_interrupted_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    spawn = os.posix_spawn

    def interrupted(*args: Any, **more: Any) -> int:
        made.append(spawn(*args, **more))
        signal.raise_signal(signal.SIGINT)
        return made[0]

    monkeypatch.setattr(os, "posix_spawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sh("exec sleep 60", tmp_path / "log")
    with pytest.raises(ProcessLookupError):
        os.kill(made[0], 0)


def test_a_descriptor_is_handed_over(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w+") as file:
        assert (
            sh(f"echo x >/proc/self/fd/{file.fileno()}", tmp_path / "log", held=[file.fileno()]).wait() == 0
        )
        assert file.read() == "x\n"
        assert sh(f"test -e /proc/self/fd/{file.fileno()}", tmp_path / "log").wait() == 1


def test_one_that_is_bound_ends_with_us(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _KILLED, str(tmp_path / "log")]
    done = subprocess.run(argv, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    end = time.monotonic() + 30
    stat = Path(f"/proc/{int(done.stdout)}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.01)
