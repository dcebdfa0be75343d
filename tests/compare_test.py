"""Two servers with the same zone: each difference of their answers has a class, and can be asked again."""

import json
from pathlib import Path

import pytest

from tests import desk as desks
from tests.bed import ZONE
from tests.command import run
from tests.desk import Ended, reprise

pytestmark = pytest.mark.netns


def replay(folder: Path, kind: str, mode: str) -> Ended:
    settings = (
        f"server.kind={kind}",
        f"name={kind}",
        "replay.answers=true",
        f"replay.source_mode={mode}",
        "synth.rate=1500",
        "synth.duration=2",
        "replay.late_ms=1000",
    )
    return reprise(folder, "run", "quickstart", *(word for one in settings for word in ("--set", one)))


@pytest.mark.slow
def test_nothing_of_the_quickstart_on_two_servers_is_unexplained(tmp_path: Path) -> None:
    """Nor are the answers that mode packet takes from the interface whole held for lost ones."""
    for kind, mode in (("nsd", "packet"), ("bind", "ports")):
        ended = replay(tmp_path, kind, mode)
        assert ended.status == 0, ended.errors
    runs = sorted((tmp_path / "results").iterdir())
    for order in (runs, runs[::-1]):
        done = run("compare", *map(str, order), "--json", str(tmp_path / "out.json"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) <= 20
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert result["compared"] > 2_000
        assert result["unexplained"] == []
        assert result["zone"]["origin"] == "."


def test_differences_are_asked_again_of_both_servers(desk: Path) -> None:
    """The zone has grown between the two runs: answers that differ for that agree when both serve it."""
    desks.run(desk, "name=nsd", "replay.answers=true", "replay.limit=200")
    (desk / "zone").write_text(f"{ZONE}org. 300 IN NS ns.com.\n", encoding="ascii")
    desks.run(desk, "name=bind", "server.kind=bind", "replay.answers=true", "replay.limit=200")
    nsd, bind = (next((desk / "results").glob(f"{one}-*")) for one in ("nsd", "bind"))
    done = run("compare", str(nsd), str(bind), "--again", "--json", "out.json", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) <= 20
    told = json.loads((desk / "out.json").read_text(encoding="utf-8"))["again"]
    assert 0 < told["asked"] == told["differ"] + told["agree"]
    org = [one["now"] for one in told["listed"] if one["qname"].endswith("org.")]
    assert org and not any(org)
    assert told["agree"] == len(org) and told["differ"]
    assert [Path(one).name[:10] for one in told["runs"]] == ["again-nsd-", "again-bind"]
