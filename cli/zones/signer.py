"""Signatures of generated zones, by dnssec-signzone.

Ed25519 keys come from a seed, and their signatures are deterministic (RFC 8032): the same zone, seed and
times give the same bytes. Others are made by dnssec-keygen and are new each time. About 20 ms of processor
time a zone. The keys are worth nothing outside of an experiment.
"""

import base64
import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdata
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cli.errors import RepriseError
from cli.zones import bind_tools
from cli.zones.world_model import Record, records_of, text_of

VALID = ("-s", "20250101000000", "-e", "20400101000000")  # so that nothing expires during an experiment
HOW = ("-P", "-n", "1")  # without a check of what was just signed, in one thread
KEY_TTL, _DS_TTL = 3_600, 86_400
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


def new_key(zone: str, role: str, algorithm: str, bits: int) -> Key:
    """A key of its own; `bits` counts for RSA alone."""
    flags = ("-f", "KSK") if role == "ksk" else ()
    size = ("-b", str(bits)) if algorithm.startswith("RSA") else ()
    with tempfile.TemporaryDirectory(prefix="reprise-key-") as folder:
        argv = ("dnssec-keygen", "-q", "-K", folder, "-a", algorithm, *size, *flags, zone)
        file = f"{folder}/{_tool(argv, folder).strip()}"
        record, private = (Path(f"{file}.{end}").read_text(encoding="ascii") for end in ("key", "private"))
    return Key(record.split(" IN DNSKEY ")[1].strip(), private)


def ds_records(chain: Mapping[str, str], keys: Mapping[str, Sequence[Key]]) -> dict[str, list[Record]]:
    """DS records by the zone that gets them; `chain` says which one. Of a zone's keys the KSK is first."""
    found: dict[str, list[Record]] = {}
    for name, above in chain.items():
        ksk = dns.rdata.from_text("IN", "DNSKEY", keys[name][0].data)
        data = dns.dnssec.make_ds(dns.name.from_text(name), ksk, "SHA256").to_text()
        found.setdefault(above, []).append(Record(name, _DS_TTL, "DS", data))
    return found


def signed(zone: str, records: Iterable[Record], key_ttl: int, keys: Sequence[Key], *how: str) -> str:
    """The zone's text with keys, denial of existence and signatures, where there are keys; `how` are options
    of dnssec-signzone.
    """
    text = text_of([*records, *(Record(zone, key_ttl, "DNSKEY", key.data) for key in keys)])
    if not keys:
        return text
    with tempfile.TemporaryDirectory(prefix="reprise-key-") as folder:
        files = [f"{folder}/{number}" for number in range(len(keys))]
        for file, key in zip(files, keys, strict=True):
            Path(f"{file}.key").write_text(f"{zone} IN DNSKEY {key.data}\n", encoding="ascii")
            Path(f"{file}.private").write_text(key.private, encoding="ascii")
        unsigned = f"{folder}/unsigned"
        Path(unsigned).write_text(text, encoding="latin-1")
        argv = ("dnssec-signzone", "-q", "-x", "-O", "full", "-d", folder, "-o", zone, *how, "-f", "-")
        made = _tool((*argv, unsigned, *files), folder)
    return text + text_of(sorted({one for one in records_of(made) if one.kind in _ADDED}))


def problem(file: Path, zone: str) -> str:
    """What dnssec-verify has against a signed zone; empty where it has nothing."""
    argv = ("dnssec-verify", "-q", "-x", "-o", zone, str(file.absolute()))
    done = bind_tools.run(argv, file.parent)
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else f"{zone}: {lines[0] if lines else 'dnssec-verify refuses it'}"


def _tool(argv: Sequence[str], folder: str) -> str:
    """What the program prints; it may write into the folder."""
    done = bind_tools.run(argv, writable=Path(folder))
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).decode("utf-8", "replace")
        raise RepriseError(f"{argv[0]} failed: {said}", "see `reprise doctor`")
    return done.stdout.decode("latin-1")
