"""Two traces side by side, as docs/synthetic.md shows them.

    python docs/synthetic.py REAL.json REAL.tsv MADE.json MADE.tsv

The JSON files are what `reprise-mutator info --json` prints; the text files are the traces in the text form.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TYPES = ("A", "AAAA", "NS", "PTR", "SRV", "DS", "SOA", "ANY", "MX", "TXT")
SIZES = ("4096", "8192", "1280", "512")


@dataclass(frozen=True)
class Names:
    """What the names of a trace look like."""

    queries: int
    labels: Counter[int]
    first: Counter[int]
    """Lengths of the first labels, the root left out."""
    tlds: Counter[str]
    checking_disabled: int


@dataclass(frozen=True)
class Trace:
    info: dict[str, Any]
    names: Names


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Rows of the text form by their header."""
    with path.open(encoding="utf-8") as lines:
        header: list[str] = []
        for line in lines:
            if line.startswith("#") or line == "\n":
                continue
            cells = line.rstrip("\n").split("\t")
            if header:
                yield dict(zip(header, cells, strict=True))
            header = header or cells


def split(name: str) -> list[str]:
    """Labels of a name in presentation form; an escaped byte counts as one character."""
    labels, label, at = [], "", 0
    while at < len(name):
        if name[at] == ".":
            labels.append(label)
            label = ""
        elif name[at] == "\\":
            at += 3 if name[at + 1].isdigit() else 1
            label += "?"
        else:
            label += name[at]
        at += 1
    return [one for one in labels if one]


def names_of(path: Path) -> Names:
    names = Names(0, Counter(), Counter(), Counter(), 0)
    queries, disabled = 0, 0
    for row in rows(path):
        if row["id"] == "close":
            continue
        queries += 1
        disabled += "cd" in row["flags"].split(",")
        labels = split(row["name"]) if row["name"] != "-" else []
        names.labels[min(len(labels), 7)] += 1
        if labels:
            names.first[len(labels[0])] += 1
            names.tlds[labels[-1].lower()] += 1
    return Names(queries, names.labels, names.first, names.tlds, disabled)


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %"


def figures() -> list[tuple[str, Callable[[Trace], str]]]:
    """What is compared: a row's title, and how its value is found."""

    def of_queries(*path: str) -> Callable[[Trace], str]:
        def value(trace: Trace) -> str:
            at: Any = trace.info
            for key in path:
                at = at.get(key, 0) if isinstance(at, dict) else 0
            return share(at, trace.info["queries"])

        return value

    def lengths(low: int, high: int) -> Callable[[Trace], str]:
        return lambda t: share(sum(t.names.first[n] for n in range(low, high + 1)), t.names.queries)

    def labels(count: int) -> Callable[[Trace], str]:
        return lambda t: share(t.names.labels[count], t.names.queries)

    def tld(name: str) -> Callable[[Trace], str]:
        return lambda t: share(t.names.tlds[name], t.names.queries)

    def top(count: int) -> Callable[[Trace], str]:
        return lambda t: f"{100 * t.info['sources'][f'top_{count}_share']:.1f} %"

    rows: list[tuple[str, Callable[[Trace], str]]] = [
        ("queries", lambda t: f"{t.info['queries']:,}"),
        ("queries/s", lambda t: f"{t.info['rate_qps']:.1f}"),
        ("gap, mean ± sd, ms", lambda t: "{mean:.2f} ± {sd:.2f}".format(**ms(t))),
        ("gap, median, ms", lambda t: f"{t.info['interarrival_us']['median'] / 1000:.2f}"),
        ("sources", lambda t: f"{t.info['sources']['distinct']:,}"),
        ("busiest source", top(1)),
        ("10 busiest", top(10)),
        ("100 busiest", top(100)),
        ("TCP", of_queries("transport", "tcp", "queries")),
        ("IPv6", of_queries("family", "ipv6", "queries")),
        ("RD", of_queries("rd")),
        ("CD", lambda t: share(t.names.checking_disabled, t.names.queries)),
        ("EDNS", of_queries("edns", "queries")),
        ("DO", of_queries("edns", "do")),
    ]
    rows += [(f"EDNS size {size}", of_queries("edns", "sizes", size)) for size in SIZES]
    rows += [(f"type {name}", of_queries("types", name)) for name in TYPES]
    rows += [(f"{n if n < 7 else '7 or more'} label{'s' * (n != 1)}", labels(n)) for n in range(8)]
    rows += [
        (f"first label of {a}{f' to {b}' if b > a else ''} bytes", lengths(a, b))
        for a, b in ((1, 2), (3, 3), (4, 6), (7, 15), (16, 63))
    ]
    rows += [
        (f"below {name}", tld(name))
        for name in ("com", "net", "org", "arpa", "local", "home", "belkin", "corp")
    ]
    return rows


def ms(trace: Trace) -> dict[str, float]:
    gaps = trace.info["interarrival_us"]
    return {"mean": gaps["mean"] / 1000, "sd": gaps["sd"] / 1000}


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit("usage: synthetic.py REAL.json REAL.tsv MADE.json MADE.tsv")
    paths = [Path(one) for one in sys.argv[1:]]
    real, made = (
        Trace(json.loads(info.read_text()), names_of(text)) for info, text in (paths[:2], paths[2:])
    )
    print("| | real | synthetic |\n|---|---|---|")
    for title, value in figures():
        print(f"| {title} | {value(real)} | {value(made)} |")


if __name__ == "__main__":
    main()
