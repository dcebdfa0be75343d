"""`reprise trace info FILE --plots DIR`: the mutator reads the trace once, the plots come from its JSON."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import programs
from cli.errors import RepriseError, UsageError

PLOTS = "--plots"


@dataclass(frozen=True)
class Wish:
    """The arguments behind `info`, taken apart."""

    plots: Path
    rest: tuple[str, ...]


def wanted(arguments: Sequence[str]) -> bool:
    """Whether plots are asked for."""
    return any(argument == PLOTS or argument.startswith(PLOTS + "=") for argument in arguments)


def read_arguments(arguments: Sequence[str]) -> Wish:
    """Pure. The last `--plots` counts."""
    plots, rest = "", []
    left = iter(arguments)
    for argument in left:
        if argument == PLOTS:
            plots = next(left, "")
        elif argument.startswith(PLOTS + "="):
            plots = argument.removeprefix(PLOTS + "=")
        else:
            rest.append(argument)
    if not plots or plots.startswith("-"):
        raise UsageError(f"{PLOTS} needs a folder", f"give {PLOTS} DIR")
    return Wish(Path(plots), tuple(rest))


def command_plots(arguments: Sequence[str]) -> int:
    """Exit status: the mutator's, which is 1 for a trace that is cut; what was good is drawn then too."""
    from report import trace_plots  # noqa: PLC0415
    from report.errors import ReportError  # noqa: PLC0415

    wish = read_arguments(arguments)
    facts = wish.plots / "info.json"
    try:
        made = not wish.plots.exists()
        wish.plots.mkdir(parents=True, exist_ok=True)
        facts.unlink(missing_ok=True)
        program = programs.own("reprise-mutator")
        done = subprocess.run([program, "info", *wish.rest, "--json-file", str(facts)], check=False)
        if not facts.is_file():
            if made:
                wish.plots.rmdir()
            return done.returncode
        trace_plots.write(wish.plots, trace_plots.draw_trace(trace_plots.load(facts)))
    except ReportError as error:
        raise RepriseError(error.what, error.hint) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise RepriseError(f"{where}{error.strerror or error}", "give another folder") from None
    sys.stderr.write(f"plots in {wish.plots}\n")
    return done.returncode
