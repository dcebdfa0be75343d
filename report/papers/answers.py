"""Whether two runs gave the same answers."""

from __future__ import annotations

from pathlib import Path

from report.compare import pairs
from report.rafile import join
from report.run import open_run
from report.wire import parse


def differing(one: Path, other: Path) -> float | None:
    """The share of the queries answered in either run that have another rcode or other records in the answer
    section; TTLs do not count. None where no run kept answers.
    """
    sets = (join(str(folder), list(open_run(folder).answer_paths)) for folder in (one, other))
    different = queries = 0
    for own, others in pairs(*sets):
        queries += bool(own.reply or others.reply)
        different += _said(own.reply) != _said(others.reply)
    return different / queries if queries else None


def _said(reply: bytes) -> object:
    message = parse(reply)
    return (message.rcode, message.answer.sets) if message else bool(reply)
