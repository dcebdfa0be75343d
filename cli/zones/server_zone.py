"""The steps of the plan for `server.zone`: `bring` and `check`.

The server and its zone checker read a copy of the zone in which no directive names another file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cli.errors import RepriseError, telling
from cli.zones import bind_tools, zone_folder, zonefile


def bring(source: Path, target: Path, origin: str) -> None:
    """Copies a zone, decompressed and with the records of $INCLUDE and $GENERATE in their places. Throws
    RepriseError, also for other directives than zone folders may have, and OSError.
    """
    zonefile.unpack(source, target)
    target.chmod(0o644)  # who may enter its folder can read it
    if not zone_folder.is_plain(target):
        records = zone_folder.written_out(origin, target.read_bytes(), source.parent, source)
        target.write_text(records, encoding="latin-1")


def check(argv: list[str], zone: Path) -> int:
    """Runs a zone checker, confined, on a zone; its exit status. What it says goes to standard output."""
    done = bind_tools.run((*argv, str(zone)), zone.parent)
    sys.stdout.buffer.write(done.stdout + done.stderr)
    return done.returncode


@telling
def main(arguments: list[str]) -> int:
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
        if options.warnings is not None:
            text = "".join(f"{one}\n" for one in bind_tools.warnings())
            options.warnings.write_text(text, encoding="utf-8")
        return status
    except OSError as error:
        place = error.filename or options.to or options.warnings
        what = f"zone file {options.zone} cannot be copied or checked: {place}: {error.strerror}"
        raise RepriseError(what, f"make room in memory and in {bind_tools.PLACE}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
