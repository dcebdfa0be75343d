"""`reprise zones synth`: a synthetic DNS hierarchy from the root down, as a folder of zone files.

The folder holds the zone files, `zones.json` (which addresses serve each of them; read by `zones plan`) and
`names.txt` (what clients ask; read by `trace synth --profile recursive --names`).
"""

import argparse
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from cli.errors import RepriseError, want
from cli.zones import signer, world_tree, zone_folder
from cli.zones.world_model import ROOT, Record, Settings, enclosing, parent_of
from cli.zones.world_tree import Draft
from cli.zones.zone_folder import Entry, ZoneFolder

_FEWEST_ZONES, _MOST_ZONES = 8, 200_000
_NSEC3_SHARE = 0.35  # of the signed zones
_UNSIGNED, _NO_DS = 0.2, 0.08  # shares of zones, below the top-level domains


@dataclass(frozen=True)
class ZoneFile(Entry):
    """A zone with its text and the addresses that serve it so."""

    text: str = ""


@dataclass(frozen=True)
class World:
    """The zone files of a hierarchy, and names to ask for in them."""

    files: tuple[ZoneFile, ...]
    names: tuple[str, ...]


def make(settings: Settings) -> World:
    """The hierarchy of these settings; the same settings make the same one."""
    fits = _FEWEST_ZONES <= settings.zones <= _MOST_ZONES
    want(fits, f"--zones {settings.zones}: out of range", f"give {_FEWEST_ZONES} to {_MOST_ZONES}")
    draft = Draft(random.Random(f"{settings.seed} tree"))
    world_tree.add_zones(draft, settings.zones)
    if settings.signed:
        _secure(draft)
    records, names = world_tree.contents(draft)
    files = []
    texts = _texts(draft, [*records.items()], settings.seed)
    for zone, text in zip(draft.zones.values(), texts, strict=True):
        addresses = dict.fromkeys(one for host in zone.servers for one in draft.hosts[host])
        files.append(ZoneFile(zone.name, f"{zone.name.strip('.') or 'root'}.zone", tuple(addresses), text))
    return World(tuple(files), tuple(names))


def _secure(draft: Draft) -> None:
    """Decides which zones are signed, how, and which of them lack a DS."""
    for zone in list(draft.zones.values()):
        top = zone.name.count(".") < 2
        chance = draft.source.random()
        kind = "nsec3" if draft.source.random() < _NSEC3_SHARE and zone.name != ROOT else "nsec"
        if top or chance >= _UNSIGNED:
            draft.add(replace(zone, security=kind, ds=top or chance >= _UNSIGNED + _NO_DS))


def _texts(draft: Draft, contents: list[tuple[str, list[Record]]], seed: int) -> list[str]:
    """The zones' texts, with DS records and signatures where they have keys, made on all processors."""
    zones = draft.zones
    names = [zone.name for zone in zones.values() if zone.security]
    keys = {name: [signer.seeded_key(seed, name, role) for role in ("ksk", "zsk")] for name in names}
    above = {name: enclosing(parent_of(name), zones) for name in names if name != ROOT and zones[name].ds}
    ds = signer.ds_records({name: parent for name, parent in above.items() if parent in keys}, keys)

    def text(content: tuple[str, list[Record]]) -> str:
        name, records = content
        salt = "-" if len(name) % 2 else "AB12"
        denial = ("-3", salt, "-H", "0") if zones[name].security == "nsec3" else ()
        how = (*signer.HOW, *signer.VALID, *denial)
        whole = [*records, *ds.get(name, ())]
        return signer.signed(name, whole, signer.KEY_TTL, keys.get(name, ()), *how)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(text, contents))


def write(world: World, folder: Path) -> None:
    """Writes the files; those of an earlier world in this folder go first. The index comes before the zones:
    after an interruption it names files that are missing, which the planner tells.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = list(folder.iterdir())
    lists = (zone_folder.LIST, "names.txt")
    strangers = [one for one in found if one.name not in lists and one.suffix != ".zone"]
    ours = not found or ((folder / zone_folder.LIST).is_file() and not strangers)
    want(ours, f"{folder} holds other files than zones", "give -o an empty or new folder")
    for old in folder.glob("*.zone"):
        old.unlink()
    zone_folder.write_list(ZoneFolder(folder, world.files), folder)
    for one in world.files:
        (folder / one.file).write_text(one.text, encoding="ascii")
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in world.names), encoding="ascii")


def command_synth(options: argparse.Namespace) -> int:
    world = make(Settings(options.zones, options.seed, options.signed))
    try:
        write(world, options.output)
    except OSError as error:
        what = f"cannot write {error.filename or options.output}: {error.strerror}"
        raise RepriseError(what, "check the disk's space and permissions") from None
    addresses = {one for file in world.files for one in file.addresses or ()}
    sys.stdout.write(
        f"{options.output}: {len(world.files)} zone files, {len(addresses)} server addresses, "
        f"{len(world.names)} names to ask (names.txt)\n"
    )
    return 0
