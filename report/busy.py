"""Whether the machine had enough time for the replay: if not, some figures are partly its own."""

from __future__ import annotations

from collections.abc import Iterator

from report import server
from report.run import Json, Run, as_dict, as_list
from report.tables import micro, percent

_FOREIGN = 0.15  # of all cores, used by programs that are no part of the run
_STEAL = 0.02  # of all cores, given to others by the hypervisor
_LATE_US = 10_000  # of 1 % of the queries: our own sender did not get its time
_SHORTEST_S = 2.0  # a sampled span in which shares mean something


# Parts of a summary that a reason makes doubtful: what waits for a processor is late, and what shares one
# takes longer. Latency counts from the send, whenever that was.
ALL = ("timing_error_us", "rate_error", "latency_us", "response_us", "cpu_us_per_query")
_OF_LATENESS = ("timing_error_us", "rate_error", "response_us")


def summarize(run: Run, summary: Json) -> Json:
    """The parts `busy` and `busy_spoils` of summary.json."""
    found = list(_reasons(run, summary))
    spoiled = {part for _, parts in found for part in parts}
    return {"busy": [words for words, _ in found], "busy_spoils": [one for one in ALL if one in spoiled]}


def _reasons(run: Run, summary: Json) -> Iterator[tuple[str, tuple[str, ...]]]:
    """In words, with the parts that it spoils; none for a machine that had time. Of the server's machine, and
    of senders on any.
    """
    rows = server.host_rows(run)
    span_s = (rows[-1].time_mono_ns - rows[0].time_mono_ns) / 1e9 if rows else 0.0
    cores, own_s = _own(run)
    if cores and span_s >= _SHORTEST_S:
        # Packets cost time that no process is charged for; those of the clients as much as the server's.
        own_s += 2 * (server.growth(run, "uncharged_s") or 0.0)
        foreign = ((server.growth(run, "host_cpu_s") or 0.0) - own_s) / span_s
        stolen = (server.growth(run, "host_steal_s") or 0.0) / span_s
        if foreign > _FOREIGN * cores:
            yield f"other programs used {foreign:.1f} of {cores} cores", ALL
        if stolen > _STEAL * cores:
            yield f"the hypervisor gave {percent(stolen / cores, 1)} of the processor time to others", ALL
    late = as_dict(summary.get("timing_error_us")).get("abs_p99")
    if isinstance(late, int | float) and late > _LATE_US:
        yield f"1 % of the queries were sent over {micro(late)} off their time", _OF_LATENESS


def _own(run: Run) -> tuple[int, float]:
    """Cores of the server's machine, and CPU seconds of the run's processes there; 0 where not known."""
    machines = [as_dict(one) for one in as_list(run.manifest.get("hosts"))]
    machine = next((one for one in machines if "server" in as_list(one.get("hosts"))), None)
    facts = machine or as_dict(run.manifest.get("host"))
    there = None if machine is None else as_list(machine.get("hosts"))
    spent = [one.get("cpu_s") or 0.0 for one in run.processes() if there is None or one.get("host") in there]
    if server.ran_before(run):  # it is none of the run's processes
        spent.append(server.used_cpu(run) or 0.0)
    cores = facts.get("cores")
    return cores if isinstance(cores, int) else 0, sum(spent)
