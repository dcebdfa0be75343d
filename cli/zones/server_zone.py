"""The steps of the plan for the zone of a server: `bring` or `choose`, `check` and `keep`.

The server and its zone checker read a copy of the zone in which no directive names another file.
"""

import contextlib
import gzip
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from cli.errors import RepriseError, want
from cli.zones import bind_tools, zone_folder, zonefile

_SHOWN = 10


def bring(source: Path, target: Path, origin: str) -> None:
    """Copies a zone, decompressed and with the records of $INCLUDE and $GENERATE in their places. Throws
    RepriseError, also for other directives than zone folders may have.
    """
    with _room_for(source, target):
        zonefile.unpack(source, target)
        target.chmod(0o644)  # who may enter its folder can read it
        if not zone_folder.is_plain(target):
            records = zone_folder.written_out(origin, target.read_bytes(), source.parent, source)
            target.write_text(records, encoding="latin-1")


def choose(folder: Path, target: Path, origin: str, report: Path) -> None:
    """Copies a zone out of a folder that `reprise zones build` wrote, and its report. Throws RepriseError
    where the zone is not there.
    """
    entries: dict[str, str] = {}
    for one in zone_folder.read(folder).entries:  # those that were made up for odd answers come last
        entries.setdefault(one.name, one.file)
    named = origin.rstrip(".").lower() + "."
    has = f"it holds {', '.join(list(entries)[:_SHOWN])}: set server.origin to one of them"
    want(named in entries, f"zone {named} was not built of the capture", has)
    with _room_for(folder / entries[named], target):
        report.parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / "build.json", report)
        shutil.copyfile(folder / entries[named], target)
        target.chmod(0o644)


def keep(zone: Path, target: Path) -> None:
    """Writes a compressed copy, for a later look at answers that were made from the zone."""
    with _room_for(zone, target), zone.open("rb") as source, gzip.open(target, "wb", 6) as out:
        shutil.copyfileobj(source, out)


def check(argv: list[str], zone: Path, warnings: Path | None = None) -> int:
    """Runs a zone checker, confined, on a zone; its exit status. What it says goes to standard output, and
    what the user is to be warned of to a file.
    """
    with _room_for(zone, warnings or zone):
        done = bind_tools.run((*argv, str(zone)), zone.parent)
        sys.stdout.buffer.write(done.stdout + done.stderr)
        if warnings is not None:
            warnings.write_text("".join(f"{one}\n" for one in bind_tools.told), encoding="utf-8")
    return done.returncode


@contextlib.contextmanager
def _room_for(zone: Path, written: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"zone file {zone} cannot be copied or checked: {error.filename or written}: {error.strerror}"
        raise RepriseError(what, f"make room in memory and in {bind_tools.PLACE}") from None
