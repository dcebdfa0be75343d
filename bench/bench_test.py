"""The command, and the benches from end to end: quick ones, which make no claims on speed."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bench import bed as beds
from bench import mutate, timing
from bench.session import Session
from bench.tools import Sink
from cli import programs
from cli.__main__ import build_parser
from cli.errors import RepriseError, UsageError
from cli.plan import network
from cli.tools import bench
from tests import command
from tests.bed import below, has_ended, wait_for
from tests.slow import slow


def kernel_threads_are_visible() -> bool:
    """kthreadd is the second process of the machine's own PID namespace."""
    try:
        return Path("/proc/2/comm").read_text(encoding="utf-8") == "kthreadd\n"
    except OSError:
        return False


NAPI = pytest.mark.skipif(
    not kernel_threads_are_visible(), reason="kernel threads are not visible in this PID namespace"
)
SLOW = [NAPI, pytest.mark.slow]  # another row of the bench shows the same
SIZED = {"udp", "tcp", "reference", "bpf"}  # ways of the sizes of stateless
STATELESS = {"udp", "tcp", "tcp-persistent", "reference", "reference-axfr", "bpf", "bpf-no-axfr"}


def call(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: it changes its mount namespace."""
    return command.run("bench", *words, cwd=programs.ROOT)


def test_options_have_the_bench_s_own_defaults() -> None:
    options = bench.options_of(build_parser().parse_args(["bench", "timing"]))
    assert (options.repeats, options.quick, options.sources) == (3, False, 100_000)
    assert bench.options_of(build_parser().parse_args(["bench", "udp", "--quick"])).repeats == 1
    given = bench.options_of(build_parser().parse_args(["bench", "timing", "--quick", "--seconds", "2"]))
    assert [shape.seconds for shape in timing.shapes(given)] == [2, 2]


def test_mutate_wants_what_counts_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SEARCH_PATH", str(tmp_path))
    options = bench.options_of(build_parser().parse_args(["bench", "mutate", "--quick"]))
    with pytest.raises(RepriseError, match="program capinfos is missing") as told:
        mutate.measure(Session(options, tmp_path / "mutate"))
    assert told.value.hint == "apt-get install wireshark-common"


@pytest.mark.parametrize(
    "words", [["--repeats", "0"], ["--repeats", "101"], ["--sources", "9"], ["--seconds", "0"]]
)
def test_numbers_out_of_range_are_usage_errors(words: list[str]) -> None:
    with pytest.raises(UsageError, match="out of range"):
        bench.options_of(build_parser().parse_args(["bench", "udp", *words]))


def test_an_unknown_bench_is_a_usage_error() -> None:
    assert call("nothing").returncode == 2


@pytest.mark.netns
def test_an_unknown_row_is_a_usage_error_and_names_the_rows(tmp_path: Path) -> None:
    done = call("udp", "--quick", "--only", "many", "-o", str(tmp_path))
    assert done.returncode == 2
    assert "--only many: no such row; give one of fast-mode, few-sockets, many-sources" in done.stderr


@pytest.mark.netns
@pytest.mark.parametrize(
    ("name", "row", "tools"),
    [
        pytest.param("udp", "few-sockets", {"dnsperf", "reprise"}, marks=NAPI),
        pytest.param("udp", "fast-mode", {"dnsperf", "reprise-xdp", "kxdpgun"}, marks=SLOW),
        ("timing", "poisson-1k", {"drool", "reprise", "reprise-spin"}),
        ("reader", "pcap", {"reprise", "tcpdump", "tracestats"}),
        slow("mutate", "text", {"reprise", "tracestats"}),
        ("mutate", "files", {"reprise", "reprise-jobs-2", "tracestats"}),
        ("zones", "build", {"reader", "reprise"}),
        pytest.param("hierarchy", "server", {"paper-40", "colored-40", "dnsperf"}, marks=SLOW),
        pytest.param("hierarchy", "path", {"nft", "tun", "dnsperf"}, marks=NAPI),
        slow("hierarchy", "delay", {"tun"}),
        pytest.param("tcp", "one-query", {"dnsperf", "floor", "reprise"}, marks=NAPI),
        pytest.param("tcp", "persistent", {"dnsperf", "reprise", "reprise-many"}, marks=SLOW),
        slow("tcp", "hold", {"reprise"}),
        slow("tcp", "segments", {"one-query", "persistent"}),
        pytest.param("tls", "full", {"dnsperf", "openssl", "reprise"}, marks=NAPI),
        pytest.param("tls", "resumed", {"openssl", "reprise"}, marks=SLOW),
        pytest.param("tls", "early-data", {"openssl", "reprise"}, marks=SLOW),
        pytest.param("tls", "persistent", {"dnsperf", "reprise"}, marks=SLOW),
        slow("tls", "segments", {"one-query", "persistent"}),
        pytest.param("stateless", "rates-bind-500", STATELESS, marks=SLOW),
        pytest.param(
            "stateless",
            "sizes-nsd-2000",
            STATELESS - {"tcp-persistent", "reference-axfr", "bpf-no-axfr"},
            marks=SLOW,
        ),
        pytest.param("stateless", "flood", {"tcp", "tcp-cookies", "bpf"}, marks=NAPI),
    ],
)
def test_a_quick_bench_measures_recomputes_and_ends_with_json(
    tmp_path: Path, name: str, row: str, tools: set[str]
) -> None:
    check_quick(tmp_path, name, row, tools)


def check_quick(tmp_path: Path, name: str, row: str, tools: set[str], *more: str) -> None:
    done = call(name, "--quick", "--json", "--only", row, *more, "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr + done.stdout
    line = json.loads(done.stdout.splitlines()[-1])
    assert set(line) == {"bench", "steal_s", "checks"}
    assert line["bench"] == name
    assert line["checks"] and all(check["ok"] for check in line["checks"])
    (folder,) = tmp_path.iterdir()
    assert not folder.name.endswith(".partial")
    again = subprocess.run(
        [sys.executable, "-I", "bench/recompute.py", folder],
        cwd=programs.ROOT,
        capture_output=True,
        check=True,
    )
    assert json.loads(again.stdout)["checks"] == line["checks"]
    assert {entry["tool"] for entry in json.loads(again.stdout)["table"]} == tools


@NAPI
@pytest.mark.netns
def test_as_many_sources_as_asked_reach_the_server(tmp_path: Path) -> None:
    check_quick(tmp_path, "udp", "many-sources", {"dnsperf", "reprise"}, "--sources", "500")
    (sink,) = tmp_path.glob("*/runs/*-many-sources-reprise/sink.out")
    assert json.loads(sink.read_text())["sources"] == 500


@pytest.mark.netns
@pytest.mark.slow  # the option sets what a quick bench sets, see test_options_have_the_bench_s_own_defaults
def test_timing_traces_are_as_long_as_asked(tmp_path: Path) -> None:
    done = call("timing", "--quick", "--only", "gap-10ms", "--seconds", "2", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr + done.stdout
    (sink,) = tmp_path.glob("*/runs/001-gap-10ms-reprise/sink.out")
    seen = json.loads(sink.read_text())
    assert seen["queries4"] + seen["queries6"] == 200


@pytest.mark.netns
def test_an_interrupted_bench_ends_and_leaves_no_process(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "cli", "bench", "timing", "--quick", "--repeats", "3", "-o", str(tmp_path)]
    with subprocess.Popen(argv, cwd=programs.ROOT, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: bool(list(tmp_path.glob("*.partial/runs/001*/capture.pcap"))), "a capture")
        children = below(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert "reprise: error: interrupted" in process.stderr.read()
    assert len(children) >= 3  # watch, sink, tcpdump
    wait_for(lambda: all(map(has_ended, children)), "the end of its children")
    assert [folder.suffix for folder in tmp_path.iterdir()] == [".partial"]


# --- the sink ---------------------------------------------------------------------------------------------

QUERY = (
    struct.pack("!HHHHHH", 0x1234, 0x0110, 1, 0, 0, 0) + b"\x03www\x07example\x00" + struct.pack("!HH", 1, 1)
)


def ask(bed: beds.Bed, server: str, message: bytes, wait_s: float) -> bytes | None:
    """The answer that a socket of the client gets."""
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with bed.inside(beds.CLIENT), socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(wait_s)
        client.sendto(message, (server, 53))
        try:
            return client.recv(4096)
        except (TimeoutError, ConnectionRefusedError):
            return None


@pytest.fixture
def root() -> None:
    """The bed loads BPF programs and mounts a /sys for each host."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.mark.netns
@pytest.mark.parametrize("after_taps", [pytest.param(False, marks=NAPI), True])
@pytest.mark.parametrize("server", [network.SERVICE_V4, network.SERVICE_V6])
def test_the_sink_answers_queries_and_only_those(
    tmp_path: Path, root: None, server: str, after_taps: bool
) -> None:
    with beds.Bed(tmp_path / "run", napi=not after_taps) as bed:
        (sink,) = Sink().start(bed, after_taps)
        for length in (0, 1):  # an odd length has its own way through the checksum
            answer = ask(bed, server, QUERY + b"\x00" * length, 10)
            assert answer is not None
            assert answer[2:4] == b"\x85\x10"  # QR, AA, and RD and CD as asked
            assert answer[:2] + answer[4:] == QUERY[:2] + QUERY[4:] + b"\x00" * length
        response = QUERY[:2] + b"\x81\x00" + QUERY[4:]
        assert ask(bed, server, response, 0.2) is None
        assert sink.stop(signal.SIGINT) == 0
        seen = json.loads((tmp_path / "run/sink.out").read_text())
        family = "queries6" if ":" in server else "queries4"
        assert (seen["queries4"] + seen["queries6"], seen[family], seen["sources"]) == (2, 2, 1)
        assert seen["passed"] >= 1


@NAPI
@pytest.mark.netns
def test_a_killed_sink_leaves_nothing_behind(tmp_path: Path, root: None) -> None:
    with beds.Bed(tmp_path / "run") as bed:
        (first,) = Sink().start(bed, False)
        second = bed.start(network.SERVER, [programs.own("reprise-sink"), "udp", beds.SERVER_IF], "second")
        assert second.wait(10) == 1
        assert "has another XDP program" in second.text()
        first.kill()
        Sink().start(bed, False)
        assert ask(bed, network.SERVICE_V4, QUERY, 10) is not None


@pytest.mark.netns
def test_a_missing_interface_is_a_usage_error(tmp_path: Path, root: None) -> None:
    with beds.Bed(tmp_path / "run", napi=False) as bed:
        sink = bed.start(network.SERVER, [programs.own("reprise-sink"), "udp", "nowhere"], "sink")
        assert sink.wait(10) == 2
        assert "interface nowhere does not exist" in sink.last_line()
