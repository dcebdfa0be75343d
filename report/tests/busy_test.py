"""A busy machine is told with the figures that it spoils."""

from collections.abc import Sequence
from pathlib import Path

from report import busy, html
from report.rows import rows_of, spoiled
from report.run import Json, Run
from report.summary import summarize
from report.tally import measure
from report.tests.per_host_test import machine
from report.tests.writers import MANIFEST, START, START_REAL, Query, write_run

MS = 1_000_000
SECOND = 1_000 * MS


def samples(*growths: float) -> str:
    """Seven seconds, with the growth in each: CPU and steal of the host, CPU of the server, for packets."""
    lines = ["time_real_ns,time_mono_ns,process,host_cpu_s,host_steal_s,cpu_s,uncharged_s"]
    for second in range(8):
        at = second * SECOND
        cells = (START_REAL + at, START + at, "nsd", *(second * one for one in growths))
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def run_of(
    folder: Path,
    late: int = 0,
    host_cpu: float = 0.3,
    steal: float = 0.0,
    kind: str = "nsd",
    own: float = 0.2,
    waited: float = 1.5,
    packets: float = 0.0,
    machines: Sequence[Json] = (),
) -> Path:
    """`own` of the server's CPU a second, of which its parent has `waited` for so much in all its life."""
    queries = [Query(n, n * 50 * MS, n * 50 * MS + late, MS) for n in range(120)]
    experiment = {**MANIFEST["experiment"], "server": {"kind": kind}}
    processes = [one | {"cpu_s": waited} if one["role"] == "server" else one for one in MANIFEST["processes"]]
    if kind == "address":  # the server is none of the run's processes
        processes = processes[1:]
    more = {"hosts": machines} if machines else {"host": {"cores": 2}}
    manifest = {**MANIFEST, "experiment": experiment, "processes": processes, **more}
    return write_run(folder, queries, manifest=manifest, server=samples(host_cpu, steal, own, packets))


def test_each_reason_has_the_figures_that_it_spoils(tmp_path: Path) -> None:
    every = ["timing_error_us", "rate_error", "latency_us", "response_us", "cpu_us_per_query"]
    cases = {
        "quiet": ({}, [], []),
        "foreign": ({"host_cpu": 1.8}, ["other programs used 1.5 of 2 cores"], every),
        "of the user's server": ({"host_cpu": 0.55, "kind": "address"}, [], []),
        "of NSD's children": ({"host_cpu": 0.9, "own": 0.8, "waited": 0.12}, [], []),
        "beside a long start": (
            {"host_cpu": 1.8, "waited": 20.0},
            ["other programs used 1.5 of 2 cores"],
            every,
        ),
        "clients' packets": ({"host_cpu": 0.9, "packets": 0.3}, [], []),
        "clients elsewhere": (
            {
                "host_cpu": 0.9,
                "packets": 0.3,
                "machines": [machine("load", "client1"), machine("far", "server", cores=2)],
            },
            ["other programs used 0.4 of 2 cores"],
            every,
        ),
        "steal": ({"steal": 0.2}, ["the hypervisor gave 10.0 % of the processor time to others"], every),
        "late": (
            {"late": 20 * MS},
            ["1 % of the queries were sent over 20.00 ms off their time"],
            ["timing_error_us", "rate_error", "response_us"],
        ),
    }
    for name, (how, reasons, parts) in cases.items():
        summary = summarize(measure(Run(run_of(tmp_path / name, **how))))  # type: ignore[arg-type]
        assert (summary["busy"], summary["busy_spoils"]) == (reasons, parts), name


def test_spoiled_figures_are_named(tmp_path: Path) -> None:
    run = Run(run_of(tmp_path / "run", late=20 * MS))
    summary = summarize(measure(run))
    named = "timing error, rates, response time"
    assert ("figures affected", named) in rows_of(summary, "run")
    assert f"<li>figures affected: {named}</li>" in html.run_page(run, summary, [])
    every = {**summary, "busy_spoils": list(busy.ALL)}
    assert spoiled(every) == "timing error, rates, latency, response time, CPU per query"
    quiet = summarize(measure(Run(run_of(tmp_path / "quiet"))))
    assert spoiled(quiet) == "" and "figures affected" not in dict(rows_of(quiet, "run"))
    slow = {**every, "busy_spoils": ["latency_us"]}
    assert busy.spoils(slow, "front.entry_life_us") and not busy.spoils(slow, "front.bytes_per_entry")
