"""Pairs of runs, by what their folders hold."""

import argparse
import json
from pathlib import Path

import pytest

from bench import against
from cli.errors import UsageError


def _ran(folder: Path, cost: float, other: float) -> None:
    folder.mkdir()
    table = [
        {"row": "few-sockets", "tool": "reprise", "unit": "s/M", "values": [cost]},
        {"row": "few-sockets", "tool": "reprise", "unit": "s/M softirq", "values": [9]},
        {"row": "few-sockets", "tool": "dnsperf", "unit": "s/M", "values": [other]},
    ]
    (folder / "recomputed.json").write_text(json.dumps({"table": table}), encoding="utf-8")


def test_pairs_of_other_options_are_not_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "_git", lambda *_: "f" * 40)
    monkeypatch.setattr(against, "_checkout", lambda _: tmp_path)
    monkeypatch.setattr(against, "_rows", lambda _: [])
    call = argparse.Namespace(against="HEAD", bench="udp", output=tmp_path, resume=True, pairs=0)
    assert against.measure(call, ["udp", "--quick"]) == 0
    (tmp_path / f"udp-against-{'f' * 12}/001-here").mkdir()
    assert against.measure(call, ["udp", "--quick"]) == 0
    with pytest.raises(UsageError, match="has pairs"):
        against.measure(call, ["udp"])


def test_ratios_of_all_pairs_of_our_figures(tmp_path: Path) -> None:
    for pair, (here, there) in enumerate(((2.0, 4.0), (3.0, 3.0), (3.0, 4.0)), 1):
        _ran(tmp_path / f"{pair:03d}-here", here, other=2)
        _ran(tmp_path / f"{pair:03d}-there", there, other=4)
    (tmp_path / ".004-here").mkdir()  # of a call that was interrupted
    assert against._rows(tmp_path) == [("few-sockets", "reprise", "s/M", "0.500", "0.750", "1", "1.500", "3")]
