"""Real resolvers on a signed hierarchy behind one server: they walk it, and trust what they should.

The resolver's host has a route to the meta addresses only; everything else that it sends to port 53 goes
through the proxy. The capture is taken at the meta-DNS-server's end of the link, where a query's source is
the address of the name server that the resolver meant.
"""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from cli import programs
from cli.experiment.schema import Hierarchy, Server
from cli.process import Process
from cli.servers import meta_servers
from cli.servers.kind import Site
from cli.servers.kinds import KINDS
from cli.servers.meta_servers import MetaSite
from cli.zones import world
from cli.zones.world_model import Settings, enclosing, parent_of
from tests import bed as beds
from tests import worlds
from tests.bed import wait_for
from tests.proxy_bed import META, OWN4, OWN6, RESOLVER, ProxyBed
from tests.slow import slow

pytestmark = pytest.mark.netns

_KINDS = ("bind", "unbound", "knot-resolver")


@dataclass(frozen=True)
class Names:
    """Second-level zones of the world."""

    secure: str  # with a whole chain of trust and a wildcard
    broken: str  # the same, but for one signature
    insecure: str  # without DS
    big: str  # secure, with a large TXT record


@dataclass
class Walk:
    """A hierarchy, the server that stands for all of it, and both proxies."""

    bed: ProxyBed
    data: worlds.Data
    planned: worlds.Planned
    names: Names

    def start_resolver(self, kind: str, edns_size: int = 4096, extra: str = "") -> Process:
        """With an empty cache. `extra` are lines of its configuration."""
        folder = self.bed.folder / f"{kind}-{len(self.bed.started)}"
        folder.mkdir()
        anchors = folder / "root.anchors"
        root_key = self.planned.folder / "root.key"
        anchors.write_text(meta_servers.bind_anchors(root_key.read_text()))
        site = Site(
            folder=str(folder),
            zones=(),
            hints=str(self.planned.folder / "root.hints"),
            anchors=str(root_key),
            bind_anchors=str(anchors),
            addresses=("127.0.0.1",),
            upstream=(OWN4, OWN6),
            user="",
            descriptors=4096,
            extra=extra,
            version=KINDS[kind].version(),
        )
        server = Server(kind="hierarchy", edns_size=edns_size)
        config = folder / "config"
        resolver = KINDS[kind].resolver
        assert resolver is not None
        config.write_text(resolver(server, Hierarchy(edns_size=edns_size), site))
        argv = {
            "bind": [programs.packaged("named"), "-g", "-n", "1", "-c", str(config)],
            "unbound": [programs.packaged("unbound"), "-d", "-c", str(config)],
            "knot-resolver": [programs.packaged("kresd"), "-n", "-c", str(config), str(folder)],
        }[kind]
        program = self.bed.start(RESOLVER, argv, folder.name)
        wait_for(lambda: self._listens() or program.has_ended(), f"{kind} listening")
        assert not program.has_ended(), program.text()
        return program

    def _listens(self) -> bool:
        with self.bed.inside(RESOLVER), socket.socket() as channel:
            return channel.connect_ex(("127.0.0.1", 53)) == 0

    def ask(self, name: str, kind: str = "A", flags: int = 0) -> dns.message.Message:
        """A client's question, DNSSEC wanted; over TCP where the resolver says so."""
        query = dns.message.make_query(name, kind, use_edns=0, want_dnssec=True, payload=4096)
        query.flags |= flags
        with self.bed.inside(RESOLVER):
            answer, _ = dns.query.udp_with_fallback(query, "127.0.0.1", timeout=20)
        return answer

    def zones_at(self, address: str) -> set[str]:
        """Names of the zones that the address serves."""
        return {name for name, _ in self.data.at.get(address, ())}


@dataclass(frozen=True)
class Asked:
    """A query as captured: the address that it was meant for, over what, its name (knot-resolver plays with
    the case).
    """

    address: str
    tcp: bool
    name: str


class Capture(beds.Capture):
    """What passes between the hosts."""

    def __init__(self, bed: ProxyBed) -> None:
        super().__init__(bed, META, "down0", f"{len(bed.started)}", snap=2048)

    def queries(self) -> list[Asked]:
        """Of the resolver, in order."""
        fields = ("ip.src", "ipv6.src", "tcp.stream", "dns.qry.name")
        rows = self.rows("dns.flags.response == 0", *fields)
        return [
            Asked(v4 or v6, bool(stream), f"{name.lower()}." if name != "<Root>" else ".")
            for v4, v6, stream, name in rows
        ]

    def count(self, wanted: str) -> int:
        """Packets that a filter finds."""
        return len(self.rows(wanted, "frame.number"))


def choose(files: dict[str, str]) -> Names:
    """Zones by what they show; `files` are zones' texts by name."""
    secure: list[str] = []
    insecure: list[str] = []
    for name, text in files.items():
        if name.count(".") != 2 or "mail." + name not in text:
            continue
        chain = [name, parent_of(name)]
        delegated = all(f"\n{one} 86400 DS " in files[enclosing(parent_of(one), files)] for one in chain)
        (secure if delegated else insecure).append(name)
    big = next(one for one in secure if f"big.{one}" in files[one])
    wild = next(one for one in secure if one != big and f"*.wild.{one}" in files[one])
    broken = next(one for one in secure if one not in (big, wild))
    return Names(wild, broken, insecure[-1], big)


def break_signature(text: str, owner: str) -> str:
    """The zone with other bytes at the end of the signature of the owner's address."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(f"{owner} ") and " RRSIG A " in line)
    lines[at] = lines[at][:-10] + "AAAAAAAA=="
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    folder.chmod(0o755)
    made = world.make(Settings(zones=60, seed=5, signed=True))
    names = choose({file.name: file.text for file in made.files})
    world.write(made, folder / "zones")
    broken = next(folder / "zones" / file.file for file in made.files if file.name == names.broken)
    broken.write_text(break_signature(broken.read_text(), f"mail.{names.broken}"))
    planned = worlds.plan(folder / "zones", folder / "plan", "--resolver", f"{OWN4},{OWN6}")
    with ProxyBed(folder) as bed:
        bed.map.write_text((planned.folder / "map.tsv").read_text())
        start_meta(bed, planned)
        bed.start_proxy(RESOLVER)
        bed.start_proxy(META)
        yield Walk(bed, worlds.load(folder / "zones"), planned, names)


def start_meta(bed: ProxyBed, planned: worlds.Planned) -> None:
    """One named with the plan's views."""
    folder = bed.folder / "meta"
    folder.mkdir()
    versions = (KINDS["bind"].version(),)
    site = MetaSite(str(folder), str(planned.folder), "", 4096, True, 4096, versions=versions)
    (folder / "named.conf").write_text(meta_servers.named(site, 1))
    for slot in planned.slots.values():
        for address in slot.addresses:
            bed.ip(META, "addr", "replace", address, "dev", "lo")
    bed.start_named(META, folder / "named.conf", name="meta", ready="all zones loaded")


@pytest.fixture
def capture(walk: Walk) -> Iterator[Capture]:
    made = Capture(walk.bed)
    yield made
    made.program.stop()


def eventually(capture: Capture, condition: Callable[[list[Asked]], bool]) -> list[Asked]:
    """The captured queries, once the condition holds for them: tcpdump writes a little later."""
    found: list[Asked] = []

    def holds() -> bool:
        found[:] = capture.queries()
        return condition(found)

    wait_for(holds, "the walk in the capture", 20)
    return found


@pytest.mark.parametrize("kind", _KINDS)
def test_a_cold_resolver_walks_from_the_root_and_validates(walk: Walk, capture: Capture, kind: str) -> None:
    zone = walk.names.secure
    levels = [".", parent_of(zone), zone]
    program = walk.start_resolver(kind)
    answer = walk.ask(f"www.{zone}")
    program.stop()
    assert answer.rcode() == dns.rcode.NOERROR and answer.answer
    assert answer.flags & dns.flags.AD, answer
    wanted = f"www.{zone}"
    asked = eventually(capture, lambda found: any(wanted == one.name for one in found))
    first = [
        next(n for n, one in enumerate(asked) if level in walk.zones_at(one.address)) for level in levels
    ]
    assert first == sorted(first) and first[0] == 0, asked
    assert all(one.address in walk.planned.slot for one in asked)
    final = [one for one in asked if one.name == wanted]
    assert any(zone in walk.zones_at(one.address) for one in final), asked


@pytest.mark.parametrize("kind", _KINDS)
def test_trust_follows_the_chain(walk: Walk, kind: str) -> None:
    """AD with the whole chain, none without DS, SERVFAIL for a bad signature unless checking is off."""
    names = walk.names
    program = walk.start_resolver(kind)
    insecure = walk.ask(f"www.{names.insecure}")
    broken = walk.ask(f"mail.{names.broken}")
    unchecked = walk.ask(f"mail.{names.broken}", flags=dns.flags.CD)
    whole = walk.ask(f"www.{names.broken}")
    missing = walk.ask(f"nx.{names.secure}")
    wild = walk.ask(f"some.wild.{names.secure}")
    program.stop()
    assert insecure.rcode() == dns.rcode.NOERROR and insecure.answer
    assert not insecure.flags & dns.flags.AD
    assert broken.rcode() == dns.rcode.SERVFAIL
    assert unchecked.rcode() == dns.rcode.NOERROR and unchecked.answer
    assert whole.flags & dns.flags.AD and whole.answer
    assert missing.rcode() == dns.rcode.NXDOMAIN and missing.flags & dns.flags.AD
    assert wild.answer and wild.flags & dns.flags.AD


_NEVER_ASK = {  # name servers of these addresses
    "bind": "server {} {{ bogus yes; }};\n",
    "unbound": "server:\n    do-not-query-address: {}\n",
}
_FRAGMENTS = {4: "ip.flags.mf == 1 or ip.frag_offset > 0", 6: "ipv6.fraghdr"}


@pytest.mark.parametrize(
    ("kind", "family"), [("bind", 4), ("unbound", 6), slow("bind", 6), slow("unbound", 4)]
)
def test_a_large_answer_comes_in_fragments(walk: Walk, capture: Capture, kind: str, family: int) -> None:
    name = f"big.{walk.names.big}"
    other = "::/0" if family == 4 else "0.0.0.0/0"
    program = walk.start_resolver(kind, extra=_NEVER_ASK[kind].format(other))
    answer = walk.ask(name, "TXT")
    program.stop()
    assert answer.flags & dns.flags.AD
    assert len(answer.to_wire(max_size=65_535)) > 3_600
    wait_for(lambda: capture.count(_FRAGMENTS[family]) >= 3, "three fragments", 20)
    asked = [one for one in capture.queries() if one.name == name]
    assert asked and all((":" in one.address) == (family == 6) and not one.tcp for one in asked), asked


@pytest.mark.parametrize("kind", _KINDS)
def test_a_truncated_answer_is_asked_for_again_by_tcp(walk: Walk, capture: Capture, kind: str) -> None:
    name = f"big.{walk.names.big}"
    program = walk.start_resolver(kind, edns_size=1232)
    answer = walk.ask(name, "TXT")
    program.stop()
    assert answer.flags & dns.flags.AD
    assert len(answer.to_wire(max_size=65_535)) > 3_600
    asked = eventually(capture, lambda found: any(one.name == name and one.tcp for one in found))
    assert any(one.name == name and not one.tcp for one in asked)
    assert capture.count(" or ".join(_FRAGMENTS.values())) == 0


def test_resolvers_agree_on_every_name_of_the_world(walk: Walk) -> None:
    """All that clients of such a world ask: answered, and alike in what is validated."""
    names = (walk.data.folder / "names.txt").read_text().split()
    said: dict[str, dict[str, tuple[int, bool, int]]] = {}
    for kind in _KINDS:
        program = walk.start_resolver(kind)
        said[kind] = {name: outcome(walk.ask(name)) for name in names}
        program.stop()
    for name in names:
        answers = {kind: said[kind][name] for kind in _KINDS}
        assert len(set(answers.values())) == 1, (name, answers)
    one = said[_KINDS[0]]
    broken = f"mail.{walk.names.broken}"
    assert [name for name in names if one[name][0] == dns.rcode.SERVFAIL] == [broken]
    assert sum(trusted for _, trusted, _ in one.values()) > len(names) / 3


def outcome(answer: dns.message.Message) -> tuple[int, bool, int]:
    """Response code, whether it is trusted, and how many sets of records answer."""
    sets = [one for one in answer.answer if one.rdtype != dns.rdatatype.RRSIG]
    return answer.rcode(), bool(answer.flags & dns.flags.AD), len(sets)
