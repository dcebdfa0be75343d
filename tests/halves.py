"""Which questions of a capture's second half its first half can answer, decided by dnspython alone.

Nothing is shared with the zone builder but the pairing of queries and responses (`exchanges`). A question
counts where every RRset of its answer or referral, or its denial, was seen in the first half: from servers
that spoke with authority for a zone around the name, as the one that was asked did; a referral also from that
one alone. Its signatures need not have been seen (`Seen.signed`).
"""

import lzma
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from cli import programs

Item = tuple[str, str, frozenset[str]]  # owner, type, data
_HEADER, _RECORD = 24, 16  # sizes in a pcap


@dataclass(frozen=True)
class Exchange:
    """A response to a question."""

    time: str
    server: str
    response: dns.message.Message

    @property
    def key(self) -> tuple[str, str, str]:
        """As `reprise zones check` names it."""
        question = self.response.question[0]
        return self.time, self.server, f"{question.name} {dns.rdatatype.to_text(question.rdtype)}"


def split(capture: Path, first: Path, second: Path) -> None:
    """A pcap's packets before and after the middle of their number; a query's response goes with it."""
    data = lzma.decompress(capture.read_bytes()) if capture.suffix == ".xz" else capture.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    starts, at = [], _HEADER
    while at + _RECORD <= len(data):
        starts.append(at)
        at += _RECORD + struct.unpack_from(f"{order}I", data, at + 8)[0]
    middle = starts[len(starts) // 4 * 2]
    first.write_bytes(data[:middle])
    second.write_bytes(data[:_HEADER] + data[middle:])


def exchanges(capture: Path) -> list[Exchange]:
    """Whole responses, each pair of a question's server and response once."""
    argv = [programs.own("reprise-zonebuilder"), "exchanges", str(capture)]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    found: dict[tuple[str, bytes], Exchange] = {}
    for line in lines:
        time, server, _, text = line.split("\t")
        try:
            response = dns.message.from_wire(bytes.fromhex(text), ignore_trailing=True)
        except dns.exception.DNSException:
            continue
        if len(response.question) == 1 and not response.flags & dns.flags.TC:
            found.setdefault((server, bytes.fromhex(text)[2:]), Exchange(time, server, response))
    return list(found.values())


def item(rrset: dns.rrset.RRset) -> Item:
    """An RRset to compare: without TTL and order."""
    kind = dns.rdatatype.to_text(rrset.rdtype)
    return rrset.name.to_text().lower(), kind, frozenset(one.to_text().lower() for one in rrset)


def items(section: Iterable[dns.rrset.RRset]) -> list[Item]:
    return [item(one) for one in section if one.rdtype != dns.rdatatype.RRSIG]


def signatures(section: Iterable[dns.rrset.RRset]) -> list[Item]:
    """Of each signature what it covers, its algorithm and signer: the times change."""
    found = []
    for rrset in section:
        for one in rrset if rrset.rdtype == dns.rdatatype.RRSIG else ():
            covered, algorithm, *_, signer, _ = one.to_text().lower().split(None, 8)
            found.append((rrset.name.to_text().lower(), "RRSIG", frozenset((covered, algorithm, signer))))
    return found


def zone_of(response: dns.message.Message) -> str | None:
    """Whose authority a response shows: the owner of a SOA, or of NS records beside an answer. Where an alias
    leads to another zone nobody believes it (RFC 2181, section 5.4.1).
    """
    if not response.flags & dns.flags.AA:
        return None
    for rrset in (*response.authority, *response.answer):
        beside = rrset.rdtype == dns.rdatatype.NS and bool(response.answer)
        asked = response.question[0].name.is_subdomain(rrset.name)
        if asked and (rrset.rdtype == dns.rdatatype.SOA or beside):
            return rrset.name.to_text().lower()
    return None


def kind_of(response: dns.message.Message) -> str:
    """The class of a response; "failure" for those that say nothing of a zone."""
    if response.rcode() == dns.rcode.NXDOMAIN:
        return "nxdomain"
    if response.rcode() != dns.rcode.NOERROR:
        return "failure"
    if response.answer:
        return "answer" if response.flags & dns.flags.AA else "failure"
    if response.flags & dns.flags.AA:
        return "nodata"
    cuts = [one.name for one in response.authority if one.rdtype == dns.rdatatype.NS]
    below = cuts and all(response.question[0].name.is_subdomain(one) and one != dns.name.root for one in cuts)
    return "referral" if below else "failure"


@dataclass
class Seen:
    """What the first half shows."""

    servers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # of a zone
    zones: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # of a server
    items: dict[Item, set[str]] = field(default_factory=lambda: defaultdict(set))  # and who gave them
    denied: dict[tuple[str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, one: Exchange) -> None:
        kind, zone = kind_of(one.response), zone_of(one.response)
        if kind == "failure":
            return
        if zone is not None:
            self.servers[zone].add(one.server)
            self.zones[one.server].add(zone)
        for section in one.response.answer, one.response.authority, one.response.additional:
            for each in items(section) + signatures(section):
                self.items[each].add(one.server)
        for denial in denials(one.response, kind):
            self.denied[denial].add(one.server)

    def peers(self, server: str, owner: str) -> set[str]:
        """Those that spoke with authority for a zone around the name, if the server did."""
        found: set[str] = set()
        for zone in self.zones[server]:
            if dns.name.from_text(owner).is_subdomain(dns.name.from_text(zone)):
                found |= self.servers[zone]
        return found

    def signed(self, one: Exchange) -> bool:
        """Whether every signature of a response was seen."""
        wanted = signatures(one.response.answer) + signatures(one.response.authority)
        return all(self.items[each] & self.peers(one.server, each[0]) for each in wanted)

    def covers(self, one: Exchange) -> bool:
        """Whether everything that a response says, except for its signatures, was seen."""
        kind = kind_of(one.response)
        wanted = items(one.response.answer)
        if kind == "referral":
            wanted += [each for each in items(one.response.authority) if each[1] == "NS"]
            wanted += glue(one.response)
        own = {one.server} if kind == "referral" else set()  # which shows no zone's name
        said = all(self.items[each] & (own | self.peers(one.server, each[0])) for each in wanted)
        denied = all(
            self.denied[each] & self.peers(one.server, each[0]) for each in denials(one.response, kind)
        )
        return kind != "failure" and said and denied


def denials(response: dns.message.Message, kind: str) -> list[tuple[str, str, str]]:
    """Name, type and zone; for NXDOMAIN without a type. An alias's target is what is denied behind it."""
    soas = [one.name.to_text().lower() for one in response.authority if one.rdtype == dns.rdatatype.SOA]
    if not response.flags & dns.flags.AA or not soas:
        return []
    name = response.question[0].name
    aliases = {one.name: one[0].target for one in response.answer if one.rdtype == dns.rdatatype.CNAME}
    while name in aliases:
        name = aliases.pop(name)
    wanted = "" if kind == "nxdomain" else dns.rdatatype.to_text(response.question[0].rdtype)
    return [(name.to_text().lower(), wanted, soas[0])]


def glue(response: dns.message.Message) -> list[Item]:
    """Addresses of servers whose names lie in the zone that is referred to."""
    inside = {
        one.target
        for rrset in response.authority
        if rrset.rdtype == dns.rdatatype.NS
        for one in rrset
        if one.target.is_subdomain(rrset.name)
    }
    wanted = (dns.rdatatype.A, dns.rdatatype.AAAA)
    return [item(one) for one in response.additional if one.name in inside and one.rdtype in wanted]
