"""The part of recompute.py for tcp and tls, on tiny result folders whose figures are known."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench import recompute, recompute_raw
from bench.recompute_test import (
    START,
    S,
    by_name,
    common_readings,
    reading,
    stat_text,
    values_of,
    watch_line,
    write_bench,
)

WATCH = [watch_line(second, 0) for second in range(4)]
MS = 10**6


def sink(queries: int, connections: int, **more: int) -> str:
    value = {
        "queries": queries,
        "connections": connections,
        "sources": 100,
        "resumed": 0,
        "early_data": 0,
        "failed": 0,
        "peak_open": connections,
    }
    return json.dumps({**value, **more})


# --- costs ------------------------------------------------------------------------------------------------


def cost_runs(top: Path, row: str, floor: str, connections: int = 1000, **more: int) -> list[dict[str, Any]]:
    """The floor: 20 ms for 1000 queries; ours: 24 ms, and a tree of 0.6 ms; dnsperf: 48 ms."""
    for number, tool in enumerate((floor, "reprise", "dnsperf")):
        folder = top / f"runs/{number}"
        folder.mkdir(parents=True)
        (folder / "sink.out").write_text(sink(1000, connections, **more))
        own = {floor: 0.019, "reprise": 0.02325, "dnsperf": 0.047}[tool]
        who = "distributor" if tool == "reprise" else tool
        rows = [reading("end", who, "rusage", user_s=own, system_s=0), *common_readings(MS, 3000)]
        if tool == "reprise":
            rows += [
                reading("end", "distributor", "schedstat", text="250000 0 1"),
                reading("end", "distributor", "stat", text=stat_text(0, 0)),
                reading("end", "controller", "rusage", user_s=0.00035, system_s=0),
            ]
        (folder / "readings.jsonl").write_text("\n".join(rows))
    (top / f"runs/0/{floor}.out").write_text('{"connections": 1000, "answered": 1000}')
    (top / "runs/1/controller.json").write_text('{"queries": {"handed": 1000, "answered": 1000}}')
    (top / "runs/2/dnsperf.out").write_text("Queries sent: 1000\nQueries completed: 1000 (100%)\n")
    tools = (floor, "reprise", "dnsperf")
    return [{"row": row, "tool": tool, "folder": f"runs/{number}"} for number, tool in enumerate(tools)]


def test_a_query_costs_the_process_and_its_softirq_beside_the_floor(tmp_path: Path) -> None:
    write_bench(tmp_path, "tcp", cost_runs(tmp_path, "one-query", "floor"), WATCH)
    result = recompute.recompute(tmp_path)
    costs = {(row["tool"], row["unit"]): row["values"] for row in result["table"]}
    assert costs["floor", "us/query"] == [20.0]
    assert costs["reprise", "us/query"] == [24.0]
    assert costs["reprise", "us tree"] == [0.6]
    assert costs["reprise", "packets in/query"] == [3.0]
    ratios = {row["tool"]: row["values"] for row in result["ratios"]}
    assert ratios == {"reprise / floor": [1.2], "dnsperf / reprise": [2.0]}
    assert by_name(result)["one-query: reprise's processor time over a bare loop's"] == (1.2, True)
    assert (result["checks"][0]["absolute"], result["checks"][0]["unit"]) == (24.0, "us")
    assert all(check["ok"] for check in result["checks"])


def test_openssl_is_the_measure_of_a_handshake(tmp_path: Path) -> None:
    write_bench(tmp_path, "tls", cost_runs(tmp_path, "full", "openssl"), WATCH)
    result = recompute.recompute(tmp_path)
    assert result["note"] == "server's key rsa-2048"
    assert by_name(result)["full: reprise's processor time over OpenSSL's own"] == (1.2, True)
    assert by_name(result)["full: openssl: resumed handshakes"] == (0, True)


def test_connections_that_did_not_resume_are_no_evidence(tmp_path: Path) -> None:
    write_bench(tmp_path, "tls", cost_runs(tmp_path, "resumed", "openssl", resumed=900), WATCH)
    name = "resumed: reprise: share of connections resumed"
    assert by_name(recompute.recompute(tmp_path))[name] == (0.9, False)


def test_queries_that_shared_a_connection_are_found(tmp_path: Path) -> None:
    runs = cost_runs(tmp_path, "one-query", "floor", connections=990)
    write_bench(tmp_path, "tcp", runs, WATCH)
    name = "one-query: reprise: queries without a connection of their own"
    assert by_name(recompute.recompute(tmp_path))[name] == (10, False)


# --- hold -------------------------------------------------------------------------------------------------


def hold_run(top: Path, counts: list[tuple[int, int]]) -> None:
    """A reading of both sides each 20 s; 100 connections are wanted, and 1 is the control link."""
    folder = top / "runs/1"
    folder.mkdir(parents=True)
    rows = [reading("before", "machine", "meminfo", text="Slab:  1000 kB\n")]
    for number, (client, server) in enumerate(counts):
        moment = number * 20 * S
        for side, count in (("client", client), ("server", server)):
            values = {"established": count, "begin_ns": moment}
            rows.append(reading("during", side, "sockets", **values))
            rows[-1] = json.dumps({**json.loads(rows[-1]), "mono_ns": moment + S // 10})
        smaps = f"Rss:  {1000 + client} kB\n"
        rows.append(reading("during", "querier-7", "process", descriptors=110, smaps=smaps))
    rows.append(reading("during", "machine", "meminfo", text="Slab:  2000 kB\n"))
    (folder / "readings.jsonl").write_text("\n".join(rows))
    (folder / "sink.out").write_text(sink(101, 100))
    (folder / "controller.json").write_text('{"queries": {"handed": 101, "answered": 101}}')
    write_bench(top, "tcp", [{"row": "hold", "tool": "reprise", "folder": "runs/1"}], WATCH)


def test_held_are_the_connections_that_both_sides_have(tmp_path: Path) -> None:
    hold_run(tmp_path, [(21, 20), (101, 100), (101, 100), (101, 101), (101, 100), (51, 50)])
    result = recompute.recompute(tmp_path)
    assert all(check["ok"] for check in result["checks"])
    values = values_of(result)
    assert values["s held"] == [60.1]
    assert values["connections client"] == values["connections server"] == [100]
    assert values["descriptors/querier"] == [110]
    assert values["bytes RSS/connection"] == [1024.0]
    assert values["bytes slab/socket"] == [1024 * 1000 / 200]


@pytest.mark.parametrize("short", [(100, 100), (101, 99)])
def test_a_reading_with_a_connection_less_on_either_side_does_not_count(
    tmp_path: Path, short: tuple[int, int]
) -> None:
    hold_run(tmp_path, [(101, 100), (101, 100), (101, 100), short])
    name = "hold: reprise: s with all connections established on both sides"
    assert by_name(recompute.recompute(tmp_path))[name] == (40.1, False)


# --- segments ---------------------------------------------------------------------------------------------


@dataclass
class Flow:
    """Packets of one TCP connection, with correct numbers, so that tshark follows it."""

    port: int
    client: int = 1000
    server: int = 5000

    def syn(self, time: int) -> list[bytes]:
        packets = [self.packet(time, True, 0x02, b""), self.packet(time + 1, False, 0x12, b"")]
        self.client += 1
        self.server += 1
        return [*packets, self.packet(time + 2, True, 0x10, b"")]

    def data(self, time: int, asks: bool, payload: bytes) -> bytes:
        packet = self.packet(time, asks, 0x18, payload)
        if asks:
            self.client += len(payload)
        else:
            self.server += len(payload)
        return packet

    def packet(self, time: int, asks: bool, flags: int, payload: bytes) -> bytes:
        ports = (self.port, 53) if asks else (53, self.port)
        numbers = (self.client, self.server) if asks else (self.server, self.client)
        tcp = struct.pack("!HHIIBBHHH", *ports, *numbers, 0x50, flags, 65535, 0, 0)
        ends = (0x0A000001, 0x0A000002) if asks else (0x0A000002, 0x0A000001)
        size = 40 + len(payload)
        ip = struct.pack("!BBHHHBBHII", 0x45, 0, size, 0, 0, 64, 6, 0, *ends)
        return struct.pack("<IIII", time // S, time % S, size, size) + ip + tcp + payload


def message(number: int, answer: bool = False) -> bytes:
    flags = 0x8500 if answer else 0x0100
    dns = struct.pack("!HHHHHH", number, flags, 1, 0, 0, 0)
    dns += b"\x04q" + f"{number:03d}".encode() + b"\0" + struct.pack("!HH", 1, 1)
    return struct.pack("!H", len(dns)) + dns


def write_capture(path: Path, packets: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)
    path.write_bytes(head + b"".join(packets))


def segments_folder(top: Path, tool: str, packets: list[bytes], queries: int) -> dict[str, Any]:
    """Query i is due at i * 10 ms; the checks by name."""
    asked = []
    for number in range(queries):
        payload = message(number)[2:]
        udp = struct.pack("!HHHH", 5000, 53, 8 + len(payload), 0) + payload
        ip = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, 0x0A000001, 0x0A000002)
        time = 1000 * S + number * 10 * MS
        size = len(ip + udp)
        asked.append(struct.pack("<IIII", time // S, time % S, size, size) + ip + udp)
    write_capture(top / "traces/proof.pcap", asked)
    folder = top / "runs/1"
    write_capture(folder / "capture.pcap.zst", packets)
    (folder / "tcpdump.err").write_text("0 packets dropped by kernel\n")
    (folder / "controller.json").write_text(json.dumps({"start": {"real_ns": START}}))
    write_bench(top, "tcp", [{"row": "segments", "tool": tool, "folder": "runs/1"}], WATCH)
    return {
        name.removeprefix(f"segments: {tool}: "): value
        for name, value in by_name(recompute.recompute(top)).items()
    }


def persistent(held: int = -1) -> list[bytes]:
    """Ten queries on one connection, one each 10 ms, answered after the last one.

    That with the number `held` leaves 40 ms late with an acknowledgement, and those behind it follow it.
    """
    flow = Flow(4000)
    packets = flow.syn(START)
    for number in range(10):
        time = START + MS + number * 10 * MS
        if 0 <= held <= number:
            time = max(time, START + MS + (held + 4) * 10 * MS + number)
        if number == held:
            packets.append(flow.packet(time - MS // 10, False, 0x10, b""))
        packets.append(flow.data(time, True, message(number)))
    return [*packets, flow.data(START + 200 * MS, False, b"".join(message(i, True) for i in range(10)))]


def test_a_query_a_segment_sent_without_waiting_is_what_is_wanted(tmp_path: Path) -> None:
    checks = segments_folder(tmp_path, "persistent", persistent(), 10)
    assert all(good for _, good in checks.values()), checks
    assert checks["share of queries sent before the answer to the one before"] == (0.9, True)
    assert checks["queries for each SYN"] == (10, True)


def test_a_query_that_waited_for_an_acknowledgement_is_found(tmp_path: Path) -> None:
    checks = segments_folder(tmp_path, "persistent", persistent(held=3), 10)
    assert checks["queries held back for an acknowledgement"] == (2, False)
    lateness, good = checks["99th percentile of their lateness in ms"]
    assert (round(lateness, 3), good) == (41.0, False)


def test_queries_that_share_a_segment_or_are_cut_are_found(tmp_path: Path) -> None:
    flow = Flow(4000)
    packets = flow.syn(START)
    packets.append(flow.data(START + MS, True, message(0) + message(1)))
    packets.append(flow.data(START + 2 * MS, True, message(2)[:2]))
    packets.append(flow.data(START + 3 * MS, True, message(2)[2:]))
    checks = segments_folder(tmp_path, "persistent", packets, 3)
    assert checks["queries not in one segment of their own"] == (3, False)


def test_what_the_kernel_sent_again_is_no_second_query(tmp_path: Path) -> None:
    packets = persistent()
    again = Flow(4000, client=1001, server=5001).data(START + 150 * MS, True, message(0))
    checks = segments_folder(tmp_path, "persistent", [*packets[:-1], again, packets[-1]], 10)
    assert checks["queries not in one segment of their own"] == (0, True)


def test_a_query_that_never_came_is_missing(tmp_path: Path) -> None:
    assert segments_folder(tmp_path, "persistent", persistent(), 11)["queries not in the capture"] == (
        1,
        False,
    )


def test_each_query_has_its_own_connection(tmp_path: Path) -> None:
    flows = [Flow(4000), Flow(4001)]
    packets = []
    for number, flow in enumerate(flows):
        packets += [*flow.syn(START + number * 10 * MS)]
        packets.append(flow.data(START + MS + number * 10 * MS, True, message(number)))
    name = "connections without exactly one SYN and query"
    assert segments_folder(tmp_path / "good", "one-query", packets, 2)[name] == (0, True)
    packets.append(flows[1].data(START + 21 * MS, True, message(2)))
    assert segments_folder(tmp_path / "bad", "one-query", packets, 3)[name] == (1, False)


def test_a_query_inside_a_tls_record_is_whole_where_the_record_is() -> None:
    row = ["1700000000.5", "3", "853", "0x0018", "1", "143", "1,69,58", "39", "0x0001", "a.example"]
    segment = recompute_raw.segment_of(row)
    assert (segment.whole, segment.size, segment.messages) == (143, 143, (("0x0001", "a.example"),))
