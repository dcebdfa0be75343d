"""A row for each host of a run: which machine it was, its clock, what its queriers did, what it lost in time.

A local run's hosts are all on one machine. Of a run by an older version only what its files tell is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from report.run import Json, Run, as_dict, as_int, as_list, as_number
from report.tally import OfHost, Tally

_ROLES = {"controller": "controller", "distributor": "client", "server": "server", "meta": "meta"}
_ORDER = ("controller", "client", "server", "meta")


def summarize(run: Run, tally: Tally) -> list[Json]:
    """The controller's host first, then clients, servers and meta-DNS-servers, by their numbers."""
    roles, machines = _roles(run, tally.files), _machines(run)
    children = {str(one.get("name")): one for one in run.children}
    rows = []
    for host in sorted(roles, key=lambda name: _place(name, roles[name])):
        child, machine = children.get(host, {}), machines.get(host, {})
        did = _queries(tally.hosts.get(host, OfHost()), child)
        facts = machine or as_dict(child.get("facts"))
        rows.append(
            {
                "host": host,
                "role": roles[host],
                "machine": machine.get("machine") or facts.get("hostname"),
                "kernel": facts.get("kernel"),
                "cores": facts.get("cores") or _whole(facts.get("processors")),
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


def _place(host: str, role: str) -> tuple[int, int, str]:
    number = re.search(r"\d+$", host)
    return _ORDER.index(role), int(number[0]) if number else 0, host


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
    known = "offset_ns" in child
    same = child.get("same_clock") is True
    trip = as_number(child.get("rtt_ns"))
    return {
        "same_as_controller": same if known else None,
        "offset_us": as_int(child.get("offset_ns")) / 1000 if known else None,
        "uncertainty_us": 0.0 if same else (trip / 2000 if trip is not None else None),
        "drift_us": (as_int(child.get("offset_end_ns")) - as_int(child.get("offset_ns"))) / 1000
        if "offset_end_ns" in child
        else None,
        "synchronized": kept.get("synchronized"),
        "estimated_error_us": kept.get("estimated_error_us"),
    }


def _queries(held: OfHost, child: Json) -> Json:
    """From the records; `lost` is what the host was given and has no record of."""
    given = child.get("assigned")
    return {
        "assigned": given if isinstance(given, int) else None,
        "sent": held.sent,
        "answered": held.answered,
        "lost": max(0, given - held.records) if isinstance(given, int) else None,
    }


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() else None
