"""The report of all figures: a table for each in the terminal, and a page."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from report import figures, html
from report.figures import Drawn
from report.papers import model, plots
from report.papers.book import Figure, Study
from report.papers.found import DIFFERS, HOLDS, NO_CLEAN, NOT_HERE, NOT_YET, Found, Judged, judge, read
from report.run import as_dict
from report.tables import number, table

PAGE = "report.html"
HEADING = ["", "published", "measured", "interval", "steady", "verdict"]


@dataclass(frozen=True)
class Part:
    figure: Figure
    found: Found
    rows: tuple[Judged, ...]
    facts: tuple[tuple[str, str], ...]
    drawn: tuple[Drawn, ...]

    def as_text(self) -> str:
        told = [f"{name}: {text}" for name, text in self.facts]
        warned = [f"warning: {one}" for one in self.found.warnings]
        head = f"{self.figure.name}: {self.figure.title}"
        cells = table([HEADING, *(one.cells for one in self.rows)], frozenset())
        return "\n".join([head, *told, *warned, cells])


def write(studies: Iterable[Study], parent: Path) -> None:
    """Writes the page into the folder of all studies and each one's plots into its own; prints the tables."""
    found = [read(study, parent) for study in studies]
    parts = [part for one in found for part in _parts(one)]
    extrapolated = model.of(found)
    for part in parts:
        if part.found.folder is not None:
            figures.write(part.found.folder / "plots", part.drawn, pdf=True)
    states = Counter(one.state for part in parts for one in part.rows)
    counts = [(name, states[name]) for name in (HOLDS, DIFFERS, NOT_HERE, NO_CLEAN, NOT_YET)]
    values = {"heading": HEADING, "parts": parts, "counts": counts, "model": extrapolated}
    html.write(parent / PAGE, html.page("papers", **values))
    texts = [part.as_text() for part in parts if part.found.folder is not None]
    if extrapolated:
        load = table([extrapolated["heading"], *extrapolated["cells"]], frozenset())
        texts.append("\n".join(["at a root letter's load", load, *extrapolated["arithmetic"]]))
    print(*texts, f"report: {parent / PAGE}", sep="\n\n")


def _parts(found: Found) -> list[Part]:
    judged, drawn, parts = judge(found), plots.of(found), []
    for figure in found.study.figures:
        rows = tuple(one for one in judged if one.row.figure == figure.name)
        told = tuple(facts(figure, found, rows[0].row.section if rows else ""))
        shown = (replace(drawn[name], name=f"{figure.name}-{name}") for name in figure.plots if name in drawn)
        parts.append(Part(figure, found, rows, told, tuple(shown)))
    return parts


def facts(figure: Figure, found: Found, section: str) -> list[tuple[str, str]]:
    """Where it was published; command, machine and minutes."""
    told = found.told
    if found.folder is None:
        return [
            ("command", f"reprise papers run {figure.name}"),
            ("minutes", f"{figure.minutes:g} (quick profile)"),
        ]
    runs = sum(map(len, found.runs.values()))
    machine = as_dict(told.get("machine"))
    cpu, cores, kernel = map(machine.get, ("cpu", "cores", "kernel"))
    memory = number((machine.get("memory_bytes") or 0) / 1e9)
    share = figure.minutes / sum(one.minutes for one in found.study.figures)
    minutes = number((told.get("seconds") or 0) / 60 * share)
    return [
        ("published", section),
        ("command", str(told.get("command"))),
        ("profile", found.profile),
        ("trials", f"{runs} clean; {len(found.labels)} {'traces' if found.study.traces else 'variants'}"),
        ("machine", f"{cpu}, {cores} cores, {memory} GB, Linux {kernel}"),
        ("minutes", f"{minutes} (stated for the quick profile: {figure.minutes:g})"),
        ("results", found.folder.name),
        *_left_out(found),
    ]


def _left_out(found: Found) -> list[tuple[str, str]]:
    """Seconds in which the hypervisor took time, where a capture tells arrivals."""
    arrivals = [as_dict(one.get("arrival")) for runs in found.runs.values() for one in runs]
    known = [one for one in arrivals if "steal_seconds" in one]
    if not known:
        return []
    keys = ("steal_seconds", "seconds", "missing")
    stolen, whole, missing = (sum(one[key] for one in known) for key in keys)
    told = f"{stolen} with steal, of {stolen + whole} after the warm-up of each run"
    return [("seconds left out", told), ("not in the capture", f"{number(missing)} queries")]
