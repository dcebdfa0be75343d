"""`python -m cli.plan.generated OUT --name NAME --type TYPE ...`: [generate] as a trace, for rules to change.

What the controller would make up on the way is written down: one query from each source in turn, over and
over until there are enough rows for shares to come out. The replay repeats them.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
from collections.abc import Iterator
from pathlib import Path

from cli.experiment.schema import Generate

_FEWEST_ROWS = 10_000
_FIRST_SOURCE = ipaddress.IPv4Address("10.0.0.1")
_HEADER = "#reprise-text 1\ntime\tsource\tport\tid\tflags\tname\ttype\n"
_GAP_S = 0.001


def arguments(generate: Generate, rd: bool, out: str) -> tuple[str, ...]:
    """The command line of the step."""
    question = ("--name", generate.name, "--type", generate.type)
    return (out, *question, "--sources", str(generate.sources), *(("--rd",) if rd else ()))


def rows(name: str, kind: str, sources: int, rd: bool) -> Iterator[str]:
    """Lines of the text form: whole rounds of the sources."""
    shown = name.replace("\\", "\\\\")
    kind = f"TYPE{kind}" if kind.isdigit() else kind
    rounds = -(-_FEWEST_ROWS // sources)
    for number in range(rounds * sources):
        turn, source = divmod(number, sources)
        yield (
            f"{number * _GAP_S:.3f}\t{_FIRST_SOURCE + source}\t{1024 + turn // 65_536}\t{turn % 65_536}\t"
            f"{'rd' if rd else '-'}\t{shown}\t{kind}\n"
        )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m cli.plan.generated")
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--type", required=True)
    parser.add_argument("--sources", type=int, required=True)
    parser.add_argument("--rd", action="store_true")
    options = parser.parse_args(words)
    with options.out.open("w", encoding="ascii") as file:
        file.write(_HEADER)
        file.writelines(rows(options.name, options.type, options.sources, options.rd))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
