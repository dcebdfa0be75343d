"""`reprise fire`: a real NSD on another host of the network is sent a trace, without an experiment's file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.experiment.schema import Server
from cli.plan import network
from cli.plan.network import SERVICE_V4, SERVICE_V6
from cli.servers import nsd
from tests.bed import Bed, synth
from tests.desk import Ended, reprise

pytestmark = pytest.mark.netns
QUERIES = 200


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with Bed(tmp_path / "bed", clients=1) as made:
        config = made.folder / "nsd.conf"
        config.write_text(nsd.config(Server(), made.site()), encoding="ascii")
        made.start_nsd(network.SERVER, config)
        yield made


def fire(bed: Bed, folder: Path, *words: str) -> Ended:
    trace = synth(folder / "made.pcap", "--queries", str(QUERIES), "--rate", "400")
    with bed.inside(network.client(1)):
        return reprise(folder, "fire", "--trace", str(trace), *words)


def test_a_server_that_runs_is_sent_a_trace(bed: Bed, tmp_path: Path) -> None:
    servers = ("--server", SERVICE_V4, "--server", SERVICE_V6)
    ended = fire(bed, tmp_path, *servers, "--rate", "500", "--answers", "--set", "replay.late_ms=1000")
    summary = ended.summary()
    assert summary["clean"] and summary["queries"]["answered"] == QUERIES
    assert next(tmp_path.glob("results/fire-*/answers-*.ra"))
    assert re.search(r"^answered +200$", ended.output, re.MULTILINE)
    assert "next: reprise fire ... --set repeat.n=5" in ended.output


def test_it_is_repeated_as_any_experiment(bed: Bed, tmp_path: Path) -> None:
    ended = fire(bed, tmp_path, "--server", SERVICE_V4, "--rate", "1000", "--set", "repeat.n=2")
    assert re.search(r"^runs +2\b", ended.output, re.MULTILINE), ended.errors
    assert len(list(tmp_path.glob("results/fire-*/fire-*/summary.json"))) == 2


def test_what_is_wrong_is_told_by_its_option(bed: Bed, tmp_path: Path) -> None:
    silent = fire(bed, tmp_path, "--server", f"{SERVICE_V4}:5353")
    assert "no answer from" in silent.line()
    for words, said in (
        (("--server", "8.8.8.8"), "give --allow-public"),
        (("--server", "nowhere"), "--server nowhere is no address"),
        (("--server", "127.0.0.1:5", "--server", "[::1]:6"), "--server has two ports"),
        (("--server", "127.0.0.1:0"), "server.port = 0 is out of range"),
        (("--server", "127.0.0.1", "--rate", "1", "--fast"), "not allowed with"),
    ):
        assert said in fire(bed, tmp_path, *words).errors
