"""[search]: which values are tried, what is told, and a whole search against a real server."""

import re
from pathlib import Path
from typing import Any

import pytest

from cli.experiment.schema import Search
from cli.tools import search
from cli.tools.search import Searching, Tried
from tests import command

LIMITS = {"p99": "<= 10 ms"}


class Fake(Searching):
    """Values up to `best` hold; at those of `unsure` only the first run does."""

    def __init__(self, best: float, unsure: tuple[float, ...] = ()) -> None:
        self.base, self.tried = {}, {}
        self.best, self.unsure = best, unsure

    def holds(self, value: float, times: int = 1) -> bool:
        tried = self.tried.setdefault(value, Tried())
        if value > self.best or (value in self.unsure and times > 1):
            tried.failed = "missed"
        return not tried.failed

    def why_not_above(self, value: float) -> str:
        return f"above {value:g}"


def wish(least: float = 1_000, most: float = 64_000, precision: float = 0.05) -> Search:
    return Search("replay.rate", least, most, LIMITS, precision)


@pytest.mark.parametrize("best", [1_000, 1_999, 2_000, 7_777, 63_999])
def test_the_highest_value_is_found_within_the_precision(best: float) -> None:
    tries = Fake(best)
    found, _ = search.highest(wish(), tries)
    assert found is not None and found <= best <= found * 1.06
    assert len(tries.tried) <= 12


def test_a_range_that_holds_whole_ends_at_its_end_and_one_that_does_not_is_told() -> None:
    assert search.highest(wish(), Fake(1e9))[0] == 64_000
    assert search.highest(wish(), Fake(10)) == (None, "missed")


def test_keys_with_whole_numbers_are_given_whole_numbers() -> None:
    tries = Fake(5)
    found, _ = search.highest(Search("topology.clients", 1, 8, LIMITS), tries)
    assert found == 5 and all(value == int(value) for value in tries.tried)
    rough = Fake(5.3)
    found, _ = search.highest(Search("replay.speed", 1, 8, LIMITS), rough)
    assert found is not None and 5 <= found <= 5.3


def test_a_value_that_is_not_confirmed_gives_way_to_the_next_lower_one() -> None:
    tries = Fake(4_500, unsure=(4_362, 4_000))
    found, _ = search.highest(wish(), tries)
    assert found is not None and found not in tries.unsure and found < 4_500


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (("search.least=10", "search.most=5"), "search.least = 10 is not below search.most"),
        (("search.least=1", "search.most=5", "repeat.n=2"), "[search] and [repeat] exclude each other"),
        (
            ("search.least=1", "search.most=5", "sweep.replay.rate=[1,2]"),
            "replay.rate is searched and in [sweep]",
        ),
        (("search.least=1", "search.most=5", "search.key=replay.rat"), "replay.rat"),
        (("search.least=1", "search.most="), "search.most is missing; add it, see docs/formats.md"),
        (("search.least=1", "search.most=5", "search.key=repeat.n"), "repeat.n changes no run"),
        (
            ("search.least=1", "search.most=5", "expect={p99='<= 1 s'}"),
            "[search] and [expect] exclude each other",
        ),
        (("search.least=1", "search.most=5", "search.expect={p99='fast'}"), "is no limit"),
        (
            ("search.least=1", "search.most=5", "search.expect={p99='<= 110 % of baseline'}"),
            "search.expect has a limit of a baseline, and a search has none",
        ),
        (
            ("search.least=1", "search.most=5", "sweep.trace=['', '@1/trace.pcap']"),
            "[search] and files of earlier variants exclude each other",
        ),
        (
            ("search.key=topology.clients", "search.least=1", "search.most=1000000"),
            "topology.clients = 1000000",
        ),
    ],
)
def test_a_search_that_makes_no_sense_is_one_line(
    tmp_path: Path, settings: tuple[str, ...], what: str
) -> None:
    given: dict[str, str] = {"search.key": "replay.rate", "search.expect": "{p99='<= 1 ms'}"}
    given |= dict(one.split("=", 1) for one in settings)
    words = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    done = command.run("run", "quickstart", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and what in done.stderr


def _summary(**more: Any) -> dict[str, Any]:
    return {
        "busy": [], "duration_s": 10.0, "answered_share": 1.0,
        "connections": {"peak_open": 0}, "cpu_s": {"server": 9.0, "querier": 1.0, "front": None},
        "timing_error_us": {"abs_p99": 50.0}, "server_faults": [], "warnings": [], **more,
    }  # fmt: skip


def test_what_is_ours_is_not_called_the_servers() -> None:
    assert search.limiting(_summary()) == "cores used: querier 0.10, server 0.90"
    assert search.limiting(_summary(busy=["other programs used 1 of 2 cores"])).startswith(
        "the machine is the limit, not the server"
    )
    full = _summary(answered_share=0.9, connections={"peak_open": 20_000}, cpu_s={"server": 0.9})
    assert "had time left (0.09 cores used) with 20,000 connections open" in search.limiting(full)
    for used in ({"server": None}, {"server": 0.9, "front": 9.0}):
        assert search.limiting({**full, "cpu_s": used}).startswith("cores used: ")
    late = _summary(cpu_s={"querier": 9.5, "server": 5.0}, timing_error_us={"abs_p99": 8_000.0})
    assert search.limiting(late).startswith("our own queriers are the limit")


@pytest.mark.netns
def test_a_search_against_a_real_server(tmp_path: Path) -> None:
    """For each variant. The limits are such as the number of sources itself decides."""
    settings = (
        "generate.name=com", "generate.source_rate=10", "replay.duration_s=0.5", "synth=",
        "replay.late_ms=1000", "replay.max_lateness_s=20", "sweep.replay.transport=['udp', 'tcp']",
        "search.key=generate.sources",
        "search.least=50", "search.most=200", "search.precision=0.5", "search.confirm=2",
        "search.expect={queries.read='<= 400', connections.opened='<= 60'}",
    )  # fmt: skip
    words = [word for one in settings for word in ("--set", one)]
    done = command.run("run", "quickstart", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = "highest generate.sources at which the limits hold"
    udp, tcp = re.findall(rf"replay\.transport=\S+: {told}: (\d+) \(confirmed by 2 runs\)", done.stdout)
    assert (int(udp), int(tcp)) == (71, 50), done.stdout  # of 10 queries a second for 0.5 s; 100 is too much
    assert "missed: queries.read is " in done.stdout and "missed: connections.opened is " in done.stdout
    (folder,) = (tmp_path / "results").iterdir()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count(f"<strong>replay.transport=tcp: {told}: {tcp} (confirmed") == 1
    assert (folder / "series.csv").is_file() and "search:" in done.stderr
    again = command.run("run", "quickstart", *words, "--resume", str(folder), cwd=tmp_path)
    assert again.returncode == 0 and "search:" not in again.stderr  # nothing was left to do
    assert again.stdout.splitlines()[-2:] == done.stdout.splitlines()[-2:]
