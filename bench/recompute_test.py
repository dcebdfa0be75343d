"""The recomputing script on tiny result folders whose figures are known."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import recompute, recompute_raw

S = 10**9
START = 1_700_000_000 * S
SCRIPT = Path(recompute.__file__)


def watch_line(second: float, steal_ticks: int) -> str:
    return f"{int(second * S)} {START + int(second * S)} cpu 1 2 3 4 5 6 7 {steal_ticks} 0 0"


def write_bench(
    top: Path, name: str, runs: list[dict[str, Any]], watch: list[str], quick: bool = False
) -> None:
    bench = {
        "schema": 1,
        "bench": name,
        "quick": quick,
        "sources": 100,
        "key": "rsa-2048",
        "seconds": None,
        "runs": runs,
    }
    (top / "bench.json").write_text(json.dumps(bench))
    (top / "watch.txt").write_text("\n".join(watch) + "\n")


def by_name(result: dict[str, Any]) -> dict[str, Any]:
    return {check["name"].rpartition(",")[0]: (check["value"], check["ok"]) for check in result["checks"]}


# --- steal ------------------------------------------------------------------------------------------------


def test_steal_is_found_between_the_readings_that_differ() -> None:
    lines = [watch_line(0, 5), watch_line(1, 5), watch_line(2, 8), watch_line(3, 8), watch_line(4.5, 9)]
    spans, figures = recompute_raw.watched(lines)
    assert spans == [(START + S, START + 2 * S), (START + 3 * S, START + int(4.5 * S))]
    assert figures == {"steal_s": 0.04, "seconds": 5, "seconds_with_steal": 3}


@pytest.mark.parametrize(
    ("begin", "end", "hit"), [(0, 10, False), (5, 11, True), (12, 13, True), (20, 30, False), (19, 40, True)]
)
def test_a_second_is_left_out_where_any_steal_touches_it(begin: int, end: int, hit: bool) -> None:
    assert recompute_raw.touched([(10, 20), (35, 36)], begin, end) == hit


# --- udp --------------------------------------------------------------------------------------------------


def reading(when: str, who: str, kind: str, **values: Any) -> str:
    return json.dumps({"mono_ns": 0, "when": when, "who": who, "kind": kind, **values})


def common_readings(napi_ns: int, arrived: int) -> list[str]:
    return [
        reading("before", "napi-client", "schedstat", pid=7, text="1000 1 1"),
        reading("after", "napi-client", "schedstat", pid=7, text=f"{1000 + napi_ns} 1 1"),
        reading("before", "client", "interface", values={"rx_packets": "5"}),
        reading("after", "client", "interface", values={"rx_packets": str(5 + arrived)}),
    ]


def stat_text(user: int, system: int) -> str:
    return "12 (a (b) c) " + " ".join(["Z", *["0"] * 10, str(user), str(system), "0", "0"])


def udp_runs(top: Path, answered: int = 1000) -> list[dict[str, Any]]:
    """dnsperf: 3 ms of its own and 1 ms of softirq (with few sockets 5 ms); ours: 1.5 and 0.5 ms, and a tree
    of 0.25 and 0.35 ms.
    """
    theirs, ours, reference = (top / f"runs/{number}" for number in (1, 2, 3))
    for folder in (theirs, ours, reference):
        folder.mkdir(parents=True)
        sink = {"queries4": 1000, "queries6": 0, "sources": 100, "ports": 10}
        (folder / "sink.out").write_text(json.dumps(sink))
    for folder, system_s in ((theirs, 0.002), (reference, 0.004)):
        (folder / "dnsperf.out").write_text(
            "  Queries sent:         1000\n  Queries completed:    1000 (100.00%)\n"
        )
        usage = reading("end", "dnsperf", "rusage", user_s=0.001, system_s=system_s)
        (folder / "readings.jsonl").write_text("\n".join([usage, *common_readings(10**6, 1000)]))
    (ours / "controller.json").write_text(json.dumps({"queries": {"handed": 1000, "answered": answered}}))
    rows = [
        reading("end", "distributor", "rusage", user_s=0.001, system_s=0.00075),
        reading("end", "distributor", "schedstat", text="250000 0 1"),
        reading("end", "distributor", "stat", text=stat_text(0, 0)),
        reading("end", "controller", "rusage", user_s=0.0003, system_s=0.00005),
        *common_readings(500_000, 1000),
    ]
    (ours / "readings.jsonl").write_text("\n".join(rows))
    return [
        {"row": "many-sources", "tool": "dnsperf", "repeat": 0, "folder": "runs/1"},
        {"row": "many-sources", "tool": "reprise", "repeat": 0, "folder": "runs/2"},
        {"row": "few-sockets", "tool": "dnsperf", "repeat": 0, "folder": "runs/3"},
    ]


def test_udp_costs_count_the_process_and_its_softirq(tmp_path: Path) -> None:
    write_bench(tmp_path, "udp", udp_runs(tmp_path), [watch_line(0, 0), watch_line(1, 2)])
    result = recompute.recompute(tmp_path)
    costs = {(row["row"], row["tool"], row["unit"]): row["values"] for row in result["table"]}
    assert costs["many-sources", "dnsperf", "s/M"] == [4.0]
    assert costs["many-sources", "reprise", "s/M"] == [2.0]
    assert costs["many-sources", "reprise", "s/M tree"] == [0.6]
    assert result["ratios"][0]["values"] == [2.0]
    assert result["steal_s"] == 0.02
    assert all(check["ok"] for check in result["checks"])
    assert by_name(result)["many-sources: dnsperf's processor time over reprise's"] == (2.0, True)
    name = "many-sources: reprise: controller and distributor over dnsperf -c 10"
    assert by_name(result)[name] == (0.1, True)
    (check,) = [check for check in result["checks"] if check["name"].startswith(name)]
    assert (check["absolute"], check["unit"]) == (0.6, "s/M")


def test_without_its_reference_a_check_is_not_made(tmp_path: Path) -> None:
    write_bench(tmp_path, "udp", udp_runs(tmp_path)[:2], [watch_line(0, 0), watch_line(1, 0)])
    assert not [name for name in by_name(recompute.recompute(tmp_path)) if "controller" in name]


def test_udp_answers_that_the_sink_did_not_send_are_not_believed(tmp_path: Path) -> None:
    write_bench(tmp_path, "udp", udp_runs(tmp_path, answered=1001), [watch_line(0, 0), watch_line(1, 0)])
    name = "many-sources: reprise: answers beyond what the sink sent and the interface received"
    assert by_name(recompute.recompute(tmp_path))[name] == (1, False)


def test_a_quick_bench_makes_no_claims(tmp_path: Path) -> None:
    write_bench(tmp_path, "udp", udp_runs(tmp_path), [watch_line(0, 0), watch_line(1, 0)], quick=True)
    names = by_name(recompute.recompute(tmp_path))
    assert not [name for name in names if "processor time" in name or "dnsperf -c" in name]


def test_the_ticks_are_taken_where_a_process_had_more_threads() -> None:
    rows = [
        {"who": "x", "when": "end", "kind": "schedstat", "text": "250000 0 1"},
        {"who": "x", "when": "end", "kind": "stat", "text": stat_text(70, 30)},
    ]
    assert recompute_raw.Readings(rows).used_alone("x") == pytest.approx(1.0)


def test_a_changed_napi_thread_is_an_error() -> None:
    rows = [
        {"who": "napi-client", "when": "before", "kind": "schedstat", "pid": 1, "text": "1 0 0"},
        {"who": "napi-client", "when": "after", "kind": "schedstat", "pid": 2, "text": "2 0 0"},
    ]
    with pytest.raises(SystemExit, match="another thread"):
        recompute_raw.Readings(rows).softirq("client")


# --- timing -----------------------------------------------------------------------------------------------


def packet(ident: int, time: int) -> bytes:
    dns = struct.pack("!HHHHHH", ident, 0x0100, 1, 0, 0, 0) + b"\x01a\x00" + struct.pack("!HH", 1, 1)
    udp = struct.pack("!HHHH", 5000, 53, 8 + len(dns), 0)
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 28 + len(dns), 0, 0, 64, 17, 0, 0x0A000001, 0x0A000002)
    frame = ip + udp + dns
    return struct.pack("<IIII", time // S, time % S, len(frame), len(frame)) + frame


def write_pcap(path: Path, packets: list[tuple[int, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)
    path.write_bytes(head + b"".join(packet(ident, time) for ident, time in packets))


def timing_folder(top: Path, shifts: list[int], tool: str = "reprise", dropped: int = 0) -> None:
    """A trace with a query each 100 ms; the n-th arrives shifts[n] ns after its due time."""
    name = "gap-us" if tool == "drool" else "gap"
    write_pcap(top / f"traces/{name}.pcap.zst", [(i, 10**6 * S + i * S // 10) for i in range(len(shifts))])
    folder = top / "runs/1"
    arrivals = [(i, START + i * S // 10 + shift) for i, shift in enumerate(shifts)]
    write_pcap(folder / "capture.pcap.zst", arrivals)
    (folder / "tcpdump.err").write_text(f"9 packets captured\n{dropped} packets dropped by kernel\n")
    (folder / "controller.json").write_text(json.dumps({"start": {"real_ns": START}}))
    runs = [{"row": "gap", "tool": tool, "repeat": 0, "folder": "runs/1"}]
    write_bench(top, "timing", runs, [watch_line(i, 0 if i < 3 else 1) for i in range(5)])


def values_of(result: dict[str, Any]) -> dict[str, Any]:
    return {row["unit"]: row["values"] for row in result["table"]}


def test_timing_errors_count_from_the_announced_start_without_stolen_seconds(tmp_path: Path) -> None:
    shifts = [10_000] * 20 + [5_000_000] * 10 + [20_000] * 10  # the third second has steal
    timing_folder(tmp_path, shifts)
    result = recompute.recompute(tmp_path)
    assert values_of(result)["us abs p50"] == [10.0]
    assert values_of(result)["us abs p99"] == [20.0]
    assert values_of(result)["s left out"] == [1]
    assert by_name(result)["gap: reprise: p50 of the absolute error in us"] == (10.0, True)
    assert by_name(result)["gap: reprise: queries not in the capture"] == (0, True)


def test_a_tool_without_an_announced_start_is_centered_on_its_median(tmp_path: Path) -> None:
    timing_folder(tmp_path, [50_000] * 3 + [70_000] * 4 + [90_000] * 3, tool="drool")
    assert values_of(recompute.recompute(tmp_path))["us median"] == [0.0]


def test_a_capture_that_dropped_packets_is_no_evidence(tmp_path: Path) -> None:
    timing_folder(tmp_path, [10_000] * 20, dropped=3)
    assert by_name(recompute.recompute(tmp_path))["gap: reprise: packets that the capture dropped"] == (
        3,
        False,
    )


def test_queries_that_never_arrive_are_missing() -> None:
    asked: list[tuple[int, recompute_raw.Key]] = [(0, ("1",)), (5, ("2",)), (9, ("1",))]
    came: list[tuple[int, recompute_raw.Key]] = [(100, ("1",)), (112, ("1",))]
    assert recompute_raw.errors(asked, came, 100) == [(0, 0), (9, 3)]


def test_rates_compare_whole_seconds() -> None:
    found = [(0, 0), (S // 2, S), (S, 0), (S + 1, 0)]  # the second query comes a second late
    assert recompute_raw.rates(found, {0, 1}, 2) == [0.5, 0.5]
    assert recompute_raw.rates(found, {1}, 2) == [0.5]


# --- reader and all ---------------------------------------------------------------------------------------


def reader_folder(top: Path, counted: int) -> None:
    write_pcap(top / "traces/root.pcap.zst", [(i, START + i) for i in range(1000)])
    texts = {"reprise": json.dumps({"queries": counted}), "tracestats": "Accepted Packets: 1000\n"}
    for tool, seconds in (("reprise", 0.0002), ("tracestats", 0.00005)):
        folder = top / "runs" / tool
        folder.mkdir(parents=True)
        (folder / f"{tool}.out").write_text(texts[tool])
        (folder / f"{tool}.err").write_text("")
        usage = reading("end", tool, "rusage", user_s=seconds, system_s=seconds)
        (folder / "readings.jsonl").write_text(usage)
    runs = [{"row": "pcap", "tool": tool, "repeat": 0, "folder": f"runs/{tool}"} for tool in texts]
    write_bench(top, "reader", runs, [watch_line(0, 0), watch_line(1, 0)])


def test_the_script_alone_prints_json_and_ends_with_0(tmp_path: Path) -> None:
    reader_folder(tmp_path, 1000)
    done = subprocess.run(
        [sys.executable, "-I", SCRIPT, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["table"][0] == {"row": "pcap", "tool": "reprise", "unit": "M/s", "values": [2.5]}
    speed = next(check for check in result["checks"] if "processor time" in check["name"])
    assert (speed["value"], speed["want"], speed["absolute"], speed["unit"]) == (0.25, 0.25, 2.5, "M/s")


def test_the_script_ends_with_1_where_a_check_falls_short(tmp_path: Path) -> None:
    reader_folder(tmp_path, 999)
    done = subprocess.run(
        [sys.executable, "-I", SCRIPT, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert by_name(json.loads(done.stdout))["pcap: reprise: queries miscounted"] == (1, False)


def test_the_script_knows_its_usage_and_schema(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, SCRIPT], capture_output=True, check=False).returncode == 2
    (tmp_path / "bench.json").write_text('{"schema": 2}')
    with pytest.raises(SystemExit, match="schema 2"):
        recompute.recompute(tmp_path)
