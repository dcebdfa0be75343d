"""What `reprise-zonebuilder plan` wrote, as values: the address map, and the report.

In a run, the planner reads zones made by anyone and is not root, but root obeys what is made from its files.
So this checks that addresses are addresses, numbers are numbers, and no text ends quotes or lines.
"""

import datetime
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import RepriseError
from cli.servers.kinds import KINDS
from cli.servers.meta_servers import View
from cli.servers.nftables import Pair

MAP_HEADER = "#reprise-map 1"
_SCHEMA = 1
_SHOWN = 5  # of each list, in the summary; all are in plan.json


@dataclass(frozen=True)
class Meta:
    """The meta addresses, of both families, at which an instance answers a resolver for a slot."""

    slot: int
    resolver: int
    instance: int
    address: Pair


@dataclass(frozen=True)
class AddressMap:
    """map.tsv; numbers are from 1."""

    resolvers: dict[int, Pair]
    metas: tuple[Meta, ...]
    slots: dict[str, int]  # of each OQDA

    @property
    def instances(self) -> tuple[int, ...]:
        """The instances that have a slot."""
        return tuple(sorted({one.instance for one in self.metas}))

    def toward(self, resolver: int) -> dict[str, Pair]:
        """Where a resolver's packets to each OQDA really go."""
        at = {one.slot: one.address for one in self.metas if one.resolver == resolver}
        return {oqda: at[slot] for oqda, slot in self.slots.items() if slot in at}

    def text(self) -> str:
        """The map as a file, which `read_map` reads."""
        rows: list[tuple[object, ...]] = []
        rows += [("resolver", number, *(at or "-" for at in pair)) for number, pair in self.resolvers.items()]
        rows += [("meta", one.slot, one.resolver, one.instance, *one.address) for one in self.metas]
        rows += [("oqda", address, slot) for address, slot in self.slots.items()]
        return f"{MAP_HEADER}\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows)

    def of_instance(self, instance: int) -> tuple[Meta, ...]:
        """The meta addresses of an instance."""
        return tuple(one for one in self.metas if one.instance == instance)


def read_map(path: Path) -> AddressMap:
    """Reads map.tsv; a bad line is an error."""
    resolvers: dict[int, Pair] = {}
    metas: list[Meta] = []
    slots: dict[str, int] = {}
    lines = path.read_text(encoding="ascii").splitlines()
    if lines[:1] != [MAP_HEADER]:
        raise RepriseError(f"{path} is not an address map", "make it with `reprise zones plan`")
    for number, line in enumerate(lines[1:], 2):
        try:
            match line.split("\t"):
                case ["resolver", index, four, six]:
                    resolvers[int(index)] = _pair(four, six)
                case ["meta", slot, resolver, instance, four, six] if "-" not in (four, six):
                    metas.append(Meta(int(slot), int(resolver), int(instance), _pair(four, six)))
                case ["oqda", address, slot]:
                    slots[_address(address)] = int(slot)
                case _ if line and not line.startswith("#"):
                    raise ValueError("another line")
        except ValueError:
            raise _broken(f"{path}:{number} is not a line of an address map") from None
    return AddressMap(resolvers, tuple(metas), slots)


def _broken(what: str) -> RepriseError:
    return RepriseError(what, "make it again with `reprise zones plan`")


def _pair(four: str, six: str) -> Pair:
    return Pair(*("" if one == "-" else _address(one, version) for one, version in ((four, 4), (six, 6))))


def _address(text: str, version: int = 0) -> str:
    """An address in its usual form. Throws ValueError."""
    found = ipaddress.ip_address(text)
    if "%" in text or version not in (0, found.version):
        raise ValueError(f"{text} is not an address of its family")
    return str(found)


_NAME = r'(?!\$)(?:[^\s"();\\]|\\[!-~])+'
_RECORD = re.compile(
    rf"{_NAME} \d+ IN (?:NS {_NAME}|A [\d.]+|AAAA [\da-f:.]+|DNSKEY \d+ \d+ \d+ [\w+/]+=*)", re.ASCII
)


def read_records(path: Path) -> str:
    """The records of root.hints or root.key, in the one form that the planner writes."""
    lines = path.read_text(encoding="ascii").split("\n")
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(";") and not _RECORD.fullmatch(line):
            raise _broken(f"{path}:{number} is not a record of the root's servers or keys")
    return "".join(f"{line}\n" for line in lines if line and not line.startswith(";"))


_QUOTABLE = re.compile(r'(?:[^"\\\x00-\x1f\x7f]|\\[^"\x00-\x1f\x7f])+')


def _quoted(text: str) -> str:
    """A text that can be put in quotes in configurations of servers."""
    if not _QUOTABLE.fullmatch(text):
        raise _broken(f"the zone plan has {text!r}, which cannot be put in quotes")
    return text


def read_report(path: Path) -> dict[str, Any]:
    """The plan.json of the planner. RepriseError where it has another schema."""
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if value.get("schema") != _SCHEMA:
        raise RepriseError(f"{path} has schema {value.get('schema')}, known is {_SCHEMA}", "make it again")
    return value


def views(report: dict[str, Any], found: AddressMap, zones_path: str, instance: int) -> list[View]:
    """An instance's views of BIND: one a slot, in the paper's form one a group."""
    slots = {int(one["slot"]): one for one in report["slots"] if one["instance"] == instance}
    if report["form"] == "paper":
        return [
            View(f"g{number}", True, [*map(_address, one["addresses"])], zones_of(one, "zones", zones_path))
            for number, one in enumerate(report["groups"], 1)
            if int(one["slot"]) in slots
        ]
    letter = "g" if report["form"] == "separate" else "c"
    addresses: dict[int, list[str]] = {number: [] for number in slots}
    for meta in found.of_instance(instance):
        addresses[meta.slot] += meta.address
    return [
        View(f"{letter}{int(slot['color'])}", False, addresses[number], zones_of(slot, "names", zones_path))
        for number, slot in slots.items()
    ]


def zones_of(part: dict[str, Any], names: str, zones_path: str) -> list[tuple[str, str]]:
    """Names and files of the zones of a slot or group. Servers run in folders of their own."""
    files = (file if file.startswith("/") else f"{zones_path}/{file}" for file in part["files"])
    return list(zip(map(_quoted, part[names]), map(_quoted, files), strict=True))


_LISTS: tuple[tuple[str, str, Callable[[dict[str, Any]], str]], ...] = (
    ("failed", "zones that do not load", lambda one: f"{one['zone'] or one['file']}: {one['why']}"),
    ("unroutable", "addresses where no server can be asked", lambda one: f"{one['address']}: {one['why']}"),
    ("unserved", "zones that no server has", lambda one: f"{one['zone']}: {one['why']}"),
    ("lame", "lame delegations", lambda one: f"{one['zone']} at {one['server']} ({one['address']})"),
    ("not_built", "delegations to zones that are not here", lambda one: f"{one['zone']} at {one['server']}"),
)
UNSOUND = ("expired", "early", "missing")  # states of a zone's signatures that make its answers bogus
_WHAT = {
    "expired": "have signatures that are no longer valid",
    "early": "have signatures that are not valid yet",
    "missing": "have no signatures, although their parent has a DS record",
}
_TAKERS = {
    "expired": [kind.title for kind in KINDS.values() if kind.takes_expired],
    "early": [kind.title for kind in KINDS.values() if kind.takes_expired and not kind.sees_early],
}
_UNPROVEN = "zones whose answers cannot be validated"


def few(ones: Iterable[object]) -> list[str]:
    """The first of them, and dots where there are more."""
    texts = [*map(str, ones)]
    return [*texts[:_SHOWN], *(["..."] if len(texts) > _SHOWN else [])]


def unsound(report: dict[str, Any], state: str, now: float) -> list[str]:
    """Zones that a validating resolver takes for bogus at this time, each with the reason's date."""
    trusted = report.get("trusted", [])
    if state == "missing":
        return [one["zone"] for one in trusted if "until" not in one]
    key, sign = {"expired": ("until", -1), "early": ("from", 1)}[state]
    held = [(one["zone"], one[key]) for one in trusted if key in one and (one[key] - now) * sign > 0]
    dates = [datetime.datetime.fromtimestamp(at, datetime.UTC) for _, at in held]
    return [f"{zone} ({key} {at:%Y-%m-%d %H:%M UTC})" for (zone, _), at in zip(held, dates, strict=True)]


def check_signatures(report: dict[str, Any], refused: Sequence[str], now: float) -> None:
    """Throws where zones have signatures in a state that is refused."""
    for state in refused:
        if found := unsound(report, state, now):
            what = f"{_UNPROVEN}: {len(found)} {_WHAT[state]}: {', '.join(few(found))}"
            takers = " and ".join(_TAKERS.get(state, ()))
            accept = f'"accept" lets {takers} take them, ' if takers else ""
            hint = f'hierarchy.expired_signatures = {accept}"keep" leaves it so'
            raise RepriseError(what, f"hierarchy.validate = false turns validation off, {hint}")


def _lists(report: dict[str, Any], now: float = 0.0) -> list[tuple[str, list[str]]]:
    """What does not work: a title for each kind, and all of it."""
    lists = [(title, [show(one) for one in report.get(key, [])]) for key, title, show in _LISTS]
    lists += [(f"zones {_WHAT[state]}", unsound(report, state, now)) for state in ("expired", "early")]
    unproven = (one for one in report.get("trusted", []) if "unproven" in one)
    return [*lists, (_UNPROVEN, [f"{one['zone']}: {one['unproven']}" for one in unproven])]


def warnings(report: dict[str, Any]) -> list[str]:
    """What is missing from the hierarchy, a line for each kind. Lame delegations are there as they were."""
    *lists, unproven = _lists(report)
    told = [(title, ones) for title, ones in (*lists[:3], unproven) if ones]
    return [f"the zone plan has {len(ones)} {title}: {'; '.join(few(ones))}" for title, ones in told]


def summary(report: dict[str, Any], now: float) -> str:
    """What does not work, for people: the first few of each kind. The sizes are the planner's to tell."""
    told = [(f"{len(ones)} {title}:", few(ones)) for title, ones in _lists(report, now) if ones]
    return "".join(f"{line}\n" for title, ones in told for line in (title, *(f"    {one}" for one in ones)))
