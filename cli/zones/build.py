"""`reprise zones build CAPTURE... -o DIR`: zones from captured answers, signed anew if asked, and checked."""

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from cli import linux, programs
from cli.errors import RepriseError, UsageError, want
from cli.zones import resign, zone_check, zone_folder, zone_plan
from cli.zones.options import policy_of
from report.run import as_json


def command_build(options: argparse.Namespace) -> int:
    policy = policy_of(options)
    if options.add:
        try:
            known = [one["path"] for one in as_json(options.output / "build.json")["captures"]]
        except (KeyError, TypeError):
            what = f"{options.output} has no build.json to add to"
            raise UsageError(what, "build it first, without --add") from None
        want(
            "-" not in known, f"{options.output} was built of standard input", "build it of files, then --add"
        )
        options.captures = list(dict.fromkeys((*known, *map(_absolute, options.captures))))
    report = options.output / "build.json"
    former = _stamp(report)
    sys.stdout.flush()
    keep = options.dnssec == "keep" or (options.dnssec == "resign" and options.signed_only)
    words = programs.flags(dnssec="keep" if keep else "strip", at=options.at, port=options.port)
    captures = map(_absolute, options.captures)
    argv = [programs.own("reprise-zonebuilder"), "build", *captures, "-o", str(options.output), *words]
    status = subprocess.run(argv, check=False).returncode
    if status < 0:
        how = linux.describe_exit(status)
        raise RepriseError(f"the zone builder was ended by {how}", "free some memory")
    if _stamp(report) in (None, former):
        return status  # nothing was built
    _check(options)
    if options.dnssec == "resign":
        status = max(status, resign.carry_out(options.output, options.output, policy))
    return status


def _check(options: argparse.Namespace) -> None:
    """Removes records that keep zones from loading. Zones that still do not load are an error, or leave
    zones.json with a warning; build.json lists both.
    """
    folder = zone_folder.read(options.output)
    removed, bad = zone_check.mend(folder)
    report = options.output / "build.json"
    text = report.read_text(encoding="utf-8").removesuffix("\n}\n")
    for key, ones in (("removed", removed), ("refused", [one.as_json() for one in bad])):
        text += f',\n"{key}":[' + ",".join("\n " + json.dumps(one) for one in ones) + "]"
    report.write_text(f"{text}\n}}\n", encoding="utf-8")
    for why, count in Counter(one["why"] for one in removed).items():
        sys.stdout.write(f"  {count:>7} records removed because BIND does not load their zone: {why}\n")
    shown = "; ".join(zone_plan.few(bad))
    if bad and not options.skip_bad:
        what = f"BIND does not load {len(bad)} of the zones: {shown}"
        raise RepriseError(what, "--skip-bad leaves them out; build.json lists them under refused")
    line = ""
    if bad:
        left = {one.entry for one in bad}
        folder = replace(folder, entries=tuple(one for one in folder.entries if one not in left))
        want(bool(folder.entries), f"BIND loads no zone: {bad[0]}", "see build.json")
        zone_folder.write_list(folder, options.output)
        line = f"{len(bad)} zones built from the capture are left out: {shown}\n"
    if options.warnings is not None:
        options.warnings.write_text(line, encoding="utf-8")
    elif line:
        sys.stderr.write(f"reprise: warning: {line}")


def _absolute(capture: str) -> str:
    """So that --add finds it from anywhere; - is standard input."""
    return capture if capture == "-" else str(Path(capture).absolute())


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
