"""Runs beside each other: what differs, and how they are called for it."""

import json
import re
from pathlib import Path

import pytest

from report.__main__ import main
from report.beside import differences, labels_of
from report.run import Run
from report.tests.main_test import run_of
from report.tests.writers import MANIFEST


def made(folder: Path, **experiment: object) -> Run:
    run_of(folder)
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, "experiment": experiment}))
    return Run(folder)


def test_labels_are_made_of_what_differs(tmp_path: Path) -> None:
    runs = [
        made(tmp_path / kind, name=kind, server={"kind": kind, "port": 53}, replay={"speed": 1})
        for kind in ("nsd", "bind", "knot", "address")
    ]
    assert labels_of(runs) == ["kind nsd", "kind bind", "kind knot", "kind address"]
    assert differences(runs, labels_of(runs))[:2] == [["", "server.kind"], ["kind nsd", "nsd"]]
    assert labels_of([runs[0], runs[0]]) == ["nsd", "nsd (2)"]  # by their names, where nothing differs
    assert differences([runs[0], runs[0]], ["a", "b"]) == []


def test_keys_are_compared_under_their_names_of_today(tmp_path: Path) -> None:
    names = ("qname_minimisation", "qname_minimization")
    assert differences([made(tmp_path / key, hierarchy={key: True}) for key in names], names) == []


@pytest.mark.usefixtures("unrendered")
def test_a_table_that_one_run_lacks_is_one_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what differs in it; no line of the terminal is longer than 100 columns."""
    synth = {"seed": 1, "duration": 8, "clients": 500, "zipf": 1.0, "tcp_share": 0.02, "junk_share": 0.5}
    made_of = {"root_like": {"seed": 1, "ds_share": 0.9}}
    unplayed = {"synth": {"rate": 7}, "server": {"root_like": None}}
    runs = [
        made(tmp_path / "quickstart-20261125T140854Z-0001", synth={**synth, "rate": 300}, server=made_of),
        made(tmp_path / "quickstart-20261125T140854Z-0002", synth={**synth, "rate": 600}, server=made_of),
        made(tmp_path / "root-live-20261125T140854Z-0003", trace="/x/live.pcap", **unplayed),
    ]
    names = labels_of(runs)
    assert names == [run.name for run in runs]  # too much differs for a label
    heading, first, second, third = differences(runs, names)
    assert heading == ["", "synth", "server.root_like", "trace"]
    assert first[1:] == ["rate 300", "seed 1, ds_share 0.9", "–"] and second[1] == "rate 600"
    assert third[1:] == ["–", "–", "live.pcap"]
    assert differences(runs[1:], names[1:])[1][1] == "seed 1, duration 8, clients 500, …"
    runs[1].given = {"synth.rate", "synth.seed"}
    assert differences(runs[1:], names[1:])[1][1:3] == ["seed 1, rate 600", "defaults"]
    assert main(["report", *(str(run.folder) for run in runs)]) == 0
    told = capsys.readouterr().out.split("report.html\n")[-1]
    assert all(len(line) <= 100 for line in told.splitlines()[:-1])
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert page.count('data-label="synth"') == 3 and 'data-label="synth.' not in page


def test_what_servers_ran_with_is_told_where_it_differs(tmp_path: Path) -> None:
    """With the server's name where there are several; what only one says does not vanish."""
    runs = [made(tmp_path / name, server={"kind": name}) for name in ("nsd", "bind")]
    for run, limit in zip(runs, (1024, 20_000), strict=True):
        told = {"schema": 1, "cores": 2, "descriptors of a process": limit, f"only {limit}": "own"}
        (run.folder / "conditions-server.json").write_text(json.dumps(told))
    opened = [Run(run.folder) for run in runs]
    assert differences(opened, labels_of(opened)) == [
        ["", "server.kind", "descriptors of a process", "only 1024", "only 20000"],
        ["kind nsd", "nsd", "1024", "own", "not said"],
        ["kind bind", "bind", "20000", "not said", "own"],
    ]
    silent = made(tmp_path / "address", server={"kind": "address"})  # nobody knows what it ran with
    assert differences([*opened, silent], ["a", "b", "c"])[3][2:] == ["not said"] * 3
    assert differences([opened[0], silent], ["a", "c"])[0] == ["", "server.kind"]
    for run in runs:
        (run.folder / "conditions-server2.json").write_text('{"schema": 1, "cores": 2}')
    opened = [Run(run.folder) for run in runs]
    assert differences(opened, ["a", "b"])[0][:3] == ["", "server.kind", "server: descriptors of a process"]


@pytest.mark.usefixtures("unrendered")
def test_many_runs_are_compared_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each in the first tables; none is cut."""
    runs = [made(tmp_path / f"run{at}", replay={"rate": 1000 * at}) for at in range(1, 6)]
    assert main(["report", *(str(run.folder) for run in runs)]) == 0
    told = capsys.readouterr().out
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    for at in range(1, 6):
        assert re.search(rf"^rate {at}000 +{at}000$", told, re.MULTILINE)
        assert page.count(f'<th scope="row">rate {at}000</th>') == 3  # the last with the runs' names
    assert page.count('data-label="replay.rate"') == 5  # named in each row, for narrow screens
    assert page.index("What differs") < page.index("What came of it") < page.index("Side by side")
