"""What `reprise compare` tells of its sides: in short, pairs of a class as dig prints them, a page."""

import functools
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import dns.exception
import dns.message
import numpy as np

from report import html
from report.again import Again
from report.classify import CLASSES, ENCODING, UNEXPLAINED, Evidence, Finding, foremost
from report.errors import ReportError
from report.rafile import Answer, AnswerSet, Places, windows
from report.rows import named
from report.run import Json
from report.tables import WIDTH, cut, example_text, number, percent, share_rows, table
from report.verdicts import MAX_LISTED, Pair, Seen, asked, describe, findings
from report.wire import FLAGS, parse

_LINES = 20  # in the terminal
_MOST_ALONE = 4  # of them, of who stands alone
_ON_PAGE = 60  # pairs of a class
_KEPT = 1 << 16  # rows of kinds of answers
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of the sides


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
    """A reply in text as dig prints it, or why it cannot be read."""
    if not reply:
        return "no answer"
    try:
        message = dns.message.from_wire(reply, ignore_trailing=True, one_rr_per_rrset=True)
    except (dns.exception.DNSException, ValueError) as error:
        return f"{len(reply)} bytes that are no message ({error}): {reply[:64].hex()}"
    return message.to_text()


def pair_text(pair: Pair, found: Sequence[Finding], names: Sequence[str]) -> str:
    why = "; ".join(f"{one.kind}: {one.detail}" if one.detail else one.kind for one in found)
    parts = [f"{name}\n{answer_text(one.reply)}" for name, one in zip(names, pair, strict=True)]
    return "\n\n".join([f"=== #{pair[0].seq} {_asked(pair[0].query)}: {why}", *parts]) + "\n"


def _asked(query: bytes) -> str:
    message = parse(query)
    return f"{message.qname} {message.qtype}" if message else "no question"


# --- three sides and more ---------------------------------------------------------------------------------


Lone = tuple[Finding, Pair]  # an answer that differs from those of all other sides, and one of these


def alone(
    sides: Sequence[AnswerSet],
    evidence: Evidence,
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[Json, list[list[Lone]]]:
    """Of the queries that all sides have and one answers: how many all answer alike, and of each side those
    to which it alone answers otherwise, by class, and the first ones, which are returned whole, too.

    Answers are alike where rcode, flags, records and signatures are. An answer that is not is classified as
    in the comparison of its side with the first, or of the first with the second; `evidence`: the first's.
    Answers of the same kinds are looked at once. `told`: how many records there have been, of how many.
    """
    classes, listed = [Counter[str]() for _ in sides], [list[Lone]() for _ in sides]
    queries = alike = unanswered = different = done = 0
    of = sum(map(len, sides))
    known: dict[tuple[int, ...], tuple[int, Finding] | bool] = {}
    for held in windows(sides):
        common = functools.reduce(np.intersect1d, [one.seqs for one in held])
        places = [one[np.searchsorted(one.seqs, common)] for one in held]
        rows = [one.rows for one in places]
        matching = np.all([one["query"] == rows[0]["query"] for one in rows], axis=0)
        answered = np.any([one["size"] > 0 for one in rows], axis=0)
        different += int(np.count_nonzero(~matching))
        unanswered += int(np.count_nonzero(matching & ~answered))
        kept = matching & answered
        places, rows = [one[kept] for one in places], [one[kept] for one in rows]
        same = np.all([one[key] == rows[0][key] for one in rows for key in ("reply", "size")], axis=0)
        queries += len(same)
        alike += int(np.count_nonzero(same))
        rest = np.flatnonzero(~same)
        numbers = (rest, rows[0]["place"][rest], *(one["content"][rest] for one in rows))
        for at, *key in zip(*(one.tolist() for one in numbers), strict=True):
            if (told_of := known.get(tuple(key))) is None:
                if len(known) >= _KEPT:
                    known.clear()
                told_of = known[tuple(key)] = _lone_or_alike(_answers(places, at), evidence)
            if isinstance(told_of, bool):
                alike += told_of
                continue
            side, finding = told_of
            classes[side][finding.kind] += 1
            if len(listed[side]) < MAX_LISTED:
                both = _answers(places, at)
                listed[side].append((finding, (both[side], both[0 if side else 1])))
        done += sum(map(len, held))
        told(done, of)
    each = [_alone(*one) for one in zip(sides, classes, listed, strict=True)]
    return {
        "queries": queries,
        "all_alike": alike,
        "alone": each,
        "otherwise": queries - alike - sum(one["queries"] for one in each),
        "no_answer_on_any_side": unanswered,
        "different_query": different,
    }, listed


def _alone(side: AnswerSet, classes: Counter[str], listed: Sequence[Lone]) -> Json:
    return {
        "name": side.name,
        "queries": classes.total(),
        "classes": dict(classes.most_common()),
        "listed": [
            {
                **asked(own.seq, parse(own.query)),
                "class": finding.kind,
                "detail": finding.detail,
                "answer": describe(parse(own.reply)),
                "others": describe(parse(others.reply)),
            }
            for finding, (own, others) in listed
        ],
    }


def _answers(places: Sequence[Places], at: int) -> list[Answer]:
    return [next(iter(one[at : at + 1])) for one in places]


def _lone_or_alike(answers: Sequence[Answer], evidence: Evidence) -> tuple[int, Finding] | bool:
    """Which side stands alone among the answers to a query, and how; or else whether they are alike."""
    contents = [_content(one.reply) for one in answers]
    counts = Counter(contents)
    if len(counts) != 2 or max(counts.values()) != len(answers) - 1:
        return len(counts) == 1
    at = next(at for at, one in enumerate(contents) if counts[one] == 1)
    return at, foremost(findings(answers[0].reply, answers[at or 1].reply, evidence))


def _content(reply: bytes) -> object:
    message = parse(reply)
    if message is None:
        return reply[2:]
    held = (one for section in message.sections.values() for one in (section.sets, section.signatures))
    flags = (message.flag(name) for name in FLAGS)
    return message.rcode, *flags, *(frozenset(one.items()) for one in held)


# --- the terminal -----------------------------------------------------------------------------------------


def short_text(results: Sequence[Json], alike: Json | None, again: Json | None) -> str:
    """At most 20 lines, for two sides or for each against the first."""
    names = [results[0]["before"]["name"], *(one["after"]["name"] for one in results)]
    if alike is None:
        parts = [table(list(zip(LETTERS, names, strict=False)), frozenset()), _sums(results[0])]
    else:
        parts = [_against_first(results, alike), *_loneliest(alike)]
    problems = _problems(results)
    parts += ["\n".join(problems[:2])] if problems else []
    more = "--all tells all, --list CLASS prints both answers of its pairs, --html FILE makes a page"
    used = len("\n\n".join([*parts, "heading", more]).splitlines())
    rows = _classes(results, _LINES - used)
    counts = ["pairs", "first"] if len(results) == 1 else LETTERS[1 : len(names)]
    if again is not None:
        parts.append(again_text(again, _LINES - used))
    elif rows:
        heading = ["class of difference", *counts, "for example"]
        parts.append(cut([heading, *rows], frozenset(range(1, len(heading) - 1))))
    else:
        parts.append("no difference")
    return "\n\n".join([*parts, more])


def _problems(results: Sequence[Json]) -> list[str]:
    """Why sides may not be whole; the first side is in every result."""
    sides = (one[side] for one in results for side in ("before", "after"))
    return list(dict.fromkeys(f"problem: {problem}" for side in sides for problem in side["problems"]))


def _sums(result: Json) -> str:
    of = result["compared"]
    encoded = next((row["first"] for row in result["classes"] if row["class"] == ENCODING), 0)
    same = result["equal_bytes"]["count"] + encoded
    lines = [
        f"{number(of)} answers compared: {percent(same / of)} have the same content "
        f"({number(result['equal_bytes']['count'])} equal bytes)"
    ]
    shares = ((name.removesuffix(" equal"), share) for name, _, share in share_rows(result)[1:])
    parts = [f"{name} {share}" for name, share in shares if share != "100.00 %"]
    told = "equal: " + (", ".join([*parts, "all else 100 %"]) if parts else "all parts 100 %")
    lines.append(textwrap.fill(told, WIDTH, subsequent_indent=" " * len("equal: ")))
    single = [
        f"{number(result[key])} {words}"
        for key, words in (
            ("only_before", "queries in A only"),
            ("only_after", "queries in B only"),
            ("no_answer_on_either_side", "with no answer on either side"),
            ("different_query", "not compared: they are different queries"),
        )
        if result[key]
    ]
    lines += [", ".join(single)] if single else []
    held = result["referrals"]
    if (unchanged := held["unchanged_delegation"]) is not None:
        same = number(held["unchanged_same_ns_set"])
        lines.append(f"unchanged delegations with the same NS set: {same} of {number(unchanged)}")
    return "\n".join(lines)


def _against_first(results: Sequence[Json], alike: Json) -> str:
    """A row for each side; the first is what the others are compared with."""
    parts = ("equal_bytes", "rcode_equal")
    shares = [[one["compared"], *(percent(one[part]["share"]) for part in parts)] for one in results]
    rows = [
        [letter, side["name"], side["queries"], *share]
        for letter, side, share in zip(LETTERS, alike["alone"], [["", "", ""], *shares], strict=False)
    ]
    heading = ["", "", "alone", "compared with A", "equal bytes", "rcode equal"]
    lines = [table([heading, *rows], frozenset(range(2, 6)))]
    told = f"of {number(alike['queries'])} queries all answer {number(alike['all_alike'])} alike; "
    lines.append(f"{told}otherwise, but no side alone: {number(alike['otherwise'])}")
    if silent := alike["no_answer_on_any_side"]:
        lines.append(f"with no answer on any side: {number(silent)} more")
    if left := alike["different_query"]:
        lines.append(f"not compared: {number(left)} that are different queries")
    return "\n".join(lines)


def _loneliest(alike: Json) -> list[str]:
    """A table of the classes in which sides stand alone most often, each with its first query."""
    counts = [
        (count, letter, kind, side["listed"])
        for letter, side in zip(LETTERS, alike["alone"], strict=False)
        for kind, count in side["classes"].items()
    ]
    counts.sort(key=lambda one: -one[0])
    rows = [
        [letter, kind, count, next((example_text(one) for one in listed if one["class"] == kind), "")]
        for count, letter, kind, listed in counts[:_MOST_ALONE]
    ]
    heading = ["alone", "class of difference", "queries", "for example"]
    return [cut([heading, *rows], frozenset({2}))] if rows else []


def alone_text(alike: Json) -> str:
    rows = [
        [f"{letter} alone", example_text(row), row["class"], row["answer"], row["others"]]
        for letter, side in zip(LETTERS, alike["alone"], strict=False)
        for row in side["listed"]
    ]
    heading = ["", "query", "class of difference", "its answer", "all others"]
    return table([heading, *rows], frozenset()) if rows else "no side stands alone"


def again_text(again: Json, lines: int | None = None) -> str:
    """What became of queries that were asked again, by the class of their difference before, in at most so
    many lines; without a limit each query follows.
    """
    rows = sorted(again["classes"], key=lambda row: -row["asked"])
    listed = sorted(again["listed"], key=lambda one: bool(one["now"]))  # what agrees now first
    examples = {one["class"]: example_text(one) for one in reversed(listed)}
    told = [
        [row["class"], row["asked"], row["differ"], row["agree"], examples.get(row["class"], "")]
        for row in rows[: lines and max(1, lines - 1)]
    ]
    heading = ["class of difference", "asked again", "differ again", "agree now", "for example"]
    counts = (number(again[key]) for key in ("asked", "differ", "agree", "unanswered"))
    said = "asked again: {} queries with different answers; {} differ again, {} agree now, {} had no answer"
    left = f"; {number(again['left_out'])} more were not asked" if again["left_out"] else ""
    parts = [
        f"{said.format(*counts)}{left}\n{(cut if lines else table)([heading, *told], frozenset({1, 2, 3}))}"
    ]
    if lines is None:
        parts.append("\n".join(f"{one['class']}: {example_text(one)}" for one in again["listed"]))
    return "\n\n".join(parts)


def _classes(results: Sequence[Json], most: int) -> list[list[object]]:
    """Unexplained ones first, then the largest; at most so many rows, if that is more than one."""
    held = [{row["class"]: row for row in one["classes"]} for one in results]
    sums = {kind: sum(one[kind]["first"] for one in held if kind in one) for kind in CLASSES}
    kinds = [kind for kind in CLASSES if any(kind in one for one in held)]
    kinds.sort(key=lambda kind: (kind != UNEXPLAINED, -sums[kind]))
    shown = len(kinds) if len(kinds) <= most else max(1, most - 1)
    told: list[list[object]] = []
    for kind in kinds[:shown]:
        rows = [one[kind] for one in held if kind in one]
        pairs = [row["pairs"] for row in rows] if len(held) == 1 else []
        counts = [one[kind]["first"] if kind in one else 0 for one in held]
        told.append([kind, *pairs, *counts, example_text(rows[0]["example"])])
    if shown < len(kinds):
        left = [sum(one[kind]["first"] for kind in kinds[shown:] if kind in one) for one in held]
        blank = [""] if len(held) == 1 else []
        told.append([f"{len(kinds) - shown} further classes", *blank, *left, ""])
    return told


# --- the page ---------------------------------------------------------------------------------------------


@dataclass
class Page:
    """Collects pairs for a page: of each class the first ones."""

    names: list[str]
    pairs: dict[tuple[str, str, str], list[tuple[Pair, list[Finding]]]] = field(default_factory=dict)

    def collector(self, before: str, after: str) -> Seen:
        def seen(pair: Pair, found: list[Finding]) -> None:
            held = self.pairs.setdefault((before, after, foremost(found).kind), [])
            if len(held) < _ON_PAGE:
                held.append((pair, found))

        return seen

    def text(
        self, results: Sequence[Json], alike: Json | None, alone: Sequence[Sequence[Lone]], again: Again
    ) -> str:
        rows = [
            {
                **_row_of(kind, pair, names),
                "again": again.words(pair[0].seq),
                "why": "; ".join(dict.fromkeys(one.detail for one in found if one.detail)),
            }
            for (*names, kind), held in self.pairs.items()
            for pair, found in held
        ]
        rows.sort(key=lambda row: (CLASSES.index(row["class"]), row["seq"]))
        lonely = [
            {
                **_row_of(f"{letter} alone", pair, (name, "all others")),
                "again": "",
                "why": ": ".join(filter(None, (finding.kind, finding.detail))),
            }
            for letter, name, listed in zip(LETTERS, self.names, alone, strict=False)
            for finding, pair in listed[:_ON_PAGE]
        ]
        return html.page(
            "answers",
            names=self.names,
            problems=_problems(results),
            results=results,
            alike=alike,
            alone=[
                [f"{letter}: {side['name']}", side["queries"], named(side["classes"], ": ")]
                for letter, side in zip(LETTERS, alike["alone"] if alike else (), strict=False)
            ],
            lonely=lonely,
            rows=rows,
            most=_ON_PAGE,
        )


def _row_of(kind: str, pair: Pair, names: Sequence[str]) -> Json:
    return {
        "class": kind,
        "seq": pair[0].seq,
        "asked": _asked(pair[0].query),
        "sides": [(name, answer_text(one.reply)) for name, one in zip(names, pair, strict=True)],
    }
