"""Tables for a terminal: plain text, aligned, no color."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from report.errors import printable
from report.run import Json

WIDTH = 100  # columns of a terminal
_MOST_NAMED = 40  # characters of a line of a cell in the first column
_LEAST = 16  # elsewhere, where there is little room


def table(rows: Sequence[Sequence[object]], right: frozenset[int] = frozenset({1})) -> str:
    """Columns two blanks apart; those numbered in `right` are aligned to the right. Cells are as `number` has
    them.
    """
    texts = [[printable(number(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*texts, fillvalue="")]
    forms = [f"{'>' if at in right else '<'}{width}" for at, width in enumerate(widths)]
    lines = ("  ".join(map(format, row, forms)).rstrip() for row in texts)
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """A table of at most 100 columns. Where its lines would be longer, its rows become columns; where these
    do not fit either, cells have several lines, and columns that are still too many follow below.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    ways = ((rows, right), ([list(one) for one in zip(*rows, strict=True)], frozenset[int]()))
    found = [table(*way) for way in ways]
    fitting = [text for text in found if max(map(len, text.splitlines()), default=0) <= WIDTH]
    parted = ("\n\n".join(_parts(*way)) for way in ways)
    return fitting[0] if fitting else min(parted, key=lambda one: one.count("\n"))


def _parts(rows: list[list[str]], right: frozenset[int]) -> Iterator[str]:
    """Tables that fit, each with the first column and some of the others."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    first = min(first, _MOST_NAMED)
    room = WIDTH - first
    sizes = range(max(others), _LEAST, -1)
    most = next((one for one in sizes if sum(2 + min(one, width) for width in others) <= room), _LEAST)
    held = [2 + min(most, width) for width in others]
    begin = 0
    while begin < len(held):
        sums = list(itertools.accumulate(held[begin:]))
        end = begin + max(1, sum(one <= room for one in sums))
        lines = [
            [textwrap.wrap(row[0], first), *(textwrap.wrap(cell, most) for cell in row[1 + begin : 1 + end])]
            for row in rows
        ]
        split = [list(one) for cells in lines for one in itertools.zip_longest(*cells, fillvalue="")]
        yield table(split, right)
        begin = end


def cut(rows: Sequence[Sequence[object]], right: frozenset[int] = frozenset()) -> str:
    """A table whose lines end at 100 columns, for one with examples last."""
    lines = table(rows, right).splitlines()
    return "\n".join(one if len(one) <= WIDTH else f"{one[: WIDTH - 1]}…" for one in lines)


def number(value: object) -> str:
    """Whole numbers with separators, others to at least four digits and at most three behind the point,
    nothing as a dash.
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    text = f"{value:,.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: object, digits: int = 2) -> str:
    """Rounded toward zero at the top: what is not all is never printed as 100 %."""
    if not isinstance(share, int | float):
        return "–"
    value = share * 100
    text = f"{value:.{digits}f}"
    if value < 100 and text == f"{100:.{digits}f}":
        text = f"{100 - 10**-digits:.{digits}f}"
    return f"{text} %"


def micro(value: float | None) -> str:
    """Microseconds, or milliseconds where they read better."""
    if value is None:
        return "–"
    return f"{value:,.1f} µs" if abs(value) < 1000 else f"{value / 1000:,.2f} ms"


def comparison_text(result: Json) -> str:
    """What `reprise compare` prints of a comparison."""
    head = [[side, result[side]["name"]] for side in ("before", "after")]
    head += [["pairs", result["pairs"]], ["compared", f"{result['compared']:,} with an answer on both sides"]]
    for side in ("before", "after"):
        head += [[f"only {side}", count]] if (count := result[f"only_{side}"]) else []
        head += [["problem", problem] for problem in result[side]["problems"]]
    numbers = frozenset({1, 2})
    parts = [table(head, frozenset()), table(share_rows(result), numbers), table(referral_rows(result))]
    heading = ["class of difference", "pairs", "first", "for example"]
    found = class_rows(result)
    parts += [table([heading, *found], numbers) if found else "no difference", *_unexplained_part(result)]
    return "\n\n".join(parts)


def share_rows(result: Json) -> list[list[Any]]:
    """What is equal: name, count, share."""
    shares = [
        ("equal bytes (but id)", result["equal_bytes"]),
        ("rcode equal", result["rcode_equal"]),
        *((f"flag {name} equal", share) for name, share in result["flags_equal"].items()),
        *((f"{name} equal", share) for name, share in result["sections_equal"].items()),
        ("signatures equal", result["signatures_equal"]),
        ("TTLs equal", result["ttls_equal"]),
    ]
    return [[name, share["count"], percent(share["share"])] for name, share in shares]


def class_rows(result: Json) -> list[list[object]]:
    """Class, pairs that have it, pairs counted once, an example."""
    rows = result["classes"]
    return [[row["class"], row["pairs"], row["first"], example_text(row["example"])] for row in rows]


def referral_rows(result: Json) -> list[list[object]]:
    """Referrals, with the one line that a faithful replay must show in full."""
    held = result["referrals"]
    rows = [
        ["referrals recorded", held["recorded"], ""],
        ["  compared: whole on both sides", held["compared"], ""],
        ["  same NS set", held["same_ns_set"], percent(held["same_ns_set_share"])],
    ]
    if held["unchanged_delegation"] is None:
        return [*rows, ["  (no zone: unchanged delegations are not known)", "", ""]]
    unchanged, same = held["unchanged_delegation"], held["unchanged_same_ns_set"]
    changed, served = held["changed_delegation"], held["changed_answered_as_served"]
    return [
        *rows,
        ["  delegation unchanged since", unchanged, ""],
        ["    same NS set", same, percent(same / unchanged if unchanged else None)],
        ["  delegation changed", changed, f"{held['changed_owners']} owners"],
        ["    answered as the zone says", served, percent(served / changed if changed else None)],
        ["  not a delegation of the zone", held["not_a_delegation_of_the_zone"], ""],
        ["  truncated on a side", held["truncated"], ""],
    ]


def example_text(example: Json) -> str:
    """A query and what is noted of it."""
    text = f"#{example['seq']} {example['qname']} {example['qtype']}"
    return f"{text}: {example['detail']}" if example["detail"] else text


def _unexplained_part(result: Json) -> list[str]:
    if not (found := result["unexplained"]):
        return []
    rows = [[f"#{e['seq']} {e['qname']} {e['qtype']}", e["detail"], e["before"], e["after"]] for e in found]
    pairs = next(row["pairs"] for row in result["classes"] if row["class"] == "unexplained")
    listed = len({one["seq"] for one in found})
    which = "all of them" if listed == pairs else f"the first {number(listed)} of {number(pairs)}"
    return [f"unexplained, {which}:\n" + table(rows, frozenset())]
