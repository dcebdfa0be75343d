"""A signed root-like zone from the top-level names in Debian's publicsuffix package.

Deterministic by seed up to the keys (RSASHA256) and signatures, which are made anew (dnssec-keygen,
dnssec-signzone, which checks what it signed).
Shape of the real root: 13 name servers with glue, for each TLD 2 to 6 name servers, in-bailiwick with glue or
of a shared registry, and DS records for most. Addresses are of documentation and benchmark ranges and lead
nowhere.
"""

import contextlib
import hashlib
import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from cli.errors import RepriseError
from cli.zones import signer
from cli.zones import world_model as model
from cli.zones.world_model import LETTERS, ROOT, ROOT_SERVERS, SERIAL, Record, address_records

SUFFIX_LIST = Path("/usr/share/publicsuffix/public_suffix_list.dat")
_REGISTRY_SHARE = 0.55  # of the TLDs served by a registry's shared servers
_ROOT_TTL, _TLD_TTL, _KEY_TTL, _DS_TTL = 518_400, 172_800, 86_400, 86_400


def tlds(suffix_list: str) -> list[str]:
    """The top-level names of a public suffix list in A-label form, sorted; private rules are left out."""
    found = set()
    for line in suffix_list.splitlines():
        rule = line.strip()
        if rule == "// ===END ICANN DOMAINS===":
            break
        if rule and not rule.startswith("//"):
            label = rule.split()[0].lstrip("!*.").rsplit(".", 1)[-1]
            found.add(label.encode("idna").decode("ascii").lower())
    return sorted(name for name in found if name)


def records(names: list[str], seed: int = 1, ds_share: float = 0.9) -> list[Record]:
    source = random.Random(seed)
    letters = [f"{letter}.{ROOT_SERVERS}" for letter in LETTERS]
    made = [Record(ROOT, 86_400, "SOA", f"{letters[0]} nstld.example. {SERIAL} 1800 900 604800 86400")]
    for number, letter in enumerate(letters, 1):
        made += [Record(ROOT, _ROOT_TTL, "NS", letter), *_glue(letter, number, _ROOT_TTL)]
    # Registries' shared servers, each below a TLD of the list so that their glue is the root's to give.
    homes = [source.choice(names) for _ in range(max(4, len(names) // 40))]
    registries = [
        [f"ns{letter}.registry{index}.{home}." for letter in "abcdef"] for index, home in enumerate(homes)
    ]
    for host in itertools.chain(*registries):
        made += _glue(host, source.randrange(1 << 16))
    for name in names:
        made += _delegation(f"{name}.", source, registries, ds_share)
    return made


def _delegation(
    name: str, source: random.Random, registries: list[list[str]], ds_share: float
) -> Iterator[Record]:
    count = source.choices((2, 3, 4, 5, 6), weights=(10, 15, 40, 10, 25))[0]
    shared = source.random() < _REGISTRY_SHARE
    hosts = source.choice(registries) if shared else [f"{letter}.nic.{name}" for letter in "abcdef"]
    for host in hosts[:count]:
        yield Record(name, _TLD_TTL, "NS", host)
        if not shared:
            yield from _glue(host, source.randrange(1 << 16))
    if source.random() < ds_share:  # of the right form; there is no key behind it: nothing below is served
        digest = source.getrandbits(256).to_bytes(32, "big").hex().upper()
        yield Record(name, _DS_TTL, "DS", f"{source.randrange(1, 65_536)} 8 2 {digest}")


def _glue(host: str, number: int, ttl: int = _TLD_TTL) -> list[Record]:
    """Addresses of 198.18.0.0/15 (benchmarks) and 2001:db8::/32 (documentation)."""
    four = f"198.{18 + (number >> 15 & 1)}.{number >> 7 & 255}.{1 + (number & 127)}"
    return address_records(host, (four, f"2001:db8:{number:x}::53"), ttl)


def write(
    target: Path, seed: int, ds_share: float, ksk_bits: int, zsk_bits: int, cache: Path | None = None
) -> None:
    """A step of a plan: writes the signed zone, from the cache when the same was made before."""
    try:
        listed = SUFFIX_LIST.read_text(encoding="utf-8")
    except OSError:
        raise RepriseError(f"no {SUFFIX_LIST}", "apt-get install publicsuffix") from None
    programs = [Path(one).read_text(encoding="utf-8") for one in (__file__, signer.__file__, model.__file__)]
    settings = f"{seed} {ds_share} {ksk_bits} {zsk_bits}"
    key = hashlib.sha256("|".join((settings, *programs, listed)).encode()).hexdigest()[:16]
    kept = cache / f"root-{key}.zone" if cache else None
    if kept is not None and kept.is_file():
        shutil.copyfile(kept, target)
        return
    sizes = {"ksk": ksk_bits, "zsk": zsk_bits}
    keys = [signer.new_key(ROOT, role, "RSASHA256", bits) for role, bits in sizes.items()]
    made = records(tlds(listed), seed, ds_share)
    target.write_text(signer.signed(ROOT, made, _KEY_TTL, keys, "-e", "now+31536000"), encoding="ascii")
    if kept is not None:
        with contextlib.suppress(OSError):  # a cache that cannot be written is no error
            kept.parent.mkdir(parents=True, exist_ok=True)
            half = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(target, half)
            half.replace(kept)
