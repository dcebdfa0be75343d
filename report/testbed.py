"""What happened to the testbed itself: its links, its packets, its captures, its clocks, its proxies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from report import events, hosts, server
from report.hosts import Findings
from report.rqfile import RqFile
from report.run import Run, as_dict, as_int, as_list

_DRIFT_NS = 100_000
_LATE_US = 1_000
_DROPPED = re.compile(r"^(\d+) packets? dropped by (kernel|interface)$", re.MULTILINE)
_CAPTURED = re.compile(r"^\d+ packets? captured$", re.MULTILINE)


def look_at(run: Run, files: Sequence[RqFile]) -> Findings:
    """Everything that the files of the run tell of it."""
    overflows: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for file in files:
        overflows[file.host] += as_int(file.statistics.get("receive_overflows"))
        taken[file.host] += as_int(file.statistics.get("frames_taken"))
    servers = {str(one.get("host")) for one in run.processes("server")}
    torn = events.lost_on_ways(run)
    found = hosts.judge(run.hosts, servers, overflows, _unread(run), taken, torn)
    found.losses += _captures(run)
    found.remarks += [*_refused(run, files), *_delays(run), *_drifts(run), *server.gaps(run)]
    return found


def _unread(run: Run) -> Counter[str]:
    """Packets that proxies came too late for, by host; their files are named KIND-HOST-START."""
    found: Counter[str] = Counter()
    for name, statistics in run.proxies.items():
        host = name.split("-", 1)[-1].rpartition("-")[0]
        found[host] += as_int(as_dict(statistics.get("packets")).get("unread"))
    return found


def _captures(run: Run) -> Iterator[str]:
    """tcpdump's own summary, and how it ended."""
    for process in run.processes("capture"):
        name = f"{process.get('id')}.pcap"
        log = _text(run.folder / "logs" / f"{process.get('id')}.log")
        for count, by in _DROPPED.findall(log):
            if int(count):
                yield f"{process.get('host')}: {name} lacks {int(count):,} packets, dropped by the {by}"
        if process.get("exit") != 0:
            yield f"{process.get('host')}: {name} may be cut, tcpdump ended with status {process.get('exit')}"
        elif not _CAPTURED.search(log):
            yield f"{process.get('host')}: {name} may be cut, tcpdump gave no summary"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _refused(run: Run, files: Sequence[RqFile]) -> list[str]:
    """What queriers and proxies warn of, each once a host."""
    told = [
        *(
            f"queriers of {file.host}: {one}"
            for file in files
            for one in as_list(file.statistics.get("warnings"))
        ),
        *(
            f"{name.rpartition('-')[0]}: {one}"
            for name, statistics in run.proxies.items()
            for one in as_list(statistics.get("warnings"))
        ),
    ]
    return list(dict.fromkeys(told))


def _delays(run: Run) -> Iterator[str]:
    """Delay lines whose round trips were longer than asked for, or that had none to draw."""
    for name, statistics in run.proxies.items():
        line = name.rpartition("-")[0]
        late = float(as_dict(statistics.get("delay_error_us")).get("p99") or 0)
        if late > _LATE_US:
            yield f"{line} delayed 1 % of its packets by over {late / 1e3:.1f} ms too much"
        unlisted = as_int(statistics.get("unlisted"))
        if unlisted:
            yield f"{line} did not delay {unlisted:,} packets: no round trip is known for their addresses"


def _drifts(run: Run) -> Iterator[str]:
    """Clocks that ran at another speed than the controller's; equal ones do not by definition."""
    for item in run.children:
        drift = as_int(item.get("offset_end_ns")) - as_int(item.get("offset_ns"))
        if "offset_end_ns" not in item or item.get("same_clock") or abs(drift) <= _DRIFT_NS:
            continue
        doubt = (as_int(item.get("rtt_ns")) + as_int(item.get("rtt_end_ns"))) / 2
        yield (
            f"the clock of {item.get('name')} drifted by {drift / 1e6:.2f} ms from the controller's during "
            f"the replay (measured within {doubt / 1e6:.2f} ms): its queries left that much off their time"
        )
