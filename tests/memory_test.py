"""Memory of the programs of a replay, where the trace's messages are as large as DNS allows."""

import struct
import threading
from pathlib import Path

import pytest

from tests import packets
from tests.bed import Bed, accounted
from tests.streams import Play, misbehave, start_nsd

pytestmark = pytest.mark.netns

MOST = 512 << 20
SOURCES = 100
FEW, MANY = 100, 500  # times that the trace is played: 0.6 and 3 GB
LARGEST, LARGEST_DATAGRAM = 65_535, 60_000
LONGEST_S = 300.0  # of a replay


def padded(ident: int, size: int) -> bytes:
    """A query of this size: the rest is EDNS padding (RFC 7830)."""
    question = packets.query(ident, f"{ident}.com")
    padding = bytes(size - len(question) - 15)
    option = struct.pack("!HH", 12, len(padding)) + padding
    opt = struct.pack("!BHHIH", 0, 41, 4096, 0, len(option)) + option
    return question[:10] + b"\0\1" + question[12:] + opt


def large(path: Path, size: int, gap_us: int) -> Path:
    """A query a source, a gap apart."""
    lines = ["#reprise-text 1", "time\tsource\thex"]
    for n in range(SOURCES):
        lines.append(f"{1_475_762_151 + n * gap_us / 1e6:.6f}\t203.0.113.{n}\t{padded(n, size).hex()}")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


class Peaks(threading.Thread):
    """Looks at the largest resident memory that each process had, until all have ended."""

    def __init__(self, processes: dict[str, int]) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._ended = threading.Event()
        self.bytes: dict[str, int] = {}
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.005):
            for name, pid in self._processes.items():
                self._look(name, pid)

    def _look(self, name: str, pid: int) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.bytes[name] = int(line.split()[1]) << 10

    def stop(self) -> dict[str, int]:
        self._ended.set()
        self.join()
        return self.bytes


def processes_of(bed: Bed, play: Play) -> dict[str, int]:
    pids = {"controller": play.controller.pid, "distributor": play.distributor.pid}
    return pids | {f"querier {n}": pid for n, pid in enumerate(bed.queriers(play.distributor))}


def stays_small(bed: Bed, play: Play, times: int) -> dict[str, int]:
    """Plays to the end: every query has its end, and no process was large."""
    processes = processes_of(bed, play)
    peaks = Peaks(processes)
    play.controller.wait(LONGEST_S)
    found = peaks.stop()
    queries: dict[str, int] = bed.account()["queries"]
    assert accounted(queries) == queries["read"] == SOURCES * times, play.controller.text()
    assert queries["lost"] == 0
    assert found.keys() == processes.keys()
    assert max(found.values()) < MOST, found
    return queries


def test_peak_memory_is_the_programs_own(bed: Bed, tmp_path: Path) -> None:
    """Not that of the process that started it, which the kernel counts too until the program is executed."""
    start_nsd(bed)
    mine = b"x" * MOST
    play = Play(bed, large(tmp_path / "small.tsv", 100, 0), queriers=1)
    play.controller.wait(LONGEST_S)
    assert 1_000_000 < bed.account()["max_rss_bytes"] < len(mine) / 2


@pytest.mark.slow
@pytest.mark.parametrize("times", [FEW, MANY])
def test_large_messages_over_tcp_as_fast_as_they_go(bed: Bed, tmp_path: Path, times: int) -> None:
    """Without due times all of the trace might be handed on before the start."""
    start_nsd(bed)
    trace = large(tmp_path / "large.tsv", LARGEST, 0)
    # On a busy machine, what two queriers may have in flight takes NSD a while.
    options = ("--transport", "tcp", "--fast", "--timeout-s", "60", "--loop", str(times))
    queries = stays_small(bed, Play(bed, trace, *options, queriers=2), times)
    assert queries["answered"] == queries["read"]


def test_large_messages_that_the_server_does_not_read(bed: Bed, tmp_path: Path) -> None:
    """Queries over TCP are kept until their end, and what the kernel does not take is kept as well."""
    misbehave(bed, "deaf")
    trace = large(tmp_path / "large.tsv", LARGEST, 0)
    options = ("--transport", "tcp", "--fast", "--timeout-s", "1", "--loop", str(FEW))
    queries = stays_small(bed, Play(bed, trace, *options, queriers=1), FEW)
    assert queries["answered"] == 0
    assert queries["timed_out"] + queries["connection_failed"] == queries["read"]


@pytest.mark.slow
def test_large_messages_over_udp_at_their_times(bed: Bed, tmp_path: Path) -> None:
    """600 MB in two seconds of the trace, more than is read ahead: the first ones are not late for that."""
    start_nsd(bed)
    trace = large(tmp_path / "large.tsv", LARGEST_DATAGRAM, 200)
    options = ("--timeout-s", "1", "--max-lateness-s", "600", "--late-ms", "0", "--loop", str(FEW))
    queries = stays_small(bed, Play(bed, trace, *options, queriers=2), FEW)
    assert queries["sent"] == queries["read"]
    assert queries["answered"] > 0
