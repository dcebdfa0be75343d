"""Every experiment that comes with Reprise runs on a fresh clone: it names no file that is not in it. One
word plays a real trace instead, and the report says what was played.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.experiment.experiment import load
from tests import command

EXPERIMENTS = sorted((programs.ROOT / "experiments").glob("*.toml"))
NAMES = [path.stem for path in EXPERIMENTS]
ROOT_MINUTE = "synthetic: profile root, seed 1"
# What makes each run short, and what it plays; the others play two seconds of a root server's minute.
SHORT = ("replay.until=2",)
OTHERS = {
    "attack": (("mutate.rule=[{kind='attack',rate=300,at=1,for=1,name='a.example.'}]", *SHORT), ROOT_MINUTE),
    "cooperative": (("synth.duration=5", "hierarchy.synth.zones=40"), "synthetic: profile recursive, seed 1"),
    "faults": ((), "synthetic: profile simple, seed 1"),
    "hierarchy": (("synth.duration=5", "hierarchy.synth.zones=40"), "synthetic: profile recursive, seed 1"),
    "quickstart": (SHORT, "synthetic: profile simple, seed 1"),
    "root-rate": (
        ("synth.rate=1000", "synth.duration=2", "synth.clients=500"),
        "synthetic: profile simple, seed 1",
    ),
    "most-clients": (
        ("search=", "sweep=", "replay.transport=tcp", "generate.sources=200", "replay.duration_s=4"),
        "generated: com NS",
    ),
    "tcp-hold": (
        ("generate.sources=200", "replay.rate=100", "replay.duration_s=4", "topology.queriers=1"),
        "generated: com NS",
    ),
    "timing": (SHORT, "synthetic: profile simple, seed 1"),
}
LENIENT = ("replay.late_ms=1000", "replay.max_lateness_s=20")  # other tests run beside it


def run(name: str, settings: Sequence[str], folder: Path) -> dict[str, Any]:
    """The summary of a clean run."""
    words = [word for one in (*settings, *LENIENT) for word in ("--set", one)]
    done = command.run("run", str(programs.ROOT / f"experiments/{name}.toml"), *words, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    (results,) = (folder / "results").iterdir()
    summary: dict[str, Any] = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    assert f"{summary['trace']}\n" in done.stdout
    assert summary["trace"] in (results / "report.html").read_text(encoding="utf-8")
    return summary


def named_files(value: object) -> list[str]:
    """Values that are paths out of the file's folder."""
    if isinstance(value, dict):
        return [path for one in value.values() for path in named_files(one)]
    if isinstance(value, list | tuple):
        return [path for one in value for path in named_files(one)]
    return [value] if isinstance(value, str) and (".." in value or "/shared/" in value) else []


@pytest.mark.parametrize("path", EXPERIMENTS, ids=NAMES)
def test_experiments_name_no_file_from_outside(path: Path) -> None:
    experiment = load(path, [])
    assert (experiment.trace, experiment.server.zone) == (None, None)
    assert named_files(experiment.__dict__) == []
    if experiment.generate is None:
        assert load(path, ["trace=my.pcap"]).trace == str(Path.cwd() / "my.pcap")


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.parametrize("name", NAMES)
def test_experiments_run_on_their_own(tmp_path: Path, name: str) -> None:
    settings, played = OTHERS.get(name, (SHORT, ROOT_MINUTE))
    summary = run(name, settings, tmp_path)
    assert summary["trace"] == played
    assert summary["queries"]["answered"] > 20


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.data
@pytest.mark.parametrize("name", ["root-live", "all-tcp", "all-do", "mixed-transports"])
def test_a_word_plays_the_real_minute(tmp_path: Path, real: tuple[Path, Path], name: str) -> None:
    trace, zone = real
    summary = run(name, (f"trace={trace}", f"server.zone={zone}", *SHORT), tmp_path)
    assert summary["trace"] == str(trace)
    assert summary["queries"]["answered"] > 200
