"""The run's certificate authority: made for one run, kept in the private runtime folder, gone with it.

There are ca.pem, and NAME.pem and NAME.key for every distributor and for the controller. A certificate says
what its key is good for: the controller's is of client use, so it commands; a distributor's of server use, so
it takes commands and cannot give any to other hosts, unless it feeds some. The CA's own key is never written.
The server under test has a certificate of an authority of its own, so that nothing the server has opens the
control connections.
"""

import datetime
import inspect
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


@dataclass(frozen=True)
class Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def make_authority() -> Authority:
    """A fresh P-256 authority that may sign end certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return Authority(key, _signed("reprise run CA", key, None, identifier))


def issue(
    authority: Authority, name: str, addresses: Iterable[str] = (), feeder: bool = False, key_type: str = ""
) -> tuple[bytes, bytes]:
    """PEM certificate and private key for a program called `name`: with addresses it serves or takes
    commands, without any or as a feeder it gives commands. `key_type` as experiments name it.
    """
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] if names[1:] else []
    uses += [ExtendedKeyUsageOID.CLIENT_AUTH] if feeder or not uses else []
    of_rsa = key_type == "rsa-2048"
    key = rsa.generate_private_key(65_537, 2048) if of_rsa else ec.generate_private_key(ec.SECP256R1())
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    more = (x509.ExtendedKeyUsage(uses), x509.SubjectAlternativeName(names), issuer_key)
    certificate = _signed(name, key, authority, *more)
    pem, clear = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, clear)
    return certificate.public_bytes(pem), secret


def write_service(
    stems: Mapping[str, str], authority_file: Path, name: str, addresses: Iterable[str], key_type: str
) -> None:
    """STEM.pem and STEM.key for each stem, with the user who may read them ("" = ours); the authority's."""
    authority = make_authority()
    pair = issue(authority, name, addresses, key_type=key_type)
    _put({authority_file: authority.certificate.public_bytes(serialization.Encoding.PEM)}, "")
    for stem, owner in stems.items():
        _put(_pair(stem, pair), owner)


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
    files = {out / "ca.pem": own.certificate.public_bytes(serialization.Encoding.PEM)}
    files |= _pair(f"{out}/{CONTROLLER}", issue(own, CONTROLLER))
    for host, address in hosts.items():
        files |= _pair(f"{out}/{host}", issue(own, host, (address,), host in feeders))
    _put(files, owner)
    if owner:
        shutil.chown(out, owner)
    if servers and authority is not None:
        write_service(servers, authority, name, addresses or (), key_type)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    authority: Authority | None,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    """By an authority, or as one by itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    own, now = authority is None, datetime.datetime.now(datetime.UTC)
    uses = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
    uses |= {"digital_signature": not own, "key_cert_sign": own, "crl_sign": own}
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=own, path_length=0 if own else None), critical=True)
        .add_extension(x509.KeyUsage(**uses), critical=True)
    )
    for one in extensions:
        builder = builder.add_extension(one, critical=False)
    return builder.sign(authority.key if authority else key, hashes.SHA256())


def _pair(stem: str, pair: tuple[bytes, bytes]) -> dict[Path, bytes]:
    return {Path(stem + end): content for end, content in zip((".pem", ".key"), pair, strict=True)}


def _put(files: Mapping[Path, bytes], owner: str) -> None:
    for path, content in files.items():
        mode = 0o600 if path.suffix == ".key" else 0o644
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if owner:
            shutil.chown(path, owner)
