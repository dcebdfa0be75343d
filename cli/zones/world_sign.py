"""Signatures of a synthetic hierarchy: ECDSA P-256 keys made from the seed, NSEC or NSEC3 chains, DS records.

Keys and signatures are deterministic (RFC 6979) and valid from 2025 to 2040: the same options give the same
bytes, and a world made once does not expire during an experiment. The keys are worth nothing outside of it.
About 0.2 ms a signature.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import dns.dnssec
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from cryptography.hazmat.primitives.asymmetric import ec
from dns.rdtypes.ANY.DNSKEY import DNSKEY

from cli.zones.world_model import Draft, Settings, Zone, enclosing, parent_of
from cli.zones.world_records import Record

_INCEPTION, _EXPIRATION = "20250101000000", "20400101000000"
_KEY_TTL, _DS_TTL, _DENIAL_TTL = 3_600, 86_400, 900
_ORDER = int("FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551", 16)  # of the curve's group
_NSEC3_FROM = 0.35  # share of signed zones that deny by NSEC3
_UNSIGNED, _NO_DS = 0.2, 0.08  # shares of zones, below the top-level domains

RRset = dns.rrset.RRset


@dataclass(frozen=True)
class Key:
    """A private key with its record."""

    secret: ec.EllipticCurvePrivateKey
    record: DNSKEY


def decide(draft: Draft, settings: Settings) -> None:
    """Which zones are signed, how, and which of them lack a DS. Nothing without --signed."""
    for zone in list(draft.zones.values()) if settings.signed else []:
        top = zone.name.count(".") < 2
        chance = draft.source.random()
        kind = "nsec3" if draft.source.random() < _NSEC3_FROM and zone.name != "." else "nsec"
        if top or chance >= _UNSIGNED:
            draft.add(replace(zone, security=kind, ds=top or chance >= _UNSIGNED + _NO_DS))


def key(seed: int, zone: str, role: str) -> Key:
    """The zone's key for a role, "ksk" or "zsk"."""
    number = int.from_bytes(hashlib.sha512(f"reprise {seed} {zone} {role}".encode()).digest(), "big")
    secret = ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())
    flags = 257 if role == "ksk" else 256
    record = dns.dnssec.make_dnskey(secret.public_key(), dns.dnssec.ECDSAP256SHA256, flags)
    return Key(secret, record)


def delegation_signers(draft: Draft, settings: Settings) -> Iterator[tuple[str, Record]]:
    """DS records, each with the zone that it belongs into."""
    for zone in draft.zones.values():
        if zone.name == "." or not zone.security or not zone.ds:
            continue
        parent = draft.zones[enclosing(parent_of(zone.name), draft.zones)]
        if parent.security:
            own = key(settings.seed, zone.name, "ksk").record
            data = dns.dnssec.make_ds(dns.name.from_text(zone.name), own, "SHA256").to_text()
            yield parent.name, Record(zone.name, _DS_TTL, "DS", data)


def signed(zone: Zone, records: list[Record], seed: int) -> list[Record]:
    """The zone's records with keys, denial of existence and signatures."""
    keys = {role: key(seed, zone.name, role) for role in ("ksk", "zsk")}
    records = [
        *records,
        *(Record(zone.name, _KEY_TTL, "DNSKEY", one.record.to_text()) for one in keys.values()),
    ]
    salt = "" if len(zone.name) % 2 else "AB12"
    if zone.security == "nsec3":
        records.append(Record(zone.name, 0, "NSEC3PARAM", f"1 0 0 {salt or '-'}"))
    sets = _sets(records)
    view = _View(dns.name.from_text(zone.name), sets)
    chain = view.nsec3(salt) if zone.security == "nsec3" else view.nsec()
    made = [*records]
    for one in [*view.authoritative(), *chain]:
        if one in chain:
            made += _records(one)
        role = "ksk" if one.rdtype == dns.rdatatype.DNSKEY else "zsk"
        made.append(_signature(one, view.apex, keys[role]))
    return made


def _signature(one: RRset, apex: dns.name.Name, with_key: Key) -> Record:
    signature = dns.dnssec.sign(
        one,
        with_key.secret,
        apex,
        with_key.record,
        inception=_INCEPTION,
        expiration=_EXPIRATION,
        deterministic=True,
    )
    return Record(one.name.to_text(), one.ttl, "RRSIG", signature.to_text())


def _sets(records: Iterable[Record]) -> dict[dns.name.Name, dict[int, RRset]]:
    """RRsets by owner and type."""
    made: dict[dns.name.Name, dict[int, RRset]] = defaultdict(dict)
    for one in dict.fromkeys(records):
        owner, kind = dns.name.from_text(one.owner), dns.rdatatype.from_text(one.kind)
        data = dns.rdata.from_text(dns.rdataclass.IN, kind, one.data)
        rrset = made[owner].setdefault(int(kind), RRset(owner, dns.rdataclass.IN, kind))
        rrset.add(data, one.ttl)
    return made


def _records(one: RRset) -> list[Record]:
    kind = dns.rdatatype.to_text(one.rdtype)
    return [Record(one.name.to_text(), one.ttl, kind, data.to_text()) for data in one]


@dataclass(frozen=True)
class _View:
    """What of a zone's data is its own: not the glue, nor NS at cuts (RFC 4035, 2.2 to 2.4)."""

    apex: dns.name.Name
    sets: dict[dns.name.Name, dict[int, RRset]]

    def own_names(self) -> list[dns.name.Name]:
        """Names with data of the zone's, cuts included, in canonical order."""
        cuts = {name for name, kinds in self.sets.items() if self._is_cut(name, kinds)}
        return sorted(name for name in self.sets if not self._hidden(name, cuts))

    def authoritative(self) -> list[RRset]:
        """What is signed."""
        return [one for name in self.own_names() for one in self._signed_at(name)]

    def nsec(self) -> list[RRset]:
        names = self.own_names()
        chain = zip(names, [*names[1:], names[0]], strict=True)
        return [
            _denial(name, f"{following} {self._types(name, 'NSEC')}", "NSEC") for name, following in chain
        ]

    def nsec3(self, salt: str) -> list[RRset]:
        """One record a name, also for names that only have others below them."""
        own = self.own_names()
        names = {name.split(depth)[1] for name in own for depth in range(len(self.apex), len(name) + 1)}
        hashed = sorted((dns.dnssec.nsec3_hash(name, salt, 0, 1), name) for name in names)
        following = [one for one, _ in [*hashed[1:], hashed[0]]]
        return [
            _denial(
                dns.name.from_text(digest, self.apex),
                f"1 0 0 {salt or '-'} {after} {self._types(name, '')}",
                "NSEC3",
            )
            for (digest, name), after in zip(hashed, following, strict=True)
        ]

    def _is_cut(self, name: dns.name.Name, kinds: dict[int, RRset]) -> bool:
        return name != self.apex and int(dns.rdatatype.NS) in kinds

    def _hidden(self, name: dns.name.Name, cuts: set[dns.name.Name]) -> bool:
        """Below a cut."""
        while name != self.apex:
            name = name.parent()
            if name in cuts:
                return True
        return False

    def _signed_at(self, name: dns.name.Name) -> list[RRset]:
        kinds = self.sets[name]
        if self._is_cut(name, kinds):
            return [kinds[kind] for kind in kinds if kind == dns.rdatatype.DS]
        return list(kinds.values())

    def _types(self, name: dns.name.Name, own: str) -> str:
        """The type bitmap, as text."""
        kinds = self.sets.get(name, {})
        if self._is_cut(name, kinds):
            shown = [kind for kind in kinds if kind in (dns.rdatatype.NS, dns.rdatatype.DS)]
        else:
            shown = list(kinds)
        if own or self._signed_at_any(name):
            shown.append(int(dns.rdatatype.RRSIG))
        if own:
            shown.append(int(dns.rdatatype.from_text(own)))
        return " ".join(dns.rdatatype.to_text(dns.rdatatype.RdataType.make(kind)) for kind in sorted(shown))

    def _signed_at_any(self, name: dns.name.Name) -> bool:
        return name in self.sets and bool(self._signed_at(name))


def _denial(owner: dns.name.Name, text: str, kind: str) -> RRset:
    return dns.rrset.from_text(owner, _DENIAL_TTL, "IN", kind, text)
