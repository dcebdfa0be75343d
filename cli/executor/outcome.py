"""What a run came to, for its manifest, and the plan's figures: what is read off the results at the end, and
makes a run unclean.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.errors import RepriseError
from cli.executor.timetable import Happened
from cli.executor.workers import Event
from cli.plan.planned import Figure
from cli.servers import nftables


@dataclass(frozen=True)
class Leak:
    """Packets of a host that had no way within the experiment, and what became of them."""

    host: str
    packets: int
    what: str


@dataclass
class Outcome:
    """What the run came to, as in its manifest: `unclean_because` is empty for a clean one, `complete` says
    that the main process ended.
    """

    processes: list[dict[str, Any]] = field(default_factory=list)
    server_died: str | None = None
    started: bool = False
    complete: bool = False
    error: str | None = None
    hint: str = ""
    unclean_because: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)  # processes that ended; a warning if nothing was lost
    server_events: list[Event] = field(default_factory=list)
    faults: list[Happened] = field(default_factory=list)
    steal_s: float = 0.0
    warmup_s: float = 0.0  # of the experiment
    leaked_packets: int | None = None
    leaks: list[Leak] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused_sysctls: list[str] = field(default_factory=list)

    def fail(self, what: str, hint: str = "") -> None:
        """Keeps the first failure as the run's error and all of them as reasons."""
        if self.error is None:
            self.error, self.hint = what, hint
        self.unclean_because.append(what)

    def fail_by(self, error: RepriseError | OSError) -> None:
        if isinstance(error, RepriseError):
            self.fail(error.what, error.hint)
        else:
            where = f": {error.filename}" if error.filename else ""
            self.fail(f"{error.strerror or error}{where}", "see `reprise doctor`")


def read(figures: Iterable[Figure], results: Path) -> tuple[list[str], list[Leak]]:
    """The figures that are not 0: leaks, and the others in words, each once, as are those that could not be
    read in each of their files, or had none.
    """
    words: dict[str, None] = {}
    leaks = []
    for one in figures:
        for count in [_number(one, path) for path in sorted(results.glob(one.files))] or [None]:
            if count is None:
                words[one.unread] = None
            elif count and one.leak:
                leaks.append(Leak(one.subject, count, one.text))
            elif count:
                words[one.text.format(count=count)] = None
    return list(words), leaks


def _number(figure: Figure, path: Path) -> int | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if figure.kind == "nft":
            table, _, name = figure.key.partition(".")
            return nftables.counters(value, table)[name]
        for name in figure.key.split("."):
            value = value[name]
        return int(value)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
