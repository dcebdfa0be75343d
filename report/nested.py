"""Tables in tables. Uses Python's own library alone: the bootstrap reads it."""

from collections.abc import Iterator, Mapping
from typing import Any

RENAMED = {  # keys of experiments that had another name before, and the one that they have now
    "hierarchy.qname_minimisation": "hierarchy.qname_minimization",
}


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a table, also in tables below it, and their values."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
