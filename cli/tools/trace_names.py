"""`reprise trace names FILE`: the names that a trace asks for, the most frequent first, as `--names` of
`trace synth` and `synth.names` of an experiment take them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cli import programs
from cli.errors import RepriseError
from report import whole_file
from report.errors import Parser

_NONE = "-"  # of a query without a question


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="reprise trace names",
        description="Prints the names that a trace's queries ask for, the most frequent first, one a line: "
        "a list for `reprise trace synth --names` and for synth.names of an experiment.",
    )
    made.add_argument("trace", metavar="FILE", help="a trace of any form, - for standard input")
    made.add_argument("--top", type=int, default=0, metavar="N", help="only the first N")
    made.add_argument("--port", action="append", default=[], metavar="N", help="DNS port in captures (53)")
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (standard output)")
    return made


def command_names(arguments: Sequence[str]) -> int:
    """Exit status: the mutator's, which is 1 for a trace that is cut; what was good is listed then too."""
    options = parser().parse_args(list(arguments))
    ports = programs.flags(port=options.port)
    argv = [programs.own("reprise-mutator"), "mutate", options.trace, "--to", "text", "-o", "-", *ports]
    counts: Counter[str] = Counter()
    with (
        tempfile.TemporaryFile("w+") as said,  # a pipe would have to be read beside the other
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=said, text=True) as mutator,
    ):
        assert mutator.stdout is not None
        mutator.stdout.readline()
        columns = mutator.stdout.readline().rstrip("\n").split("\t")
        place = columns.index("name") if "name" in columns else -1
        for line in mutator.stdout:
            cells = line.rstrip("\n").split("\t")
            if place >= 0 and len(cells) == len(columns) and cells[place] != _NONE:
                counts[_for_list(cells[place].lower())] += 1
        status = mutator.wait()
        said.seek(0)
        lines = said.readlines()
    if status and not counts:
        sys.stderr.write("".join(lines).replace("reprise-mutator: error", "reprise: error"))
        return status
    # That the trace is cut, and what it lacks.
    sys.stderr.writelines(line for line in lines if line.startswith("reprise-mutator: ") or " lost=" in line)
    found = counts.most_common(max(0, options.top) or None)
    if not found:
        raise RepriseError(f"{options.trace} asks for no name", "look at it with `reprise trace info`")
    text = "".join(f"{name}\n" for name, _ in found)
    if options.output is None:
        sys.stdout.write(text)
    else:
        whole_file.write(options.output, text)
    return status


def _for_list(name: str) -> str:
    """The name with what lists give another meaning written by its number."""
    return name.replace(",", "\\044").replace('\\"', "\\034")
