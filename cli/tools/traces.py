"""`reprise trace names`: the names that a trace asks for, the most frequent first, as `--names` of `trace
synth` and `synth.names` of an experiment take them.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cli import programs
from cli.errors import RepriseError
from report import whole_file
from report.errors import Parser
from report.questions import Questions


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
