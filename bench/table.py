"""The bench's output for people: tables with minimum, median and maximum, then the checks."""

import statistics
from collections.abc import Sequence
from typing import Any

from report.tables import table

_HEAD = ("row", "tool", "unit", "min", "median", "max", "n")


def render(result: dict[str, Any]) -> str:
    note = f" ({result['note']})" if result.get("note") else ""
    parts = [
        f"{result['bench']}{note}: {result['steal_s']} s of steal in {result['seconds']} s, "
        f"{result['seconds_with_steal']} seconds with steal",
        lines([_HEAD, *(_row(entry) for entry in (*result["table"], *result["ratios"]))]),
        *(f"{one['title']}\n\n{lines(one['rows'], one['texts'])}" for one in result.get("tables", ())),
        lines([("check", "value", "want", "", "absolute"), *(_check(entry) for entry in result["checks"])]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def lines(rows: Sequence[Sequence[str]], texts: int = 0) -> str:
    """Columns of equal width; the first ones are text (0: as many as figures and checks have). Empty where
    there is nothing below the head.
    """
    if len(rows) < 2:
        return ""
    texts = texts or (3 if len(rows[0]) > 5 else 1)
    return table(rows, frozenset(range(texts, len(rows[0]))))


def number(value: float) -> str:
    """Three digits after the point for small values, one for large ones, none for whole ones."""
    if value == int(value) and abs(value) >= 1:
        return str(int(value))
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    values = entry["values"]
    spread = (min(values), statistics.median(values), max(values)) if values else ()
    figures = [number(value) for value in spread] or ["-"] * 3
    return (entry["row"], entry["tool"], entry["unit"], *figures, str(len(values)))


def _check(entry: dict[str, Any]) -> tuple[str, ...]:
    met = "ok" if entry["ok"] else "SHORT"
    absolute = f"{number(entry['absolute'])} {entry['unit']}" if "absolute" in entry else ""
    return (entry["name"], number(entry["value"]), number(entry["want"]), met, absolute)
