"""A served zone, read from its master file: the evidence of what the server was given.

Only owners, RRsets of the types in report.wire.COMPARABLE and signatures are kept. $INCLUDE and $GENERATE
are refused.
"""

import contextlib
import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tokenizer
import dns.transaction
import dns.zonefile
from dns.rdtypes.ANY.RRSIG import RRSIG

from report import compressed
from report.errors import ReportError
from report.wire import COMPARABLE, Key, normal

_LABEL = re.compile(r"(?:[^.\\]|\\.)*.?")  # up to the first dot that is not escaped, and that
MAX_TEXT = 2 << 30  # bytes of zone text, so that a small compressed file cannot fill the memory


@dataclass(frozen=True, eq=False)
class Zone:
    """All names in lower case with a final dot. `names`: all that exist, also those without records."""

    origin: str
    sets: dict[Key, set[str]]
    signatures: dict[Key, set[bytes]]
    names: frozenset[str]

    def get(self, owner: str, kind: str) -> Set[str]:
        return self.sets.get((owner, kind), frozenset())

    @property
    def serial(self) -> int | None:
        soa = next(iter(self.get(self.origin, "SOA")), "")
        return int(soa.split()[2]) if len(soa.split()) > 2 else None

    @functools.cached_property
    def depth(self) -> int:
        """How many labels a name has that is one below the origin."""
        return len(dns.name.from_text(self.origin).labels)

    @functools.cached_property
    def reach(self) -> int:
        """How many labels at the end of a name decide about its cut() and its top()."""
        cuts = (dns.name.from_text(owner).labels for owner, kind in self.sets if kind == "NS")
        return max([self.depth, *(len(labels) - 1 for labels in cuts)])

    def exists(self, name: str) -> bool:
        """Whether a name, one label below the origin, or a wildcard there has something."""
        return name in self.names or f"*.{self.origin.lstrip('.')}" in self.names

    @functools.lru_cache(maxsize=1 << 16)  # noqa: B019 - one zone lives as long as the comparison
    def cut(self, name: str) -> str | None:
        """The highest delegation at or above the name; None where the zone itself is authoritative for it."""
        if not within(name, self.origin):
            return None
        for ancestor in reversed(list(ancestors(name, self.origin))):
            if self.get(ancestor, "NS"):
                return ancestor
        return None

    @functools.lru_cache(maxsize=1 << 16)  # noqa: B019 - as above
    def top(self, name: str) -> str | None:
        """The name's ancestor one label below the origin; in the root zone the TLD."""
        if name == self.origin or not within(name, self.origin):
            return None
        return list(ancestors(name, self.origin))[-1]


def within(name: str, top: str) -> bool:
    """Whether a name is another one or below it."""
    if top in (name, "."):
        return True
    return name.endswith(f".{top}") and ("\\" not in name or top in ancestors(name, "."))


def ancestors(name: str, origin: str) -> Iterator[str]:
    """The name and its ancestors up to but without the origin."""
    while name not in (origin, "."):
        yield name
        name = (_LABEL.sub("", name, count=1) if "\\" in name else name.partition(".")[2]) or "."


def read_zone(path: Path, origin: str | None = None) -> Zone:
    """The origin is the SOA's owner unless it is given. Raises ReportError for what is not a zone file."""
    try:
        text = _text(path)
    except compressed.DAMAGED as error:
        raise ReportError(
            f"cannot read the zone {path}: {error}",
            "check the path and its compression",
            1 if path.is_file() else 2,
        ) from error
    try:
        return parse_zone(text, origin)
    except (dns.exception.DNSException, ValueError) as error:
        raise ReportError(f"{path} is not a zone file: {error}", "check it with named-checkzone") from error


def same_text(one: Path, other: Path) -> bool:
    """Of two files, perhaps compressed. What cannot be read whole is the same as nothing else."""
    with contextlib.suppress(*compressed.DAMAGED):
        return one == other or _text(one) == _text(other)
    return False


def _text(path: Path) -> str:
    with compressed.opened(path) as file:
        data = file.read(MAX_TEXT)
        if len(data) == MAX_TEXT:
            raise OSError(f"over {MAX_TEXT} bytes of text")
    return data.decode("utf-8", errors="replace")


class _Records(dns.transaction.Transaction):
    """Keeps what is read, whatever a server may say of it."""

    def __init__(self, origin: str) -> None:
        super().__init__(dns.zonefile.RRSetsReaderManager(dns.name.from_text(origin)), True)
        self.read: list[tuple[str, dns.rdata.Rdata]] = []

    def add(self, *args: Any) -> None:
        name, _, data = args
        self.read.append((name.to_text().lower(), data))

    def _set_origin(self, origin: dns.name.Name | None) -> None:
        pass


def parse_zone(text: str, origin: str | None = None) -> Zone:
    """Raises DNSException or ValueError for what is not a zone."""
    origin = origin and dns.name.from_text(origin).to_text().lower()
    records = _Records(origin or ".")
    dns.zonefile.Reader(
        dns.tokenizer.Tokenizer(text, "line"),
        dns.rdataclass.IN,
        records,
        allow_directives=("$ORIGIN", "$TTL"),
        default_ttl=0,
    ).read()
    sets: dict[Key, set[str]] = defaultdict(set)
    signatures: dict[Key, set[bytes]] = defaultdict(set)
    for owner, data in records.read:
        kind = dns.rdatatype.to_text(data.rdtype)
        if isinstance(data, RRSIG):
            signed = dns.rdatatype.to_text(data.type_covered)
            signatures[owner, signed].add(data.signature)
        elif kind in COMPARABLE:
            sets[owner, kind].add(normal(data))
    apex = origin or next((owner for owner, kind in sets if kind == "SOA"), "")
    if (apex, "SOA") not in sets:
        raise ValueError("it has no SOA record")
    names = {apex}
    for owner, _ in records.read:
        names.update(itertools.takewhile(lambda one: one not in names, ancestors(owner, apex)))
    return Zone(apex, sets, signatures, frozenset(names))
