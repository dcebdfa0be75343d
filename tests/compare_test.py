"""Two servers with the same zone: each difference of their answers has a class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import run
from tests.desk import Ended, reprise

pytestmark = pytest.mark.netns


def replay(folder: Path, kind: str) -> Ended:
    settings = (
        f"server.kind={kind}",
        f"name={kind}",
        "replay.answers=true",
        "synth.duration=8",
        "replay.late_ms=1000",
    )
    return reprise(folder, "run", "quickstart", *(word for one in settings for word in ("--set", one)))


def test_nothing_of_the_quickstart_on_two_servers_is_unexplained(tmp_path: Path) -> None:
    for kind in ("nsd", "bind"):
        replay(tmp_path, kind)
    runs = sorted((tmp_path / "results").iterdir())
    for order in (runs, runs[::-1]):
        done = run("compare", *map(str, order), "--json", str(tmp_path / "out.json"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) <= 20
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert result["compared"] > 2_000
        assert result["unexplained"] == []
        assert result["zone"]["origin"] == "."
