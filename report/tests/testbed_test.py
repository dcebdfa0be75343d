"""What the hosts' counters, captures, clocks and the data path say of a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from report.hosts import parse
from report.rows import rows_of
from report.run import Json, Run
from report.summary import summarize
from report.tally import measure
from report.tests.writers import MANIFEST, Query, controller_json, records, rq_bytes, write_run

UDP = "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors"
UDP6 = dict.fromkeys(UDP.split(), 0)
MS = 1_000_000


def link(name: str, kind: str = "ether", **values: Any) -> Json:
    """As `ip -s -s -j link show` tells of an interface; rx and tx may be given, and flags."""
    return {
        "ifname": name,
        "flags": values.get("flags", ["UP", "LOWER_UP"]),
        "link_type": kind,
        "stats64": {
            "rx": {"packets": 9, "errors": 0, "dropped": values.get("rx", 0), "missed_errors": 0},
            "tx": {"errors": 0, "dropped": values.get("tx", 0), "carrier_changes": values.get("changes", 2)},
        },
    }


def text(
    links: list[Json] | None = None,
    udp: tuple[int, ...] = (0, 0, 0, 0, 0, 0, 0),
    softnet: int = 0,
    discards: int = 0,
    drops: int = 0,
) -> str:
    """As the plan's steps write it."""
    values = " ".join(map(str, udp))
    sections = {
        "/proc/sys/kernel/random/boot_id": "c22e09e5",
        "/proc/net/softnet_stat": f"00005de6 00000000 00000000\n0000e3f3 {softnet:08x} 00000001",
        "/proc/net/snmp": f"Ip: InDiscards OutDiscards\nIp: {discards} 0\nUdp: {UDP}\nUdp: {values}",
        "/proc/net/snmp6": "\n".join(f"Udp6{name} \t{count}" for name, count in UDP6.items()),
        "ip -s -s -j link show": json.dumps(links or [link("data")]),
        "tc -s -j qdisc show": json.dumps(
            [
                {"kind": "fq", "dev": "data", "drops": drops},
                {"kind": "clsact", "dev": "data", "drops": 932},
            ]
        ),
    }
    return "\n".join(f"==> {name} <==\n{body}\n" for name, body in sections.items())


def write_host(folder: Path, host: str, before: str, after: str) -> None:
    (folder / f"counters-{host}-before.txt").write_text(before)
    (folder / f"counters-{host}.txt").write_text(after)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [Query(n, n * MS, n * MS) for n in range(10)])


def summary_of(folder: Path) -> Json:
    return summarize(measure(Run(folder)))


def test_every_number_of_the_texts_is_read() -> None:
    found = parse(text([link("data", rx=3)], (1, 2, 3, 4, 5, 6, 7), softnet=255, discards=8, drops=9))
    assert found.machine == "c22e09e5"
    assert found.softnet_dropped == 255
    assert found.protocols["UdpRcvbufErrors"] == 5
    assert found.protocols["Udp6InDatagrams"] == 0
    assert found.protocols["IpInDiscards"] == 8
    assert {one: sum(lost.values()) for one, lost in found.interfaces["data"].lost.items()} == {
        "rx": 3,
        "tx": 0,
    }
    assert found.queues == {"fq of data": 9}


def test_a_kernel_without_ipv6_has_no_counters_of_it() -> None:
    whole = text()
    begin, end = (whole.index(f"==> {name}") for name in ("/proc/net/snmp6", "ip "))
    assert parse(whole[:begin] + whole[end:]).protocols["UdpInErrors"] == 0


@pytest.mark.parametrize(
    ("host", "after", "reason"),
    [
        ("client1", text(udp=(9, 0, 4, 9, 4, 0, 0)), "client1: 4 packets found the receive buffer"),
        ("client1", text(udp=(9, 0, 2, 9, 0, 0, 2)), "client1: 2 packets had a wrong checksum (Udp"),
        ("server", text([link("data", rx=7)], softnet=7), "server: interface data lost 7 packets on"),
        ("client1", text([link("data", tx=1)]), "client1: interface data lost 1 packets on sending"),
        ("client1", text(drops=6), "client1: queue fq of data dropped 6 packets (tc -s qdisc)"),
        ("client1", text(discards=1_500), "client1: 1,500 packets were dropped on arrival for lack"),
        ("client1", text([link("data", flags=["BROADCAST"])]), "link data of client1 was taken down"),
        ("client1", text([link("data", flags=["UP"])]), "link data of client1 lost its carrier"),
        ("client1", text([link("data", changes=4)]), "link data of client1 was down for a while"),
        ("client1", text([link("other")]), "link data of client1 was removed during the replay"),
    ],
)  # fmt: skip
def test_a_loss_makes_a_run_unclean_by_host_and_counter(
    folder: Path, host: str, after: str, reason: str
) -> None:
    write_host(folder, host, text(), after)
    found = summary_of(folder)
    assert found["clean"] is False
    assert found["unclean_because"][0].startswith(reason)
    assert found["warnings"] == []


def test_what_the_server_under_test_did_not_read_is_its_own_and_is_explained(folder: Path) -> None:
    write_host(folder, "server", text(), text(udp=(9, 0, 4, 9, 4, 2, 0)))
    found = summary_of(folder)
    assert found["unclean_because"] == []
    assert found["warnings"] == [
        "server: 4 packets found the receive buffer of their socket full (UdpRcvbufErrors)",
        "server: 2 packets found the send buffer full (UdpSndbufErrors)",
    ]


def test_a_loss_is_told_once_where_somebody_else_tells_it(tmp_path: Path) -> None:
    queries = [Query(n, n * MS, n * MS) for n in range(10)]
    stats = {"clean": False, "because": "4 replies were dropped", "receive_overflows": 4}
    run = write_run(tmp_path / "run", queries, stats=stats)
    write_host(run, "client1", text(), text(udp=(9, 0, 4, 9, 4, 0, 0)))
    write_host(run, "server", text([link("reprise1", "none")]), text([link("reprise1", "none", tx=6)]))
    (run / "delay-server-0.json").write_text(json.dumps({"schema": 1, "packets": {"unread": 6}}))
    reasons = summary_of(run)["unclean_because"]
    assert reasons == ["querier client1/0: 4 replies were dropped"]


def test_a_device_whose_proxy_was_replaced_did_not_go_down_by_itself(folder: Path) -> None:
    before, after = text([link("reprise0", "none")]), text([link("reprise0", "none", changes=4)])
    write_host(folder, "server", before, after)
    assert summary_of(folder)["clean"] is True


def test_softnet_belongs_to_the_machine_and_other_traffic_is_no_loss_of_the_run(folder: Path) -> None:
    for host, lost in (("client1", 2), ("server", 3)):
        write_host(folder, host, text(softnet=10), text([link("data", rx=lost)], softnet=22))
    found = summary_of(folder)
    assert len(found["unclean_because"]) == 2
    assert found["warnings"] == [
        "the machine of client1, server dropped 7 packets of other traffic (softnet_stat)"
    ]


def test_on_the_machines_own_network_losses_may_be_anybodys(folder: Path) -> None:
    write_host(folder, "machine", text(), text(udp=(9, 0, 4, 9, 4, 0, 0), drops=2))
    found = summary_of(folder)
    assert found["clean"] is True
    assert len(found["warnings"]) == 2


def test_a_cut_file_of_counters_is_a_problem(folder: Path) -> None:
    write_host(folder, "client1", text(), text()[:300])
    assert summary_of(folder)["unclean_because"] == ["counters-client1.txt is damaged"]


@pytest.mark.parametrize(
    ("log", "status", "reason"),
    [
        ("10 packets captured\n12 packets received by filter\n0 packets dropped by kernel\n", 0, None),
        (
            "10 packets captured\n1234 packets dropped by kernel\n",
            0,
            "server: capture.pcap lacks 1,234 packets",
        ),
        ("tcpdump: listening on data1\n", 0, "server: capture.pcap may be cut, tcpdump gave no summary"),
        ("", -9, "server: capture.pcap may be cut, tcpdump ended with status -9"),
    ],
)
def test_a_capture_that_lacks_packets_makes_the_run_unclean(
    tmp_path: Path, log: str, status: int, reason: str | None
) -> None:
    process = {"id": "capture", "role": "capture", "host": "server", "exit": status}
    manifest = {**MANIFEST, "processes": [*MANIFEST["processes"], process]}
    run = write_run(tmp_path / "run", [Query(0, 0, 0, MS)], manifest=manifest)
    (run / "logs").mkdir()
    (run / "logs/capture.log").write_text(log)
    reasons = summary_of(run)["unclean_because"]
    assert [one.startswith(reason or "") for one in reasons] == ([True] if reason else [])


@pytest.mark.parametrize(
    ("same", "end_ns", "warned"),
    [(False, 1_310_000, True), (False, 1_090_000, False), (True, 9_000_000, False)],
)
def test_clocks_that_drift_are_said(tmp_path: Path, same: bool, end_ns: int, warned: bool) -> None:
    child = {
        "name": "client2", "same_clock": same, "offset_ns": 1_000_000, "rtt_ns": 60_000,
        "offset_end_ns": end_ns, "rtt_end_ns": 100_000,
    }  # fmt: skip
    told = {**controller_json(1, answered=1), "children": [child]}
    run = write_run(tmp_path / "run", [Query(0, 0, 0, MS)], controller=told)
    found = summary_of(run)
    assert found["clean"] is True
    assert [one.split(" from")[0] for one in found["warnings"]] == (
        ["the clock of client2 drifted by 0.31 ms"] if warned else []
    )
    assert not warned or "within 0.08 ms" in found["warnings"][0]


def test_a_clock_that_was_set_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [Query(0, 0, 0, MS)], stats={"clock_steps": 2})
    assert summary_of(run)["warnings"] == [
        "the clock of client1 was set during the replay (2 steps): for 0.1 s after that, latencies are up to "
        "when answers were read"
    ]


def test_warnings_of_queriers_and_proxies_are_the_runs(tmp_path: Path) -> None:
    queries = [Query(0, 0, 0, MS)]
    run = write_run(tmp_path / "run", queries, stats={"warnings": ["realtime was refused"]})
    (run / "proxy-meta1-0.json").write_text(json.dumps({"schema": 1, "warnings": ["realtime was refused"]}))
    assert summary_of(run)["warnings"] == [
        "queriers of client1: realtime was refused",
        "proxy-meta1: realtime was refused",
    ]


def test_what_a_fault_lost_counts_once_on_a_machine(tmp_path: Path) -> None:
    """The controller's host may be a client's, too."""
    fault = {"number": 1, "at_s": 0.0, "seconds": 1.0, "text": "link: loss 10 %"}
    run = write_run(tmp_path / "run", [Query(0, 0, 0, MS)], manifest={**MANIFEST, "faults": [fault]})
    lost = {"nftables": [{"counter": {"table": "reprise_faults", "name": "fault1", "packets": 7}}]}
    for host in ("client1", "controller"):
        own = f"{text()}==> readlink /proc/self/ns/net <==\nnet:[1]\n"
        write_host(run, host, own, f"{own}==> nft -j list counters <==\n{json.dumps(lost)}\n")
    assert summary_of(run)["faults"][0]["packets"] == 7


@pytest.mark.parametrize(
    ("late_us", "unlisted", "told"),
    [
        (2_500.0, 0, ["delayed 1 % of its packets by over 2.5 ms too much"]),
        (900.0, 12, ["did not delay 12 packets: no round trip is known for their addresses"]),
        (0, 0, []),
    ],
)
def test_delays_that_were_not_those_asked_for_are_said(
    tmp_path: Path, late_us: float, unlisted: int, told: list[str]
) -> None:
    run = write_run(tmp_path / "run", [Query(0, 0, 0, MS)])
    counted = {"schema": 1, "unlisted": unlisted, "delay_error_us": {"p50": 2.0, "p99": late_us}}
    (run / "delay-server-0.json").write_text(json.dumps(counted))
    assert summary_of(run)["warnings"] == [f"delay-server {one}" for one in told]


# --- the data path of a hierarchy -------------------------------------------------------------------------


def hierarchy(
    tmp_path: Path, sent: int, arrived: int, answered: int, unmapped: int, limits: Mapping[str, object]
) -> Path:
    meta = {"id": "meta1", "role": "meta", "host": "meta1", "exit": 0}
    experiment = {**MANIFEST["experiment"], "hierarchy": limits}
    manifest = {**MANIFEST, "experiment": experiment, "processes": [*MANIFEST["processes"], meta]}
    queries = [Query(n, n * MS, n * MS, rcode=2 if n < 2 else 0) for n in range(100)]
    run = write_run(tmp_path / "run", queries, manifest=manifest)
    names = ("queries", "recursions", "udp_queries", "tcp_queries", "unmapped_packets", "lost_packets")
    values = (100, 50, sent, 0, unmapped, 0)
    (run / "resolver-server-before.json").write_text(json.dumps({"schema": 1, **dict.fromkeys(names, 0)}))
    after = {"schema": 1, **dict(zip(names, values, strict=True)), "unmapped": {}}
    (run / "resolver-server.json").write_text(json.dumps(after))
    write_host(run, "meta1", text(), text(udp=(arrived, 0, 0, answered, 0, 0, 0)))
    return run


BROKEN = "the data path is broken: "
ALL: dict[str, float] = {"max_servfail_percent": 100}


@pytest.mark.parametrize(
    ("counts", "limits", "reasons"),
    [
        ((1000, 1000, 1000, 0), ALL, []),
        ((1000, 993, 993, 0), ALL, []),
        ((1010, 1000, 1000, 10), ALL, []),
        ((4457, 412, 412, 0), ALL, [f"{BROKEN}412 of 4,457 queries came to the meta-DNS-servers (90.8%"]),
        ((4457, 412, 412, 0), {**ALL, "max_lost_percent": 95}, []),
        ((100, 93, 93, 0), {**ALL, "max_lost_percent": 7}, []),
        ((1000, 1000, 900, 0), ALL, [f"{BROKEN}1,000 queries came to the meta-DNS-servers, and 900"]),
        ((1000, 980, 980, 20), ALL, ["20 packets went to addresses that no zone has (2.0%"]),
        ((1000, 980, 980, 20), {**ALL, "max_unmapped_percent": 3}, []),
        ((10, 10, 10, 0), {}, ["2 answers were SERVFAIL (2.0%, hierarchy.max_servfail_percent is 1)"]),
    ],
)  # fmt: skip
def test_both_ends_of_the_data_path_are_compared(
    tmp_path: Path, counts: tuple[int, int, int, int], limits: dict[str, float], reasons: list[str]
) -> None:
    found = summary_of(hierarchy(tmp_path, *counts, limits))
    assert len(found["unclean_because"]) == len(reasons)
    for told, wanted in zip(found["unclean_because"], reasons, strict=True):
        assert told.startswith(wanted)
    assert found["resolver"]["servfail_share"] == 0.02


def test_only_datagrams_are_missed_on_the_data_path(tmp_path: Path) -> None:
    """Packets of TCP that had no address or that a fault lost do not make up for queries that were lost."""
    run = hierarchy(tmp_path, 1000, 900, 900, 60, {**ALL, "max_unmapped_percent": 100})
    after = json.loads((run / "resolver-server.json").read_text())
    (run / "resolver-server.json").write_text(json.dumps({**after, "udp_dropped": 10}))
    counters = [
        {"counter": {"table": "reprise_faults", "name": name, "packets": count}}
        for name, count in (("fault1", 70), ("fault1_udp", 40))
    ]
    path = run / "counters-meta1.txt"
    listing = json.dumps({"nftables": counters})
    path.write_text(f"{path.read_text()}==> nft -j list counters <==\n{listing}\n")
    found = summary_of(run)
    wanted = {"sent": 950, "arrived": 900, "answered": 900, "lost_share": 0.052632}
    assert found["resolver"]["data_path"] == wanted
    assert found["unclean_because"][0].startswith(f"{BROKEN}900 of 950 queries came")


def test_upstream_queries_and_cache_hits_are_of_queries(tmp_path: Path) -> None:
    """Several queries share a connection; a client that asks again over TCP finds its answer in the cache;
    a refused query was never looked up.
    """
    run = hierarchy(tmp_path, 176, 176, 176, 0, {"max_servfail_percent": 100})
    counts = {"schema": 1, "udp_queries": 100, "tcp_connections": 36, "tcp_queries": 252, "queries": 20}
    (run / "resolver-server2-before.json").write_text(json.dumps({"schema": 1}))
    (run / "resolver-server2.json").write_text(json.dumps(counts))
    again = [Query(n, n * MS, n * MS, marks=1024) for n in range(10, 30)]
    (run / "queries-client2-0.rq").write_bytes(rq_bytes(records(again)))
    refused = [Query(n, n * MS, n * MS, rcode=5) for n in range(30, 40)]
    (run / "queries-client3-0.rq").write_bytes(rq_bytes(records(refused)))
    found = summary_of(run)["resolver"]
    assert found["upstream_queries"] == 176 + 100 + 252
    assert found["cache_hit_share"] == round(1 - 50 / (120 - 20 - 10), 6)
    del counts["tcp_queries"]
    (run / "resolver-server2.json").write_text(json.dumps(counts))
    assert summary_of(run)["resolver"]["upstream_queries"] is None


def test_a_resolver_s_trace_without_rd_is_said(tmp_path: Path) -> None:
    run = hierarchy(tmp_path, 10, 10, 10, 0, {})
    told = controller_json(100, answered=100)
    for without, said in ((0, False), (100, True)):
        told["reader"]["without_rd"] = without
        (run / "controller.json").write_text(json.dumps(told))
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["experiment"]["server"] = {"kind": "hierarchy"}
        (run / "manifest.json").write_text(json.dumps(manifest))
        found = summary_of(run)
        assert any("queries ask without RD" in one for one in found["warnings"]) is said
        assert found["resolver"]["cache_hit_share"] == (None if said else 0.5)


def test_servfail_of_zones_that_cannot_be_validated_is_not_blamed_on_the_trace(tmp_path: Path) -> None:
    def words(keys: Mapping[str, object], name: str, told: object) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        run = hierarchy(folder, 10, 10, 10, 0, keys)
        (run / "queries-client2-0.rq").write_bytes(
            rq_bytes(records([Query(n, n * MS, n * MS, rcode=2) for n in range(100, 200)]))
        )
        (run / "zones").mkdir()
        (run / "zones" / name).write_text(json.dumps(told))
        found = summary_of(run)
        return " / ".join(
            one.split("SERVFAIL", 1)[1]
            for one in (*found["unclean_because"], *found["warnings"])
            if "SERVFAIL" in one
        )

    plan = {"schema": 1, "trusted": [{"zone": ".", "unproven": "no_keys"}, {"zone": "a."}]}
    said = words({}, "plan.json", plan)
    assert said.count(": the resolver validates, and the zone plan has 1 zones whose answers cannot be") == 2
    assert said.index("cannot be validated") < said.index("or the zones may not fit the trace")
    assert words({"dnssec": "keep"}, "build.json", {"schema": 1}).count("the resolver validates rebuilt") == 2
    for keys in ({"validate": False}, {"dnssec": "strip"}):
        assert "resolver validates" not in words(keys, "build.json", {"schema": 1})


def test_of_unmapped_addresses_the_first_ones_are_named() -> None:
    def told(count: int) -> str:
        part = {"unmapped": [{"address": f"192.0.2.{at}"} for at in range(count)]}
        summary = {"resolver": {**part, "upstream_queries": 9, "unmapped_packets": 5}}
        return dict(rows_of(summary, "run"))["packets to unmapped addresses"]

    assert [told(count) for count in (0, 1)] == ["5", "5, to 192.0.2.0"]
    assert told(4) == "5, to 192.0.2.0, 192.0.2.1, 192.0.2.2 and so on"
