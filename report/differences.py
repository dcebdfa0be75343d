"""What `reprise compare` tells of its sides: in short, pairs of a class as dig prints them, a page."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import dns.exception
import dns.message
import numpy as np

from report import html
from report.classify import CLASSES, ENCODING, UNEXPLAINED, Finding
from report.compare import Pair
from report.errors import ReportError
from report.rafile import AnswerSet
from report.run import Json
from report.tables import class_rows, number, percent, referral_rows, share_rows, table
from report.wire import FLAGS, parse

_MOST_CLASSES = 8
_ON_PAGE = 60  # pairs of a class
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def class_named(text: str) -> str:
    """The class with this name, or the only one that has it in its name."""
    found = [one for one in CLASSES if text.lower() == one.lower()]
    found = found or [one for one in CLASSES if text.lower() in one.lower()]
    if len(found) != 1:
        names = ", ".join(found or CLASSES)
        raise ReportError(f"{text!r} names no class of differences", f"give a part of one of: {names}", 2)
    return found[0]


# --- whole answers ----------------------------------------------------------------------------------------


def answer_text(reply: bytes) -> str:
    """As dig prints it."""
    if not reply:
        return "no answer"
    try:
        message = dns.message.from_wire(reply, ignore_trailing=True, one_rr_per_rrset=True)
    except (dns.exception.DNSException, ValueError) as error:
        return f"{len(reply)} bytes that are no message ({error}): {reply[:64].hex()}"
    return message.to_text()


def pair_text(pair: Pair, found: Sequence[Finding], names: Sequence[str]) -> str:
    """Both answers to a query, with what differs."""
    heading = f"#{pair[0].seq} {_asked(pair[0].query)}"
    why = "; ".join(f"{one.kind}: {one.detail}" if one.detail else one.kind for one in dict.fromkeys(found))
    parts = [f"{name}\n{answer_text(one.reply)}" for name, one in zip(names, pair, strict=True)]
    return "\n\n".join([f"=== {heading}: {why}", *parts]) + "\n"


def _asked(query: bytes) -> str:
    message = parse(query)
    return f"{message.qname} {message.qtype}" if message else "no question"


# --- three sides and more ---------------------------------------------------------------------------------


@dataclass
class Alone:
    """Of the queries that all sides have: how many all answer alike, and who alone answers otherwise."""

    queries: int = 0
    alike: int = 0
    by_side: Counter[int] = field(default_factory=Counter)

    def as_json(self, names: Sequence[str]) -> Json:
        return {
            "queries": self.queries,
            "all_alike": self.alike,
            "alone": {name: self.by_side[at] for at, name in enumerate(names)},
            "otherwise": self.queries - self.alike - sum(self.by_side.values()),
        }


def alone(sides: Sequence[AnswerSet]) -> Alone:
    """Answers are alike where rcode, flags, records and signatures are."""
    common = functools.reduce(np.intersect1d, [side.seqs for side in sides])
    places = [np.searchsorted(side.seqs, common).tolist() for side in sides]
    found = Alone(len(common))
    for row in zip(*places, strict=True):
        replies = [side.at(place).reply for side, place in zip(sides, row, strict=True)]
        if all(one[2:] == replies[0][2:] for one in replies):
            found.alike += 1
            continue
        counts = Counter(contents := [_content(one) for one in replies])
        found.alike += len(counts) == 1
        if len(counts) == 2 and len(sides) > 2 and max(counts.values()) == len(sides) - 1:
            found.by_side[next(at for at, one in enumerate(contents) if counts[one] == 1)] += 1
    return found


def _content(reply: bytes) -> object:
    message = parse(reply)
    if message is None:
        return reply[2:]
    parts = [
        frozenset(held.items())
        for section in message.sections.values()
        for held in (section.sets, section.signatures)
    ]
    return message.rcode, *(message.flag(name) for name in FLAGS), *parts


# --- the terminal -----------------------------------------------------------------------------------------


def short_text(results: Sequence[Json], alike: Json | None) -> str:
    """At most 20 lines, for two sides or for each against the first."""
    names = [results[0]["before"]["name"], *(one["after"]["name"] for one in results)]
    parts = [table([[letter, name] for letter, name in zip(_LETTERS, names, strict=False)], frozenset())]
    told = [_sums(one) for one in results]
    parts += told if len(told) == 1 else [_against(results, alike)]
    problems = [
        f"problem: {problem}"
        for one in results
        for side in ("before", "after")
        for problem in one[side]["problems"]
    ]
    rows = _classes(results)
    if rows:
        heading = [
            "class of difference",
            *(["pairs", "first"] if len(results) == 1 else _LETTERS[1 : len(names)]),
            "for example",
        ]
        numbers = frozenset(range(1, len(heading) - 1))
        parts.append(table([heading, *rows], numbers))
    else:
        parts.append("no difference")
    more = "--all tells all, --list CLASS prints both answers of its pairs, --html FILE makes a page"
    return "\n\n".join([*parts, *problems[:2], more])


def _sums(result: Json) -> str:
    of = result["compared"]
    encoded = next((row["first"] for row in result["classes"] if row["class"] == ENCODING), 0)
    same = result["equal_bytes"]["count"] + encoded
    lines = [
        f"{number(of)} answers compared: {percent(same / of)} have the same content "
        f"({number(result['equal_bytes']['count'])} equal bytes)"
    ]
    parts = [
        f"{name.removesuffix(' equal')} {share}"
        for name, _, share in share_rows(result)[1:]
        if share != "100.00 %"
    ]
    lines.append("equal: " + (", ".join([*parts, "all else 100 %"]) if parts else "all parts 100 %"))
    single = [
        f"{number(result[key])} {words}"
        for key, words in (
            ("only_before", "queries in A only"),
            ("only_after", "queries in B only"),
            ("no_answer_on_either_side", "with no answer on either side"),
        )
        if result[key]
    ]
    lines += [", ".join(single)] if single else []
    held = result["referrals"]
    if (unchanged := held["unchanged_delegation"]) is not None:
        same = number(held["unchanged_same_ns_set"])
        lines.append(f"unchanged delegations with the same NS set: {same} of {number(unchanged)}")
    return "\n".join(lines)


def _against(results: Sequence[Json], alike: Json | None) -> str:
    rows = [["against A", *_LETTERS[1 : len(results) + 1]]]
    rows.append(["compared", *(number(one["compared"]) for one in results)])
    rows.append(["equal bytes", *(percent(one["equal_bytes"]["share"]) for one in results)])
    rows.append(["rcode equal", *(percent(one["rcode_equal"]["share"]) for one in results)])
    lines = [table(rows, frozenset(range(1, len(rows[0]))))]
    if alike is not None:
        each = ", ".join(
            f"{letter} {number(count)}"
            for letter, count in zip(_LETTERS, alike["alone"].values(), strict=False)
        )
        lines.append(
            f"of {number(alike['queries'])} queries all answer {number(alike['all_alike'])} alike; "
            f"alone with its answer: {each}; otherwise {number(alike['otherwise'])}"
        )
    return "\n".join(lines)


def _classes(results: Sequence[Json]) -> list[list[str]]:
    """Unexplained ones first, then the largest."""
    held = [{row["class"]: row for row in one["classes"]} for one in results]
    sums = {kind: sum(one[kind]["first"] for one in held if kind in one) for kind in CLASSES}
    kinds = [kind for kind in CLASSES if any(kind in one for one in held)]
    kinds.sort(key=lambda kind: (kind != UNEXPLAINED, -sums[kind]))
    told = []
    for kind in kinds[:_MOST_CLASSES]:
        rows = [one.get(kind) for one in held]
        example = next(class_rows({"classes": [row]})[0][3] for row in rows if row)
        counts = (
            [rows[0]["pairs"], rows[0]["first"]]
            if len(rows) == 1 and rows[0]
            else [row["first"] if row else 0 for row in rows]
        )
        told.append([kind, *map(number, counts), example])
    if len(kinds) > _MOST_CLASSES:
        left = sum(sums[kind] for kind in kinds[_MOST_CLASSES:])
        told.append(
            [f"{len(kinds) - _MOST_CLASSES} further classes", *[""] * (len(told[0]) - 3), number(left), ""]
        )
    return told


# --- the page ---------------------------------------------------------------------------------------------


@dataclass
class Page:
    """Collects pairs for a page: of each class the first ones."""

    names: list[str]
    pairs: list[tuple[Pair, list[Finding], list[str]]] = field(default_factory=list)
    _held: Counter[tuple[str, str]] = field(default_factory=Counter)

    def collector(self, before: str, after: str) -> Callable[[Pair, list[Finding]], None]:
        def seen(pair: Pair, found: list[Finding]) -> None:
            kind = min((one.kind for one in found), key=CLASSES.index)
            self._held[after, kind] += 1
            if self._held[after, kind] <= _ON_PAGE:
                self.pairs.append((pair, found, [before, after]))

        return seen

    def text(self, results: Sequence[Json], alike: Json | None) -> str:
        rows = [
            {
                "class": min((one.kind for one in found), key=CLASSES.index),
                "seq": pair[0].seq,
                "asked": _asked(pair[0].query),
                "why": "; ".join(dict.fromkeys(one.detail for one in found if one.detail)),
                "sides": [(name, answer_text(one.reply)) for name, one in zip(names, pair, strict=True)],
            }
            for pair, found, names in self.pairs
        ]
        rows.sort(key=lambda row: (CLASSES.index(str(row["class"])), row["seq"]))
        return html.answers_page(
            names=self.names,
            shares=[
                (one["after"]["name"], share_rows(one), referral_rows(one), class_rows(one))
                for one in results
            ],
            alike=alike,
            rows=rows,
            classes=list(dict.fromkeys(row["class"] for row in rows)),
            most=_ON_PAGE,
        )


def chained(*all_of: Callable[[Pair, list[Finding]], None]) -> Callable[[Pair, list[Finding]], None]:
    def seen(pair: Pair, found: list[Finding]) -> None:
        for one in all_of:
            one(pair, found)

    return seen
