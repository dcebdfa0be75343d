"""The summary of small written runs: every key, sums, known timing, what makes a run unclean."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report import html, server
from report.clean import ENDS
from report.errors import ReportError
from report.rows import rows_of
from report.rqfile import COUNTERS
from report.run import Json, Run
from report.summary import summarize
from report.tally import measure
from report.tests.per_host_test import machine
from report.tests.writers import (
    MANIFEST,
    START,
    START_REAL,
    Query,
    controller_json,
    records,
    rq_bytes,
    server_csv,
    write_run,
)

MS = 1_000_000
SECOND = 1_000_000_000


def steady(count: int, gap: int = 10 * MS, error: int = 20_000) -> list[Query]:
    return [Query(seq=n, due=n * gap, sent=n * gap + error) for n in range(count)]


def summary_of(folder: Path) -> Json:
    return summarize(measure(Run(folder)))


@pytest.mark.parametrize(
    ("experiment", "played"),
    [
        ({"trace": "/data/day.pcap", "synth": {"profile": "root"}}, "/data/day.pcap"),
        ({"trace": None, "synth": {"profile": "root", "seed": 7}}, "synthetic: profile root, seed 7"),
        ({"synth": {"rate": 300}}, "synthetic: profile simple, seed 1"),
        ({"generate": {"name": "com", "type": "NS"}, "synth": {}}, "generated: com NS"),
        ({}, "trace.pcap"),
    ],
)
def test_the_summary_says_what_was_played(tmp_path: Path, experiment: Json, played: str) -> None:
    manifest = {**MANIFEST, "experiment": experiment}
    assert summary_of(write_run(tmp_path / "run", steady(3), manifest=manifest))["trace"] == played


def test_what_the_trace_lacks_is_told_by_all_who_read_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steady(3))
    told = json.loads((folder / "controller.json").read_text())
    told["reader"]["notes"] = ["clock_steps_back 1: so"]
    (folder / "controller.json").write_text(json.dumps(told))
    (folder / "mutate.json").write_text(json.dumps({"schema": 1, "losses": ["cut_packet 5: so"]}))
    summary = summary_of(folder)
    assert summary["trace_notes"] == ["cut_packet 5: so", "clock_steps_back 1: so"]
    assert summary["clean"] is True


def test_early_and_late_sends_keep_their_sign(tmp_path: Path) -> None:
    queries = [Query(seq=n, due=n * MS, sent=n * MS + (n - 5) * 1000) for n in range(11)]
    error = summary_of(write_run(tmp_path / "run", queries))["timing_error_us"]
    assert (error["min"], error["median"], error["max"], error["abs_p50"]) == (-5.0, 0.0, 5.0, 3.0)


def test_interarrival_follows_the_trace_order_not_the_file_order(tmp_path: Path) -> None:
    queries = [Query(seq=n, due=n * MS, sent=n * MS + n * 1000) for n in range(50)]
    shuffled = [queries[n] for n in np.random.default_rng(1).permutation(50)]
    error = summary_of(write_run(tmp_path / "run", shuffled))["interarrival_error_us"]
    assert (error["count"], error["min"], error["max"]) == (49, 1.0, 1.0)


def test_hosts_with_other_clocks_are_stitched_at_the_start(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steady(200)[::2], controller=controller_json(200, answered=200))
    other = START + 77 * SECOND
    (folder / "queries-client2-0.rq").write_bytes(rq_bytes(records(steady(200)[1::2], other), start=other))
    summary = summary_of(folder)
    assert summary["clean"]
    assert summary["timing_error_us"]["max"] == 20.0
    assert summary["interarrival_error_us"]["abs_p999"] == 0.0
    assert summary["rate_error"]["within_0_02_percent"] == 1.0


def test_warm_up_is_left_out_of_timing_only(tmp_path: Path) -> None:
    late = [Query(seq=n, due=n * 10 * MS, sent=n * 10 * MS + (5 * MS if n < 100 else 0)) for n in range(300)]
    summary = summary_of(write_run(tmp_path / "run", late, manifest={**MANIFEST, "warmup_s": 1}))
    assert summary["timing_error_us"]["max"] == 0.0
    assert summary["timing_error_us"]["count"] == 200
    assert summary["rate_error"]["seconds"] == 1
    assert summary["latency_us"]["count"] == 300


def test_a_wait_for_a_handshake_or_an_answer_is_no_timing_error(tmp_path: Path) -> None:
    queries = [replace(one, marks=128 if one.seq % 2 else 0) for one in steady(100)]
    queries = [replace(one, sent=(one.sent or 0) + 200 * MS) if one.marks else one for one in queries]
    summary = summary_of(write_run(tmp_path / "run", queries))
    assert (summary["timing_error_us"]["count"], summary["timing_error_us"]["max"]) == (50, 20.0)
    assert summary["queries"]["sent"] == summary["response_us"]["count"] == 100


def test_rate_error_counts_whole_seconds_and_leaves_steal_out(tmp_path: Path) -> None:
    queries = steady(1000)
    queries[450] = Query(
        seq=450, due=4500 * MS, sent=5100 * MS
    )  # seconds 4 and 5 are off by one of a hundred
    clean = summary_of(write_run(tmp_path / "a", queries, server=server_csv(10)))["rate_error"]
    assert (clean["seconds"], clean["steal_seconds"]) == (9, 0)
    assert clean["within_0_1_percent"] == pytest.approx(7 / 9)
    stolen = summary_of(write_run(tmp_path / "b", queries, server=server_csv(10, steal_at=5)))["rate_error"]
    assert (stolen["seconds"], stolen["steal_seconds"]) == (8, 1)
    assert stolen["within_0_02_percent"] == pytest.approx(7 / 8)
    unknown = summary_of(write_run(tmp_path / "c", queries))["rate_error"]
    assert unknown["steal_seconds"] is None


def test_every_end_is_summed(tmp_path: Path) -> None:
    queries = [
        Query(0, 0),
        Query(1, MS, status=2),
        Query(2, 2 * MS, sent=None, status=3),
        Query(3, 3 * MS, sent=None, status=4, transport=1),
        Query(4, 4 * MS, sent=None, status=5, reason=2),
    ]
    told = controller_json(
        7,
        answered=1,
        timed_out=1,
        send_failed=1,
        connection_failed=1,
        skipped=3,
        skipped_by={"update": 2},
    )
    summary = summary_of(write_run(tmp_path / "run", queries, controller=told))
    assert summary["queries"]["read"] == sum(summary["queries"][end] for end in ENDS) == 7
    assert summary["skipped"] == {"update": 2, "oversize": 1}
    assert summary["answered_share"] == 1 / 5  # updates are not asked by choice
    assert sum(summary["skipped"].values()) == summary["queries"]["skipped"]
    assert summary["unclean_because"] == ["the client's host could not send 1 queries; see logs/"]


@pytest.mark.parametrize("seed", range(5))
def test_property_ends_sum_to_read(tmp_path: Path, seed: int) -> None:
    choice = np.random.default_rng(seed)
    queries = [Query(n, n * MS, status=int(choice.integers(1, 6)), reason=1) for n in range(200)]
    ends = {name: sum(q.status == number for q in queries) for number, name in enumerate(ENDS, start=1)}
    told = controller_json(200, **ends)
    counted = summary_of(write_run(tmp_path / "run", queries, controller=told))["queries"]
    assert counted["read"] == sum(counted[end] for end in ENDS) == 200


def reasons(folder: Path) -> str:
    summary = summary_of(folder)
    assert not summary["clean"]
    return " | ".join(summary["unclean_because"])


def test_a_missing_record_is_unclean(tmp_path: Path) -> None:
    told = controller_json(11, answered=11)
    text = reasons(write_run(tmp_path / "run", steady(10), controller=told))
    assert "1 queries were lost" in text
    assert "answered: the controller counts 11, the records 10" in text


@pytest.mark.parametrize("known_here", [9, 2])
def test_what_a_lost_host_took_with_it_is_counted_by_the_records_alone(
    tmp_path: Path, known_here: int
) -> None:
    """The controller may have heard of less than is on record, or of more than was written."""
    told = controller_json(14, answered=14 - known_here, lost=known_here)
    told["because"] = [
        "host client1 lost: why",
        f"{known_here} queries have no known end: their host was lost",
    ]
    told["clean"] = False
    text = reasons(write_run(tmp_path / "run", steady(10), controller=told))
    assert text == "host client1 lost: why | 4 queries were lost: they have no record"


def test_too_many_records_are_unclean(tmp_path: Path) -> None:
    text = reasons(write_run(tmp_path / "run", steady(10), controller=controller_json(9, answered=9)))
    assert "9 queries were read and 10 have an end" in text


def test_duplicate_records_are_unclean(tmp_path: Path) -> None:
    assert "more than one record" in reasons(write_run(tmp_path / "run", [*steady(10), steady(10)[3]]))


def test_a_cut_off_file_is_unclean_and_what_is_good_counts(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steady(100))
    path = folder / "queries-client1-0.rq"
    path.write_bytes(path.read_bytes()[: -(32 + 80 * 10)])
    queries = summary_of(folder)["queries"]
    assert (
        f"{queries['lost']} queries were lost: they have no record (queries-client1-0.rq cut off)"
        in reasons(folder)
    )
    assert queries["read"] == 100
    assert queries["answered"] + queries["lost"] == 100
    assert queries["answered"] > 80


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"server_died": "nsd: out of memory"}, "the server died: nsd: out of memory"),
        ({"leaked_packets": 3}, "3 packets tried to leave"),
    ],
)
def test_what_the_manifest_knows_is_unclean(tmp_path: Path, change: Json, expected: str) -> None:
    assert expected in reasons(write_run(tmp_path / "run", steady(10), manifest={**MANIFEST, **change}))


@pytest.mark.parametrize(
    ("because", "text"),
    [
        ("stopped by SIGINT", "stopped by SIGINT | querier client1/0: no space left"),
        ("client1: 0: no space left", "client1: 0: no space left"),  # an abort is told once
    ],
)
def test_what_the_controller_and_querier_say_is_unclean(tmp_path: Path, because: str, text: str) -> None:
    told = {**controller_json(10, answered=10), "clean": False, "because": [because]}
    stats = {"clean": False, "because": "no space left"}
    assert reasons(write_run(tmp_path / "run", steady(10), controller=told, stats=stats)) == text


def test_an_interruption_is_told_once(tmp_path: Path) -> None:
    because = ["interrupted", "querier client1/0: interrupted"]
    told = {**controller_json(10, answered=10), "clean": False, "because": because}
    stats = {"clean": False, "because": "interrupted"}
    ended = [{"id": "distributor-client1", "role": "distributor", "exit": 1}]
    manifest = {**MANIFEST, "error": "the run was interrupted", "processes": ended}
    folder = write_run(tmp_path / "run", steady(10), controller=told, stats=stats, manifest=manifest)
    assert reasons(folder) == "the run was interrupted"


def test_without_controller_and_manifest_the_records_still_count(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steady(10))
    (folder / "controller.json").unlink()
    (folder / "manifest.json").unlink()
    assert "controller.json is missing" in reasons(folder)
    assert summary_of(folder)["queries"]["answered"] == 10


def test_damaged_json_is_a_reason_and_unknown_schema_an_error(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steady(10))
    (folder / "controller.json").write_text("{")
    assert "controller.json is damaged" in reasons(folder)
    (folder / "controller.json").write_text('{"schema": 9}')
    with pytest.raises(ReportError, match="schema 9, known is 1"):
        Run(folder)


def test_a_sample_that_is_no_number_is_damaged(tmp_path: Path) -> None:
    text = server_csv(3).replace("40000000", "nan", 1).replace("40000000", "inf", 1)
    folder = write_run(tmp_path / "run", steady(400), server=text)
    assert reasons(folder) == "2 lines of server.csv are damaged"


def test_a_folder_without_a_run_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="holds no run"):
        Run(tmp_path)
    with pytest.raises(ReportError, match="is not a results folder"):
        Run(tmp_path / "none")


CONNECTIONS = {
    "opened": 3,
    "reused_queries": 2,
    "peak_open": 2,
    "closed_used_up": 1,
    "resumed": 1,
    "failed": 1,
}


def on_connections() -> list[Query]:
    """Two fresh connections (TCP, TLS), two queries on them, one that fell back, one that found nobody."""
    fresh, reused = 2, 1
    return [
        Query(0, 0, 0, 3 * MS, transport=1, marks=fresh, connect=1 * MS),
        Query(1, MS, MS, 1 * MS, transport=1, marks=reused),
        Query(2, 2 * MS, 2 * MS, 9 * MS, transport=2, marks=fresh, connect=5 * MS),
        Query(3, 3 * MS, 3 * MS, 2 * MS, transport=2, marks=reused),
        Query(4, 4 * MS, 4 * MS, 4 * MS, marks=1024 | reused),
        Query(5, 5 * MS, 5 * MS, None, status=4, transport=1),
    ]


def test_connections_are_summed_with_their_times(tmp_path: Path) -> None:
    stats = {"connections": CONNECTIONS, "failures": {"Connection refused": 1}, "tcp_fallbacks": 1}
    told = controller_json(6, answered=5, connection_failed=1)
    folder = write_run(tmp_path / "run", on_connections(), controller=told, stats=stats)
    other: dict[str, Any] = {
        "connections": CONNECTIONS,
        "failures": {"no free port": 4, "Connection refused": 1},
    }
    (folder / "queries-client2-0.rq").write_bytes(rq_bytes(records([]), **other))
    summary = summary_of(folder)
    assert summary["unclean_because"] == ["no free port at the client's host for 4 connections"]
    assert (summary["connections"]["opened"], summary["connections"]["peak_open"]) == (6, 4)
    assert summary["connections"]["closed_used_up"] == 2
    assert summary["connections"]["half_open"] == 0
    assert list(summary["connections"]["failures"].items()) == [
        ("no free port", 4),
        ("Connection refused", 2),
    ]
    assert summary["tcp_fallbacks"] == 1
    assert summary["connect_us_by_transport"]["tcp"]["median"] == 1000.0
    assert summary["connect_us_by_transport"]["tls"]["max"] == 5000.0
    fresh, reused = (summary["latency_us_by_connection"][name] for name in ("fresh", "reused"))
    assert (fresh["count"], fresh["max"]) == (2, 9000.0)
    assert (reused["count"], reused["median"]) == (3, 2000.0)
    assert summary["sockets"] == {"server": None, "clients": None}


def test_a_fallback_connects_over_tcp(tmp_path: Path) -> None:
    query = Query(0, 0, 0, 4 * MS, marks=1024 | 2, connect=1 * MS)
    assert list(summary_of(write_run(tmp_path / "run", [query]))["connect_us_by_transport"]) == ["tcp"]


def test_a_querier_that_was_cut_off_has_its_connections_counted_from_the_records(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", on_connections(), controller=controller_json(6, answered=5))
    path = folder / "queries-client1-0.rq"
    path.write_bytes(path.read_bytes()[:-40])
    counts = summary_of(folder)["connections"]
    assert (counts["opened"], counts["reused_queries"], counts["failures"]) == (2, 3, {})


def test_sockets_are_seen_at_both_ends(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steady(10), server=samples(established=(0, 7, 3), drops=(2, 2, 6)))
    (folder / "client1.csv").write_text(samples(established=(0, 5, 5)))
    (folder / "client2.csv").write_text(samples(established=(0, 1, 2)))
    assert summary_of(folder)["sockets"] == {
        "server": {"peak_established": 7, "peak_time_wait": 0, "listen_drops": 4},
        "clients": {"peak_established": 7, "peak_time_wait": 0},
    }


def test_truncated_answers_are_counted_by_transport(tmp_path: Path) -> None:
    """Three over UDP, two of which are asked again over TCP, one of these in vain; and one over TCP."""
    tc, again = 0x8200, 1024
    queries = [
        Query(0, 0, 0, MS, flags=tc),
        Query(1, 0, 0, MS, marks=again),
        Query(2, 0, 0, MS, marks=again, flags=tc),
        Query(3, 0, 0, MS, transport=1, flags=tc),
        Query(4, 0, 0, MS),
        Query(5, 0, 0, MS, transport=2),
    ]
    summary = summary_of(write_run(tmp_path / "run", queries))
    assert (summary["truncated"], summary["tcp_fallbacks"]) == (3, 2)
    assert summary["truncated_by_transport"] == {"udp": 3, "tcp": 2, "tls": 0}
    assert rows_of(summary, "answers")[:2] == [
        ("truncated answers over udp", "3"),
        ("truncated answers over tcp", "2"),
    ]


def test_connections_that_the_replay_closes_at_its_end_are_not_those_in_time_wait(tmp_path: Path) -> None:
    """The last query is sent after 1.9 s; five connections wait by then, and at the end all twenty."""
    text = "time_real_ns,time_mono_ns,process,tcp_established,tcp_time_wait\n" + "".join(
        f"{n},{START + n * SECOND},server,{20 - waiting},{waiting}\n" for n, waiting in enumerate((0, 5, 20))
    )
    queries = [Query(n, n * SECOND // 10, n * SECOND // 10, MS) for n in range(20)]
    folder = write_run(tmp_path / "run", queries, server=text)
    (folder / "client1.csv").write_text(text)
    found = summary_of(folder)["sockets"]
    assert (found["server"]["peak_time_wait"], found["clients"]["peak_time_wait"]) == (5, 5)
    assert found["server"]["peak_established"] == 20


def samples(established: tuple[int, ...], drops: tuple[int, ...] = (0, 0, 0)) -> str:
    lines = ["time_real_ns,time_mono_ns,process,tcp_established,tcp_time_wait,listen_drops"]
    lines += [
        f"{n},{START + n * SECOND},server,{count},0,{dropped}"
        for n, (count, dropped) in enumerate(zip(established, drops, strict=True))
    ]
    return "\n".join(lines) + "\n"


def test_the_servers_cpu_is_that_of_its_whole_tree_without_its_start_and_end(tmp_path: Path) -> None:
    """It is sampled each second, and the replay lasts a little over three."""
    cpu = ((-3, 0.5), (-2, 4.0), (-1, 4.0), (1, 5.0), (2, 6.0), (4, 7.5), (5, 9.5), (6, 0.0))
    text = "time_real_ns,time_mono_ns,process,cpu_s\n" + "".join(
        f"{n},{START + n * SECOND},nsd,{seconds}\n" for n, seconds in cpu
    )
    queries = [Query(n, n * SECOND, n * SECOND, MS) for n in range(4)]
    summary = summary_of(write_run(tmp_path / "run", queries, server=text))
    assert summary["cpu_s"]["server"] == 3.5
    assert summary["cpu_outside_s"] == {"server": 6.0, "front": None, "meta": None}


def test_a_server_on_a_machine_of_its_own_is_placed_by_real_time(tmp_path: Path) -> None:
    """The client shares the controller's machine and clock. The server's machine was started later."""
    text = "time_real_ns,time_mono_ns,process,cpu_s\n" + "".join(
        f"{START_REAL + n * SECOND},{(n + 9) * SECOND},nsd,{n + 5}\n" for n in range(-2, 6)
    )
    hosts = [machine("boss", "controller", "client1"), machine("far", "server")]
    queries = [Query(n, n * SECOND, n * SECOND, MS) for n in range(4)]
    folder = write_run(tmp_path / "run", queries, server=text, manifest={**MANIFEST, "hosts": hosts})
    assert summary_of(folder)["cpu_s"]["server"] == 4


def test_cpu_that_nobody_waited_for_is_not_lost_at_a_restart(tmp_path: Path) -> None:
    text = "time_real_ns,time_mono_ns,process,cpu_s\n" + "".join(
        f"{n},{START + n * SECOND},nsd,{cpu}\n" for n, cpu in enumerate((1, 3, 5, 0.5, 2.5, 4.5))
    )
    queries = [Query(n, n * SECOND, n * SECOND, MS) for n in range(5)]
    summary = summary_of(write_run(tmp_path / "run", queries, server=text))
    assert (summary["cpu_s"]["server"], summary["cpu_outside_s"]["server"]) == (8, 1)


def test_several_resolvers_are_counted_together(tmp_path: Path) -> None:
    """The second one's host is sampled a little later; the kernel has one account of memory for both."""
    columns = "time_real_ns,time_mono_ns,process,pss_bytes,tcp_established,listen_drops,rx_packets,tx_packets"
    ids = ("server", "server2")
    own = [{"id": one, "role": "server", "host": one, "cpu_s": 9, "exit": 0} for one in ids]
    manifest = {**MANIFEST, "processes": own}
    queries = [Query(n, n * SECOND // 2, n * SECOND // 2, MS) for n in range(8)]
    folder = write_run(tmp_path / "run", queries, manifest=manifest)
    for late, name in enumerate(ids):
        lines = [f"{columns},cpu_s,tcp_mem_bytes,uncharged_s,elsewhere_s\n"]
        for n in range(6):
            at = START + (n - 1) * SECOND + late * 300 * MS
            lines.append(f"0,{at},{name},40,{3 + late},{n},{10 * n},{10 * n},{n},{100 * n},{n},{n / 2}\n")
        (folder / f"{name}.csv").write_text("".join(lines))
    summary = summary_of(folder)
    assert summary["packets_per_query"] == 200 / 8
    assert summary["sockets"]["server"] == {"peak_established": 7, "peak_time_wait": 0, "listen_drops": 10}
    memory = summary["server_memory"]
    assert (memory["process"], memory["socket_buffers"]) == (80, 250)
    assert (summary["cpu_s"]["server"], summary["cpu_s"]["packets"]) == (9, None)
    run = Run(folder)
    assert [one.name for one in server.process_series(run, "cpu_s")] == list(ids)
    assert server.host_series(run, "tcp_established").values.tolist() == [7] * 6


def test_what_was_not_watched_is_null(tmp_path: Path) -> None:
    """The machine's own network, one sample, and a server on loopback, whose packets are not counted."""
    experiment = {**MANIFEST["experiment"], "server": {"kind": "address"}}
    manifest = {**MANIFEST, "leaked_packets": None, "experiment": experiment}
    folder = write_run(tmp_path / "run", steady(3), manifest=manifest, server=samples((1,), (4,)))
    summary = summary_of(folder)
    assert summary["leaked_packets"] is None and summary["sockets"]["server"]["listen_drops"] is None
    (folder / "server.csv").write_text(server_csv(2))
    assert summary_of(folder)["packets_per_query"] is None


@pytest.mark.parametrize(
    ("readings", "fault", "counted"),
    [
        ({-2: 1, -1: 5, 1: 9, 3: 17, 4: 25}, "stall", 20),
        ({-1: 5, 1: 9, 3: 17}, "stall", None),  # the last second is not known
        ({-1: 50, 1: 90, 3: 17, 4: 95}, "stall", None),
        ({1: 9, 4: 25}, "stall", None),
        ({-1: 5, 1: 9, 3: 17, 4: 25}, "restart", None),  # it had counted 4 when it ended, or 9
        ({-1: 5, 1: 9, 3: 17, 4: 25}, "reload", None),
    ],
)
def test_the_server_s_own_counts_are_those_of_the_whole_replay(
    tmp_path: Path, readings: dict[int, int], fault: str, counted: int | None
) -> None:
    manifest = {**MANIFEST, "experiment": {**MANIFEST["experiment"], "fault": [{fault: True}]}}
    queries = [Query(n, n * SECOND, n * SECOND, MS) for n in range(4)]
    folder = write_run(tmp_path / "run", queries, manifest=manifest)
    lines = [f"0,{START + at * SECOND},server,{count}\n" for at, count in readings.items()]
    header = "time_real_ns,time_mono_ns,process,queries\n"
    (folder / "counts-server.csv").write_text(header + "".join(lines))
    none = dict.fromkeys(("tcp_queries", "answers"))
    assert summary_of(folder)["server_counts"] == {"queries": counted, **none}


def test_a_run_in_which_no_connection_was_of_use_is_unclean(tmp_path: Path) -> None:
    queries = [Query(n, n * MS, None, None, status=4, transport=2) for n in range(3)]
    stats = {"failures": {"hostname mismatch": 3}}
    told = controller_json(3, connection_failed=3)
    text = reasons(write_run(tmp_path / "run", queries, controller=told, stats=stats))
    assert "no query reached the server: 3 failed with their connections (hostname mismatch)" in text


def test_answers_that_tell_of_a_zone_that_does_not_fit(tmp_path: Path) -> None:
    """Beside the trace's own answers where it has some; else by what no fitting zone would say."""

    def warnings(name: str, rcodes: list[int], before: dict[str, int]) -> list[str]:
        queries = [Query(n, n * MS, rcode=rcode) for n, rcode in enumerate(rcodes)]
        told = controller_json(len(rcodes), answered=len(rcodes))
        told["reader"]["rcodes"] = before
        warned = summary_of(write_run(tmp_path / name, queries, controller=told))["warnings"]
        return [str(one).split(":")[0] for one in warned]

    half = [3, 0] * 20
    assert warnings("unknown", half, {}) == []
    assert warnings("all", [3] * 40, {}) == ["100.0 % of the answers are NXDOMAIN"]
    assert warnings("alike", half, {"0": 22, "3": 18}) == []
    more = ["50.0 % of the answers are NXDOMAIN (25.0 % in the trace)"]
    assert warnings("more", half, {"0": 30, "3": 10}) == more
    assert warnings("refused", [5] * 4 + [0] * 36, {}) == ["10.0 % of the answers are REFUSED"]
    assert warnings("as before", [5] * 4 + [0] * 36, {"0": 90, "5": 10}) == []


@pytest.mark.parametrize(
    ("queries", "faults"),
    [
        ([Query(n, n * MS, rcode=3) for n in range(50)], []),
        ([Query(n, n * MS, rcode=23) for n in range(50)], ["100.0 % of its answers are BADCOOKIE"]),
        ([Query(n, n * MS, status=2 if n < 63 else 1) for n in range(100)],
         ["it did not answer 63.0 % of the queries"]),
    ],
)  # fmt: skip
def test_what_the_server_did_not_do_is_said_of_a_clean_run(
    tmp_path: Path, queries: list[Query], faults: list[str]
) -> None:
    unanswered = sum(query.status == 2 for query in queries)
    told = controller_json(len(queries), answered=len(queries) - unanswered, timed_out=unanswered)
    summary = summary_of(write_run(tmp_path / "run", queries, controller=told))
    assert summary["clean"] is True
    assert summary["server_faults"] == faults
    assert ("server", "not sound" if faults else "sound") in rows_of(summary, "runs")


def test_a_looped_trace_says_what_its_counts_are_of(tmp_path: Path) -> None:
    told = controller_json(3, answered=3)
    told["reader"] |= {"laps": 3, "notes": ["cut_packet 3"]}
    folder = write_run(tmp_path / "run", steady(3), controller=told)
    summary = summary_of(folder)
    assert summary["trace_notes"] == ["in 3 laps: cut_packet 3"]
    page = html.run_page(Run(folder), summary, [])
    assert '<th scope="row">queries in 3 laps</th>' in page
    assert "0.000 s in 3 laps</td>" in page


def test_a_run_that_sent_nothing_is_not_clean(tmp_path: Path) -> None:
    told = controller_json(10, skipped=10, skipped_by={"transport": 10})
    summary = summary_of(write_run(tmp_path / "run", [], controller=told))
    assert "nothing was sent: all 10 queries were skipped" in summary["unclean_because"]
    assert summary["warnings"][0].startswith("10 queries over QUIC or HTTPS were not played")
    assert summary["timing_error_us"]["median"] is summary["rate_error"]["within_0_1_percent"] is None


_OWN_ROWS = {"failed": "connections that never carried a query"}  # beside queries that ended so


def test_a_server_that_nobody_sampled_is_compared_too(tmp_path: Path) -> None:
    summary = summary_of(write_run(tmp_path / "run", steady(3)))
    summary["peak_rss_bytes"]["server"] = summary["peak_rss_bytes"]["front"] = None
    compared = dict(rows_of(summary, "runs"))
    assert compared["peak memory of the server, MB"] == "–" and "peak memory of the front, MB" not in compared


def test_every_counter_has_a_row_without_being_named(tmp_path: Path) -> None:
    """In the comparison and, but for how queries ended, on the page."""
    summary = summary_of(write_run(tmp_path / "run", steady(3)))
    summary["connections"].update(dict.fromkeys(COUNTERS["connections"], 7), new_counter=7)
    summary["queries"]["new_counter"] = 7
    compared, page = dict(rows_of(summary, "runs")), dict(rows_of(summary, "connections"))
    for name in (*COUNTERS["connections"], "new_counter"):
        title = _OWN_ROWS.get(name) or f"connections {name.replace('_', ' ')}"
        assert (compared[title], page[title.removeprefix("connections ")]) == ("7", "7")
    assert ("new counter", "7") in rows_of(summary, "runs")
    assert ("new counter", "7") in rows_of(summary, "counts")


def test_memory_in_use_is_that_of_the_second_half_and_the_kernels_is_its_growth(tmp_path: Path) -> None:
    """Buffers and objects are counted from the last sample before the replay; the sample after it is not."""
    lines = ["time_real_ns,time_mono_ns,process,pss_bytes,tcp_mem_bytes,udp_mem_bytes,slab_bytes\n"]
    for second, memory in ((-1, 5), (0, 10), (1, 20), (2, 30), (3, 40), (4, 50), (9, 900)):
        at = second * 1_000_000_000
        lines.append(f"{START_REAL + at},{START + at},nsd,{memory},{memory},1,{memory * 2}\n")
    queries = [Query(seq=at, due=at * 1_000_000_000) for at in range(5)]
    found = summary_of(write_run(tmp_path / "a", queries, server="".join(lines)))["server_memory"]
    assert found == {"process": 40, "socket_buffers": 30, "kernel_objects": 60, "kernel": 90, "all": 130}
    none = summary_of(write_run(tmp_path / "b", queries))["server_memory"]
    assert set(none.values()) == {None}


def test_samples_of_a_clock_that_was_set_back_are_summed_in_the_order_of_their_times() -> None:
    """Real time is what the hosts of several machines have in common."""
    times = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, -50.0, -49.0])
    own, other = server.Series("", times, times * 10), server.Series("", times[:5] + 0.5, times[:5])
    found = server.summed([own, other])
    assert found.times.tolist() == sorted(times.tolist())
    assert found.values.tolist() == [-501, -491, -11, -1, 10, 21, 32]


def test_a_trace_that_was_made_lies_in_the_run_s_folder(tmp_path: Path) -> None:
    """Whatever its path was where the run was carried out."""
    told = {**controller_json(1), "trace": "/run/reprise/results/trace.pcap"}
    experiment = {**MANIFEST, "experiment": {"synth": {"seed": 1}}}
    folder = write_run(tmp_path / "run", [Query(seq=0, due=0)], controller=told, manifest=experiment)
    assert Run(folder).trace == Path("/run/reprise/results/trace.pcap")
    (folder / "trace.pcap").touch()
    assert Run(folder).trace == folder / "trace.pcap"
