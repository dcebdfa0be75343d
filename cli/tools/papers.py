"""`reprise papers`: the experiments of the published papers. This is the command and its list of figures;
papers_run.py runs them, and report/papers says what was measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cli import programs, run_name
from cli.errors import UsageError
from cli.experiment.tables import get
from cli.servers import kinds
from cli.tools import needs
from report.papers import book
from report.papers.book import Study
from report.tables import table

MOST_MINUTES = 90  # of all figures in the quick profile
_TUN = Path("/dev/net/tun")
_ENDS = (".xz", ".gz", ".bz2", ".zst", ".lz4", ".pcap", ".pcapng", ".rps", ".tsv", ".txt", ".cbor", ".dnstap")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command, its steps and their options."""
    parser = commands.add_parser(
        "papers", help="repeat the experiments of published papers and compare the results"
    )
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    listing = steps.add_parser(
        "list", help="list the figures, their minutes, and what this machine lacks for them"
    )
    running = steps.add_parser("run", help="run figures, then write the report")
    running.add_argument(
        "figures", nargs="+", metavar="FIGURE", help="such as ldplayer-8; `all` for each of them"
    )
    running.add_argument("--full", action="store_true", help="run as published, instead of the quick profile")
    running.add_argument("--resume", action="store_true", help="continue the latest runs of the figures")
    running.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the experiments"
    )
    reporting = steps.add_parser("report", help="write the report again from the latest runs")
    for one in (listing, running):
        one.add_argument(
            "--traces",
            type=Path,
            metavar="DIR",
            help="folder with the papers' traces under their names, such as B-Root-16.pcap.xz; those "
            "that are missing are synthesized",
        )
    for one in (running, reporting):
        run_name.add_parent(one)


def command_list(options: argparse.Namespace) -> int:
    sys.stdout.write(listed(book.studies(), options.traces) + "\n")
    return 0


def listed(studies: Sequence[Study], traces: Path | None) -> str:
    """A row for each figure, and the sum of their minutes."""
    rows, real = [["figure", "", "study", "minutes", "trace", "runs here"]], files(traces)
    for study in studies:
        lacking = ", ".join(missing(study))
        here = ", ".join(name for name in named(study) if name in real) or "synthetic"
        works = f"no: {lacking}" if lacking else "yes"
        for one in study.figures:
            rows.append([one.name, one.title, study.name, f"{one.minutes:g}", here, works])
    minutes = sum(figure.minutes for study in studies for figure in study.figures)
    told = f"{minutes:g} minutes in all, at most {MOST_MINUTES}"
    return f"{table(rows, frozenset({3}))}\n{told}; figures of one study are run together"


def missing(study: Study) -> Iterator[str]:
    """What the study needs and this machine has not."""
    if study.traces:
        return
    tables = study.tables
    variants = list(needs.variants(tables))
    fronts = {kinds.front(one) for one in variants}
    if os.geteuid() != 0 and get(tables, "sample.capture"):
        yield "root, for the capture"
    if os.geteuid() != 0 and "bpf" in fronts:
        yield "root, for the front in the kernel"
    if (tables.get("rtt") is not None or "reference" in fronts) and not _TUN.exists():
        yield f"{_TUN}, for the delay line or the front in user space"
    for name in dict.fromkeys(name for one in variants for name in kinds.packaged_programs(one)):
        if programs.find(name) is None:
            yield f"{name} (apt-get install {programs.package_of(name)})"


def named(study: Study) -> list[str]:
    """The published traces that stand for themselves where they are there."""
    own = [study.told["trace"]] if "trace" in study.told else []
    return own or [name for name in study.traces if not name.startswith("syn-")]


def files(traces: Path | None) -> dict[str, Path]:
    """The traces of a folder by their names, without the endings of their forms and compression; of several
    with one name the first.
    """
    found: dict[str, Path] = {}
    if traces is None:
        return found
    if not traces.is_dir():
        raise UsageError(f"no folder {traces}", "give --traces the folder that holds the papers' traces")
    for path in sorted(one for one in traces.iterdir() if one.suffix in _ENDS):
        name = path.name
        while (end := Path(name).suffix) in _ENDS:
            name = name.removesuffix(end)
        found.setdefault(name, path)
    return found
