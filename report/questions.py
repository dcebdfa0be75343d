"""The questions of traces, read off the mutator's text form."""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator

from report.errors import ReportError


class Questions:
    """These columns of each query with a question in what `reprise-mutator mutate` makes of its arguments.
    When they are through, there are its exit status (1 where a trace was cut) and what it said.
    """

    status = 0
    said = ""

    def __init__(self, mutator: str, arguments: Iterable[str], *columns: str) -> None:
        self._argv = (mutator, "mutate", *arguments, "--to", "text", "-o", "-")
        self._columns = columns

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        pipe = subprocess.PIPE
        with (
            tempfile.TemporaryFile("w+", errors="replace") as said,  # a pipe would have to be read beside
            subprocess.Popen(self._argv, stdout=pipe, stderr=said, text=True, errors="replace") as mutator,
        ):
            assert mutator.stdout is not None
            rows = (line.split("\t") for line in mutator.stdout if not line.startswith("#"))
            header = next(rows, ["name", *self._columns])
            name, *wanted = (header.index(one) for one in ("name", *self._columns))
            for cells in rows:
                if len(cells) == len(header) and cells[name] != "-":
                    yield tuple(cells[one] for one in wanted)
            self.status = mutator.wait()
            said.seek(0)
            self.said = said.read()


def distinct(mutator: str, arguments: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Name, class and type of every question of traces of any form, each once, in order. Raises ReportError
    at the end of a trace that cannot be read; one that is cut counts as far as it goes.
    """
    found = Questions(mutator, arguments, "opcode", "name", "class", "type")
    seen: set[tuple[str, str, str]] = set()
    for opcode, name, kind_class, kind in found:
        question = (name.lower(), kind_class, kind)
        if opcode == "QUERY" and question not in seen:
            seen.add(question)
            yield question
    sys.stderr.write(found.said)
    if found.status not in (0, 1):
        raise ReportError("the trace cannot be read", "see the message above")
