"""A signed root-like zone from the top-level names in Debian's publicsuffix package.

Deterministic by seed up to the keys and signatures, which are made anew (dnssec-keygen, dnssec-signzone).
Shape of the real root: 13 name servers with glue, for each TLD 2 to 6 name servers, in-bailiwick with glue or
of a shared registry, and DS records for most. Addresses are of documentation and benchmark ranges and lead
nowhere.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cli import programs
from cli.errors import RepriseError, UsageError, tell

SUFFIX_LIST = Path("/usr/share/publicsuffix/public_suffix_list.dat")
SERIAL = 2026010100
_ROOT_LETTERS = "abcdefghijklm"
_REGISTRY_SHARE = 0.55  # of the TLDs served by a registry's shared servers
_TLD_TTL = 172_800
_DS_TTL = 86_400


@dataclass(frozen=True)
class Settings:
    """What the zone depends on."""

    seed: int = 1
    ds_share: float = 0.9
    ksk_bits: int = 2048
    zsk_bits: int = 2048

    def key(self) -> str:
        """Names a cached zone: the settings, this program and the list of names."""
        text = f"{self}|{SERIAL}|{Path(__file__).read_text(encoding='utf-8')}|{_read_list(SUFFIX_LIST)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_list(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise RepriseError(f"no {path}", "apt-get install publicsuffix") from None


def tlds(suffix_list: str) -> list[str]:
    """The top-level names of a public suffix list in A-label form, sorted; private rules are left out."""
    found = set()
    for line in suffix_list.splitlines():
        rule = line.strip()
        if rule == "// ===END ICANN DOMAINS===":
            break
        if rule and not rule.startswith("//"):
            found.add(_ascii(rule.split()[0].lstrip("!*.").rsplit(".", 1)[-1]))
    return sorted(name for name in found if name)


def _ascii(label: str) -> str:
    return label.encode("idna").decode("ascii").lower() if not label.isascii() else label.lower()


def zone_text(names: list[str], settings: Settings) -> str:
    """The unsigned zone in master file form."""
    source = random.Random(settings.seed)
    lines = [
        "$ORIGIN .",
        f"$TTL {_TLD_TTL}",
        f". 86400 IN SOA a.root-servers.net. nstld.example. {SERIAL} 1800 900 604800 86400",
    ]
    for number, letter in enumerate(_ROOT_LETTERS, 1):
        lines += [
            f". 518400 IN NS {letter}.root-servers.net.",
            *_glue(f"{letter}.root-servers.net.", number, 518_400),
        ]
    registries = _registries(source, names)
    for registry in registries:
        lines += [line for host in registry for line in _glue(host, source.randrange(1 << 16), _TLD_TTL)]
    for name in names:
        lines += _delegation(name, source, registries, settings.ds_share)
    return "\n".join(lines) + "\n"


def _registries(source: random.Random, names: list[str]) -> list[list[str]]:
    """Registries' shared servers, each below a TLD of the list so that their glue is the root's to give."""
    count = max(4, len(names) // 40)
    homes = [source.choice(names) for _ in range(count)]
    return [
        [f"ns{letter}.registry{index}.{home}." for letter in "abcdef"] for index, home in enumerate(homes)
    ]


def _delegation(name: str, source: random.Random, registries: list[list[str]], ds_share: float) -> list[str]:
    count = source.choices((2, 3, 4, 5, 6), weights=(10, 15, 40, 10, 25))[0]
    if source.random() < _REGISTRY_SHARE:
        hosts, glue = source.choice(registries)[:count], []
    else:
        hosts = [f"{letter}.nic.{name}." for letter in "abcdef"[:count]]
        glue = [line for host in hosts for line in _glue(host, source.randrange(1 << 16), _TLD_TTL)]
    lines = [f"{name}. {_TLD_TTL} IN NS {host}" for host in hosts] + glue
    if source.random() < ds_share:
        lines.append(_ds(name, source))
    return lines


def _glue(host: str, number: int, ttl: int) -> list[str]:
    """Addresses of 198.18.0.0/15 (benchmarks) and 2001:db8::/32 (documentation)."""
    return [
        f"{host} {ttl} IN A 198.{18 + (number >> 15 & 1)}.{number >> 7 & 255}.{1 + (number & 127)}",
        f"{host} {ttl} IN AAAA 2001:db8:{number:x}::53",
    ]


def _ds(name: str, source: random.Random) -> str:
    """A DS of the right form; there is no key behind it, because nothing below the root is served."""
    digest = source.getrandbits(256).to_bytes(32, "big").hex().upper()
    return f"{name}. {_DS_TTL} IN DS {source.randrange(1, 65_536)} 8 2 {digest}"


def sign(text: str, settings: Settings, folder: Path) -> Path:
    """Signs the zone with fresh keys (RSASHA256, NSEC) in `folder`; returns the signed file, verified."""
    unsigned, signed = folder / "root.zone", folder / "root.zone.signed"
    unsigned.write_text(text, encoding="ascii")
    keys = [
        _tool(
            folder, "dnssec-keygen", "-q", "-K", str(folder), "-a", "RSASHA256", "-b", str(bits), *flags, "."
        )
        for bits, flags in ((settings.ksk_bits, ("-f", "KSK")), (settings.zsk_bits, ()))
    ]
    _tool(
        folder,
        "dnssec-signzone",
        "-q",
        "-S",
        "-K",
        str(folder),
        "-d",
        str(folder),
        "-o",
        ".",
        "-x",
        "-e",
        "now+31536000",
        "-N",
        "keep",
        "-O",
        "full",
        "-f",
        str(signed),
        str(unsigned),
    )
    _tool(folder, "dnssec-verify", "-q", "-o", ".", str(signed))
    assert len(keys) == 2
    return signed


def _tool(folder: Path, name: str, *arguments: str) -> str:
    done = subprocess.run(
        [programs.packaged(name), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RepriseError(
            f"{name} failed: {done.stderr.strip() or done.stdout.strip()}", "see `reprise doctor`"
        )
    return done.stdout.strip()


def make(settings: Settings, target: Path, cache: Path | None) -> None:
    """Writes the signed zone, from the cache when the same settings were signed before."""
    names = tlds(_read_list(SUFFIX_LIST))
    kept = cache / f"root-{settings.key()}.zone" if cache else None
    if kept is not None and kept.is_file():
        shutil.copyfile(kept, target)
        return
    with tempfile.TemporaryDirectory(prefix="reprise-zone-") as folder:
        shutil.copyfile(sign(zone_text(names, settings), settings, Path(folder)), target)
    if kept is not None:
        _keep(target, kept)


def _keep(source: Path, kept: Path) -> None:
    """Puts the zone in the cache whole or not at all; a cache that cannot be written is no error."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        half = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(source, half)
        half.replace(kept)
    except OSError:
        return


def main(arguments: list[str]) -> int:
    """The plan's zone step."""
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m cli.zones.rootzone", description=__doc__)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--ds-share", type=float, default=default.ds_share)
    parser.add_argument("--ksk-bits", type=int, default=default.ksk_bits)
    parser.add_argument("--zsk-bits", type=int, default=default.zsk_bits)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        if not 0 <= options.ds_share <= 1:
            raise UsageError(f"ds_share = {options.ds_share} is out of range", "use 0 to 1")
        settings = Settings(options.seed, options.ds_share, options.ksk_bits, options.zsk_bits)
        make(settings, options.out, options.cache)
    except RepriseError as error:
        tell(error)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
