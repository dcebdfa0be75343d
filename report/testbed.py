"""What happened to the testbed itself: its links, its packets, its captures, its clocks, its proxies; and its
hosts, which in a local run are all on one machine. Of a run by an older version only what its files tell is
known.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from report import events, hosts, server
from report.hosts import Findings
from report.rqfile import RqFile
from report.run import Json, Run, as_dict, as_int, as_list, as_number
from report.tally import Tally

_ROLES = {"controller": "controller", "distributor": "client", "server": "server", "meta": "meta"}
_ORDER = ("controller", "client", "server", "meta")
_DRIFT_NS = 100_000
_LATE_US = 1_000
_DROPPED = re.compile(r"^(\d+) packets? dropped by (kernel|interface)$", re.MULTILINE)
_CAPTURED = re.compile(r"^\d+ packets? captured$", re.MULTILINE)


def look_at(run: Run, files: Sequence[RqFile]) -> Findings:
    """Everything that the files of the run tell of it."""
    overflows, taken, unread, steps = (Counter[str]() for _ in range(4))
    for file in files:  # steps of the clock are as the querier saw it that saw most
        steps[file.host] = max(steps[file.host], as_int(file.statistics.get("clock_steps")))
        overflows[file.host] += as_int(file.statistics.get("receive_overflows"))
        taken[file.host] += as_int(file.statistics.get("frames_taken"))
    for name, statistics in run.proxies.items():  # packets that they came too late for; KIND-HOST-START
        host = name.split("-", 1)[-1].rpartition("-")[0]
        unread[host] += as_int(as_dict(statistics.get("packets")).get("unread"))
    servers = {str(one.get("host")) for one in run.processes("server")}
    found = hosts.judge(run.hosts, servers, overflows, unread, taken, events.lost_on_ways(run))
    found.losses += _captures(run)
    found.remarks += [*_refused(run, files), *_delays(run), *_drifts(run), *server.gaps(run)]
    found.remarks += [
        f"the clock of {host} was set during the replay ({count} step{'s' if count > 1 else ''}): for 0.1 s "
        "after that, latencies are up to when answers were read"
        for host, count in (+steps).items()
    ]
    return found


def _captures(run: Run) -> Iterator[str]:
    """tcpdump's own summary, and how it ended."""
    for process in run.processes("capture"):
        name = f"{process.get('id')}.pcap"
        log = ""
        with contextlib.suppress(OSError):
            log = (run.folder / f"logs/{process.get('id')}.log").read_text("utf-8", errors="replace")
        for count, by in _DROPPED.findall(log):
            if int(count):
                yield f"{process.get('host')}: {name} lacks {int(count):,} packets, dropped by the {by}"
        if process.get("exit") != 0:
            yield f"{process.get('host')}: {name} may be cut, tcpdump ended with status {process.get('exit')}"
        elif not _CAPTURED.search(log):
            yield f"{process.get('host')}: {name} may be cut, tcpdump gave no summary"


def _refused(run: Run, files: Sequence[RqFile]) -> list[str]:
    """What queriers and proxies warn of, each once a host."""
    told = [(f"queriers of {file.host}", file.statistics) for file in files]
    told += [(name.rpartition("-")[0], statistics) for name, statistics in run.proxies.items()]
    words = (f"{who}: {one}" for who, statistics in told for one in as_list(statistics.get("warnings")))
    return list(dict.fromkeys(words))


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


def per_host(run: Run, tally: Tally) -> list[Json]:
    """A row for each host: which machine it was, its clock, what its queriers did, what it lost in time. The
    controller's host first, then clients, servers and meta-DNS-servers, by their numbers."""
    roles, machines = _roles(run, tally.files), _machines(run)
    children = {str(one.get("name")): one for one in run.children}

    def place(host: str) -> tuple[int, int, str]:
        number = re.search(r"\d+$", host)
        return _ORDER.index(roles[host]), int(number[0]) if number else 0, host

    rows = []
    for host in sorted(roles, key=place):
        child, machine = children.get(host, {}), machines.get(host, {})
        records, sent, answered = (tally.hosts[host, name] for name in ("records", "sent", "answered"))
        given = child.get("assigned") if isinstance(child.get("assigned"), int) else None
        lost = None if given is None else max(0, given - records)  # given to the host, and not on record
        did = {"assigned": given, "sent": sent, "answered": answered, "lost": lost}
        facts = machine or as_dict(child.get("facts"))
        processors = str(facts.get("processors"))
        rows.append(
            {
                "host": host,
                "role": roles[host],
                "machine": machine.get("machine") or facts.get("hostname"),
                "kernel": facts.get("kernel"),
                "cores": facts.get("cores") or (int(processors) if processors.isdecimal() else None),
                "clock": _clock(child, as_dict(machine.get("clock"))),
                "queries": did if roles[host] == "client" else None,
                "timing_error_us": tally.errors_of(host).errors() if host in tally.files else None,
                "steal_s": as_number(machine.get("steal_s")),
            }
        )
    return rows


def _roles(run: Run, recorded: Iterable[str]) -> dict[str, str]:
    """Roles by host: of the processes there, the one that gives the host its place in the run."""
    found: dict[str, str] = {}
    for process in run.processes():
        role, host = _ROLES.get(str(process.get("role"))), process.get("host")
        if role is not None and host is not None:
            found[str(host)] = min(role, found.get(str(host), role), key=_ORDER.index)
    clients = [str(child.get("name")) for child in run.children]
    for host in (*clients, *recorded):
        found.setdefault(host, "client")
    return found


def _machines(run: Run) -> dict[str, Json]:
    """By host of the plan, what the manifest says of its machine."""
    manifest = run.manifest
    if not manifest.get("hosts"):
        host = as_dict(manifest.get("host"))
        one = {**host, "machine": host.get("name"), "steal_s": manifest.get("steal_s")}
        return dict.fromkeys(_roles(run, ()), one) if host else {}
    listed = map(as_dict, as_list(manifest.get("hosts")))
    return {str(name): item for item in listed for name in as_list(item.get("hosts"))}


def _clock(child: Json, kept: Json) -> Json:
    """Against the controller's clock, by its probes, which are right within half a round trip; and against
    true time, as whatever keeps the host's clock tells the kernel.
    """
    known, same, trip = "offset_ns" in child, child.get("same_clock") is True, as_number(child.get("rtt_ns"))
    offset_ns, end_ns = (as_int(child.get(name)) for name in ("offset_ns", "offset_end_ns"))
    return {
        "same_as_controller": same if known else None,
        "offset_us": offset_ns / 1000 if known else None,
        "uncertainty_us": 0.0 if same else (trip / 2000 if trip is not None else None),
        "drift_us": (end_ns - offset_ns) / 1000 if "offset_end_ns" in child else None,
        "synchronized": kept.get("synchronized"),
        "estimated_error_us": kept.get("estimated_error_us"),
    }
