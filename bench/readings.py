"""Raw readings of processor time and packet counters, kept as the kernel gave them, one JSON object a line.

Nothing is computed here: what a reading means is for recompute.py to say.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Log:
    """Readings of one run in a file."""

    path: Path

    def add(self, when: str, who: str, kind: str, **values: Any) -> None:
        """`when`: before, after (of what is measured) or end (of a process)."""
        row = {"mono_ns": time.monotonic_ns(), "when": when, "who": who, "kind": kind, **values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def thread(self, when: str, who: str, pid: int) -> None:
        """Processor time of a kernel thread: ns running, ns waiting, time slices."""
        text = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").strip()
        self.add(when, who, "schedstat", pid=pid, text=text)

    def processes(self, pids: Sequence[int], when: str, who: str) -> None:
        """What every thread of processes has used so far, as `thread`, and each process's line of `stat`,
        which tells user and system time apart.
        """
        texts, stats = {}, {}
        for pid in pids:
            folder = Path(f"/proc/{pid}")
            stats[str(pid)] = (folder / "stat").read_text(encoding="utf-8").strip()
            for one in (folder / "task").iterdir():
                texts[f"{pid}/{one.name}"] = (one / "schedstat").read_text(encoding="ascii").strip()
        self.add(when, who, "threads", texts=texts)
        self.add(when, who, "stats", texts=stats)

    def file(self, when: str, who: str, kind: str, path: Path) -> None:
        """The text of a file of /proc."""
        self.add(when, who, kind, text=path.read_text(encoding="ascii"))

    def interface(self, when: str, who: str, folder: Path) -> None:
        """All counters of an interface (its folder in /sys/class/net)."""
        values = {
            file.name: file.read_text(encoding="ascii").strip()
            for file in sorted((folder / "statistics").iterdir())
        }
        self.add(when, who, "interface", values=values)

    def ended(self, who: str, pid: int) -> None:
        """What a process that has ended and is not reaped yet used itself, without its children."""
        for kind in ("schedstat", "stat"):
            text = Path(f"/proc/{pid}/{kind}").read_text(encoding="ascii").strip()
            self.add("end", who, kind, pid=pid, text=text)

    def reaped(self, who: str, pid: int, exit: int, usage: resource.struct_rusage) -> None:
        """What wait4 says: the process with all its threads and all children that it waited for."""
        self.add(
            "end",
            who,
            "rusage",
            pid=pid,
            exit=exit,
            user_s=usage.ru_utime,
            system_s=usage.ru_stime,
            peak_kb=usage.ru_maxrss,
        )
