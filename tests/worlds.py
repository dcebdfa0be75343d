"""Worlds of zones asked address by address: the servers, the questions, and the comparison.

The servers run in network namespaces in which every address is local (AnyIP). So a question can be sent
*from* the address of the name server that it is for, as it would reach a meta-DNS-server, without a proxy.
The truth is made here from zones.json alone: one view for each set of addresses with the same zones.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import select
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dns.message
import dns.name
import dns.rdatatype

from cli import programs
from cli.executor import netns
from cli.plan import network
from cli.process import Process
from cli.servers import meta_servers
from cli.servers.kinds import KINDS
from cli.servers.meta_servers import MetaSite
from cli.servers.nftables import Pair
from cli.zones import world, zone_plan
from cli.zones import zones as planned_zones
from cli.zones.world_model import Settings, is_below, lineage, parent_of
from tests import hard_worlds
from tests.bed import BareBed

TRUTH = ("198.18.128.1", "fd00:198:18::1")
_WINDOW = 40  # questions on their way in one UDP socket
_STREAM_WINDOW = 400  # in a connection: few pauses, because its last answers may wait 40 ms for an ACK
_IPV6_FREEBIND = 78  # linux/in6.h

Truth = dict[str, "frozenset[tuple[str, str]]"]  # by address: names and files of its zones


@dataclass(frozen=True)
class Question:
    """A query's bytes behind the id, and what it says."""

    wire: bytes
    text: str


@dataclass(frozen=True)
class Data:
    """A world as its files say."""

    folder: Path
    at: Truth
    owners: dict[str, list[tuple[str, str, str]]]  # by file: owner, type, data
    delegated: dict[str, set[str]]  # by address: names that an NS record somewhere sends there
    directly: dict[str, set[str]]  # the same, without those that an alias leads there
    origins: frozenset[str]


def make(folder: Path, settings: Settings) -> Data:
    """Writes a hard world and reads it back."""
    world.write(hard_worlds.make(settings), folder)
    return load(folder)


def load(folder: Path) -> Data:
    zones = json.loads((folder / "zones.json").read_text())["zones"]
    at: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for zone in zones:
        for address in zone["addresses"]:
            at[address].add((zone["name"], zone["file"]))
    owners = {zone["file"]: _records(folder / zone["file"]) for zone in zones}
    return Data(
        folder,
        {address: frozenset(held) for address, held in sorted(at.items())},
        owners,
        _delegated(owners, aliases=True),
        _delegated(owners, aliases=False),
        frozenset(zone["name"] for zone in zones),
    )


def _records(path: Path) -> list[tuple[str, str, str]]:
    lines = (line.split(None, 3) for line in path.read_text(encoding="ascii").splitlines())
    return [(owner, kind, data) for owner, _, kind, data in lines]


def _delegated(owners: dict[str, list[tuple[str, str, str]]], *, aliases: bool) -> dict[str, set[str]]:
    records = {one for file in owners.values() for one in file}
    addresses: dict[str, set[str]] = defaultdict(set)
    names: dict[str, str] = {}
    for owner, kind, data in records:
        if kind in ("A", "AAAA"):
            addresses[owner].add(data)
        if kind == "CNAME" and aliases:
            names[owner] = data
    sent: dict[str, set[str]] = defaultdict(set)
    for owner, kind, data in records:
        if kind == "NS":
            for address in addresses[_behind(data, names)]:
                sent[address].add(owner)
    return sent


def _behind(name: str, aliases: dict[str, str]) -> str:
    """The name at the end of a chain of aliases."""
    for _ in aliases:
        if name not in aliases:
            return name
        name = aliases[name]
    return name


# --- questions -------------------------------------------------------------------------------------------

_TYPES = "A AAAA NS SOA DS MX TXT CNAME DNAME ANY DNSKEY NSEC SRV HTTPS PTR RRSIG".split()  # noqa: SIM905
_FORMS = ((None, False), (512, False), (1232, True), (4096, True), (4096, False))


def questions(data: Data, address: str, source: random.Random, most: int) -> list[Question]:
    """What resolvers could ask at the address: about names at, below and between its zones' cuts, and about
    what lame delegations send there. At most about `most`, drawn from all of them.
    """
    names: dict[str, set[str]] = defaultdict(set)
    for _, file in sorted(data.at.get(address, ())):
        for owner, kind, _ in data.owners[file]:
            _around(names, owner, kind)
    for cut in data.delegated.get(address, ()):
        for name in (cut, *(one for one in data.origins if is_below(one, cut))):
            _around(names, name, "NS")
    tops = {zone for zone, _ in data.at.get(address, ())} | data.delegated.get(address, set())
    made = []
    for name in sorted(one for one in names if not tops.isdisjoint(lineage(one))):
        others = source.sample(_TYPES, 2)
        made += [_question(name, kind, source) for kind in sorted({*names[name], *others, "A"})]
    return source.sample(made, min(most, len(made)))


def _around(names: dict[str, set[str]], owner: str, kind: str) -> None:
    """The owner itself, names below, the name above it (often one that only has others below)."""
    if owner.startswith("*."):
        names["q7." + owner[2:]].add(kind)
        names["a.b." + owner[2:]].add(kind)
        names[owner[2:]].add(kind)
    if kind in ("NSEC3", "RRSIG"):
        return
    names[owner].add(kind)
    if kind == "NS":
        names[owner] |= {"DS", "SOA", "DNSKEY"}
        if owner != ".":
            names["www." + owner] |= {"AAAA", "NS"}
            names["nx.y." + owner].add("TXT")
            names["wrong." + parent_of(owner)[:200].lstrip(".")].add("MX")
    if kind in ("DNAME", "CNAME"):
        names["www." + owner].add("A")
    names[parent_of(owner) if owner != "." else "."].add("A")


def _question(name: str, kind: str, source: random.Random) -> Question:
    size, dnssec = source.choice(_FORMS)
    opt = (
        b""
        if size is None
        else b"\0\0\x29" + size.to_bytes(2) + b"\0\0" + bytes((0x80 * dnssec, 0)) + b"\0\0"
    )
    head = b"\0\0\0\1\0\0\0\0\0" + bytes((len(opt) > 0,))
    wire = head + _wire(name) + dns.rdatatype.from_text(kind).to_bytes(2) + b"\0\1" + opt
    return Question(wire, f"{name} {kind} edns={size} do={dnssec}")


@cache
def _wire(name: str) -> bytes:
    wire = dns.name.from_text(name).to_wire()
    assert wire is not None
    return wire


# --- servers ---------------------------------------------------------------------------------------------


class Ground(BareBed):
    """Hosts where every address is local, one for each server process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, network.Network("local"))

    def inside(self, host: str) -> AbstractContextManager[None]:
        """Runs the body in the host's network, which is made when it is first wanted."""
        if host not in self.hosts.descriptors:
            everything = tuple(
                network.Route(host, to, kind="local", interface="lo") for to in ("0.0.0.0/0", "::/0")
            )
            one = network.Network("local", hosts=(network.Host(host),), routes=everything)
            self.hosts.descriptors |= netns.build(one).descriptors
        return super().inside(host)

    def addresses(self, host: str, addresses: Sequence[str]) -> None:
        """Gives the loopback these addresses; named listens on addresses of interfaces only."""
        lines = "".join(
            f"addr replace {one}/{'128' if ':' in one else '32'} dev lo{' nodad' * (':' in one)}\n"
            for one in addresses
        )
        with self.inside(host):
            subprocess.run([programs.packaged("ip"), "-batch", "-"], input=lines, text=True, check=True)


Where = Callable[[str], tuple[str, str]]  # the server's host and address for a question from this address


def start_bind(
    ground: Ground, host: str, plan_folder: Path, instance: int, addresses: Sequence[str], minimal: bool
) -> None:
    """named as experiments start it, with the views that the plan's folder has for the instance. One thread:
    a view's memory grows with them.
    """
    folder = ground.folder / host
    folder.mkdir()
    config = folder / "named.conf"
    versions = (KINDS["bind"].version(),) * instance
    site = MetaSite(str(folder), str(plan_folder), "", 4096, minimal, 4096, versions=versions)
    config.write_text(meta_servers.named(site, instance))
    ground.addresses(host, addresses)
    program = ground.start_named(host, config, "-U", "1", name=host, ready="all zones loaded")
    bad = re.findall(r"^.*(?:not loaded|loading.*failed|not at top of zone).*$", program.text(), re.MULTILINE)
    assert not bad, bad[:3]


def start_nsd(ground: Ground, host: str, number: int, slot: Slot, zones: str) -> Process:
    """An nsd as experiments start it, with these zones; it is not waited for."""
    folder = ground.folder / f"{host}-{number}"
    folder.mkdir()
    config = folder / "nsd.conf"
    site = MetaSite(str(folder), "", "", 4096, False, 4096)
    config.write_text(meta_servers.nsd(site, slot.instance, number, [Pair(*slot.addresses)]) + zones)
    ground.addresses(host, slot.addresses)
    return ground.start_nsd(host, config, folder.name)


def groups(data: Data) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """Addresses with the same zones, and these zones."""
    found: dict[frozenset[tuple[str, str]], list[str]] = defaultdict(list)
    for address, held in data.at.items():
        found[held].append(address)
    return [(addresses, sorted(held)) for held, addresses in found.items()]


def true_views(data: Data) -> str:
    """One view for each group, matched by the address that the question is for."""
    texts = []
    first: dict[tuple[str, str], str] = {}
    for number, (addresses, zones) in enumerate(groups(data)):
        view = f"truth{number}"
        lines = "".join(bind_zone(data.folder, one, first.setdefault(one, view), view) for one in zones)
        match = " ".join(f"{one};" for one in addresses)
        texts.append(f'view "{view}" {{ match-clients {{ {match} }};\n{lines}}};\n')
    return "".join(texts)


def one_view(data: Data) -> str:
    """All zones in one view, as if depth did not matter: what must not be done."""
    any_content = {name: (name, file) for _, zones in groups(data) for name, file in zones}
    lines = "".join(bind_zone(data.folder, one, "all", "all") for one in any_content.values())
    return f'view "all" {{\n{lines}}};\n'


def bind_zone(folder: Path, zone: tuple[str, str], first: str, view: str) -> str:
    """A zone statement; only the first view with these contents loads them."""
    if first != view:
        return f'zone "{zone[0]}" {{ in-view "{first}"; }};\n'
    return f'zone "{zone[0]}" {{ type primary; file "{folder}/{zone[1]}"; }};\n'


def start_truth(ground: Ground, host: str, views: str, minimal: bool) -> Where:
    """A server on one address of each family, which is what it is asked at."""
    folder = ground.folder / f"{host}-views"
    folder.mkdir()
    (folder / "views-1.conf").write_text(views)
    start_bind(ground, host, folder, 1, TRUTH, minimal)
    return lambda source: (host, TRUTH[":" in source])


# --- the planner's output --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """Where the first resolver asks for a slot: the instance and its addresses."""

    instance: int
    addresses: tuple[str, str]  # IPv4, IPv6


@dataclass(frozen=True)
class Planned:
    """The folder that the planner wrote, and its map."""

    folder: Path
    report: dict[str, Any]
    slot: dict[str, int]  # by OQDA
    slots: dict[int, Slot]

    def start_bind(self, ground: Ground, name: str, minimal: bool) -> Where:
        """All instances; returns where to ask."""
        for instance in sorted({one.instance for one in self.slots.values()}):
            mine = [two for one in self.slots.values() if one.instance == instance for two in one.addresses]
            start_bind(ground, f"{name}{instance}", self.folder, instance, mine, minimal)
        return self._where(name, lambda slot: slot.instance)

    def start_nsd(self, ground: Ground, name: str) -> Where:
        """One nsd for each slot; returns where to ask."""
        started = []
        for number, slot in self.slots.items():
            zones = (self.folder / f"nsd-{number}.conf").read_text()
            started.append(start_nsd(ground, f"{name}1", number, slot, zones))
        for program in started:
            program.until("nsd started", 120)
        return self._where(name, lambda _: 1)

    def _where(self, name: str, number: Callable[[Slot], int]) -> Where:
        def where(source: str) -> tuple[str, str]:
            slot = self.slots[self.slot[source]]
            return f"{name}{number(slot)}", slot.addresses[":" in source]

        return where


def plan(zones: Path, out: Path, *options: str) -> Planned:
    program = programs.own("reprise-zonebuilder")
    done = subprocess.run(
        [program, "plan", str(zones), "-o", str(out), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, report = zone_plan.read_map(out / "map.tsv"), zone_plan.read_report(out / "plan.json")
    for name, text in planned_zones.zone_texts(report, found, str(zones)).items():
        (out / name).write_text(text)
    metas = [one for one in found.metas if one.resolver == 1]
    slots = {one.slot: Slot(one.instance, (one.address.v4, one.address.v6)) for one in metas}
    return Planned(out, report, found.slots, slots)


# --- asking ----------------------------------------------------------------------------------------------

Answers = dict[str, list[bytes]]  # by source address, in the order of the questions


def ask(ground: Ground, asked: Mapping[str, list[Question]], where: Where, *, tcp: bool) -> Answers:
    """Sends every question from its address; returns the answers without their ids."""
    answers: Answers = {}
    for source, wanted in asked.items():
        host, address = where(source)
        with ground.inside(host), _socket(source, address, tcp=tcp) as channel:
            answers[source] = (_ask_stream if tcp else _ask_datagrams)(channel, wanted)
    return answers


@contextlib.contextmanager
def _socket(source: str, target: str, *, tcp: bool) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as channel:
        channel.settimeout(10)
        if family == socket.AF_INET6:
            channel.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)  # AnyIP alone does not allow it
        channel.bind((source, 0))
        channel.connect((target, 53))
        yield channel


def _ask_datagrams(channel: socket.socket, wanted: list[Question]) -> list[bytes]:
    answers: list[bytes] = [b""] * len(wanted)
    for first in range(0, len(wanted), _WINDOW):
        missing = set(range(first, min(first + _WINDOW, len(wanted))))
        end = time.monotonic() + 20
        while missing:
            assert time.monotonic() < end, [wanted[number].text for number in missing][:3]
            for number in missing:
                channel.send(number.to_bytes(2) + wanted[number].wire)
            while missing and select.select([channel], [], [], 3)[0]:
                answer = channel.recv(65_535)
                answers[int.from_bytes(answer[:2])] = answer[2:]
                missing.discard(int.from_bytes(answer[:2]))
    return answers


def _ask_stream(channel: socket.socket, wanted: list[Question]) -> list[bytes]:
    answers: list[bytes] = [b""] * len(wanted)
    with channel.makefile("rb") as stream:
        for start in range(0, len(wanted), _STREAM_WINDOW):
            part = range(start, min(start + _STREAM_WINDOW, len(wanted)))
            messages = [number.to_bytes(2) + wanted[number].wire for number in part]
            channel.sendall(b"".join(len(one).to_bytes(2) + one for one in messages))
            for _ in part:
                answer = stream.read(int.from_bytes(stream.read(2)))
                answers[int.from_bytes(answer[:2])] = answer[2:]
    return answers


@dataclass(frozen=True)
class Difference:
    """A question that two servers answered differently."""

    source: str
    question: str
    wanted: bytes
    got: bytes

    def text(self) -> str:
        return (
            f"at {self.source}: {self.question}\n--- truth\n{_text(self.wanted)}\n--- got\n{_text(self.got)}"
        )


def _text(answer: bytes) -> str:
    return dns.message.from_wire(b"\0\0" + answer).to_text() if answer else "nothing"


def differences(asked: Mapping[str, list[Question]], truth: Answers, got: Answers) -> list[Difference]:
    """Every answer that is not byte for byte the truth's."""
    return [
        Difference(source, question.text, one, other)
        for source, wanted in asked.items()
        for question, one, other in zip(wanted, truth[source], got[source], strict=True)
        if one != other
    ]
