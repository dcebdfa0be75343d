"""What `reprise run` says of its length and size beforehand, beside what it wrote."""

import re
from pathlib import Path

import pytest

from tests.bed import synth
from tests.desk import EXPERIMENT, Ended, reprise, run
from tests.slow import slow
from tests.small_disk import small_disk

_UNITS = {"kB": 1e3, "MB": 1e6}
_SAID = re.compile(
    r"^reprise: (\d+) s of replay, about ([\d.]+) (kB|MB) of results \(\S+ .?B free\)$",
    re.M,
)


def said(ended: Ended) -> tuple[int, float]:
    found = _SAID.search(ended.errors)
    assert found is not None, ended.errors
    return int(found[1]), float(found[2]) * _UNITS[found[3]]


def written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.netns
@pytest.mark.parametrize(
    "settings", [slow(()), ("replay.answers=true", "sample.capture=true", "replay.loop=2")]
)
def test_the_estimate_is_near_what_a_run_takes(desk: Path, settings: tuple[str, ...]) -> None:
    synth(desk / "long.pcap", "--queries", "16000", "--rate", "8000", "--clients", "20")
    ended = run(desk, "trace=long.pcap", *settings)
    assert ended.status == 0, ended.errors
    seconds, size = said(ended)
    assert -1 <= ended.summary()["duration_s"] - seconds < 3  # on a busy machine
    (folder,) = ended.results
    assert written(folder) / 2 < size < written(folder) * 2


@pytest.mark.netns
def test_a_run_without_room_is_refused(desk: Path) -> None:
    synth(desk / "long.pcap", "--queries", "40000", "--rate", "8000", "--clients", "20")
    with small_disk(desk / "results", "1m"):
        ended = run(desk, "trace=long.pcap")
        assert ended.status == 1
        assert re.search(
            r"no space left for results in \S+/results: about 4\.\d MB are needed, and 1\.0 MB are free; "
            "make room, choose another folder with -o",
            ended.line(),
        )
        assert not ended.results
        assert run(desk, "trace=long.pcap", "replay.limit=400").results == ()  # which is tried


@pytest.mark.netns
def test_what_is_not_known_is_not_told(desk: Path) -> None:
    ended = run(desk, "replay.fast=true")
    assert "reprise: a replay of unknown length, about " in ended.errors
    changing = EXPERIMENT.replace("[server]", '[[mutate.rule]]\nkind = "jitter"\nus = 1\n[server]')
    (desk / "changed.toml").write_text(changing)
    ended = reprise(desk, "run", "changed.toml")
    assert "reprise: a replay of unknown length, an unknown amount of results (" in ended.errors
