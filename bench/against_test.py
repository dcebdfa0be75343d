"""Pairs of runs, by what their folders hold."""

from __future__ import annotations

import json
from pathlib import Path

from bench import against


def _ran(folder: Path, cost: float, other: float) -> None:
    folder.mkdir()
    table = [
        {"row": "few-sockets", "tool": "reprise", "unit": "s/M", "values": [cost]},
        {"row": "few-sockets", "tool": "reprise", "unit": "s/M softirq", "values": [9]},
        {"row": "few-sockets", "tool": "dnsperf", "unit": "s/M", "values": [other]},
    ]
    (folder / "recomputed.json").write_text(json.dumps({"table": table}), encoding="utf-8")


def test_ratios_of_all_pairs_of_our_figures(tmp_path: Path) -> None:
    for pair, (here, there) in enumerate(((2.0, 4.0), (3.0, 3.0), (3.0, 4.0)), 1):
        _ran(tmp_path / f"{pair:03d}-here", here, other=2)
        _ran(tmp_path / f"{pair:03d}-there", there, other=4)
    (tmp_path / ".004-here").mkdir()  # of a call that was interrupted
    assert against._rows(tmp_path) == [("few-sockets", "reprise", "s/M", "0.500", "0.750", "1", "1.500", "3")]
