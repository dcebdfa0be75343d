"""The steps of the plan for `server.zone`: `bring` and `check`.

The server and its zone checker read a copy of the zone in which no directive names another file.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from cli.errors import RepriseError, tell
from cli.zones import bind_tools, directives, zone_folder, zonefile


def bring(source: Path, target: Path, origin: str) -> None:
    """Copies a zone, decompressed and with the records of $INCLUDE and $GENERATE in their places. Throws
    RepriseError, also for other directives than zone folders may have.
    """
    zonefile.unpack(source, target)
    target.chmod(0o644)  # who may enter its folder can read it
    if zone_folder.is_plain(target):
        return
    text, checker = target.read_bytes(), directives.Checker(source.parent)
    checker.check(text)
    # The tool may not be able to enter the user's folder; it gets the files that were checked.
    with tempfile.TemporaryDirectory(prefix="reprise-zone-", dir=bind_tools.PLACE) as folder:
        for name, included in checker.included.items():
            place = Path(folder + os.path.normpath(f"/{name}"))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(included)
        records = zone_folder.written_out(origin, text, Path(folder), source)
    target.write_text(records, encoding="latin-1")


def check(argv: list[str], zone: Path) -> int:
    """Runs a zone checker, confined, on a zone; its exit status. What it says goes to standard output."""
    done = bind_tools.run((*argv, str(zone)), zone.parent)
    sys.stdout.buffer.write(done.stdout + done.stderr)
    return done.returncode


def main(arguments: list[str]) -> int:
    """One of the steps."""
    parser = argparse.ArgumentParser(prog="server_zone")
    parser.add_argument("step", choices=("bring", "check"))
    parser.add_argument("zone", type=Path)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--origin")
    parser.add_argument("--warnings", type=Path)
    parser.add_argument("checker", nargs="*")
    options = parser.parse_args(arguments)
    try:
        if options.step == "bring":
            bring(options.zone, options.to, options.origin)
            return 0
        status = check(options.checker, options.zone)
    except RepriseError as error:
        tell(error)
        return error.status
    if options.warnings is not None:
        options.warnings.write_text("".join(f"{one}\n" for one in bind_tools.warnings()), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
