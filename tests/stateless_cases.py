"""What clients ask a front and the kernel's TCP: one list of cases, each with a row of the table that it is
counted in. The quick ones are part of the normal suite.
"""

import itertools
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.update

from tests.stateless_bed import SERVERS
from tests.stateless_client import LIMIT_S, Exchange, HalfClose, split, together, whole
from tests.stateless_views import RING
from tests.stateless_zones import CHANGED, DYNAMIC, KEY, OLD_SERIAL, SIZES, SMALLEST, ZONE

MSS = (536, 1220, 1460)
EDNS = (None, 512, 1232, 4096)
TYPES = (
    ("ab", "A"),
    ("two", "A"),
    ("two", "TXT"),
    ("@", "SOA"),
    ("@", "NS"),
    ("@", "MX"),
    ("many", "MX"),
    ("@", "CAA"),
    ("@", "DNSKEY"),
    ("svc", "SVCB"),
    ("_dns._tcp", "SRV"),
    ("chain", "A"),
    ("out", "A"),
    ("a.tree", "A"),
    ("x.wild", "A"),
    ("x.child", "A"),
    ("ab", "MX"),
    ("missing", "A"),
    ("two", "ANY"),
    ("@", "ANY"),
    ("elsewhere.test.", "A"),
)
_COOKIE, _ECS, _NSID, _KEEPALIVE, _PADDING, _UNKNOWN = 10, 8, 3, 11, 12, 65001
_TCP = socket.IPPROTO_TCP
_KEEPALIVE_OPTIONS = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
_FAST_OPEN_CONNECT = 30  # which the socket module lacks
# No query is as long as its id says: the front in user space takes a piece for a query that begins with its
# own length.
_idents = itertools.count(20_000)


@dataclass(frozen=True)
class Case:
    """One connection of the plain client; `mac` is the request's, where it is signed."""

    row: str
    name: str
    exchange: Exchange
    mac: bytes = b""
    transfer: bool = False
    servers: tuple[str, ...] = SERVERS
    families: tuple[int, ...] = (4, 6)
    quick: bool = False


@dataclass(frozen=True)
class ProgramCase:
    """One run of a client program; {server} and {file} are filled in."""

    row: str
    name: str
    argv: tuple[str, ...]
    asked: int = 1
    queries: str = ""  # dnsperf's file
    quick: bool = False
    families: tuple[int, ...] = (4, 6)


def owner(name: str) -> str:
    return ZONE if name == "@" else name if name.endswith(".") else f"{name}.{ZONE}"


def query(name: str, kind: str = "A", edns: int | None = None, **more: Any) -> dns.message.Message:
    """A query with a number of its own; `edns` is the size in the OPT."""
    plain = edns is None and not more
    made = dns.message.make_query(
        owner(name), kind, use_edns=False if plain else 0, payload=1232 if edns is None else edns, **more
    )
    made.flags &= ~dns.flags.RD
    made.id = next(_idents)
    return made


def wire(*asked: Any, **more: Any) -> bytes:
    return query(*asked, **more).to_wire(max_size=65_535)


def _option(code: int, data: bytes) -> dns.edns.GenericOption:
    return dns.edns.GenericOption(dns.edns.OptionType.make(code), data)


def case(row: str, name: str, exchange: Exchange, **more: Any) -> Case:
    return Case(row, name, exchange, **more)


# --- one query on a connection ----------------------------------------------------------------------------


def sizes() -> Iterator[Case]:
    for size, edns, mss in itertools.product((SMALLEST, *SIZES), EDNS, MSS):
        name, kind = ("ab", "A") if size == SMALLEST else (f"s{size}", "TXT")
        row = "up to 1.2 kB" if size <= 1200 else "1.2 to 4 kB" if size <= 4000 else "16 and 60 kB"
        quick = mss == 1460 and size in (SMALLEST, 1200, 2000, 60_000) and edns in (None, 1232)
        yield case(
            f"one query, reply of {row}",
            f"reply {size}, EDNS {edns}, MSS {mss}",
            whole(wire(name, kind, edns), mss=mss),
            quick=quick,
        )


def types() -> Iterator[Case]:
    for (name, kind), do in itertools.product(TYPES, (None, False, True)):
        more = {} if do is None else {"edns": 4096, "want_dnssec": do}
        label = "" if do is None else ", EDNS" + ", DO" * do
        row = "types, aliases, wildcards, referrals, errors" + ", with DO" * bool(do)
        quick = name in ("ab", "many", "a.tree", "missing", "two") and do is not False
        yield case(row, f"{name} {kind}{label}", whole(wire(name, kind, **more)), quick=quick)


def options() -> Iterator[Case]:
    for label, code, data in (
        ("COOKIE", _COOKIE, b"clientco"),
        ("COOKIE with an old server cookie", _COOKIE, b"clientco" + bytes(16)),
        ("COOKIE of a wrong size", _COOKIE, b"short"),
        ("padding", _PADDING, bytes(50)),
        ("ECS", _ECS, b"\0\1\x18\0\xc0\0\2"),
        ("NSID", _NSID, b""),
        ("TCP keepalive", _KEEPALIVE, b""),
        ("unknown option", _UNKNOWN, b"what"),
    ):
        asked = wire("ab", "A", 1232, options=[_option(code, data)])
        row = {_COOKIE: "COOKIE", _PADDING: "padding", _ECS: "ECS"}.get(code, "other EDNS options")
        yield case(row, label, whole(asked), quick=True)
    later = query("ab", "A", 1232)
    later.use_edns(1, payload=1232)
    yield case("other EDNS options", "EDNS version 1", whole(later.to_wire()), quick=True)


# --- pieces and several queries ---------------------------------------------------------------------------


def splits() -> Iterator[Case]:
    asked = wire("two", "TXT", 1232)
    end = len(asked) + 2
    for label, at in (
        ("after 2 bytes", (2,)),
        ("after 1 byte", (1,)),
        ("after the header", (14,)),
        ("in the question", (20,)),
        ("before the last byte", (end - 1,)),
        ("in three", (2, 20)),
        ("byte by byte", tuple(range(1, end))),
    ):
        yield case("split query", label, split(asked, *at), quick=label.startswith("after 2"))
    long = wire("s2000", "TXT", 4096)
    yield case("split query", "after 2 bytes, long reply", split(long, 2), quick=True)
    padded = wire("ab", "A", 1232, options=[_option(_PADDING, bytes(1800))])
    for mss in MSS:
        exchange = whole(padded, mss=mss)
        yield case("query longer than a segment", f"1.8 kB, MSS {mss}", exchange, quick=mss == 536)


def pipelined() -> Iterator[Case]:
    for count, (kind, make) in itertools.product((2, 20), (("one segment", together), ("segments", whole))):
        for label, name in (("short", "ab"), ("mixed", "")):
            names = [(name, "A") if name else TYPES[n % 18] for n in range(count)]
            asked = [wire(*one) for one in names]
            yield case(
                f"{count} pipelined in {kind}",
                f"{label} replies",
                make(*asked),
                quick=label == "short",
            )


def in_turn() -> Iterator[Case]:
    for count in (2, 20):
        asked = [wire(*TYPES[n % 18]) for n in range(count)]
        exchange = whole(*asked, in_turn=True)
        yield case("one after the other on a connection", f"{count} queries", exchange, quick=count == 2)


def half_closes() -> Iterator[Case]:
    for label, how in (("after the query", HalfClose.AFTER), ("with the query", HalfClose.WITH)):
        for size in ("ab A", "s1200 TXT", "s16000 TXT"):
            name, kind = size.split()
            exchange = whole(wire(name, kind, 1232), half_close=how)
            yield case("half-close, then read", f"{label}, {size}", exchange, quick=name == "ab")
    asked = wire("ab")
    exchange = split(asked, 2, half_close=HalfClose.AFTER)
    yield case("half-close, then read", "split query", exchange, quick=True)


def idle() -> Iterator[Case]:
    row = "query a second after the handshake"
    yield case(row, "ab", whole(wire("ab"), idle_s=1.0))
    probes = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *((_TCP, one, 1) for one in _KEEPALIVE_OPTIONS))
    exchange = whole(wire("ab"), idle_s=3.5, settings=probes, limit_s=3.5 + LIMIT_S)
    yield case("query after keepalive probes", "ab", exchange)


def sockets() -> Iterator[Case]:
    """Other ways to open a connection, and little room for replies."""
    small = ((socket.SOL_SOCKET, socket.SO_RCVBUF, 1),)  # the least that the kernel gives
    for size in (1200, 4000, 16_000):
        asked = wire(f"s{size}", "TXT", 4096)
        exchange = whole(asked, settings=small)
        yield case("small receive window", f"reply {size}", exchange, quick=size == 4000)
    fast = ((_TCP, _FAST_OPEN_CONNECT, 1),)
    for number in range(2):  # the second knows whether the server has cookies
        exchange = whole(wire("ab"), settings=fast)
        yield case("TCP Fast Open asked for", f"connection {number + 1}", exchange, quick=True)


# --- other than plain queries -----------------------------------------------------------------------------


def signed() -> Iterator[Case]:
    for name, kind in (("ab", "A"), ("s2000", "TXT")):
        asked = query(name, kind, 4096)
        asked.use_tsig(RING, KEY, algorithm=dns.tsig.HMAC_SHA256)
        sent = asked.to_wire()
        yield case("TSIG", f"{name} {kind}", whole(sent), mac=asked.mac, quick=True)
        yield case("TSIG", f"{name} {kind}, a wrong MAC", whole(sent[:-20] + bytes(20)))


def transfers() -> Iterator[Case]:
    for label, zone, row in (("signed zone", ZONE, "AXFR"), ("changed zone", CHANGED, "AXFR")):
        asked = query(zone, "AXFR")
        yield _transfer(row, label, asked, 2, quick=zone == CHANGED)
    with_key = query(CHANGED, "AXFR")
    with_key.use_tsig(RING, KEY, algorithm=dns.tsig.HMAC_SHA256)
    yield _transfer("AXFR", "with TSIG", with_key, 2)
    for label, serial, soas in (("old serial", OLD_SERIAL, 4), ("current serial", OLD_SERIAL + 1, 1)):
        asked = query(CHANGED, "IXFR")
        data = f"ns.{CHANGED} hostmaster.{CHANGED} {serial} 3600 600 86400 300"
        asked.authority.append(dns.rrset.from_text(CHANGED, 300, "IN", "SOA", data))
        yield _transfer("IXFR", label, asked, soas, quick=True)


def _transfer(row: str, label: str, asked: dns.message.Message, soas: int, *, quick: bool = False) -> Case:
    """It ends with the last of so many SOA records, or an error."""
    sent = asked.to_wire()
    exchange = whole(sent, wanted=_soa_counter(soas))
    return case(row, label, exchange, mac=asked.mac, transfer=True, quick=quick)


def _soa_counter(soas: int) -> Any:
    def is_whole(found: list[bytes]) -> bool:
        """By the records alone: signatures are verified afterward."""
        seen = 0
        for one in found:
            if one[3] & 15:
                return True
            seen += sum(kind == dns.rdatatype.SOA for kind in _answer_types(one))
        return seen >= soas or (soas == 4 and _single_soa(found))

    return is_whole


def _single_soa(found: Sequence[bytes]) -> bool:
    """What a server says that has no difference to send: its SOA alone."""
    return bool(found) and list(_answer_types(found[0])) == [dns.rdatatype.SOA]


def _answer_types(message: bytes) -> Iterator[int]:
    at = 12
    for _ in range(int.from_bytes(message[4:6], "big")):
        at = _behind_name(message, at) + 4
    for _ in range(int.from_bytes(message[6:8], "big")):
        at = _behind_name(message, at)
        yield int.from_bytes(message[at : at + 2], "big")
        at += 10 + int.from_bytes(message[at + 8 : at + 10], "big")


def _behind_name(message: bytes, at: int) -> int:
    while message[at] and message[at] < 0xC0:
        at += 1 + message[at]
    return at + (2 if message[at] else 1)


def changes() -> Iterator[Case]:
    for zone, label in ((DYNAMIC, "allowed"), (ZONE, "refused"), ("elsewhere.test.", "no such zone")):
        update = dns.update.Update(zone)
        update.id = next(_idents)
        update.add(f"added.{zone}", 300, "A", "192.0.2.99")
        yield case("UPDATE", label, whole(update.to_wire()), quick=True)
    notify = query(ZONE, "SOA")
    notify.set_opcode(dns.opcode.NOTIFY)
    yield case("NOTIFY", "of a zone", whole(notify.to_wire()), quick=True)


def odd() -> Iterator[Case]:
    """What is no plain query: servers answer with an error, or close."""
    plain = wire("ab")
    no_question = plain[:4] + bytes(8)
    status = query("ab")
    status.set_opcode(dns.opcode.STATUS)
    for label, asked in (
        ("opcode STATUS", status.to_wire()),
        ("no question", no_question),
        ("two questions", plain[:5] + b"\2" + plain[6:] + plain[12:]),
        ("a question cut short", plain[:-3]),
        ("a reply", plain[:2] + b"\x80" + plain[3:]),
        ("RD and CD", plain[:2] + b"\1\x10" + plain[4:]),
        ("TC", plain[:2] + b"\2" + plain[3:]),
        (
            "a record in the answer section",
            plain[:7] + b"\1" + plain[8:] + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4abcd",
        ),
        ("two OPT records", plain[:11] + b"\2" + plain[12:] + b"\0\0\x29\x04\xd0\0\0\0\0\0\0" * 2),
        ("bytes after the query", plain + b"behind"),
        ("12 bytes of zeros", bytes(12)),
        ("5 bytes", b"\0\1\0\0\0"),
        ("length 0", b""),
        ("version.bind CH", dns.message.make_query("version.bind.", "TXT", "CH", id=4242).to_wire()),
        ("class ANY", dns.message.make_query(owner("ab"), "A", "ANY", id=4243).to_wire()),
        ("upper and lower case", dns.message.make_query("aB.Re.TEST.", "A", id=4244).to_wire()),
    ):
        yield case("odd queries", label, whole(asked), quick=label in ("opcode STATUS", "length 0"))


# --- programs ---------------------------------------------------------------------------------------------

_DIG = ("dig", "@{server}", "+tcp", "+tries=1", "+time=5")
_KDIG = ("kdig", "@{server}", "+tcp", "+retry=0", "+time=5")


def programs() -> Iterator[ProgramCase]:
    for label, words in (
        ("by itself", ()),
        ("+nocookie", ("+nocookie",)),
        ("+noedns", ("+noedns",)),
        ("+dnssec", ("+nocookie", "+dnssec")),
        ("+nsid +subnet", ("+nocookie", "+nsid", "+subnet=192.0.2.0/24")),
    ):
        argv = (*_DIG, *words, f"two.{ZONE}", "TXT")
        yield ProgramCase("dig", label, argv, quick=label in ("by itself", "+noedns"))
        kwords = [one for one in words if one != "+nocookie"]
        yield ProgramCase("kdig", label, (*_KDIG, *kwords, f"two.{ZONE}", "TXT"), quick=label == "+dnssec")
    yield ProgramCase("dig", "60 kB", (*_DIG, "+nocookie", f"s60000.{ZONE}", "TXT"))
    yield ProgramCase("dig", "AXFR", (*_DIG, CHANGED, "AXFR"))
    truncated = (
        "dig",
        "@{server}",
        "+tries=1",
        "+time=5",
        "+nocookie",
        "+bufsize=512",
        f"s4000.{ZONE}",
        "TXT",
    )
    yield ProgramCase("dig", "over UDP first", truncated, quick=True)
    yield ProgramCase("kdig", "60 kB", (*_KDIG, f"s60000.{ZONE}", "TXT"))
    yield ProgramCase("kdig", "+padding +cookie", (*_KDIG, "+padding=64", "+cookie", f"ab.{ZONE}"))
    names = (f"ab.{ZONE}", f"two.{ZONE}", f"alias.{ZONE}")
    yield ProgramCase("kdig +keepopen", "3 queries", (*_KDIG, "+keepopen", *names), asked=3, quick=True)
    yield ProgramCase("dig +keepopen", "3 queries", (*_DIG, "+nocookie", "+keepopen", *names), asked=3)
    queries = "".join(f"{owner(name)} {kind}\n" for name, kind in TYPES[:17])
    for label, more in (("-q 1", ("-q", "1", "-c", "1")), ("-q 100 -c 10", ("-q", "100", "-c", "10"))):
        argv = ("dnsperf", "-s", "{server}", "-m", "tcp", "-d", "{file}", "-n", "3", "-t", "5", *more)
        yield ProgramCase("dnsperf -m tcp", label, argv, 51, queries, quick=label == "-q 1")


def exchanges() -> list[Case]:
    """All of the plain client."""
    makers = (sizes, types, options, splits, pipelined, in_turn, half_closes, idle, sockets)
    return [one for make in (*makers, signed, transfers, changes, odd) for one in make()]
