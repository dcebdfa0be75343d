"""Samples the server's host once a second into server.csv; runs inside that host.

One line a second for each watched process, sums over its whole process tree. CPU and packet counters are
cumulative. `tcp_mem_bytes` and `udp_mem_bytes` are the machine's (the kernel keeps one account for all
namespaces).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cli import sockdiag

COLUMNS = (
    "time_real_ns,time_mono_ns,host_cpu_s,host_steal_s,process,pid_count,cpu_s,rss_bytes,pss_bytes,fds,"
    "tcp_established,tcp_syn_recv,tcp_time_wait,tcp_fin_wait,tcp_close_wait,tcp_other,tcp_mem_bytes,udp_mem_bytes,"
    "rx_packets,tx_packets,rx_bytes,tx_bytes"
)
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATES: dict[str, tuple[int, ...]] = {
    "established": (sockdiag.ESTABLISHED,),
    "syn_recv": (sockdiag.SYN_RECV,),
    "time_wait": (sockdiag.TIME_WAIT,),
    "fin_wait": (sockdiag.FIN_WAIT1, sockdiag.FIN_WAIT2),
    "close_wait": (sockdiag.CLOSE_WAIT,),
    "other": (sockdiag.SYN_SENT, sockdiag.LAST_ACK, sockdiag.CLOSING),
}
_PSS_BUDGET_S = 0.02  # walking page tables for PSS may cost this much; dearer ones are repeated less often


@dataclass(frozen=True)
class Tree:
    """What a process and all its descendants use together."""

    pid_count: int
    cpu_s: float
    rss_bytes: int
    fds: int
    pids: tuple[int, ...]


@dataclass(frozen=True)
class HostSample:
    """What the host as a whole shows; the text is the tail of every line of this second."""

    cpu_s: float
    steal_s: float
    tail: str


def parse_stat(text: str) -> tuple[int, float, int]:
    """Parent, CPU seconds (own threads and waited-for children) and resident bytes from /proc/PID/stat."""
    fields = text[text.rindex(")") + 2 :].split()
    ticks = sum(int(fields[index]) for index in (11, 12, 13, 14))
    return int(fields[1]), ticks / _TICK, int(fields[21]) * _PAGE


def read_processes() -> dict[int, tuple[int, float, int]]:
    """Every process that this /proc shows; those that vanish meanwhile are left out."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  (pathlib is several times slower here)
        if name.isdigit():
            try:
                found[int(name)] = parse_stat(
                    Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
                )
            except (OSError, ValueError):
                continue
    return found


def descendants(root: int, parents: Mapping[int, int]) -> tuple[int, ...]:
    """The process and everything below it, given each process's parent."""
    found = [root] if root in parents else []
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    return tuple(found)


def measure_tree(root: int, table: Mapping[int, tuple[int, float, int]]) -> Tree:
    """Sums over a process tree. CPU of ended children stays in, because their parents waited for them."""
    pids = descendants(root, {pid: entry[0] for pid, entry in table.items()})
    return Tree(
        len(pids),
        sum(table[pid][1] for pid in pids),
        sum(table[pid][2] for pid in pids),
        sum(_count_fds(pid) for pid in pids),
        pids,
    )


def _count_fds(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    except OSError:
        return 0


def pss_bytes(pids: Iterable[int]) -> int:
    """Proportional set size: shared pages count by share, so that forked servers are not counted twice."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def host_cpu(stat: str) -> tuple[float, float]:
    """Busy seconds and stolen seconds of all cores from /proc/stat."""
    fields = [int(text) for text in stat.split("\n", 1)[0].split()[1:]]
    busy = sum(fields[index] for index in (0, 1, 2, 5, 6))
    return busy / _TICK, (fields[7] if len(fields) > 7 else 0) / _TICK


def socket_memory(sockstat: str) -> tuple[int, int]:
    """Bytes of TCP and UDP socket buffers from /proc/net/sockstat, which counts pages."""
    found = {"TCP:": 0, "UDP:": 0}
    for line in sockstat.splitlines():
        words = line.split()
        if words and words[0] in found and "mem" in words:
            found[words[0]] = int(words[words.index("mem") + 1]) * _PAGE
    return found["TCP:"], found["UDP:"]


def interface_totals(net_dev: str) -> tuple[int, int, int, int]:
    """rx_packets, tx_packets, rx_bytes, tx_bytes over all interfaces but the loopback."""
    totals = [0, 0, 0, 0]
    for line in net_dev.splitlines()[2:]:
        name, _, rest = line.partition(":")
        if name.strip() != "lo":
            fields = [int(text) for text in rest.split()]
            totals = [total + fields[index] for total, index in zip(totals, (1, 9, 0, 8), strict=True)]
    return totals[0], totals[1], totals[2], totals[3]


def sample_host() -> HostSample:
    """The host's side of one second."""
    busy, steal = host_cpu(Path("/proc/stat").read_text(encoding="ascii"))
    tcp = sockdiag.tcp_counts(_STATES)
    memory = socket_memory(Path("/proc/self/net/sockstat").read_text(encoding="ascii"))
    traffic = interface_totals(Path("/proc/self/net/dev").read_text(encoding="ascii"))
    tail = ",".join(str(value) for value in (*tcp.values(), *memory, *traffic))
    return HostSample(busy, steal, tail)


class Pss:
    """PSS readings that stay within a budget: where one reading is dear, it is repeated less often."""

    def __init__(self) -> None:
        self._value = 0
        self._skip = 0

    def read(self, pids: Iterable[int]) -> int:
        """The current value, or the last one while a dear reading is being spared."""
        if self._skip > 0:
            self._skip -= 1
            return self._value
        begin = time.monotonic()
        self._value = pss_bytes(pids)
        self._skip = int((time.monotonic() - begin) / _PSS_BUDGET_S)
        return self._value


def write_samples(out: TextIO, processes: Mapping[str, int], pss: Mapping[str, Pss]) -> None:
    """One line for each watched process."""
    host = sample_host()
    real, mono = time.time_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    table = read_processes()
    for name, pid in processes.items():
        tree = measure_tree(pid, table)
        share = pss[name].read(tree.pids)
        out.write(
            f"{real},{mono},{host.cpu_s:.2f},{host.steal_s:.2f},{name},{tree.pid_count},{tree.cpu_s:.2f},"
            f"{tree.rss_bytes},{share},{tree.fds},{host.tail}\n"
        )


def sample_until_stopped(out: TextIO, processes: Mapping[str, int], hz: float) -> None:
    """Samples on an absolute schedule until SIGTERM or SIGINT, and once more at the end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    pss = {name: Pss() for name in processes}
    out.write(COLUMNS + "\n")
    due = time.monotonic()
    while True:
        write_samples(out, processes, pss)
        if due <= time.monotonic() - 1.0 / hz:
            due = time.monotonic()  # this host stood still; do not catch up in a burst
        due += 1.0 / hz
        if signal.sigtimedwait({signal.SIGTERM, signal.SIGINT}, max(0.0, due - time.monotonic())) is not None:
            write_samples(out, processes, pss)
            return


def main(arguments: list[str]) -> int:
    """The plan's sampler process."""
    parser = argparse.ArgumentParser(prog="python -m cli.sampler")
    parser.add_argument("--process", action="append", required=True, metavar="NAME=PID")
    parser.add_argument("--hz", type=float, default=1.0)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    options = parser.parse_args(arguments)
    processes = {name: int(pid) for name, pid in (one.split("=", 1) for one in options.process)}
    try:
        with options.out.open("w", buffering=1, encoding="ascii") as out:
            sys.stderr.write("sampling\n")
            sample_until_stopped(out, processes, options.hz)
    except OSError as error:
        sys.stderr.write(f"reprise: error: cannot sample: {error.strerror}; see `reprise doctor`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
