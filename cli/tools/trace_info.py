"""`reprise trace info FILE --plots DIR`: the mutator reads the trace once, the plots come from its JSON."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import programs
from cli.errors import RepriseError, want
from report.errors import Parser


def wanted(arguments: Sequence[str]) -> bool:
    """Whether plots are asked for."""
    return any(one.partition("=")[0] == "--plots" for one in arguments)


def read_arguments(arguments: Sequence[str]) -> tuple[Path, bool, list[str]]:
    """The folder for the plots, whether they are wanted as PDF, too, and the mutator's arguments."""
    parser = Parser(prog="reprise trace info", add_help=False, allow_abbrev=False)
    parser.add_argument("--plots")
    parser.add_argument("--pdf", action="store_true")
    found, rest = parser.parse_known_args(list(arguments))
    want(bool(found.plots), "--plots needs a folder", "give --plots DIR")
    return Path(found.plots), found.pdf, rest


def command_plots(arguments: Sequence[str]) -> int:
    """Exit status: the mutator's, which is 1 for a trace that is cut; what was good is drawn then too."""
    from report import trace_plots  # noqa: PLC0415

    plots, pdf, rest = read_arguments(arguments)
    facts = plots / "info.json"
    try:
        made = not plots.exists()
        plots.mkdir(parents=True, exist_ok=True)
        facts.unlink(missing_ok=True)
        program = programs.own("reprise-mutator")
        done = subprocess.run([program, "info", *rest, "--json-file", str(facts)], check=False)
        if not facts.is_file():
            if made:
                plots.rmdir()
            return done.returncode
        trace_plots.write(plots, trace_plots.draw_trace(trace_plots.load(facts)), pdf)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise RepriseError(f"{where}{error.strerror or error}", "give another folder") from None
    sys.stderr.write(f"plots in {plots}\n")
    return done.returncode
