"""`reprise zones resign DIR -o OUT`: a hierarchy signed with keys of our own, from the root down.

Old keys, signatures and denials go; each zone gets a KSK and a ZSK, and its parent the DS record. Ed25519
keys follow from the seed, so that the same zones and options give the same bytes. Keys of other algorithms
are made once and shared by all zones, because making them takes longer than signing with them.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import dns.exception
import dns.name

from cli.errors import EXIT_FAILED, UsageError, want
from cli.progress import Progress
from cli.zones import signer, world_model, zone_check, zone_folder, zone_plan
from cli.zones.options import Policy, policy_of
from cli.zones.signer import Key
from cli.zones.world_model import ROOT, Record, lineage, parent_of
from cli.zones.zone_folder import Entry, ZoneFolder

ANCHOR = "trust-anchor.key"
_OLD = frozenset(("RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "TYPE65534"))
_SIGNED = frozenset(("RRSIG", "DNSKEY"))  # types that only signed zones have

_T = TypeVar("_T")
_U = TypeVar("_U")


@dataclass(frozen=True)
class _Zone:
    """A zone file's records without old DNSSEC."""

    entry: Entry
    records: list[Record]
    was_signed: bool

    def owners(self, kind: str) -> set[str]:
        return {one.owner for one in self.records if one.kind == kind}


@dataclass(frozen=True)
class Resigned:
    signed: tuple[Entry, ...]
    unsigned: tuple[Entry, ...]
    anchors: tuple[str, ...]  # zones whose keys must be trusted: no signed zone here is above them


def resign(source: Path, target: Path, policy: Policy) -> Resigned:
    """Signs the zones of a folder into another, which may be the same one."""
    folder = zone_folder.read(source)
    zones = list(_each(lambda one: _zone(one, zone_folder.text_of(folder, one)), folder.entries, "read"))
    signed = {one.entry.name: None for one in zones if one.was_signed or not policy.signed_only}
    keys = _keys(signed, policy)
    chain = _chain(zones, signed, policy)
    ds = signer.ds_records(chain, keys)

    def text(one: _Zone) -> str:
        name = one.entry.name
        whole = [record for record in one.records if record.kind != "DS" or record.owner not in by_name]
        cuts = one.owners("NS")
        whole += [record for record in ds.get(name, ()) if record.owner in cuts]
        denial = ("-3", "-", "-H", "0") if policy.nsec3 else ()  # no salt and no iterations (RFC 9276)
        how = (*signer.HOW, *signer.VALID, *denial)
        return signer.signed(name, whole, signer.KEY_TTL, keys.get(name, ()), *how)

    by_name = {one.entry.name for one in zones}
    islands = tuple(name for name in signed if name not in chain)
    anchors = "".join(f"{name} {signer.KEY_TTL} IN DNSKEY {keys[name][0].data}\n" for name in islands)
    entries = _write(folder, zones, _each(text, zones, "signed"), target, anchors)
    return Resigned(
        tuple(one for one in entries if one.name in keys),
        tuple(one for one in entries if one.name not in keys),
        islands,
    )


def _each(work: Callable[[_T], _U], items: Sequence[_T], what: str) -> Iterator[_U]:
    """The results in order, worked out on all processors."""
    progress = Progress()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, made in enumerate(pool.map(work, items), 1):
            progress.show(f"{number} of {len(items)} zones {what}")
            yield made
    if items:
        progress.end(f"{len(items)} of {len(items)} zones {what}")


def _zone(entry: Entry, text: str) -> _Zone:
    """Its name is as BIND's tools write it. Raises UsageError for what is no name."""
    try:
        name = dns.name.from_text(entry.name).canonicalize().to_text()
    except dns.exception.DNSException:
        raise UsageError(f"{entry.name!r} is not a domain name", "correct zones.json") from None
    entry = Entry(name, entry.file, entry.addresses)
    every = list(world_model.records_of(text))
    return _Zone(
        entry,
        [one for one in every if one.kind not in _OLD],
        any(one.kind in _SIGNED for one in every),
    )


def _keys(names: Iterable[str], policy: Policy) -> dict[str, list[Key]]:
    """KSK and ZSK of each zone."""
    sizes = {"ksk": policy.ksk_bits, "zsk": policy.zsk_bits}
    if policy.algorithm == "ed25519":
        return {name: [signer.seeded_key(policy.seed, name, role) for role in sizes] for name in names}
    keys = [signer.new_key(ROOT, role, policy.algorithm.upper(), bits) for role, bits in sizes.items()]
    return dict.fromkeys(names, keys)


def _chain(zones: Iterable[_Zone], signed: Container[str], policy: Policy) -> dict[str, str]:
    """Zones that get a DS record, and the zone above that gets it. With signed_only a zone that had none
    there gets none now.
    """
    held: dict[str, set[str]] = defaultdict(set)  # the zones to which each may give one
    for one in zones:
        held[one.entry.name] |= one.owners("DS" if policy.signed_only else "NS")
    found = {}
    for name in held:
        above = next((up for up in lineage(parent_of(name)) if up in held and up != name), "")
        if name in signed and above in signed and name in held[above]:
            found[name] = above
    return found


def _write(
    folder: ZoneFolder, zones: Sequence[_Zone], texts: Iterable[str], target: Path, anchors: str
) -> list[Entry]:
    """Nothing of the target changes before all is signed."""
    target.mkdir(parents=True, exist_ok=True)
    inside = list(target.iterdir())
    strange = [one for one in inside if one.suffix != ".zone" and one.name not in (zone_folder.LIST, ANCHOR)]
    ours = not inside or ((target / ANCHOR).is_file() and not strange)
    same = folder.path.resolve() == target.resolve()
    what = f"{target} was not made by `reprise zones resign`"
    want(ours or same, what, "give -o an empty or new folder")
    given = Counter(one.entry.file for one in zones)
    entries = []
    with tempfile.TemporaryDirectory(prefix=".resign-", dir=target) as made:
        for number, (one, text) in enumerate(zip(zones, texts, strict=True)):
            file = one.entry.file
            if not file.endswith(".zone") or "/" in file or given[file] > 1:
                file = f"resigned-{number}.zone"
                while file in given:
                    file = f"_{file}"
            entries.append(Entry(one.entry.name, file, one.entry.addresses))
            (Path(made) / file).write_text(text, encoding="latin-1")
        (Path(made) / ANCHOR).write_text(anchors, encoding="ascii")
        zone_folder.write_list(ZoneFolder(target, tuple(entries), folder.asked), Path(made))
        for former in () if same else target.glob("*.zone"):
            former.unlink()
        for path in Path(made).iterdir():
            path.rename(target / path.name)
    return entries


def command_resign(options: argparse.Namespace) -> int:
    return carry_out(options.zones, options.output, policy_of(options))


def carry_out(source: Path, target: Path, policy: Policy) -> int:
    """Signs a folder's zones into another one and tells how that went; the exit status."""
    made = resign(source, target, policy)
    trusted = ", ".join(zone_plan.few(made.anchors))
    sys.stdout.write(
        f"{target}: {len(made.signed)} zone files signed, {len(made.unsigned)} not; "
        f"{ANCHOR} has the keys to trust: {trusted or 'none'}\n"
    )
    problems = verify(target, made)
    sys.stderr.writelines(f"reprise: {line}\n" for line in problems)
    return EXIT_FAILED if problems else 0


def verify(target: Path, made: Resigned) -> list[str]:
    """Why BIND does not load zones, and what dnssec-verify reports about the signed ones."""
    refused = zone_check.refused(target, (*made.signed, *made.unsigned))
    verified = _each(lambda one: signer.problem(target / one.file, one.name), made.signed, "verified")
    return [*map(str, refused), *(line for line in verified if line)]
