"""The run's certificate authority: made for one run, kept in the private runtime folder, gone with it.

There are ca.pem, and NAME.pem and NAME.key for every distributor and for the controller. A certificate says
what its key is good for: the controller's is of client use, so it commands; a distributor's of server use, so
it takes commands and cannot give any to other hosts, unless it feeds some. The CA's own key is never written.
The server under test has a certificate of an authority of its own, so that nothing the server has opens the
control connections.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CONTROLLER = "controller"
_BACKDATE = datetime.timedelta(hours=1)  # hosts' clocks may differ a little
_LIFETIME = datetime.timedelta(days=30)


Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Authority:
    """A certificate authority in memory."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def make_authority() -> Authority:
    """A fresh P-256 authority that may sign end certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("reprise run CA")
    builder = _builder(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signing=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return Authority(key, builder.sign(key, hashes.SHA256()))


def issue(authority: Authority, name: str, address: str | None, feeder: bool = False) -> tuple[bytes, bytes]:
    """PEM certificate and private key for a program called `name`: with an address it takes commands, without
    it or as a feeder it gives them.
    """
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] if address else []
    uses += [ExtendedKeyUsageOID.CLIENT_AUTH] if feeder or not address else []
    return _sign(
        authority, name, (address,) if address else (), uses, ec.generate_private_key(ec.SECP256R1())
    )


def issue_service(
    authority: Authority, name: str, addresses: Iterable[str], key_type: str = "ecdsa-p256"
) -> tuple[bytes, bytes]:
    """PEM certificate and private key of the server under test; `key_type` as experiments name it."""
    of_rsa = key_type == "rsa-2048"
    key = rsa.generate_private_key(65_537, 2048) if of_rsa else ec.generate_private_key(ec.SECP256R1())
    return _sign(authority, name, addresses, [ExtendedKeyUsageOID.SERVER_AUTH], key)


def _sign(
    authority: Authority,
    name: str,
    addresses: Iterable[str],
    uses: list[x509.ObjectIdentifier],
    key: Key,
) -> tuple[bytes, bytes]:
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
    builder = _builder(_name(name), authority.certificate.subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signing=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(issuer_key, critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    pem, clear = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, clear)
    return certificate.public_bytes(pem), secret


def write_service(
    stems: Mapping[str, str], authority_file: Path, name: str, addresses: Iterable[str], key_type: str
) -> None:
    """STEM.pem and STEM.key for each stem, with the user who may read them ("" = ours); the authority's."""
    authority = make_authority()
    certificate, key = issue_service(authority, name, addresses, key_type)
    _put(authority_file, authority.certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    for stem, owner in stems.items():
        for end, content, mode in ((".pem", certificate, 0o644), (".key", key, 0o600)):
            _put(Path(stem + end), content, mode)
            if owner:
                shutil.chown(stem + end, owner)


def write(
    out: Path,
    hosts: dict[str, str],
    owner: str = "",
    feeders: Collection[str] = (),
    servers: dict[str, str] | None = None,
    authority: Path | None = None,
    name: str = "",
    addresses: list[str] | None = None,
    key_type: str = "",
) -> None:
    """What a run needs, a step of its plan: the authority's certificate and every pair, whose keys are for
    their owner only ("" = ours). Where `servers` has stems for servers under test, also what `write_service`
    writes.
    """
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = make_authority()
    _put(out / "ca.pem", own.certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    for host, address in [*hosts.items(), (CONTROLLER, None)]:
        certificate, key = issue(own, host, address, host in feeders)
        _put(out / f"{host}.pem", certificate, 0o644)
        _put(out / f"{host}.key", key, 0o600)
    for path in (out, *out.iterdir()) if owner else ():
        shutil.chown(path, owner)
    if servers and authority is not None:
        write_service(servers, authority, name, addresses or (), key_type)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signing,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signing,
        crl_sign=signing,
        encipher_only=False,
        decipher_only=False,
    )


def _put(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
