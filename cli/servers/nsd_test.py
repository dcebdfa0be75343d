"""What NSD has counted, by its log."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cli.servers import nsd
from cli.servers.kind import Serving


def line_of(process: int, queries: int) -> str:
    return (
        f"[2026-11-25 18:26:29.339] nsd[{process}]: info: XSTATS 1 2 RQ={queries} RTCP=1 SAns={queries - 1}\n"
    )


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
    counts = nsd.counted(Serving(tmp_path, 1, log))
    assert counts == {"queries": 38, "tcp_queries": 2, "answers": 36 + 2}


def test_an_nsd_that_says_nothing_has_no_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    log.write_text("[2026-11-25 18:26:17.680] nsd[18]: notice: nsd started (NSD 4.6.1), pid 16\n")
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(nsd, "_PATIENCE_S", 0.1)
    with pytest.raises(ValueError, match=r"server\.log has no new counts"):
        nsd.counted(Serving(tmp_path, 1, log))
