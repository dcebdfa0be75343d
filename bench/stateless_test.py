"""The zone, the cases and the flood of the statelessTCP bench."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from bench import stateless
from bench.bed import CLIENT, CLIENT_IF, SERVER, SERVER_IF, Bed
from bench.session import Options
from cli import programs
from cli.errors import UsageError
from cli.plan import network
from tests.bed import Capture

QUICK = Options("stateless", 1, True, 1000, (), Path("nowhere"))
WHOLE = Options("stateless", 5, False, 1000, (), Path("nowhere"))


@pytest.mark.parametrize("size", [100, 500, 1_200, 2_000, 4_000])
def test_a_record_fills_the_reply_to_the_byte(size: int) -> None:
    line = next(one for one in stateless.zone((size,)).splitlines() if f".s{size}." in one)
    name, *_, strings = line.split(maxsplit=4)
    data = sum(1 + len(string.strip('"')) for string in strings.split())
    question = len(name) + 1 + 4
    assert 12 + question + 12 + data + 11 == size
    assert all(0 < len(string.strip('"')) <= 255 for string in strings.split())


def test_a_whole_bench_has_all_rates_sizes_and_ways() -> None:
    found = stateless.cases(stateless.size(WHOLE))
    assert {case.rate for case in found if case.part == "rates"} == {500, 2_000, 5_000, 10_000}
    assert {case.size for case in found if case.part == "sizes"} == {100, 500, 1_200, 2_000, 4_000}
    ways = [case.way.name for case in found if case.row == "rates-bind-5000"]
    assert ways == ["udp", "tcp", "tcp-persistent", "reference", "reference-axfr", "bpf", "bpf-no-axfr"]
    assert {case.way.name for case in found if case.row == "flood"} == {"tcp", "tcp-cookies", "bpf"}
    assert {case.flood for case in found if case.part == "flood"} == {200_000}


def test_parts_and_rows_can_be_chosen() -> None:
    found = stateless.cases(stateless.size(QUICK))
    rows = {case.row for case in stateless.wanted(found, ("sizes", "rates-nsd-500"))}
    assert rows == {"sizes-bind-100", "sizes-bind-2000", "sizes-nsd-100", "sizes-nsd-2000", "rates-nsd-500"}
    with pytest.raises(UsageError, match="--only rate: no such row"):
        stateless.wanted(found, ("rate",))


def test_runs_are_as_long_as_asked() -> None:
    how = stateless.size(Options("stateless", 1, False, 1000, (), Path("nowhere"), seconds=3))
    assert {case.seconds for case in stateless.cases(how)} == {3}


@pytest.mark.netns
def test_the_flood_sends_different_whole_syns_at_its_rate(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Bed(tmp_path / "run", napi=False) as bed:
        capture = Capture(bed, network.SERVER, SERVER_IF, "capture", "tcp dst port 53")
        mac = (bed.sysfs(network.SERVER) / "class/net" / SERVER_IF / "address").read_text().strip()
        argv = [programs.own("reprise-flood"), CLIENT_IF, SERVER, "--mac", mac, "--rate", "1000"]
        flood = bed.start(CLIENT, argv, "flood").until("event=sending")
        assert not flood.has_ended(0.5)
        assert flood.stop(signal.SIGINT) == 0
        capture.stop()
        fields = ("ip.src", "tcp.srcport", "tcp.checksum.status", "ip.checksum.status", "tcp.options.mss_val")
        checked = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
        rows = capture.rows("tcp.flags.syn == 1 and tcp.flags.ack == 0", *fields, options=checked)
    sent = json.loads((tmp_path / "run/flood.out").read_text())
    assert len(rows) == sent["sent"] > 0
    assert sent["refused"] == 0
    assert sent["sent"] / sent["seconds"] <= 1000
    assert {tuple(row[2:]) for row in rows} == {("1", "1", "1460")}
    assert len({tuple(row[:2]) for row in rows}) == len(rows)
    assert all(row[0].startswith("100.") for row in rows)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("nowhere", "192.0.2.1", "--mac", "02:00:00:00:00:01"), "interface nowhere does not exist"),
        (("lo", "192.0.2.x", "--mac", "02:00:00:00:00:01"), "192.0.2.x: not an IPv4 address"),
        (("lo", "192.0.2.1", "--mac", "somewhere"), "--mac somewhere: not a hardware address"),
        (("lo", "192.0.2.1", "--mac", "02:00:00:00:00:01", "--rate", "0"), "--rate"),
    ],
)
def test_a_wrong_command_line_of_the_flood_is_one_line_with_a_hint(
    words: tuple[str, ...], complaint: str
) -> None:
    done = subprocess.run(
        [programs.own("reprise-flood"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "; " in done.stderr
