"""A row for each host, of runs on one machine and on several."""

from pathlib import Path
from typing import Any

import pytest

from report.__main__ import main
from report.run import Json, Run
from report.summary import summarize
from report.tally import measure
from report.tests.writers import MANIFEST, Query, controller_json, records, rq_bytes, write_run

MS = 1_000_000
CONTROLLER = {"id": "controller", "role": "controller", "host": "controller", "exit": 0}
SECOND_CLIENT = {"id": "client2", "role": "distributor", "host": "client2", "exit": 0}
FACTS = {"kernel": "6.1.0", "cores": 4}


def machine(name: str, *hosts: str, **more: Any) -> Json:
    clock = {"synchronized": True, "estimated_error_us": 40, "maximum_error_us": 900}
    return {"machine": name, "hosts": list(hosts), "clock": clock, "steal_s": 0.5, **FACTS, **more}


def rows_of(folder: Path) -> dict[str, Json]:
    return {one["host"]: one for one in summarize(measure(Run(folder)))["hosts"]}


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Two clients: one has answered everything late, the other has lost two of four."""
    unkept = {"synchronized": False, "estimated_error_us": None, "maximum_error_us": None}
    manifest = {
        **MANIFEST,
        "processes": [CONTROLLER, *MANIFEST["processes"], SECOND_CLIENT],
        "hosts": [
            machine("boss", "controller", "server"),
            machine("load1", "client1"),
            machine("load2", "client2", kernel="6.12.1", clock=unkept),
        ],
    }
    children = [
        {"name": "client1", "assigned": 10, "same_clock": True, "offset_ns": 0, "rtt_ns": 40_000},
        {
            "name": "client2", "assigned": 4, "same_clock": False, "offset_ns": 7 * MS, "rtt_ns": 90_000,
            "offset_end_ns": 8 * MS, "rtt_end_ns": 90_000,
        },
    ]  # fmt: skip
    told = {**controller_json(14, answered=11, lost=2), "children": children}
    run = write_run(
        tmp_path / "run",
        [Query(n, n * MS, n * MS + 3_000) for n in range(10)],
        manifest=manifest,
        controller=told,
    )
    other = rq_bytes(records([Query(10, 10 * MS, 10 * MS), Query(11, 11 * MS, 11 * MS, status=2)]))
    (run / "queries-client2-0.rq").write_bytes(other.replace(b'"client1"', b'"client2"'))
    return run


def test_each_host_of_an_inventory_has_its_row(several: Path) -> None:
    rows = rows_of(several)
    assert list(rows) == ["controller", "client1", "client2", "server"]
    assert [one["machine"] for one in rows.values()] == ["boss", "load1", "load2", "boss"]
    assert [one["role"] for one in rows.values()] == ["controller", "client", "client", "server"]
    assert rows["client2"]["kernel"] == "6.12.1"
    assert rows["client1"]["cores"] == 4
    assert rows["server"]["steal_s"] == 0.5
    assert rows["server"]["queries"] is None
    assert rows["client1"]["queries"] == {"assigned": 10, "sent": 10, "answered": 10, "lost": 0}
    assert rows["client2"]["queries"] == {"assigned": 4, "sent": 2, "answered": 1, "lost": 2}
    assert rows["client1"]["timing_error_us"]["abs_p50"] == 3
    assert rows["client2"]["timing_error_us"]["abs_p99"] == 0


def test_clocks_are_told_with_how_well_they_are_known(several: Path) -> None:
    rows = rows_of(several)
    assert rows["client1"]["clock"] == {
        "same_as_controller": True, "offset_us": 0, "uncertainty_us": 0, "drift_us": None,
        "synchronized": True, "estimated_error_us": 40,
    }  # fmt: skip
    assert rows["client2"]["clock"] == {
        "same_as_controller": False, "offset_us": 7_000, "uncertainty_us": 45, "drift_us": 1_000,
        "synchronized": False, "estimated_error_us": None,
    }  # fmt: skip
    assert rows["controller"]["clock"]["offset_us"] is None


def test_what_is_left_of_a_run_without_a_manifest_is_shown(tmp_path: Path) -> None:
    facts = {"kernel": "6.1.0", "hostname": "desk", "processors": "2"}
    told = {**controller_json(1, answered=1), "children": [{"name": "client1", "facts": facts}]}
    run = write_run(tmp_path / "run", [Query(0, 0, 0)], controller=told)
    (run / "manifest.json").unlink()
    (row,) = rows_of(run).values()
    assert (row["machine"], row["kernel"], row["cores"]) == ("desk", "6.1.0", 2)
    assert row["queries"]["lost"] is None
    (run / "controller.json").unlink()
    (row,) = rows_of(run).values()
    assert (row["machine"], row["queries"]["sent"]) == (None, 1)


def test_the_warm_up_is_left_out_of_a_hosts_timing(tmp_path: Path) -> None:
    queries = [Query(n, n * 1_000 * MS, n * 1_000 * MS + (5_000 if n == 0 else 0)) for n in range(3)]
    run = write_run(tmp_path / "run", queries, manifest={**MANIFEST, "warmup_s": 0.5})
    assert rows_of(run)["client1"]["timing_error_us"]["max"] == 0


@pytest.mark.usefixtures("unrendered")
def test_the_page_shows_them(several: Path) -> None:
    assert main(["report", str(several)]) == 1
    page = (several / "report.html").read_text()
    for text in ("load2", "6.12.1", "same clock", "7.00 ms", "45.0 µs", "not synchronized", "40.0 µs"):
        assert text in page
