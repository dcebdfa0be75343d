"""What NSD has counted, by its log."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from cli.servers import nsd
from cli.servers.kind import Serving
from tests.bed import wait_for


def line_of(process: int, queries: int) -> str:
    return (
        f"[2026-11-25 18:26:29.339] nsd[{process}]: info: XSTATS 1 2 RQ={queries} RTCP=1 SAns={queries - 1}\n"
    )


def state_of(process: int) -> tuple[str, str]:
    name, _, state = (
        Path(f"/proc/{process}/stat").read_text(encoding="ascii").partition("(")[2].partition(")")
    )
    return name, state.split()[0]


def test_counts_are_of_processes_that_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One says what it has counted, one not in time, and one has ended since it said so."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    log = tmp_path / "server.log"
    log.write_text(line_of(ended.pid, 1_000) + line_of(1, 30))

    def say(_process: int, _signal: int) -> None:
        with log.open("a", encoding="ascii") as file:
            file.write(line_of(os.getpid(), 8))

    monkeypatch.setattr(os, "kill", say)
    monkeypatch.setattr(nsd, "_PATIENCE_S", 0.1)
    counts = nsd.counted(Serving(tmp_path, os.getpid(), log))
    assert counts == {"queries": 38, "tcp_queries": 2, "answers": 36 + 2}


def test_a_process_that_is_slow_to_say_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    log.touch()
    server = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    first, second = (int(server.stdout.readline()) for _ in range(2))
    asleep = ("sleep", "S")
    wait_for(lambda: {state_of(first), state_of(second)} == {asleep}, "both to sleep")

    def write(process: int) -> None:
        with log.open("a", encoding="ascii") as file:
            file.write(line_of(process, 10 * process))

    late = threading.Timer(0.3, write, (second,))

    def say(_process: int, _signal: int) -> None:
        write(first)
        late.start()

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", say)
        patch.setattr(nsd, "_PATIENCE_S", 60.0)  # the machine may be busy
        counts = nsd.counted(Serving(tmp_path, server.pid, log))
    for process in (first, second, server.pid):
        os.kill(process, signal.SIGKILL)
    server.wait()
    assert counts["queries"] == 10 * (first + second)


def test_an_nsd_that_says_nothing_has_no_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    log.write_text("[2026-11-25 18:26:17.680] nsd[18]: notice: nsd started (NSD 4.6.1), pid 16\n")
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(nsd, "_PATIENCE_S", 0.1)
    with pytest.raises(ValueError, match=r"server\.log has no new counts"):
        nsd.counted(Serving(tmp_path, os.getpid(), log))
