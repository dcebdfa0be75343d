"""The plan's figures: what is read off the results at the end, and makes a run unclean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.plan.planned import Figure


@dataclass(frozen=True)
class Leak:
    """Packets of a host that had no way within the experiment, and what became of them."""

    host: str
    packets: int
    what: str


def leaks(figures: Iterable[Figure], results: Path) -> list[Leak]:
    """Those of packets that left their way; only what is not 0."""
    found = [
        Leak(one.subject, 1 if count is None else count, one.unreadable if count is None else one.text)
        for one, count in _read(figures, results)
        if one.leak
    ]
    return list(dict.fromkeys(found))


def reasons(figures: Iterable[Figure], results: Path) -> list[str]:
    """The others, in words."""
    return [one.text.format(count=count) for one, count in _read(figures, results) if not one.leak]


def _read(figures: Iterable[Figure], results: Path) -> Iterator[tuple[Figure, int | None]]:
    """Each figure that says something; None where it cannot be read and that says something too."""
    for figure in figures:
        for path in sorted(results.glob(figure.files)):
            try:
                count = int(_value(figure, json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, KeyError, TypeError):
                if figure.unreadable:
                    yield figure, None
                continue
            if count:
                yield figure, count


def _value(figure: Figure, value: Any) -> Any:
    if figure.kind == "nft":
        counters = (one["counter"] for one in value["nftables"] if "counter" in one)
        return next((one["packets"] for one in counters if one["name"] == figure.key), 0)
    for name in figure.key.split("."):
        value = value[name]
    return value
