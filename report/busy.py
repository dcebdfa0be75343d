"""Whether the machine had enough time for the replay: if not, some figures are partly its own."""

import itertools
from collections.abc import Iterator

from report import server
from report.run import Json, Run, as_dict, as_int, as_list
from report.tables import micro, percent

_FOREIGN = 0.15  # of all cores, used by programs that are no part of the run
_STEAL = 0.02  # of all cores, given to others by the hypervisor
_LATE_US = 10_000  # of 1 % of the queries: our own sender did not get its time
_SHORTEST_S = 2.0  # a sampled span in which shares mean something
# Parts of a summary that a reason makes doubtful: what waits for a processor is late, and what shares one
# takes longer. Latency counts from the send, whenever that was.
ALL = ("timing_error_us", "rate_error", "latency_us", "response_us", "cpu_us_per_query")
_OF_LATENESS = ("timing_error_us", "rate_error", "response_us")
_MADE_OF = (  # of which of them other figures are made, by how their paths begin
    ("connect_us", "latency_us"),
    ("stalls", "latency_us"),
    ("front.entr", "latency_us"),  # life and number of entries
    ("interarrival_error_us", "timing_error_us"),
    ("cpu_s", "cpu_us_per_query"),
)


def summarize(run: Run, summary: Json) -> Json:
    """The parts `busy` and `busy_spoils` of summary.json."""
    found = list(_reasons(run, summary))
    spoiled = {part for _, parts in found for part in parts}
    return {"busy": [words for words, _ in found], "busy_spoils": [one for one in ALL if one in spoiled]}


def spoils(summary: Json, path: str) -> bool:
    """Whether a figure, by its path in the summary, is partly that of a busy machine."""
    part = next((part for begin, part in _MADE_OF if path.startswith(begin)), path)
    return bool(summary.get("busy")) and part.startswith(tuple(summary.get("busy_spoils", ALL)))


def _reasons(run: Run, summary: Json) -> Iterator[tuple[str, tuple[str, ...]]]:
    """In words, with the parts that it spoils; none for a machine that had time. Of the server's machine, and
    of senders on any.
    """
    rows = server.host_rows(run.samples)
    span_s = (rows[-1].time_mono_ns - rows[0].time_mono_ns) / 1e9 if rows else 0.0
    listed = map(as_dict, as_list(run.manifest.get("hosts")))
    own = (one for one in listed if "server" in as_list(one.get("hosts")))
    machine = next(own, as_dict(run.manifest.get("host")))
    cores = as_int(machine.get("cores"))
    if cores and span_s >= _SHORTEST_S:
        foreign = ((server.growth(rows, "host_cpu_s") or 0.0) - _own_s(run, machine)) / span_s
        stolen = (server.growth(rows, "host_steal_s") or 0.0) / span_s
        if foreign > _FOREIGN * cores:
            yield f"other programs used {foreign:.1f} of {cores} cores", ALL
        if stolen > _STEAL * cores:
            yield f"the hypervisor gave {percent(stolen / cores, 1)} of the processor time to others", ALL
    late = as_dict(summary.get("timing_error_us")).get("abs_p99")
    if isinstance(late, int | float) and late > _LATE_US:
        yield f"1 % of the queries were sent over {micro(late)} off their time", _OF_LATENESS


def _own_s(run: Run, machine: Json) -> float:
    """CPU seconds of the run on the server's machine. Those of a process tree that was sampled are from its
    first sample to its last: the manifest has its start, too, and lacks children that it did not wait for.
    """
    there = machine.get("hosts")
    listed = [one for one in run.processes() if there is None or one.get("host") in there]
    spent = {str(one.get("id")): one.get("cpu_s") or 0.0 for one in listed}
    sampled = server.sampled_cpu(itertools.chain(run.samples, *run.other_samples.values()))
    of_users = server.ran_before(run)  # a server that is none of the run's processes
    spent |= {name: grown for name, (_, grown) in sampled.items() if name in spent or of_users}
    # Packets cost time that no process is charged for; those of clients there as much as the server's.
    ends = 1 + any(one.get("role") == "distributor" for one in listed)
    return sum(spent.values()) + ends * (server.growth(run.samples, "uncharged_s") or 0.0)
