"""What the queries of traces ask."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from cli.errors import EXIT_FAILED, RepriseError
from report.questions import Questions


def questions(mutator: str, arguments: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Name, class and type of every question of traces of any form, each once, in order. Raises RepriseError
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
    if found.status not in (0, EXIT_FAILED):
        raise RepriseError("the trace cannot be read", "see the message above")
