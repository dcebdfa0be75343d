"""The fronts' counts in the summary, the tables and the page."""

import json
from pathlib import Path
from typing import Any

import pytest

from report.tests.summary_test import MS, steady, summary_of
from report.tests.writers import MANIFEST, Query, server_csv, write_run

COUNTED: dict[str, Any] = {
    "schema": 1,
    "kind": "stateless",
    "front": "bpf",
    "interface": "data1",
    "port": 53,
    "promotion": True,
    "seconds": 12.3,
    "cpu_seconds": 0.1,
    "syn": 301,
    "syn_ack": 300,
    "handshake_ack": 298,
    "queries": 290,
    "retransmitted": 0,
    "replies": 288,
    "segments": 288,
    "fin": 5,
    "rst": 0,
    "reset": 7,
    "promoted": {"long": 9, "truncated": 3, "split": 0},
    "not_promoted": {},
    "refused_cookies": 2,
    "waiting": 4,
    "evictions": 0,
    "expired": 0,
    "late": 0,
    "unsent": 0,
    "truncated": 0,
    "malformed": 0,
    "passed": 10,
    "entries": 0,
    "entries_peak": 32,
    "entries_limit": 64,
    "entry_seconds": 0.58,
    "bytes_per_entry": 104,
    "state_bytes": 3328,
    "memory_bytes": 6656,
}


def fronted(folder: Path, *fronts: dict[str, Any], kind: str = "bpf", **more: Any) -> Path:
    """A run whose server had these fronts; their ids are those of the plan."""
    server = {**MANIFEST["experiment"]["server"], "front": kind}
    manifest = {**MANIFEST, "experiment": {**MANIFEST["experiment"], "server": server}, **more}
    run = write_run(folder, steady(300), manifest=manifest, server=server_csv(3))
    for index, one in enumerate(fronts, 1):
        name = "front.json" if len(fronts) == 1 else f"front-data{index}.json"
        (run / name).write_text(json.dumps({**COUNTED, **one}))
    return run


def test_several_fronts_are_added(tmp_path: Path) -> None:
    other = {"promoted": {"long": 1}, "entries_peak": 64, "queries": 10}
    front = summary_of(fronted(tmp_path / "run", {}, other))["front"]
    assert (front["queries"], front["promoted"]) == (300, {"long": 10, "truncated": 3})
    assert (front["entries_peak"], front["entries_limit"], front["entries_share"]) == (96, 128, 1.0)
    assert front["bytes_per_entry"] == 104
    assert front["entry_life_us"] == pytest.approx(2 * 0.58e6 / 300, abs=0.1)
    assert front["entries_mean"] == pytest.approx(2 * 0.58 / 3, abs=0.01)


def test_the_time_of_programs_is_known_where_all_fronts_measured_it(tmp_path: Path) -> None:
    timed = {"in_seconds": 0.5, "out_seconds": 0.25}
    one, both, without = (
        summary_of(fronted(tmp_path / name, *fronts))["front"]["out_seconds"]
        for name, fronts in (("one", [timed]), ("both", [timed, timed]), ("without", [timed, {}]))
    )
    assert (one, both, without) == (0.25, 0.5, None)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (
            {"evictions": 3},
            "the front dropped 3 queries that waited for answers: use front bpf or a lower rate",
        ),
        (
            {"late": 5, "expired": 4},
            "the front dropped 4 answers that came after its timeout: raise front.timeout_ms",
        ),
        (
            {"late": 8, "expired": 4, "retransmitted": 5},
            "the front dropped 3 answers that came after its timeout: raise front.timeout_ms",
        ),
        ({"unsent": 2}, "the front could not send 2 packets: its log has the reason"),
    ],
)
def test_a_front_that_kept_answers_from_clients_is_not_clean(
    tmp_path: Path, counts: dict[str, int], reason: str
) -> None:
    assert summary_of(fronted(tmp_path / "run", counts))["unclean_because"] == [reason]


def test_an_answer_to_a_client_that_had_gone_is_no_fault_of_the_front(tmp_path: Path) -> None:
    assert summary_of(fronted(tmp_path / "run", {"late": 5}))["clean"] is True


def test_the_second_answer_to_a_query_sent_again_is_no_fault_of_the_front(tmp_path: Path) -> None:
    """Beside queries that the server never answered."""
    counts = {"late": 5, "retransmitted": 5, "expired": 4}
    assert summary_of(fronted(tmp_path / "run", counts))["clean"] is True


def test_the_reference_drops_segments_that_clients_may_send_again(tmp_path: Path) -> None:
    counts = {"front": "reference", "not_promoted": {"split": 2, "pipelined": 1}}
    summary = summary_of(fronted(tmp_path / "run", counts, kind="reference"))
    assert summary["warnings"] == ["the front did not fully serve 3 segments (split 2, pipelined 1)"]


def test_a_front_without_its_statistics_is_not_clean(tmp_path: Path) -> None:
    summary = summary_of(fronted(tmp_path / "run"))
    assert summary["unclean_because"] == ["front.json is missing: the front was cut off"]
    assert summary["front"]["kind"] == "bpf" and summary["front"]["queries"] is None
    second = fronted(tmp_path / "second", {})
    manifest = json.loads((second / "manifest.json").read_text())
    manifest["processes"] += [{"id": f"front-data{n}", "role": "front", "exit": 0} for n in (1, 2)]
    (second / "manifest.json").write_text(json.dumps(manifest))
    missing = ["1 of 2 front-*.json are missing: the front was cut off"]
    assert summary_of(second)["unclean_because"] == missing
    damaged = fronted(tmp_path / "damaged")
    (damaged / "front.json").write_text('{"schema": 1, "syn": ')
    assert "front.json is damaged" in summary_of(damaged)["unclean_because"]


def test_what_a_front_did_to_queries_is_a_warning(tmp_path: Path) -> None:
    counts = {"not_promoted": {"split": 2, "long": 7}, "expired": 6, "malformed": 1}
    summary = summary_of(fronted(tmp_path / "run", counts))
    assert summary["clean"] is True
    assert summary["warnings"] == [
        "the front did not fully serve 9 connections (long 7, split 2)",
        "the server did not answer 6 queries of the front in time",
        "the front dropped 1 packets that contradict themselves",
    ]


def test_a_front_that_nobody_used_is_a_warning(tmp_path: Path) -> None:
    summary = summary_of(fronted(tmp_path / "run", {"syn": 0}))
    assert summary["warnings"] == ["the front took no connection: no query came over TCP"]


def test_queries_made_stateless_are_offered_a_front(tmp_path: Path) -> None:
    """Where the trace has them; whoever plays a trace so has chosen it."""
    queries = [Query(seq=n, due=n * MS, sent=n * MS, transport=5) for n in range(3)]
    for transport, offers in (("trace", 1), ("stateless-tcp", 0)):
        told = {"server": {"kind": "nsd", "front": "kernel"}, "replay": {"transport": transport}}
        manifest = {**MANIFEST, "experiment": {**MANIFEST["experiment"], **told}}
        summary = summary_of(write_run(tmp_path / transport, queries, manifest=manifest))
        assert (
            sum("3 queries of the trace went as stateless-tcp" in one for one in summary["warnings"])
            == offers
        )


def test_a_front_has_its_cpu_beside_the_servers(tmp_path: Path) -> None:
    process = {"id": "front", "role": "front", "host": "server", "exit": 0}
    run = fronted(tmp_path / "run", {}, processes=[*MANIFEST["processes"], process])
    rows = server_csv(3).splitlines(keepends=True)
    again = [row.replace(",nsd,2,", ",front,1,") for row in rows[1:]]
    (run / "server.csv").write_text("".join(rows + again))
    summary = summary_of(run)
    assert summary["cpu_s"]["server"] == summary["cpu_s"]["front"] == 0.75
    assert summary["peak_rss_bytes"]["front"] == 40_000_000


def test_packets_count_for_the_host_that_they_came_to(tmp_path: Path) -> None:
    """Packets do not count for whoever ran when they came: in each second, 0.1 s were charged to nobody on
    the server's host, and of the server's own 0.25 s, 0.05 s were for its clients' packets.
    """
    run = fronted(tmp_path / "run", {})
    head, *rows = server_csv(3).splitlines()
    more = [f"{row},{n * 0.1:.4f},{n * 0.05:.4f}" for n, row in enumerate(rows)]
    (run / "server.csv").write_text("\n".join([f"{head},uncharged_s,elsewhere_s", *more, ""]))
    summary = summary_of(run)
    assert summary["cpu_s"]["server"] == pytest.approx(0.6)
    assert summary["cpu_s"]["packets"] == pytest.approx(0.3)
