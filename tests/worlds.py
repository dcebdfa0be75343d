"""Worlds of zones asked address by address: the servers, the questions, and the comparison.

The servers run in one network namespace in which every address is local (AnyIP). So a question can be sent
*from* the address of the name server that it is for, as it would reach a meta-DNS-server, without a proxy.
The truth is made here from zones.json alone: one view for each set of addresses with the same zones.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dns.message
import dns.name
import dns.rdatatype

from cli import linux, netns, network, programs, world
from cli.world_model import Settings, is_below, lineage, parent_of
from tests.bed import Program, _die_with_test, wait_for

TRUTH = ("198.19.0.1", "fd00:198:19::1")
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
    origins: frozenset[str]


def make(folder: Path, settings: Settings) -> Data:
    """Writes the world and reads it back."""
    world.write(world.make(settings), folder)
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
        _delegated(owners),
        frozenset(zone["name"] for zone in zones),
    )


def _records(path: Path) -> list[tuple[str, str, str]]:
    lines = (line.split(None, 3) for line in path.read_text(encoding="ascii").splitlines())
    return [(owner, kind, data) for owner, _, kind, data in lines]


def _delegated(owners: dict[str, list[tuple[str, str, str]]]) -> dict[str, set[str]]:
    records = {one for file in owners.values() for one in file}
    addresses: dict[str, set[str]] = defaultdict(set)
    for owner, kind, data in records:
        if kind in ("A", "AAAA"):
            addresses[owner].add(data)
    sent: dict[str, set[str]] = defaultdict(set)
    for owner, kind, data in records:
        if kind == "NS":
            for address in addresses[data]:
                sent[address].add(owner)
    return sent


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


@dataclass
class Ground:
    """One network namespace where every address is local, and the servers in it."""

    folder: Path
    hosts: netns.Hosts = field(default_factory=netns.Hosts)
    started: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        everything = [
            network.Route("world", to, kind="local", interface="lo") for to in ("0.0.0.0/0", "::/0")
        ]
        self.hosts = netns.build(
            network.Network("local", hosts=(network.Host("world"),), routes=tuple(everything))
        )

    def start(self, argv: list[str], name: str) -> Program:
        """Starts a server."""
        log = self.folder / f"{name}.log"
        with linux.inside(self.hosts.of("world")), log.open("wb") as errors:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                preexec_fn=_die_with_test,  # noqa: PLW1509 - the tests have one thread
            )
        self.started.append(Program(process, log))
        return self.started[-1]

    def addresses(self, addresses: list[str]) -> None:
        """Gives the loopback these addresses; named listens on addresses of interfaces only."""
        lines = "".join(
            f"addr replace {one}/{'128' if ':' in one else '32'} dev lo{' nodad' * (':' in one)}\n"
            for one in addresses
        )
        with linux.inside(self.hosts.of("world")):
            subprocess.run([programs.packaged("ip"), "-batch", "-"], input=lines, text=True, check=True)

    def close(self) -> None:
        for program in self.started:
            program.process.kill()
        for program in self.started:
            program.process.wait()
        for descriptor in self.hosts.descriptors.values():
            os.close(descriptor)


def wait_ready(program: Program, ready: str) -> None:
    """Until the server says that it is ready."""
    wait_for(lambda: ready in program.text() or program.process.poll() is not None, str(program.log), 120)
    assert program.process.poll() is None, program.text()[-2000:]


Where = Callable[[str], tuple[str, int]]  # the server's address and port for a question from this address


@dataclass(frozen=True)
class BindOptions:
    minimal_responses: bool = False


def start_bind(
    ground: Ground, name: str, views: str, addresses: list[str], port: int, options: BindOptions
) -> Program:
    """named with these views on these addresses. One thread: a view's memory grows with them."""
    folder = ground.folder / name
    folder.mkdir()
    four = " ".join(f"{one};" for one in addresses if ":" not in one) or "none;"
    six = " ".join(f"{one};" for one in addresses if ":" in one) or "none;"
    config = folder / "named.conf"
    config.write_text(f"""options {{
    directory "{folder}"; managed-keys-directory "{folder}";
    pid-file none; lock-file none; session-keyfile none;
    listen-on port {port} {{ {four} }}; listen-on-v6 port {port} {{ {six} }};
    recursion no; allow-query {{ any; }}; notify no; dnssec-validation no; empty-zones-enable no;
    minimal-responses {"yes" if options.minimal_responses else "no"};
    rrset-order {{ order none; }}; answer-cookie no; zone-statistics none;
    max-udp-size 4096; edns-udp-size 4096; nocookie-udp-size 4096;
    check-integrity no; check-names primary ignore; check-names secondary ignore; tcp-clients 1000;
}};
controls {{ }};
{views}
""")
    ground.addresses(addresses)
    argv = [programs.packaged("named"), "-g", "-n", "1", "-U", "1", "-c", str(config)]
    program = ground.start(argv, name)
    wait_ready(program, "all zones loaded")
    bad = re.findall(r"^.*(?:not loaded|loading.*failed|not at top of zone).*$", program.text(), re.MULTILINE)
    assert not bad, bad[:3]
    return program


def start_nsd(ground: Ground, name: str, zones: str, addresses: list[str], port: int) -> Program:
    """An nsd with these zones on these addresses; it is not waited for."""
    folder = ground.folder / name
    folder.mkdir()
    config = folder / "nsd.conf"
    listen = "".join(f"    ip-address: {one}@{port}\n" for one in addresses)
    config.write_text(f"""server:
{listen}    server-count: 1
    username: ""
    database: ""
    zonesdir: "{folder}"
    zonelistfile: "{folder}/zone.list"
    xfrdfile: "{folder}/xfrd.state"
    xfrdir: "{folder}"
    pidfile: ""
    verbosity: 1
    zonefiles-check: no
    zonefiles-write: 0
    minimal-responses: no
    refuse-any: no
    round-robin: no
    ipv4-edns-size: 4096
    ipv6-edns-size: 4096
    tcp-query-count: 0
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
{zones}
""")
    ground.addresses(addresses)
    return ground.start([programs.packaged("nsd"), "-d", "-c", str(config)], name)


def nsd_zones(folder: Path, zones: list[tuple[str, str]]) -> str:
    """Stanzas of these zones."""
    return "".join(f'zone:\n    name: "{name}"\n    zonefile: "{folder}/{file}"\n' for name, file in zones)


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
        lines = "".join(_bind_zone(data.folder, one, first.setdefault(one, view), view) for one in zones)
        match = " ".join(f"{one};" for one in addresses)
        texts.append(f'view "{view}" {{ match-clients {{ {match} }};\n{lines}}};\n')
    return "".join(texts)


def one_view(data: Data) -> str:
    """All zones in one view, as if depth did not matter: what must not be done."""
    any_content = {name: (name, file) for _, zones in groups(data) for name, file in zones}
    lines = "".join(_bind_zone(data.folder, one, "all", "all") for one in any_content.values())
    return f'view "all" {{\n{lines}}};\n'


def _bind_zone(folder: Path, zone: tuple[str, str], first: str, view: str) -> str:
    if first != view:
        return f'zone "{zone[0]}" {{ in-view "{first}"; }};\n'
    return f'zone "{zone[0]}" {{ type primary; file "{folder}/{zone[1]}"; }};\n'


def true_where(port: int) -> Where:
    """The truth listens on one address of each family."""
    return lambda source: (TRUTH[":" in source], port)


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

    def where(self, port: int) -> Where:
        return lambda source: (self.slots[self.slot[source]].addresses[":" in source], port)

    def start_bind(self, ground: Ground, name: str, port: int, options: BindOptions) -> None:
        """All instances."""
        for instance in sorted({one.instance for one in self.slots.values()}):
            addresses = [
                two for one in self.slots.values() if one.instance == instance for two in one.addresses
            ]
            views = (self.folder / f"views-{instance}.conf").read_text()
            start_bind(ground, f"{name}{instance}", views, addresses, port, options)

    def start_nsd(self, ground: Ground, name: str, port: int) -> None:
        """One nsd for each slot."""
        started = []
        for number, slot in self.slots.items():
            zones = (self.folder / f"nsd-{number}.conf").read_text()
            started.append(start_nsd(ground, f"{name}{number}", zones, list(slot.addresses), port))
        for program in started:
            wait_ready(program, "nsd started")


def plan(zones: Path, out: Path, *options: str) -> Planned:
    """Runs the planner."""
    program = programs.own("reprise-zonebuilder")
    done = subprocess.run(
        [program, "plan", str(zones), "-o", str(out), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    slot, slots = {}, {}
    for line in (out / "map.tsv").read_text().splitlines():
        words = line.split("\t")
        if words[0] == "oqda":
            slot[words[1]] = int(words[2])
        if words[0] == "meta" and words[2] == "1":
            slots[int(words[1])] = Slot(int(words[3]), (words[4], words[5]))
    return Planned(out, json.loads((out / "plan.json").read_text()), slot, slots)


# --- asking ----------------------------------------------------------------------------------------------

Answers = dict[str, list[bytes]]  # by source address, in the order of the questions


def ask(ground: Ground, asked: Mapping[str, list[Question]], where: Where, *, tcp: bool) -> Answers:
    """Sends every question from its address; returns the answers without their ids."""
    answers: Answers = {}
    with linux.inside(ground.hosts.of("world")):
        for source, wanted in asked.items():
            with _socket(source, where(source), tcp=tcp) as channel:
                answers[source] = (_ask_stream if tcp else _ask_datagrams)(channel, wanted)
    return answers


@contextlib.contextmanager
def _socket(source: str, target: tuple[str, int], *, tcp: bool) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as channel:
        channel.settimeout(10)
        if family == socket.AF_INET6:
            channel.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)  # AnyIP alone does not allow it
        channel.bind((source, 0))
        channel.connect(target)
        yield channel


def _ask_datagrams(channel: socket.socket, wanted: list[Question]) -> list[bytes]:
    answers: list[bytes] = [b""] * len(wanted)
    for start in range(0, len(wanted), _WINDOW):
        missing = set(range(start, min(start + _WINDOW, len(wanted))))
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
        """For people."""
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
