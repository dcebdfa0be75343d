"""`reprise zones build CAPTURE... -o DIR`: zones from captured answers, signed anew if asked, and checked."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cli import linux, programs
from cli.errors import RepriseError, UsageError
from cli.zones import signing, zone_folder
from cli.zones.options import step

_DESCRIPTION = """\
Writes a file for each zone, zones.json (which addresses serve which) and build.json (what was chosen, dropped
and made up, and why). `reprise zones plan` reads the folder. Exit status: 0 done; 1 a capture is cut or
cannot be read, or a zone does not load; 2 usage."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURE",
        help="captures of the traffic between resolvers and name servers, of any form that Reprise reads",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--add",
        action="store_true",
        help="rebuild DIR from its earlier captures plus these; other options count for all of them",
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="where answers changed, use those seen at TIME (RFC 3339, or seconds) instead of the first",
    )
    parser.add_argument(
        "--dnssec",
        choices=("keep", "strip", "resign"),
        default="keep",
        help="keep: DNSSEC records as they were seen; strip: none; resign: sign all with new keys (keep)",
    )
    parser.add_argument(
        "--port", action="append", default=[], metavar="N", help="port of name servers; may be repeated (53)"
    )
    signing.add_policy_options(parser.add_argument_group("with --dnssec resign"))


def command_build(options: argparse.Namespace) -> int:
    """`reprise zones build`."""
    from cli.zones import resign  # noqa: PLC0415 - loads the cryptography

    policy = signing.policy_of(options)
    if options.add:
        options.captures = list(dict.fromkeys((*_former(options.output), *map(_absolute, options.captures))))
    report = options.output / "build.json"
    former = _stamp(report)
    status = _build(options)
    if _stamp(report) not in (None, former):  # else nothing was built
        if options.dnssec == "resign":
            made = resign.resign(options.output, options.output, policy)
            sys.stdout.write(resign.summary(made, options.output))
        else:
            folder = zone_folder.read(options.output)
            made = resign.Resigned((), folder.entries, ())
        status = max(status, resign.tell_problems(resign.verify(options.output, made)))
    return status


def _absolute(capture: str) -> str:
    """So that --add finds it from anywhere; - is standard input."""
    return capture if capture == "-" else str(Path(capture).absolute())


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _former(folder: Path) -> list[str]:
    """The captures that a folder was built of."""
    try:
        report = json.loads((folder / "build.json").read_text(encoding="utf-8"))
        return [one["path"] for one in report["captures"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{folder} has no build.json to add to", "build it first, without --add") from None


def _build(options: argparse.Namespace) -> int:
    sys.stdout.flush()
    argv = [programs.own("reprise-zonebuilder"), "build", *_arguments(options)]
    done = subprocess.run(argv, check=False)
    if done.returncode < 0:
        raise RepriseError(
            f"the zone builder was ended by {linux.describe_exit(done.returncode)}", "free some memory"
        )
    return done.returncode


def _arguments(options: argparse.Namespace) -> Iterator[str]:
    yield from map(_absolute, options.captures)
    yield from ("-o", str(options.output))
    keep = options.dnssec == "keep" or (options.dnssec == "resign" and options.signed_only)
    yield from ("--dnssec", "keep" if keep else "strip")
    if options.at is not None:
        yield from ("--at", options.at)
    for port in options.port:
        yield from ("--port", port)


def main(arguments: list[str]) -> int:
    """The plan's step."""
    return step("reprise zones build", arguments, add_options, command_build)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
