import json
from pathlib import Path

import pytest

from report import figures, trace_plots
from report.errors import ReportError
from report.figures import Drawn
from report.run import Json

INFO: Json = {
    "schema": 1,
    "queries": 30,
    "rate_over_time": {"start_ns": 1, "bin_s": 0.5, "queries": [10, 12, 8]},
    "sources": {
        "distinct": 3,
        "curve": [[1, 0.5], [2, 0.9], [3, 1.0]],
        "busiest_1_percent_share": 0.5,
        "zipf_exponent": 1.25,
    },
    "types": {f"TYPE{number}": number for number in range(1, 16)},
    "edns": {"queries": 20, "sizes": {"4096": 15, "512": 5}},
    "handshakes": {"capture_point": "server", "rtt_percentiles_us": [1000.0 + i for i in range(101)]},
    "rtt_percentiles_us": [10.0 + i for i in range(101)],
}
NOTHING: Json = {
    **INFO,
    "queries": 0,
    "rate_over_time": {"start_ns": 0, "bin_s": 1, "queries": []},
    "sources": {"distinct": 0, "curve": [], "busiest_1_percent_share": 0, "zipf_exponent": 0},
    "types": {},
    "edns": {"queries": 0, "sizes": {}},
    "handshakes": {"capture_point": None, "rtt_percentiles_us": []},
    "rtt_percentiles_us": [],
}


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    return trace_plots.draw_trace(INFO)


def test_every_plot_is_drawn_and_written(drawn: list[Drawn], tmp_path: Path) -> None:
    figures.write(tmp_path, drawn)
    names = ["rate", "sources", "types", "edns-sizes", "rtt"]
    assert [plot.name for plot in drawn] == names
    assert all((tmp_path / f"{name}.svg").stat().st_size > 1000 for name in names)
    assert all((tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in names)


def test_captions_tell_the_figures(drawn: list[Drawn]) -> None:
    captions = {plot.name: plot.caption for plot in drawn}
    assert captions["rate"] == "Queries in bins of 0.5 s."
    assert "busiest 1 % ask 50.0%. Zipf exponent 1.25." in captions["sources"]
    assert captions["rtt"].endswith("made: at the server.")


def test_few_types_are_bars_and_the_rest_is_one(drawn: list[Drawn]) -> None:
    types = next(plot for plot in drawn if plot.name == "types")
    assert "TYPE15" in types.svg
    assert "3 more" in types.svg
    assert ">TYPE3<" not in types.svg


def test_a_plot_without_data_says_so() -> None:
    drawn = {plot.name: plot.svg for plot in trace_plots.draw_trace(NOTHING)}
    assert "the trace holds no query" in drawn["rate"]
    assert "no query has EDNS" in drawn["edns-sizes"]
    assert "neither whole TCP handshakes nor responses" in drawn["rtt"]


def test_other_schemas_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "info.json"
    path.write_text(json.dumps({"schema": 2}), "utf-8")
    with pytest.raises(ReportError, match="not trace information of schema 1"):
        trace_plots.load(path)
    path.write_text("{", "utf-8")
    with pytest.raises(ReportError, match="cannot be read"):
        trace_plots.load(path)
