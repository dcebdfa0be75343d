"""Counts that are read each second."""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.servers import counted


def test_what_was_counted_while_it_was_read_is_read_at_the_end(tmp_path: Path) -> None:
    answered = [10]

    def read() -> dict[str, int]:
        found = answered[0]
        if found == 10:  # the replay ends meanwhile
            answered[0] = 11
            signal.raise_signal(signal.SIGTERM)
        return {"answers": found, "counted_until_ns": 0, "other": 7}

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        counted._each_second(tmp_path / "counts.csv", ("answers",), {"server": read})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    rows = (tmp_path / "counts.csv").read_text(encoding="ascii").splitlines()
    assert rows[0] == "time_real_ns,time_mono_ns,process,answers"
    assert [row.partition(",")[2] for row in rows[1:]] == ["0,server,10", "0,server,11"]


def test_a_server_that_is_slow_at_first_has_the_columns_that_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter((None, {"queries": 5}, {"queries": 6}))

    def read(_server: object) -> dict[str, int]:
        if (found := next(said)) is None:
            raise ValueError
        return found

    def once(_out: Path, columns: Sequence[str], reads: Mapping[str, Callable[[], object]]) -> None:
        assert list(columns) == ["queries"]
        assert reads["server"]() == {"queries": 6}

    monkeypatch.setattr(counted, "KINDS", {"nsd": SimpleNamespace(counted=read)})
    monkeypatch.setattr(counted, "_each_second", once)
    counted.watch("nsd", tmp_path, tmp_path / "out", 1, tmp_path / "log", tls=True)
