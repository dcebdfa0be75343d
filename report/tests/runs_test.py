"""Results folders of real runs, `runs/NAME.tar.xz` (`record.py` makes them): what the report makes of each is
compared with its transcript `NAME.txt`, and each figure of the tables with the key that it is read from, in
`figures.txt`. REPRISE_WRITE_TRANSCRIPTS=1 writes both anew.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from report import html
from report.rows import rows_of, runs_table
from report.run import Json, Run
from report.summary import summarize
from report.tables import micro, number, percent, table
from report.tally import measure
from report.tests.record import EXPERIMENTS, FOLDER
from report.tests.writers import summarized

_FIGURE = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?: %| µs| ms| s)?(?![\w.])")


class Page(HTMLParser):
    """The text of a page: a line for each row of a table or block, cells apart by bars."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines = [""]
        self._hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("tr", "p", "li", "h1", "h2", "h3", "div", "caption", "footer"):
            self.lines.append("")
        elif tag in ("td", "th", "span") and self.lines[-1]:
            self.lines[-1] += " | "
        self._hidden = tag in ("style", "title", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.lines[-1] += " ".join(data.split())

    def text(self) -> list[str]:
        return [line for line in self.lines if line]


def folder_of(name: str, scratch: Path) -> Path:
    shutil.unpack_archive(FOLDER / f"{name}.tar.xz", scratch)
    return scratch / name


def expect(path: Path, lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    if os.environ.get("REPRISE_WRITE_TRANSCRIPTS"):
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_is_reported_as_written(name: str, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path)
    summary = summarized(folder)
    compared = table(runs_table([summary]))
    ran = table([list(row) for row in rows_of(summary, "run")], frozenset())
    expect(
        FOLDER / f"{name}.txt",
        [
            *("# summary.json", *(f"{key}: {json.dumps(value)}" for key, value in summary.items())),
            *("", "# reprise run", *ran.splitlines()),
            *("", "# reprise report", *compared.splitlines()),
            *("", "# report.html", *Page(html.run_page(Run(folder), summary, [])).text()),
        ],
    )


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{at}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def marked(summary: Json) -> tuple[Json, dict[str, str]]:
    """The summary with a number of its own in each place, and the key by each form that is printed of it."""
    count = 0
    known: dict[str, str] = {}

    def mark(value: Any, path: str) -> Any:
        nonlocal count
        if isinstance(value, dict):
            return {key: mark(inner, f"{path}.{key}" if path else key) for key, inner in value.items()}
        if isinstance(value, list):
            return [mark(inner, f"{path}.{at}") for at, inner in enumerate(value)]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        count += 1
        own = round(10_000 * 1.05**count) * 1_000_000
        small = own / 1e6
        plain = (number(own), f"{number(own)} s", str(own), f"{own:,.1f}", number(small), f"{small:,.1f}")
        known.update(dict.fromkeys((*plain, percent(own), micro(own)), path))
        return own

    other = mark(summary, "")
    queries, cpu = other["queries"], other["cpu_s"]
    for end, counted in queries.items():
        known[percent(counted / queries["read"])] = f"queries.{end} / queries.read"
    for role, seconds in cpu.items():
        if seconds is not None:
            known[f"{seconds / queries['sent'] * 1e6:,.1f}"] = f"cpu_s.{role} / queries.sent"
    answers = sum(other["rcode"].values())
    for code, counted in other["rcode"].items():
        known[percent(counted / answers, 1)] = f"rcode.{code} / rcode.*"
    return other, known


def figures(text: str, known: dict[str, str]) -> str:
    return _FIGURE.sub(lambda found: f"{{{known[found[0]]}}}" if found[0] in known else found[0], text)


def test_each_figure_is_read_from_its_key(tmp_path: Path) -> None:
    """In the tables of all the runs; what is told by other files than summary.json is left out."""
    lines: dict[str, None] = {}
    for name in EXPERIMENTS:
        run = Run(folder_of(name, tmp_path))
        summary, known = marked(summarize(measure(run)))
        tables = {
            "run": [" | ".join(row) for row in rows_of(summary, "run")],
            "summary": [" | ".join(row) for row in runs_table([summary])],
            "page": Page(html.run_page(run, summary, [])).text(),
        }
        for where, rows in tables.items():
            lines |= dict.fromkeys(
                f"{where}: {found}" for row in rows if "{" in (found := figures(row, known))
            )
    expect(FOLDER / "figures.txt", sorted(lines))
