"""What a run came to, for its manifest, and the plan's figures: what is read off the results at the end, and
makes a run unclean.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.executor.timetable import Happened
from cli.executor.workers import Event
from cli.plan.planned import Figure
from cli.servers import nftables


@dataclass
class Outcome:
    """What the run came to: `because` is empty for a clean one, `reached_end` says the main process ended."""

    error: str | None = None
    hint: str = ""
    because: list[str] = field(default_factory=list)
    started: bool = False
    reached_end: bool = False
    server_died: str | None = None
    processes: list[dict[str, Any]] = field(default_factory=list)
    steal_s: float = 0.0
    replaced: list[str] = field(default_factory=list)  # processes that ended; a warning if nothing was lost
    events: list[Event] = field(default_factory=list)
    faults: list[Happened] = field(default_factory=list)
    leaked_packets: int | None = None
    leaks: list[dict[str, Any]] = field(default_factory=list)
    refused_sysctls: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def fail(self, what: str, hint: str = "") -> None:
        """Keeps the first failure as the run's error and all of them as reasons."""
        if self.error is None:
            self.error, self.hint = what, hint
        self.because.append(what)

    def fail_by(self, error: OSError) -> None:
        """The same for a system call that failed."""
        where = f": {error.filename}" if error.filename else ""
        self.fail(f"{error.strerror or error}{where}", "see `reprise doctor`")


@dataclass(frozen=True)
class Leak:
    """Packets of a host that had no way within the experiment, and what became of them."""

    host: str
    packets: int
    what: str


def leaks(figures: Iterable[Figure], results: Path) -> list[Leak]:
    """Those of packets that left their way; only what is not 0."""
    return [
        Leak(one.subject, count, one.text) for one, count in _read(figures, results) if one.leak and count
    ]


def reasons(figures: Iterable[Figure], results: Path) -> list[str]:
    """The figures that are not leaks, in words, and all that could not be read, each once."""
    found = [
        one.unread if count is None else one.text.format(count=count)
        for one, count in _read(figures, results)
        if count is None or (count and not one.leak)
    ]
    return list(dict.fromkeys(found))


def _read(figures: Iterable[Figure], results: Path) -> Iterator[tuple[Figure, int | None]]:
    """The number of each file; None where it has none, or where there is no file."""
    for figure in figures:
        paths = sorted(results.glob(figure.files))
        for path in paths:
            yield figure, _number(figure, path)
        if not paths:
            yield figure, None


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
