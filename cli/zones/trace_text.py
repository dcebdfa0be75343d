"""The queries of traces, as rows of the mutator's text form."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable, Iterator

from cli.errors import EXIT_FAILED, RepriseError
from cli.programs import flags


def rows(mutator: str, traces: Iterable[str], ports: Iterable[str]) -> Iterator[dict[str, str]]:
    """A row for each query of traces of any form, by the names of its columns. Raises RepriseError at the end
    of a trace that cannot be read; one that is cut counts as far as it goes.
    """
    argv = [mutator, "mutate", *traces, "--to", "text", "-o", "-", *flags(port=[*ports])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        lines = (line for line in process.stdout if not line.startswith("#"))
        yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval="-")
    if process.returncode not in (0, EXIT_FAILED):
        raise RepriseError("the trace cannot be read", "see the message above")
