"""What BIND reports about zones when it loads them, and removing records from a zone so that the rest loads.

One named-checkconf loads all zones of a folder with the settings of the meta-DNS-servers, so they serve every
zone that passes. For each zone it prints what is wrong, and one line at the end.
"""

import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.exception
import dns.name

from cli.errors import RepriseError, last_line
from cli.servers import bind
from cli.zones import bind_tools
from cli.zones.zone_folder import Entry, ZoneFolder

_END = re.compile(r"zone .*/IN(?:/\S+)?: (?:loaded serial \d+.*|(?P<bad>not loaded due to errors\.))$")
_SAID = re.compile(
    r"zone .*/IN(?:/\S+)?: (?:loading from master file .* failed: (?P<read>.+)|(?P<other>.+))$"
)
# Records that a zone can lose without changing the rest: proofs, signatures, and data for the parent.
_MAY_GO = frozenset(("DS", "RRSIG", "CDS", "CDNSKEY", "NSEC", "NSEC3"))
_KEYS_OF_CHILD = frozenset(("CDS", "CDNSKEY"))
_USUAL = re.compile(r"[\w/.,:@=+-]+", re.ASCII)  # a path that stands in a configuration as it is
_ROUNDS = 20  # BIND's tools report all unreadable lines at once, but other faults only after those


@dataclass(frozen=True)
class Refused:
    """A zone that BIND does not load: why, and the lines of its file that it names."""

    entry: Entry
    why: str
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        line = f" line {self.lines[0]}" if self.lines else ""
        return f"zone {self.entry.name} ({self.entry.file}{line}) does not load: {self.why}"

    def as_json(self) -> dict[str, Any]:
        """In the form of build.json and of the planner."""
        line = self.lines[0] if self.lines else 0
        return {"zone": self.entry.name, "file": self.entry.file, "line": line, "why": self.why}


def refused(folder: Path, entries: Iterable[Entry]) -> list[Refused]:
    """The zones in plain files that BIND does not load."""
    views: defaultdict[int, list[Entry]] = defaultdict(list)  # each with a zone of a name once
    seen: Counter[str] = Counter()
    for one in entries:
        views[seen[one.name.lower()]].append(one)
        seen[one.name.lower()] += 1
    ordered = [one for view in views.values() for one in view]
    with tempfile.TemporaryDirectory(prefix="reprise-zones-", dir=bind_tools.PLACE) as made:
        config = Path(made) / "named.conf"
        real = os.path.realpath(folder)
        shown = [_shown(folder, real, one.file, f"{made}/{number}") for number, one in enumerate(ordered)]
        config.write_text(_config(made, views.values(), shown), encoding="utf-8")
        done = bind_tools.run(("named-checkconf", "-z", str(config)), folder, Path(made))
    found: list[Refused] = []
    said: list[str] = []  # about a zone, in the order of the configuration
    ends = 0
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        said.append(line)
        if end := _END.match(line):
            if end["bad"] and ends < len(ordered):
                found.append(_why(ordered[ends], shown[ends], said))
            ends, said = ends + 1, []
    if ends != len(ordered):
        last = last_line(done.stderr or done.stdout)
        raise RepriseError(f"named-checkconf cannot check the zones: {last}", "see `reprise doctor`")
    return found


def _shown(folder: Path, real: str, file: str, place: str) -> str:
    """A path at which BIND's tools, which see nothing outside the folder, find a file of it: that of a copy
    where the file is behind a link, or its path would have to be quoted.
    """
    path = f"{folder.absolute()}/{file}"
    usual = _USUAL.fullmatch(path) is not None
    if Path(path).is_file() and not (usual and os.path.realpath(path) == f"{real}/{file}"):
        return shutil.copyfile(path, place)
    return path if usual else place


def _config(directory: str, views: Iterable[Sequence[Entry]], shown: Iterable[str]) -> str:
    text = f'options {{\n    directory "{directory}";\n{bind.zone_checks(bind.KIND.version())}}};\n'
    files = iter(shown)
    for index, view in enumerate(views):
        text += f'view "v{index}" {{\n'
        for one in view:
            try:
                name = dns.name.from_text(one.name).to_text()  # with escapes for what would end the quotes
            except dns.exception.DNSException:
                raise RepriseError(f"{one.name!r} is not a domain name", "correct zones.json") from None
            text += f'    zone "{name}" {{ type primary; file "{next(files)}"; }};\n'
        text += "};\n"
    return text


def _why(entry: Entry, path: str, lines: list[str]) -> Refused:
    found = [match for match in map(_SAID.match, lines[:-1]) if match]
    why = (found[-1]["read"] or found[-1]["other"]) if found else "BIND gives no reason"
    place = re.compile(rf"(?:\S+: )?{re.escape(path)}:(\d+): (.*)")
    told = [(int(match[1]), match[2]) for match in map(place.match, lines) if match and why in match[2]]
    return Refused(entry, told[0][1] if told else why, tuple(line for line, _ in told))


# --- records that keep a zone from being loaded ----------------------------------------------------------


def mend(folder: ZoneFolder) -> tuple[list[dict[str, str]], list[Refused]]:
    """Removes records that keep their zone from loading, if the zone can do without them, from files of
    `reprise-zonebuilder build` (one record per line). Returns these records in the form of build.json, and
    the zones that still do not load.
    """
    removed: list[dict[str, str]] = []
    bad: list[Refused] = []
    again: Sequence[Entry] = folder.entries
    for _ in range(_ROUNDS):
        if not (found := refused(folder.path, again)):
            return removed, bad
        again = []
        for one in found:
            if gone := _take_out(folder.path / one.entry.file, one):
                removed += gone
                again.append(one.entry)
            else:
                bad.append(one)
    return removed, bad + refused(folder.path, again)


def _take_out(file: Path, bad: Refused) -> list[dict[str, str]]:
    lines = file.read_text(encoding="latin-1").split("\n")
    records = {number: words for number, line in enumerate(lines, 1) if len(words := line.split(" ", 4)) == 5}
    if "CDS/CDNSKEY" in bad.why:
        apex = bad.entry.name.lower()
        broken = {at for at, one in records.items() if one[3] in _KEYS_OF_CHILD and one[0].lower() == apex}
    else:
        broken = {at for at in bad.lines if at in records and records[at][3] in _MAY_GO}
    left = {(one[0], one[3]) for at, one in records.items() if at not in broken}
    lost = {(records[at][0], records[at][3]) for at in broken} - left
    broken |= {
        at for at, one in records.items() if one[3] == "RRSIG" and (one[0], one[4].split(" ", 1)[0]) in lost
    }
    if broken:
        kept = (line for number, line in enumerate(lines, 1) if number not in broken)
        file.write_text("\n".join(kept), encoding="latin-1")
    return [
        {"zone": bad.entry.name, "owner": owner, "type": kind, "data": data, "why": bad.why}
        for owner, _, _, kind, data in (records[at] for at in sorted(broken))
    ]
