"""Zones for the comparison of statelessTCP with the kernel's TCP: many types, and replies of exact sizes."""

from collections.abc import Iterator
from pathlib import Path

from cli.zones import signer
from cli.zones.world_model import Record, text_of

ZONE = "re.test."  # signed, transferred, never changed
DYNAMIC = "up.test."  # BIND takes updates of it
CHANGED = "ix.test."  # was changed once, before the tests: BIND has the difference
KEY, SECRET = "transfer-key.", "c3RhdGVsZXNzVENQLXRlc3Qta2V5LTMyLWJ5dGVzISE="
SIZES = (100, 500, 512, 513, 1000, 1200, 1232, 1233, 1400, 1458, 1500, 2000, 4000, 16_000, 60_000)
SMALLEST = 44  # the reply with one address of ab.re.test.
OLD_SERIAL = 2026010100
_TTL = 300
_HEAD, _RR = 12 + 4, 12  # a reply without an OPT: header and type and class; owner (compressed) to length
_MOST_DATA = 1_000
_HOSTS = 12  # mail servers (BIND adds the addresses of 13 at most), whose addresses fill more than a segment


def sized(size: int) -> Iterator[Record]:
    """The TXT records of sN.re.test., whose reply without OPT and authority is of exactly N bytes."""
    owner = f"s{size}.{ZONE}"
    rest = size - _HEAD - (len(owner) + 1)
    count = -(-rest // (_MOST_DATA + _RR))
    for number in range(count):
        share = rest // count + (number < rest % count) - _RR
        yield Record(owner, _TTL, "TXT", _text(f"{number:03}", share))


def _text(mark: str, size: int) -> str:
    """Strings that begin with the mark and take `size` bytes with their lengths."""
    words = []
    while size > 0:
        part = min(size, 256) - 1
        words.append(f'"{(mark + "x" * 255)[:part]}"')
        size -= part + 1
    return " ".join(words)


def _soa(zone: str, serial: int) -> Record:
    return Record(zone, _TTL, "SOA", f"ns.{zone} hostmaster.{zone} {serial} 3600 600 86400 300")


def base(zone: str, serial: int = OLD_SERIAL) -> list[Record]:
    return [
        _soa(zone, serial),
        Record(zone, _TTL, "NS", f"ns.{zone}"),
        Record(f"ns.{zone}", _TTL, "A", "192.0.2.1"),
        Record(f"ns.{zone}", _TTL, "AAAA", "2001:db8::1"),
    ]


def records() -> list[Record]:
    """The unsigned contents of re.test."""
    made = base(ZONE)
    rows = """
        ab A 192.0.2.2
        ab AAAA 2001:db8::2
        two A 192.0.2.3
        two A 192.0.2.4
        two TXT "one" "two"
        two MX 10 ab
        @ MX 10 ab
        _dns._tcp SRV 1 2 53 ab
        @ CAA 0 issue "ca.test"
        svc SVCB 1 ab alpn=dot port=853
        alias CNAME two
        chain CNAME alias
        out CNAME www.elsewhere.test.
        tree DNAME other
        a.other A 192.0.2.5
        *.wild A 192.0.2.6
        child NS ns.child
        ns.child A 192.0.2.7
        ns.child AAAA 2001:db8::7
    """
    for row in rows.strip().splitlines():
        owner, kind, data = row.split(maxsplit=2)
        relative = data.split()[-1] if kind in ("MX", "SRV", "CNAME", "DNAME", "NS") else ""
        if kind == "SVCB":
            data = data.replace(" ab ", f" ab.{ZONE} ")
        elif relative and not relative.endswith("."):
            data = f"{data}.{ZONE}"
        made.append(Record(ZONE if owner == "@" else f"{owner}.{ZONE}", _TTL, kind, data))
    for number in range(_HOSTS):
        host = f"mail{number}.many.{ZONE}"
        made.append(Record(f"many.{ZONE}", _TTL, "MX", f"10 {host}"))
        made += [Record(host, _TTL, "A", f"198.51.100.{number + 100 * n}") for n in range(2)]
        made += [Record(host, _TTL, "AAAA", f"2001:db8:{n}::{number:x}") for n in range(4)]
    made += [one for size in SIZES for one in sized(size)]
    return made


def write(folder: Path) -> dict[str, Path]:
    """The zone files by the zones' names."""
    keys = [signer.seeded_key(1, ZONE, role) for role in ("ksk", "zsk")]
    texts = {
        ZONE: signer.signed(ZONE, records(), _TTL, keys, *signer.VALID, *signer.HOW),
        DYNAMIC: text_of(base(DYNAMIC)),
        CHANGED: text_of([*base(CHANGED), *(sized_in(CHANGED, n) for n in range(100))]),
    }
    files = {}
    for zone, text in texts.items():
        files[zone] = folder / f"{zone}zone"
        files[zone].write_text(text, encoding="ascii")
    return files


def sized_in(zone: str, number: int) -> Record:
    """One of the records that make a transfer of a zone longer than a segment."""
    return Record(f"host{number}.{zone}", _TTL, "TXT", _text(f"{number:03}", 200))
