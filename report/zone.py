"""A served zone, read from its master file fast enough to be no burden: the evidence of what the server was
given.

Only owners, RRsets of the types in report.rdata.COMPARABLE and signatures are kept. The reader knows $ORIGIN,
$TTL, parentheses, comments, quoted strings and inherited owners (RFC 1035 section 5.1); $INCLUDE and
$GENERATE are refused.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from report.errors import ReportError
from report.rdata import COMPARABLE, absolute, from_words
from report.wire import Key

CLASSES = frozenset({"IN", "CH", "HS"})
TTL = re.compile(r"^(\d+[smhdw]?)+$", re.IGNORECASE)
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|;.*|(?:[^\s();"\\]|\\.)+')
MAX_TEXT = 2 << 30  # bytes of zone text, so that a small compressed file cannot fill the memory


@dataclass(frozen=True)
class Zone:
    """All names in lower case with a final dot."""

    origin: str
    sets: dict[Key, frozenset[str]]
    signatures: dict[Key, frozenset[str]]
    names: frozenset[str]

    def get(self, owner: str, kind: str) -> frozenset[str]:
        return self.sets.get((owner, kind), frozenset())

    @property
    def serial(self) -> int | None:
        soa = next(iter(self.get(self.origin, "SOA")), "")
        return int(soa.split()[2]) if len(soa.split()) > 2 else None

    def contains(self, name: str) -> bool:
        return name == self.origin or name.endswith(self.origin if self.origin == "." else "." + self.origin)

    @functools.lru_cache(maxsize=1 << 16)  # noqa: B019 - one zone lives as long as the comparison
    def cut(self, name: str) -> str | None:
        """The highest delegation at or above the name; None where the zone itself is authoritative for it."""
        if not self.contains(name):
            return None
        for ancestor in reversed(list(ancestors(name, self.origin))):
            if self.get(ancestor, "NS"):
                return ancestor
        return None

    def top(self, name: str) -> str | None:
        """The name's ancestor one label below the origin; in the root zone the TLD."""
        if name == self.origin or not self.contains(name):
            return None
        return list(ancestors(name, self.origin))[-1]

    def __hash__(self) -> int:
        return id(self)


def ancestors(name: str, origin: str) -> Iterator[str]:
    """The name and its ancestors up to but without the origin."""
    while name not in (origin, "."):
        yield name
        _, _, name = name.partition(".") if "\\" not in name else _partition_escaped(name)
        name = name or "."


def _partition_escaped(name: str) -> tuple[str, str, str]:
    """As str.partition at the first dot that is not escaped."""
    found = re.match(r"(?:[^.\\]|\\.)*", name)
    end = found.end() if found else len(name)
    return name[:end], ".", name[end + 1 :]


def read_zone(path: Path, origin: str | None = None) -> Zone:
    """The origin is the SOA's owner unless it is given. Raises ReportError for what is not a zone file."""
    try:
        text = _text(path)
    except (OSError, EOFError, lzma.LZMAError, subprocess.CalledProcessError) as error:
        raise ReportError(
            f"cannot read the zone {path}: {error}",
            "check the path and its compression",
            1 if path.is_file() else 2,
        ) from error
    try:
        return parse_zone(text, origin)
    except (ValueError, IndexError) as error:
        raise ReportError(f"{path} is not a zone file: {error}", "check it with named-checkzone") from error


def _text(path: Path) -> str:
    data = _unpacked(path)
    if len(data) >= MAX_TEXT:
        raise OSError(f"over {MAX_TEXT} bytes of text")
    return data.decode("utf-8", errors="replace")


def _unpacked(path: Path) -> bytes:
    """Compression is told by content."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        with gzip.open(path) as packed:
            return packed.read(MAX_TEXT)
    if magic.startswith(b"BZh"):
        with bz2.open(path) as packed:
            return packed.read(MAX_TEXT)
    if magic.startswith(b"\xfd7zXZ"):
        with lzma.open(path) as packed:
            return packed.read(MAX_TEXT)
    for start, tool in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4")):
        if magic.startswith(start):
            return _by_tool(tool, path)
    with path.open("rb") as file:
        return file.read(MAX_TEXT)


def _by_tool(tool: str, path: Path) -> bytes:
    """zstd and lz4 are not in Python's library."""
    if shutil.which(tool) is None:
        raise OSError(f"{tool} is not installed")
    with subprocess.Popen(
        [tool, "-dcq", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        data = child.stdout.read(MAX_TEXT)
        child.kill()
    return data


def parse_zone(text: str, origin: str | None = None) -> Zone:
    """ValueError names the line of what cannot be read."""
    sets: dict[Key, set[str]] = {}
    signatures: dict[Key, set[str]] = {}
    names: set[str] = set()
    apex = origin
    for owner, kind, words, at in _records(text, origin or "."):
        names.add(owner)
        if kind == "SOA" and apex is None:
            apex = owner
        if kind == "RRSIG" and len(words) > 8:
            signatures.setdefault((owner, words[0].upper()), set()).add("".join(words[8:]))
        elif kind in COMPARABLE:
            sets.setdefault((owner, kind), set()).add(from_words(kind, words, at))
    if apex is None or (apex, "SOA") not in sets:
        raise ValueError("it has no SOA record")
    return Zone(apex, _frozen(sets), _frozen(signatures), frozenset(names))


def _frozen(sets: dict[Key, set[str]]) -> dict[Key, frozenset[str]]:
    return {key: frozenset(values) for key, values in sets.items()}


def _records(text: str, origin: str) -> Iterator[tuple[str, str, list[str], str]]:
    """Owner, type, words of the data, and the origin in force."""
    owner = origin
    for number, inherits, words in _lines(text):
        if words[0].startswith("$"):
            origin = _directive(words, origin, number)
            continue
        if not inherits:
            owner = absolute(words[0], origin)
        kind, data = _type_and_data(words if inherits else words[1:], number)
        yield owner, kind, data, origin


def _directive(words: list[str], origin: str, number: int) -> str:
    name = words[0].upper()
    if name == "$ORIGIN" and len(words) > 1:
        return absolute(words[1], origin)
    if name != "$TTL":
        raise ValueError(f"line {number}: {words[0]} is not supported")
    return origin


def _type_and_data(words: list[str], number: int) -> tuple[str, list[str]]:
    """TTL and class may stand in either order before the type."""
    for index, word in enumerate(words[:3]):
        if word.upper() not in CLASSES and not TTL.match(word):
            return word.upper(), words[index + 1 :]
    raise ValueError(f"line {number}: no record type")


def _lines(text: str) -> Iterator[tuple[int, bool, list[str]]]:
    """Logical lines: the number of the first, whether the owner is inherited, and the words."""
    words: list[str] = []
    depth, first, inherits = 0, 0, False
    for number, line in enumerate(text.splitlines(), start=1):
        if not words and not depth:
            first, inherits = number, line[:1] in (" ", "\t")
        plain = ";" not in line and '"' not in line and "(" not in line and ")" not in line
        for word in line.split() if plain and "\\" not in line else WORD.findall(line):
            if word == "(":
                depth += 1
            elif word == ")":
                depth = max(0, depth - 1)
            elif not word.startswith(";"):
                words.append(word)
        if words and not depth:
            yield first, inherits, words
            words = []
    if depth:
        raise ValueError(f"line {first}: a parenthesis is not closed")
