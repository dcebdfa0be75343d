"""The questions that are sent."""

import subprocess
from pathlib import Path

from bench import traces
from cli import programs


def test_a_hold_asks_once_from_each_source_and_once_more_at_its_end(tmp_path: Path) -> None:
    traces.write_hold(tmp_path / "hold.pcap", sources=5, rate=100, hold_s=7)
    argv = [programs.packaged("tshark"), "-n", "-r", str(tmp_path / "hold.pcap"), "-T", "fields"]
    argv += ["-e", "frame.time_relative", "-e", "ip.src"]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    assert [float(time) for time, _ in rows] == [0, 0.01, 0.02, 0.03, 0.04, 7.04]
    assert [source for _, source in rows] == [f"10.0.0.{i}" for i in (1, 2, 3, 4, 5, 1)]


def test_the_capture_holds_the_questions_of_the_data_file_from_every_source(tmp_path: Path) -> None:
    traces.write_dnsperf(tmp_path / "names.txt", 3)
    traces.write_pcap(tmp_path / "few.pcap", queries=7, sources=2, names=3)
    argv = [
        programs.packaged("tshark"),
        "-n",
        "-r",
        str(tmp_path / "few.pcap"),
        "-T",
        "fields",
        "-E",
        "separator=,",
    ]
    fields = ("ip.src", "dns.qry.name", "dns.flags.recdesired", "dns.flags.response", "frame.time_relative")
    for field in fields:
        argv += ["-e", field]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    asked = [line.split()[0] for line in (tmp_path / "names.txt").read_text().splitlines()]
    assert [line.split(",")[1] for line in lines] == [asked[i % 3] for i in range(7)]
    assert {line.split(",")[0] for line in lines} == {"10.0.0.1", "10.0.0.2"}
    words = lines[6].replace("True", "1").replace("False", "0")  # as tshark 4.2 and later print flags
    assert words == f"10.0.0.1,{asked[0]},1,0,0.000006000"
