"""A zone in which every name has an answer, for traces whose names are all different."""

from __future__ import annotations

from pathlib import Path

from cli.zones.world_model import SERIAL, Record, address_records, text_of

_TTL = 3_600
_ADDRESSES = ("192.0.2.1", "2001:db8::1")  # of documentation: they lead nowhere


def write(target: Path, origin: str) -> None:
    """Writes the zone file; a step of a plan. `origin` ends with a dot."""
    below = "" if origin == "." else origin
    server = f"ns1.{below}"
    made = [
        Record(origin, _TTL, "SOA", f"{server} hostmaster.{below} {SERIAL} 1800 900 604800 86400"),
        Record(origin, _TTL, "NS", server),
        *address_records(server, _ADDRESSES, _TTL),
    ]
    for owner in (origin, f"*.{below}"):
        made += [*address_records(owner, _ADDRESSES, _TTL), Record(owner, _TTL, "TXT", '"any name"')]
    target.write_text(text_of(made), encoding="ascii")
