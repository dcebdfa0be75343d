"""The script of the pages (templates/page.js), run by Node.js: what it sorts, what it reads off a plot."""

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report import html, plots, several_plots
from report.figures import Drawn
from report.html import TEMPLATES
from report.run import Run
from report.summary import summarize
from report.tally import measure
from report.tests.plots_test import repeats
from report.tests.writers import SERVER_HEADER, START, START_REAL, Query, write_run

SVG = "{http://www.w3.org/2000/svg}"
# What the script uses of a document, for a table and for a figure.
ELEMENTS = """
const heard = () => {
  const acts = {};
  return { style: {}, acts, addEventListener: (name, act) => { acts[name] = act; } };
};
const tableOf = (heads, rows) => {
  const cellsOf = texts => texts.map(textContent => ({ textContent }));
  const body = { rows: rows.map(texts => ({ cells: cellsOf(texts) })) };
  body.append = row => { body.rows = [...body.rows.filter(one => one !== row), row]; };
  const cells = heads.map(() => ({ ...heard(), ariaSort: null }));
  return { tHead: { rows: [{ cells }] }, tBodies: [body] };
};
"""


def node(body: str, given: Any = None) -> Any:
    """What `body` returns, which has the script's functions as `page` and `given`."""
    page = json.dumps(str(TEMPLATES / "page.js"))
    text = f"{ELEMENTS}const page = require({page}), given = JSON.parse(require('fs').readFileSync(0));"
    told = f"{text}process.stdout.write(JSON.stringify((() => {{ {body} }})()));"
    done = subprocess.run(
        ["node", "-e", told], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("cells", "ascending"),
    [
        (["9", "1,000", "20", "–"], ["9", "20", "1,000", "–"]),
        (["2.50 ms", "900.0 µs", "", "1 s"], ["900.0 µs", "2.50 ms", "1 s", ""]),
        (["x 1.2 (1 – 2)", "12 (1.2 %)", "no", "-3"], ["-3", "x 1.2 (1 – 2)", "12 (1.2 %)", "no"]),
        (["tcp", "udp", "-", "tcp"], ["-", "tcp", "tcp", "udp"]),
    ],
)
def test_cells_are_sorted_by_what_they_say(cells: list[str], ascending: list[str]) -> None:
    found = node("return [false, true].map(down => page.order(given, down).map(at => given[at]))", cells)
    assert found[0] == ascending
    valued = [one for one in ascending if one not in ("", "–")]
    kinds = [one for one in valued if re.match(r"x? ?-?\d", one)]
    words = [one for one in valued if one not in kinds]
    assert found[1] == [*kinds[::-1], *words[::-1], *(one for one in ascending if one not in valued)]


def test_a_click_on_a_head_sorts_and_the_third_one_restores() -> None:
    found = node(
        """const table = tableOf(["", "n"], given), head = table.tHead.rows[0].cells[1];
        page.makeSortable(table);
        const names = () => table.tBodies[0].rows.map(row => row.cells[0].textContent).join("");
        return [1, 2, 3].map(() => { head.acts.click(); return [head.ariaSort, names()]; });""",
        [["b", "2"], ["c", "10"], ["a", "1"]],
    )
    assert found == [["ascending", "abc"], ["descending", "cba"], [None, "bca"]]


def curves_of(drawn: Drawn) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What the plot tells of its axes, and the number and path of each curve."""
    root = ET.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", drawn.svg))
    groups = [one for one in root.iter(f"{SVG}g") if (one.get("id") or "").startswith("curve-")]
    paths = [(one, one.find(f"{SVG}path")) for one in groups]
    return json.loads(root.attrib["data-plot"]), [
        (str(one.get("id")), str(path.get("d"))) for one, path in paths if path is not None
    ]


def read_off(drawn: Drawn) -> dict[str, list[tuple[float, float]]]:
    """The points of each curve of lines by its name, as the script shows them."""
    known, found = curves_of(drawn)
    points = node(
        """return given.paths.map(path => page.pointsOf(path).map(([x, y]) =>
            [page.valueAt(x, given.known.x), page.valueAt(y, given.known.y)]))""",
        {"known": known, "paths": [path for _, path in found]},
    )
    numbers = [int(name.removeprefix("curve-").partition(".")[0]) for name, _ in found]
    return {known["names"][number]: held for number, held in zip(numbers, points, strict=True)}


def test_values_read_off_a_plot_are_those_it_was_made_of(tmp_path: Path) -> None:
    """On straight, logarithmic and reversed axes; of a step the corners."""
    variants = {"one": repeats(tmp_path / "one", (1, 3, 2)), "two": repeats(tmp_path / "two", (5,))}
    for drawn in several_plots.side_by_side(variants):
        if "data-plot" not in drawn.svg:
            assert drawn.name == "unanswered"
            continue
        seen = read_off(drawn)
        for line in drawn.figure.axes[0].lines:
            if not np.size(line.get_xdata()):  # holds the color of one that has nothing to show
                continue
            shown = np.array(seen[str(line.get_label())])
            x, y = (np.asarray(one, np.float64) for one in line.get_data())
            ends = np.array([[x[0], y[0]], [x[-1], y[-1]]])
            assert shown[[0, -1]] == pytest.approx(ends, rel=0.01, abs=0.01), drawn.name
            for at, value in zip(x[:: -(-len(x) // 5)], y[:: -(-len(x) // 5)], strict=True):
                near = shown[np.isclose(shown[:, 0], at, rtol=0.01, atol=0.01)]
                # A straight part is one line from end to end.
                assert not len(near) or np.any(np.isclose(near[:, 1], value, rtol=0.01, atol=0.01)), (
                    drawn.name
                )


def test_the_value_under_the_pointer_has_its_units() -> None:
    axes = {
        "x": {"label": "replay.rate", "scale": "linear", "first": 0, "last": 100, "low": 0, "high": 2,
              "places": ["1,000", "2,000", "4,000"]},
        "y": {"label": "latency [ms]", "scale": "log", "first": 90, "last": 0, "low": 0.1, "high": 100},
    }  # fmt: skip
    curves = [
        {"number": 0, "points": [[50, 30], [90, 80]], "hidden": False},
        {"number": 1, "points": [[51, 31]], "hidden": True},
    ]
    found = node(
        """const at = page.nearest(given.curves, [52, 32], 20), { x, y } = given.axes;
        const said = [x, y].map((axis, which) => page.told(axis, page.valueAt(at.point[which], axis)));
        return [at.curve.number, ...said, page.nearest(given.curves, [0, 0], 20)]""",
        {"axes": axes, "curves": curves},
    )
    assert found == [0, "replay.rate: 2,000", "latency: 10 ms", None]


def test_a_click_on_a_key_hides_its_curve_and_its_band(tmp_path: Path) -> None:
    variants = {"one": repeats(tmp_path / "one", (1, 3)), "two": repeats(tmp_path / "two", (5,))}
    (memory,) = [one for one in several_plots.side_by_side(variants) if one.name == "memory"]
    ids = re.findall(r'id="(memory-(?:curve|band|key|name)-[\d.]+)"', memory.inline)
    known, _ = curves_of(memory)
    shown = node(
        """const all = given.ids.map(id => ({ id, ...heard(), querySelectorAll: () => [] }));
        const svg = { dataset: { plot: JSON.stringify(given.known) }, addEventListener: () => {},
            querySelectorAll: wanted => all.filter(one => one.id.includes(/"(.*)"/.exec(wanted)[1])) };
        global.document = { createElement: () => ({}), createElementNS: () => ({ setAttribute: () => {} }) };
        page.makeInteractive({ querySelector: () => svg });
        const named = one => [one.id.replace(/\\.\\d+/, ""), one.style.display ?? ""];
        return ["memory-key-0", "memory-name-0"].map(id => {
            all.find(one => one.id === id).acts.click();
            return Object.fromEntries(all.map(named));
        })""",
        {"ids": ids, "known": known},
    )
    first = {key: value for key, value in shown[0].items() if "curve" in key or "band" in key}
    assert first == {"memory-curve-0": "none", "memory-band-0": "none", "memory-curve-1": ""}
    assert not any(shown[1].values())


def long_samples(seconds: int) -> str:
    """Of every column that is plotted, changing all the time, with one peak."""
    lines = [SERVER_HEADER]
    rng = np.random.default_rng(1)
    for second in range(seconds):
        at = second * 1_000_000_000
        memory = 900_000_000 if second == 3_333 else int(rng.integers(40_000_000, 50_000_000))
        states = ",".join(map(str, rng.integers(0, 1000, 8)))
        busy = second * 0.5 + rng.random()
        lines.append(
            f"{START_REAL + at},{START + at},{busy},0,nsd,1,{busy},{memory},{memory},9,{states},0,0,0,0\n"
        )
    return "".join(lines)


def test_every_plot_is_on_the_page(tmp_path: Path) -> None:
    queries = [Query(n, n * 100_000_000, n * 100_000_000) for n in range(100)]
    folder = write_run(tmp_path / "run", queries, server=long_samples(10))
    counts = "time_real_ns,time_mono_ns,process,queries,answers\n1,1,server,0,0\n2,2,server,5,5\n"
    (folder / "counts-server.csv").write_text(counts, encoding="ascii")
    measured = measure(Run(folder))
    drawn = plots.draw_all(measured, summary := summarize(measured))
    assert "server-counts" in {one.name for one in drawn}
    page = html.run_page(measured.run, summary, drawn)
    left = [one.name for one in drawn if f'id="plot-{one.name}"' not in page]
    assert left == ["connections"]  # which the server's host had and no query used


def test_a_long_run_has_a_page_of_at_most_2_mb_that_shows_its_peaks(tmp_path: Path) -> None:
    queries = [Query(n, n * 100_000_000, n * 100_000_000) for n in range(100)]
    measured = measure(Run(write_run(tmp_path / "run", queries, server=long_samples(7_200))))
    drawn = plots.draw_all(measured, summarize(measured))
    assert sum(len(one.inline) for one in drawn) < 1_800_000
    (memory,) = [one for one in drawn if one.name == "server-memory"]
    values: Sequence[float] = np.asarray(memory.figure.axes[0].lines[0].get_ydata()).tolist()
    assert max(values) == 900 and len(values) < 1_300
