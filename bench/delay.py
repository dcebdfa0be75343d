"""How exact the delay line is: `python -m bench.delay` sends packets through it and compares two clocks.

A sender's datagrams go into a TUN device, `reprise-proxy delay` reads them there and writes them back when
they are due, and the kernel forwards them over a veth pair. The proxy says how far it wrote from when a
packet was due. The independent check is a capture of both interfaces: a packet's time on the link, less its
time at the device's entry, less the delay that was asked for. That includes the time until the proxy has read
it. The sender runs on core 0, the proxy and tcpdump on core 1.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import bed
from cli import delay, hoststeps, linux, netns, programs
from cli.experiment import Experiment, Rtt
from cli.network import SERVER, Host, Link, Network, sysctls
from cli.planned import RUN

OUT, BACK = "198.19.253.1", "198.19.253.2"
_THERE = "there"
_PORT, _SINK_PORT = 53, 4_242
_SIZE = 100  # bytes of payload, a small answer's
_PCAP_HEADER, _RECORD = 24, struct.Struct("<IIII")
_SLL2 = 20  # bytes of a "cooked" header: capture of all interfaces
_IP_UDP = 28
_DRAIN_S = 1.0


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    rate: int = 20_000
    seconds: float = 5.0
    rtt_ms: float = 20.0
    realtime: bool = True


def measure(settings: Settings, folder: Path) -> dict[str, Any]:
    """One run; its raw files (capture.pcap, delay.json) stay in the folder."""
    hosts = _hosts(folder)
    with linux.inside(hosts.of(_THERE)):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.bind((BACK, _SINK_PORT))  # nobody reads it: what does not fit is dropped without a word
    here = hosts.of(SERVER)
    stats = folder / "delay.json"
    options = (*delay.options(Rtt(rtt_ms=settings.rtt_ms, realtime=settings.realtime)), "--stats", str(stats))
    line = bed.spawn(
        folder, "proxy", 1, [programs.own("reprise-proxy"), "delay", "--tun", delay.TUN, *options], here
    )
    line.until("event=ready")
    capture = bed.spawn(folder, "tcpdump", 1, _tcpdump(folder), here)
    capture.until("listening on")
    words = [sys.executable, "-m", "bench.delay", "--send", "--rate", str(settings.rate)]
    sender = bed.spawn(folder, "sender", 0, [*words, "--seconds", str(settings.seconds)], here)
    status = sender.finish(settings.seconds * 3 + 10)
    time.sleep(settings.rtt_ms / 1_000 + _DRAIN_S)  # tcpdump fetches packets once a second
    capture.stop(signal.SIGINT)
    line.stop(signal.SIGTERM)
    sink.close()
    told = json.loads(stats.read_text(encoding="utf-8"))
    return {"sender_status": status, **_result(settings, folder / "capture.pcap", told)}


def _hosts(folder: Path) -> netns.Hosts:
    """The host of the delay line, set up as experiments do it, and one behind a link."""
    link = Link(SERVER, _THERE, "link", "link", (f"{OUT}/30",), (f"{BACK}/30",))
    names = (SERVER, _THERE)
    network = Network(
        "namespaces",
        tuple(Host(name) for name in names),
        (link,),
        sysctls=tuple(one for name in names for one in sysctls(name, 4_096)),
    )
    hosts = netns.build(network)
    for step in delay.setup(Experiment("delay", rtt=Rtt(rtt_ms=1))):
        hoststeps.carry_out(
            step.apply,
            hosts.of(step.host),
            lambda word: word.replace(RUN, str(folder)),
            os.environ,
            folder / "setup.log",
        )
    return hosts


def _tcpdump(folder: Path) -> list[str]:
    how = ("-i", "any", "-n", "-s", "128", "-B", "65536", "-Z", "root", "--time-stamp-precision=nano")
    out = ("-y", "LINUX_SLL2", "-w", str(folder / "capture.pcap"))
    return [programs.packaged("tcpdump"), *how, *out, f"udp src port {_PORT}"]


def send(settings: Settings) -> None:
    """Datagrams that carry their number, at a steady rate; sleeps end late, so that some leave together."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((OUT, _PORT))
    sender.connect((BACK, _SINK_PORT))
    padding = bytes(_SIZE - 8)
    begin = time.monotonic_ns()
    for number in range(int(settings.rate * settings.seconds)):
        due = begin + number * 1_000_000_000 // settings.rate
        while (left := due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        sender.send(struct.pack("!Q", number) + padding)


def stamps(capture: Path) -> dict[int, tuple[int, int]]:
    """First and last time of every packet by its number, ns."""
    data = capture.read_bytes()
    found: dict[int, tuple[int, int]] = {}
    at = _PCAP_HEADER
    while at + _RECORD.size <= len(data):
        seconds, nanoseconds, size, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        moment = seconds * 1_000_000_000 + nanoseconds
        if at + size <= len(data) and size >= _SLL2 + _IP_UDP + 8:
            number = int.from_bytes(data[at + _SLL2 + _IP_UDP : at + _SLL2 + _IP_UDP + 8], "big")
            first, last = found.get(number, (moment, moment))
            found[number] = (min(first, moment), max(last, moment))
        at += size
    return found


def _result(settings: Settings, capture: Path, told: dict[str, Any]) -> dict[str, Any]:
    found = stamps(capture)
    times = np.array(sorted(found.values()), dtype=np.int64).reshape(-1, 2)
    delays = times[:, 1] - times[:, 0]
    through = delays > 0  # both interfaces have seen it
    errors = np.abs(delays[through] - settings.rtt_ms * 1e6) / 1_000
    span = (times[-1, 0] - times[0, 0]) / 1e9 if len(times) > 1 else 0.0
    some = len(errors) > 0
    return {
        "rate": round(len(times) / span) if span else 0,
        "packets": told["packets"],
        "captured": int(np.count_nonzero(through)),
        "captured_error_us": {
            "p50": round(float(np.percentile(errors, 50)), 1) if some else None,
            "p99": round(float(np.percentile(errors, 99)), 1) if some else None,
            "max": round(float(np.max(errors)), 1) if some else None,
        },
        "delay_error_us": told["delay_error_us"],
        "cpu_s_per_million": round(told["cpu_s"] / max(told["packets"]["written"], 1) * 1e6, 2),
    }


def main(arguments: list[str]) -> int:
    """Prints one JSON object."""
    usual = Settings()
    parser = argparse.ArgumentParser(prog="python -m bench.delay", description="Exactness of the delay line.")
    parser.add_argument("--rate", type=int, default=usual.rate, help="packets a second")
    parser.add_argument("--seconds", type=float, default=usual.seconds)
    parser.add_argument("--rtt-ms", type=float, default=usual.rtt_ms)
    parser.add_argument("--no-realtime", action="store_true", help="leave the proxy among ordinary processes")
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, help="folder for the raw files")
    given = parser.parse_args(arguments)
    settings = Settings(given.rate, given.seconds, given.rtt_ms, not given.no_realtime)
    if given.send:
        send(settings)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(measure(settings, folder), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
