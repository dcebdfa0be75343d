"""The plan's figures: what is read off the results at the end, and makes a run unclean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from cli.plan.planned import Figure
from cli.servers import nftables


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
        match figure.kind:
            case "nft":
                table, _, name = figure.key.partition(".")
                return nftables.counters(value, table)[name]
            case "json":
                for name in figure.key.split("."):
                    value = value[name]
                return int(value)
        assert_never(figure.kind)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
