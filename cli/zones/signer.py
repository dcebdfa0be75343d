"""Signatures of generated zones, by dnssec-signzone.

Ed25519 keys come from a seed, and their signatures are deterministic (RFC 8032): the same zone, seed and
times give the same bytes. RSA keys are made by dnssec-keygen and are new each time. About 20 ms of processor
time a zone. The keys are worth nothing outside of an experiment.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdata
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cli import programs
from cli.errors import RepriseError
from cli.zones.world_model import Record, text_of

_ADDED = ("NSEC", "NSEC3", "NSEC3PARAM", "RRSIG")


@dataclass(frozen=True)
class Key:
    """The data of a DNSKEY record, and the private key in BIND's form."""

    data: str
    private: str


def seeded_key(seed: int, zone: str, role: str) -> Key:
    """The zone's Ed25519 key for a role, "ksk" or "zsk"."""
    secret = hashlib.sha256(f"reprise {seed} {zone} {role}".encode()).digest()
    public = Ed25519PrivateKey.from_private_bytes(secret).public_key()
    record = dns.dnssec.make_dnskey(public, dns.dnssec.ED25519, 257 if role == "ksk" else 256)
    lines = ("Private-key-format: v1.3", "Algorithm: 15", f"PrivateKey: {base64.b64encode(secret).decode()}")
    return Key(record.to_text(), "".join(f"{line}\n" for line in lines))


def rsa_key(zone: str, bits: int, role: str) -> Key:
    """A new RSASHA256 key."""
    flags = ("-f", "KSK") if role == "ksk" else ()
    with tempfile.TemporaryDirectory(prefix="reprise-key-") as folder:
        argv = ("dnssec-keygen", "-q", "-K", folder, "-a", "RSASHA256", "-b", str(bits), *flags, zone)
        file = f"{folder}/{_tool(argv).strip()}"
        record, private = (Path(f"{file}.{end}").read_text(encoding="ascii") for end in ("key", "private"))
    return Key(record.split(" IN DNSKEY ")[1].strip(), private)


def delegation_signer(zone: str, ksk: Key) -> str:
    """Data of the DS record."""
    key = dns.rdata.from_text("IN", "DNSKEY", ksk.data)
    return dns.dnssec.make_ds(dns.name.from_text(zone), key, "SHA256").to_text()


def signed(zone: str, records: Iterable[Record], key_ttl: int, keys: Sequence[Key], *how: str) -> str:
    """The zone's text with keys, denial of existence and signatures; `how` are options of dnssec-signzone."""
    text = text_of([*records, *(Record(zone, key_ttl, "DNSKEY", key.data) for key in keys)])
    with tempfile.TemporaryDirectory(prefix="reprise-key-") as folder:
        files = [f"{folder}/{number}" for number in range(len(keys))]
        for file, key in zip(files, keys, strict=True):
            Path(f"{file}.key").write_text(f"{zone} IN DNSKEY {key.data}\n", encoding="ascii")
            Path(f"{file}.private").write_text(key.private, encoding="ascii")
        argv = ("dnssec-signzone", "-q", "-x", "-O", "full", "-d", folder, "-o", zone, *how, "-f", "-")
        made = _tool((*argv, "/dev/stdin", *files), text)
    lines = (line.split(None, 4) for line in made.splitlines() if not line.startswith(";"))
    added = {Record(owner, int(ttl), kind, data) for owner, ttl, _, kind, data in lines if kind in _ADDED}
    return text + text_of(sorted(added))


def _tool(argv: Sequence[str], text: str = "") -> str:
    """What the program wrote."""
    program, *rest = argv
    done = subprocess.run(
        [programs.packaged(program), *rest], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RepriseError(
            f"{program} failed: {done.stderr.strip() or done.stdout.strip()}", "see `reprise doctor`"
        )
    return done.stdout
