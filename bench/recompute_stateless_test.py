"""Figures of the statelessTCP bench from tiny result folders whose figures are known."""

import json
from pathlib import Path
from typing import Any

from bench import recompute, recompute_raw
from bench.recompute_test import by_name, reading, stat_text, watch_line, write_bench

MS = 10**6
WATCH = [watch_line(0, 0), watch_line(2, 0)]
SNMP = (
    "Ip: Forwarding InReceives\nIp: 1 5\nTcp: ActiveOpens PassiveOpens RetransSegs\nTcp: 9 {opened} {again}\n"
)
NETSTAT = "TcpExt: SyncookiesSent Other\nTcpExt: {cookies} 1\n"


def processes(when: str, who: str, times: dict[str, int], user: int, system: int) -> list[str]:
    texts = {thread: f"{spent} 5 9" for thread, spent in times.items()}
    stats = {"10": stat_text(user, system), "11": stat_text(0, 0)}
    return [reading(when, who, "threads", texts=texts), reading(when, who, "stats", texts=stats)]


def kernel_readings(when: str, napi_ms: int, idle: int, opened: int) -> list[str]:
    mono = 0 if when == "before" else 10**9
    cpu = f"cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 5 5 5 {idle} 0 0 0 0 0 0\n"
    return [
        reading(when, "napi-server", "schedstat", pid=7, text=f"{napi_ms * MS + 1} 1 1"),
        reading(when, "ksoftirqd", "schedstat", pid=8, text=f"{napi_ms * MS // 10} 1 1"),
        json.dumps({"mono_ns": mono, "when": when, "who": "machine", "kind": "cpu", "text": cpu}),
        reading(when, "server", "snmp", text=SNMP.format(opened=opened, again=0)),
    ]


def write_run(folder: Path, napi_ms: int, opened: int, front: dict[str, Any] | None) -> None:
    """1,000 of 1,010 queries answered; the server took 20 ms, 15 of them in user space, the core 80 ms."""
    folder.mkdir(parents=True)
    queries = {"handed": 1010, "answered": 1000}
    (folder / "controller.json").write_text(json.dumps({"queries": queries}))
    rows = processes("before", "server", {"10/10": 5 * MS, "11/11": MS}, 10, 10)
    rows += processes("after", "server", {"10/10": 20 * MS, "11/11": 6 * MS}, 40, 20)
    rows += kernel_readings("before", 0, 0, 3) + kernel_readings("after", napi_ms, 92, 3 + opened)
    if front is not None:
        (folder / "front.json").write_text(json.dumps(front))
        rows += processes("before", "front", {"30/30": 0}, 0, 0)
        rows += processes("after", "front", {"30/30": 2 * MS}, 0, 4)
    (folder / "readings.jsonl").write_text("\n".join(rows))


def recomputed(top: Path, opened: int = 100, replies: int = 900, size: int = 104) -> dict[str, Any]:
    """UDP 31, the kernel's TCP 64 and the BPF front 33 us a query; `opened` connections reached it, and a
    query in flight takes `size` bytes.
    """
    front = {
        "queries": 1000,
        "replies": replies,
        "promoted": {"long": 60, "split": 40},
        "bytes_per_entry": size,
    }
    write_run(top / "runs/1", 10, 0, None)
    write_run(top / "runs/2", 40, 1000, None)
    write_run(top / "runs/3", 10, opened, front)
    runs = [
        {"row": "rates-bind-5000", "tool": tool, "repeat": 0, "folder": f"runs/{number}"}
        for number, tool in ((1, "udp"), (2, "tcp"), (3, "bpf"))
    ]
    write_bench(top, "stateless", runs, WATCH)
    return recompute.recompute(top)


def test_a_query_costs_the_server_the_front_and_the_receiving_threads(tmp_path: Path) -> None:
    result = recomputed(tmp_path)
    costs = {entry["tool"]: entry["values"] for entry in result["table"]}
    assert costs == {"udp": [31.0], "tcp": [64.0], "bpf": [33.0]}
    ratios = {entry["tool"]: entry["values"] for entry in result["ratios"]}
    assert ratios == {"udp / tcp": [0.4844], "bpf / tcp": [0.5156]}
    head, *rows = result["tables"][0]["rows"]
    found = {row[1]: dict(zip(head[2:], row[2:], strict=True)) for row in rows}
    assert found["bpf"] == {
        "us/query": "33.0",
        "server": "20.0",
        "front": "2.0",
        "receive": "11.0",
        "kernel": "18.0",
        "server user": "15.0",
        "core busy": "80.0",
        "lost": "0.99 %",
        "promoted": "10.00 %",
    }
    assert (found["tcp"]["front"], found["tcp"]["promoted"]) == ("-", "-")


def test_the_claim_and_the_counts_are_checked(tmp_path: Path) -> None:
    result = recomputed(tmp_path)
    found = by_name(result)
    name = "rates-bind-5000: bpf: server's processor time over that of the kernel's TCP (goal 0.55)"
    assert found[name] == (0.515625, True)
    units = {one["name"]: (one["absolute"], one["unit"]) for one in result["checks"] if "unit" in one}
    assert list(units.values()) == [(33.0, "us")]
    assert found["rates-bind-5000: bpf: bytes for a query in flight"] == (104, True)
    assert all(good for _, good in found.values())


def test_a_front_that_needs_more_memory_for_a_query_falls_short(tmp_path: Path) -> None:
    found = by_name(recomputed(tmp_path, size=111))
    assert found["rates-bind-5000: bpf: bytes for a query in flight"] == (111, False)


def test_answers_that_went_past_the_front_are_found(tmp_path: Path) -> None:
    found = by_name(recomputed(tmp_path, opened=130, replies=850))
    assert found["bpf: answers that did not come by the front"] == (50, False)
    assert found["bpf: connections of the kernel's TCP that were not promoted"] == (
        30,
        False,
    )


def test_a_server_that_used_no_tick_has_no_share_of_user_time() -> None:
    rows = [
        {"when": when, "who": "server", "kind": "stats", "texts": {"1": stat_text(3, 3)}}
        for when in ("before", "after")
    ]
    assert recompute_raw.Readings(rows).user_share("server") == 0.0


def test_a_flood_is_judged_by_the_loss_and_by_what_reached_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "runs/1"
    folder.mkdir(parents=True)
    (folder / "controller.json").write_text(json.dumps({"queries": {"handed": 1000, "answered": 980}}))
    (folder / "flood.out").write_text(json.dumps({"sent": 200_000, "refused": 0, "seconds": 1.0}))
    (folder / "front.json").write_text(json.dumps({"syn": 180_000}))
    rows = []
    for when, packets in (("before", 0), ("after", 150_000)):
        values = {"rx_packets": str(packets), "rx_dropped": "3"}
        mono = 0 if when == "before" else 10**9
        rows += kernel_readings(when, 0, 0, 0)
        rows += [
            json.dumps(
                {"mono_ns": mono, "when": when, "who": "server", "kind": "interface", "values": values}
            ),
            reading(when, "client", "interface", values={"tx_dropped": str(packets // 3)}),
            reading(when, "client", "snmp", text=SNMP.format(opened=0, again=packets // 10_000)),
            reading(when, "server", "netstat", text=NETSTAT.format(cookies=packets)),
        ]
    (folder / "readings.jsonl").write_text("\n".join(rows))
    runs = [{"row": "flood", "tool": "bpf", "repeat": 0, "folder": "runs/1"}]
    write_bench(tmp_path, "stateless", runs, WATCH)
    result = recompute.recompute(tmp_path)
    figures = {entry["unit"]: entry["values"][0] for entry in result["table"]}
    assert figures == {
        "share lost": 0.02,
        "k SYN/s sent": 200.0,
        "k packets/s in": 150.0,
        "share dropped": 0.25,
        "k SYN/s answered": 180.0,
        "sent again/query": 0.015,
        "share of core": 1.0,
    }
    found = by_name(result)
    assert found["flood: bpf: share of queries lost"] == (0.02, False)
    assert found["flood: bpf: thousand packets a second that reached the server"] == (150.0, False)
    assert found["flood: bpf: share of packets that found the server's interface full"] == (0.25, False)
    assert result["tables"] == []
