"""Where a front's clients may see something else than with the kernel's TCP, and why.

This is the whole list: the comparison fails on anything else. Kinds are those of stateless_views.Verdict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """One documented difference; `cases` is a pattern of "row: name"."""

    front: str
    kinds: tuple[str, ...]
    cases: str
    what: str
    reason: str
    servers: tuple[str, ...] = ("bind", "nsd")

    def fits(self, front: str, server: str, row: str, name: str, kind: str) -> bool:
        return (
            front == self.front
            and kind in self.kinds
            and server in self.servers
            and re.fullmatch(self.cases, f"{row}: {name}") is not None
        )


DIFFERENCES: tuple[Difference, ...] = ()
