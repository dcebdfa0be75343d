"""`reprise bench zones`: responses made into zones a second of processor time, and the memory for it."""

import itertools
import random
import struct
from collections.abc import Iterator
from pathlib import Path

from bench import traces
from bench.session import Session, alone, make, pack, root_trace, want_rows
from bench.traces import datagram
from cli import linux, programs

ROWS = ("build", "reader")


def measure(session: Session) -> None:
    """A capture of a resolver's upstream side is made into zones; a root-like trace is for the reader."""
    want_rows(session.options.only, ROWS)
    upstream = session.traces / "upstream.pcap"
    traces.write(upstream, _packets(10_000 if session.options.quick else 1_000_000))
    trace, _ = root_trace(session)
    for repeat in range(session.options.repeats):
        argv = [programs.own("reprise-bench-reader"), str(trace)]
        alone(session, "reader", "reader", argv, repeat)  # the reference: the same reader, on queries
        _build(session, repeat, upstream)
    for file in (upstream, trace):
        pack(file)


def _build(session: Session, repeat: int, upstream: Path) -> None:
    """In memory: ext4 takes several times as long to make files when thousands were removed lately."""
    zones = session.folder / "zones"
    zones.mkdir()
    linux.mount("tmpfs", str(zones), "tmpfs", 0)
    argv = [programs.own("reprise-zonebuilder"), "build", str(upstream), "-o", str(zones)]
    folder = alone(session, "build", "reprise", argv, repeat)
    kept = [(file.name, file.read_bytes()) for file in zones.glob("*.json")]
    make([programs.packaged("umount"), str(zones)])
    zones.rename(folder / "zones")
    for name, data in kept:
        (folder / "zones" / name).write_bytes(data)


# --- the capture ------------------------------------------------------------------------------------------

# Between a resolver and name servers, made up: the root, top-level domains, domains below them. Sizes and
# shares are those of a resolver with a warm cache: of a hundred responses two are of the root, twenty of a
# top-level domain, the others of domains, a tenth of them denials. Names are asked with a Zipf-like share.

_TLDS, _DOMAINS = 200, 20_000
_RESOLVER = int.from_bytes((198, 51, 100, 1))
_ROOT = bytes((198, 41, 0, 4))
_GAP_US = 500  # 2,000 queries a second
_OPT_QUERY = struct.pack("!BHHIH", 0, 41, 1232, 0x8000, 0)
_A, _NS, _SOA = 1, 2, 6
_QUERY, _AA, _REFERRAL, _NXDOMAIN = 0x0010, 0x8400, 0x8000, 0x8403


def _record(owner: int, kind: int, ttl: int, data: bytes) -> bytes:
    """An owner at a place of the message."""
    return struct.pack("!HHHIH", 0xC000 | owner, kind, 1, ttl, len(data)) + data


def _server(number: int) -> bytes:
    """The address of a domain's name server; those of top-level domains have the lowest numbers."""
    return bytes((20 + (number >> 16), number >> 8 & 255, number & 255, 53))


def _exchange(chance: random.Random) -> tuple[bytes, bytes, bytes]:
    """The server's address, the query, the response; both without their ids."""
    domain = min(int(chance.paretovariate(0.6)) - 1, _DOMAINS - 1)
    if domain == _DOMAINS - 1:
        domain = chance.randrange(_DOMAINS)
    tld = domain % _TLDS
    names = (f"h{chance.randrange(8)}", f"domain{domain}", f"t{tld}")
    choice = chance.random()
    if choice < 0.02:
        server, (question, response) = _ROOT, _referral(names, 2, tld)
    elif choice < 0.22:
        server, (question, response) = _server(tld), _referral(names, 1, _TLDS + domain)
    else:
        server = _server(_TLDS + domain)
        question, response = _answer(server, names, choice < 0.3)
    return server, _message(question, _QUERY, (0, 0, 0), b""), response


def _question(names: tuple[str, ...]) -> tuple[bytes, list[int]]:
    """And the places of the names that end it."""
    places = itertools.accumulate((1 + len(one) for one in names[:-1]), initial=12)
    return traces.question_of(".".join(names)), list(places)


def _message(question: bytes, flags: int, counts: tuple[int, int, int], body: bytes) -> bytes:
    header = struct.pack("!HHHHH", flags, 1, counts[0], counts[1], counts[2] + 1)
    return header + question + body + _OPT_QUERY


def _servers(zone: int, at: int, first: int) -> bytes:
    """Two NS records of a zone at a place, and their addresses; `at` is where they begin."""
    records, glue = b"", b""
    for number in range(2):
        data = bytes((3,)) + f"ns{number}".encode() + struct.pack("!H", 0xC000 | zone)
        glue += _record(at + len(records) + 12, _A, 172_800, _server(first))
        records += _record(zone, _NS, 172_800, data)
    return records + glue


def _referral(names: tuple[str, ...], label: int, first: int) -> tuple[bytes, bytes]:
    question, places = _question(names)
    servers = _servers(places[label], 12 + len(question), first)
    return question, _message(question, _REFERRAL, (0, 2, 2), servers)


def _answer(server: bytes, names: tuple[str, ...], denied: bool) -> tuple[bytes, bytes]:
    if denied:
        names = (f"x{names[0]}", *names[1:])
    question, places = _question(names)
    zone = places[1]
    if denied:
        at = struct.pack("!H", 0xC000 | zone)
        data = b"\x03ns0" + at + b"\x0ahostmaster" + at + struct.pack("!5I", 1, 3600, 900, 604_800, 300)
        return question, _message(question, _NXDOMAIN, (0, 1, 0), _record(zone, _SOA, 300, data))
    first = int.from_bytes(server[:3]) - (20 << 16)
    answer = _record(places[0], _A, 300, bytes((192, 0, 2, len(names[0]) + ord(names[0][-1]) % 100)))
    servers = _servers(zone, 12 + len(question) + len(answer), first)
    return question, _message(question, _AA, (1, 2, 2), answer + servers)


def _packets(responses: int) -> Iterator[bytes]:
    chance = random.Random(1)
    for number in range(responses):
        server, query, response = _exchange(chance)
        client, asked = (_RESOLVER, 1_024 + number * 7 % 60_000), (int.from_bytes(server), 53)
        tag = struct.pack("!H", number & 0xFFFF)
        yield datagram(number * _GAP_US, client, asked, tag + query)
        yield datagram(number * _GAP_US + 20, asked, client, tag + response)
