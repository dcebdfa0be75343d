"""Zones of any number and size in which every name has an answer."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from cli.zones.world_model import SERIAL, Record, address_records, text_of

_TTL = 3_600
_ADDRESSES = ("192.0.2.1", "2001:db8::1")  # of documentation: they lead nowhere
_MOST_ASKED = 1_000_000


def further(origin: str, zones: int) -> Iterator[str]:
    """The origins of the zones beside the first one. `origin` ends with a dot."""
    below = "" if origin == "." else origin
    return (f"z{number}.{below}" for number in range(2, zones + 1))


def write(target: Path, origin: str, zones: int = 1, names: int = 0) -> None:
    """A step of a plan: writes the zone file; where there are several zones, TARGET.more, which serves all
    others, as its names are relative; and TARGET.names, a list of names that they hold, for a trace.
    """
    _write(target, origin, "." if origin == "." else f".{origin}", names)
    if zones > 1:
        _write(target.with_suffix(".more"), "@", "", names)
    labels = [f"n{number}" for number in range(1, names + 1)] or ["www"]
    origins = [origin, *further(origin, zones)]
    made = (f"{label}.{one}".replace("..", ".") for label in labels for one in origins)
    lines = (f"{name}\n" for name in itertools.islice(made, _MOST_ASKED))
    with target.with_suffix(".names").open("w", encoding="ascii") as out:
        out.writelines(lines)


def _write(target: Path, apex: str, end: str, names: int) -> None:
    """A zone file; what stands below the apex ends with `end`."""
    made = [
        Record(apex, _TTL, "SOA", f"ns1{end} hostmaster{end} {SERIAL} 1800 900 604800 86400"),
        Record(apex, _TTL, "NS", f"ns1{end}"),
        *address_records(f"ns1{end}", _ADDRESSES, _TTL),
    ]
    for owner in (apex, f"*{end}"):
        made += [*address_records(owner, _ADDRESSES, _TTL), Record(owner, _TTL, "TXT", '"any name"')]
    with target.open("w", encoding="ascii") as out:
        out.write(text_of(made))
        for number in range(1, names + 1):
            out.write(text_of(address_records(f"n{number}{end}", _ADDRESSES, _TTL)))
