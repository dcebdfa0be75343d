"""What `reprise trace` does besides the mutator.

`trace info FILE --plots DIR`: the mutator reads the trace once, the plots come from its JSON. `trace names
FILE`: the names that a trace asks for, the most frequent first, as `--names` of `trace synth` and
`synth.names` of an experiment take them.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cli import programs
from cli.errors import RepriseError, want
from report import whole_file
from report.errors import Parser
from report.questions import Questions


def plot_arguments(arguments: Sequence[str]) -> tuple[Path, bool, list[str]]:
    """The folder for the plots, whether they are wanted as PDF, too, and the mutator's arguments."""
    parser = Parser(prog="reprise trace info", add_help=False, allow_abbrev=False)
    parser.add_argument("--plots")
    parser.add_argument("--pdf", action="store_true")
    found, rest = parser.parse_known_args(list(arguments))
    want(bool(found.plots), "--plots needs a folder", "give --plots DIR")
    return Path(found.plots), found.pdf, rest


def command_plots(arguments: Sequence[str]) -> int:
    """Exit status: the mutator's, which is 1 for a trace that is cut; what was good is drawn then too."""
    from report import figures, trace_plots  # noqa: PLC0415

    plots, pdf, rest = plot_arguments(arguments)
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
        figures.write(plots, trace_plots.draw_trace(trace_plots.load(facts)), pdf)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise RepriseError(f"{where}{error.strerror or error}", "give another folder") from None
    sys.stderr.write(f"plots in {plots}\n")
    return done.returncode


def command_names(arguments: Sequence[str]) -> int:
    """Exit status: the mutator's, which is 1 for a trace that is cut; what was good is listed then too."""
    parser = Parser(
        prog="reprise trace names",
        description="Prints the names that a trace's queries ask for, the most frequent first, one a line: "
        "a list for `reprise trace synth --names` and for synth.names of an experiment.",
    )
    parser.add_argument("trace", metavar="FILE", help="a trace of any form, - for standard input")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="only the first N")
    parser.add_argument("--port", action="append", default=[], metavar="N", help="DNS port in captures (53)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (standard output)")
    options = parser.parse_args(list(arguments))
    ports = programs.flags(port=options.port)
    asked = Questions(programs.own("reprise-mutator"), (options.trace, *ports), "name")
    # What lists give another meaning is written by its number.
    counts = Counter(name.lower().replace(",", "\\044").replace('\\"', "\\034") for (name,) in asked)
    if asked.status and not counts:
        sys.stderr.write(asked.said.replace("reprise-mutator: error", "reprise: error"))
        return asked.status
    # That the trace is cut, and what it lacks.
    lines = asked.said.splitlines(keepends=True)
    sys.stderr.writelines(line for line in lines if line.startswith("reprise-mutator: ") or " lost=" in line)
    found = counts.most_common(max(0, options.top) or None)
    if not found:
        raise RepriseError(f"{options.trace} asks for no name", "look at it with `reprise trace info`")
    text = "".join(f"{name}\n" for name, _ in found)
    if options.output is None:
        sys.stdout.write(text)
    else:
        whole_file.write_named(options.output, text)
    return asked.status
