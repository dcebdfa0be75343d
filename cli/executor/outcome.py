"""What a run came to, for its manifest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cli.executor.timetable import Happened
from cli.executor.workers import Event


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
