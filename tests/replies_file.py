"""Recorded hierarchies in the form of resolvers' own tests (Unbound's testbound, CZ.NIC's deckard)."""

from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.name

_SECTIONS = ("QUESTION", "ANSWER", "AUTHORITY", "ADDITIONAL")
_FLAGS = {"QR", "AA", "TC", "RD", "RA", "AD", "CD"}


def responses(path: Path) -> Iterator[tuple[str, dns.message.Message]]:
    """Each entry of a RANGE with every ADDRESS of it: a name server's address and its response."""
    addresses: list[str] = []
    entry: list[str] | None = None
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split(";")[0].split()
        match words:
            case ["RANGE_BEGIN", *_]:
                inside, addresses = True, []
            case ["RANGE_END", *_]:
                inside = False
            case ["ADDRESS", address] if inside:
                addresses.append(address)
            case ["ENTRY_BEGIN", *_]:
                entry = []
            case ["ENTRY_END", *_]:
                if inside and entry is not None:
                    for address in addresses:
                        yield address, _message(entry)
                entry = None
            case [_, *_] if entry is not None:
                entry.append(" ".join(words))


def _message(lines: list[str]) -> dns.message.Message:
    text = ["id 0", "opcode QUERY"]
    for line in lines:
        match line.split():
            case ["REPLY", *words]:
                text += [f"rcode {word}" for word in words if word not in {*_FLAGS, "DO"}]
                text.append(f"flags {' '.join(word for word in words if word in _FLAGS)}")
                text += ["edns 0", "eflags DO", "payload 4096"] if "DO" in words else []
            case ["SECTION", name] if name in _SECTIONS:
                text.append(f";{name}")
            case ["MATCH" | "ADJUST", *_]:
                pass
            case _:
                text.append(line)
    return dns.message.from_text("\n".join(text), origin=dns.name.root, relativize=False)
