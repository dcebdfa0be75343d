"""Rules of an experiment: what is played is the same whether they are applied on the way or before."""

from pathlib import Path
from typing import Any

import pytest

from report.rqfile import read_rq
from report.sources import digested, open_source
from tests.bed import synth
from tests.desk import furnish, run
from tests.slow import slow

RULES = """mutate.rule=[
    {kind='transport', to={udp=2, tcp=1}}, {kind='edns', do=true, share=50},
    {kind='duplicate', copies=3, share=30}, {kind='name', unique='q'},
    {kind='drop', share=10}, {kind='speed', factor=2}]""".replace("\n", "")


_FIELDS = ("seq", "trace_ns", "source", "transport", "query_size")


def played(folder: Path) -> list[tuple[Any, ...]]:
    """Of each query its number, times, source and transport, and the message."""
    files = map(read_rq, folder.glob("queries-*.rq"))
    records = [
        (*(int(one[name]) for name in _FIELDS), int(one["due_ns"]) - file.start_mono_ns)
        for file in files
        for one in file.records
    ]
    answers = digested(open_source(folder, folder)).between(0, 1 << 62)
    messages = {one.seq: one.query for one in answers}
    assert messages
    return [(*record, messages.get(record[0])) for record in sorted(records)]


@pytest.mark.netns
@pytest.mark.parametrize(
    "settings",
    [
        slow(()),
        ("replay.sample_sources=0.5", "replay.from=0.5", "replay.loop=2"),
        slow(("replay.transport=tcp", "replay.until=1", "replay.collapse_retransmits=true")),
    ],
)
def test_what_is_played_is_that_of_a_trace_changed_before(tmp_path: Path, settings: tuple[str, ...]) -> None:
    desk = furnish(tmp_path, synth(tmp_path / "made.pcap", "--rate=800", "--duration=1.5", "--tcp-share=0.2"))

    def ended(*more: str) -> Path:
        known = set(desk.glob("results/*"))
        done = run(desk, RULES, "replay.answers=true", *settings, *more)
        assert done.status == 0, done.errors
        (folder,) = set(desk.glob("results/*")) - known
        return folder

    on_the_way, before = ended(), ended("mutate.keep=true")
    assert not (on_the_way / "trace.rps").exists() and (before / "trace.rps").exists()
    ours, theirs = played(on_the_way), played(before)
    assert len(ours) > 300
    assert ours == theirs
    sources = [(folder / "sources.csv").read_text(encoding="ascii") for folder in (on_the_way, before)]
    assert sources[0] == sources[1]
