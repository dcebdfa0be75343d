"""What an experiment needs on its hosts, for playbooks: `python -m cli.tools.wanted EXPERIMENT [--set K=V]`.

Every host gets all packages, so that what is prepared on one of them can be carried out on the others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli import programs
from cli.errors import RepriseError, tell
from cli.experiment import experiment as experiments
from cli.experiment import tables
from cli.hosts import source
from cli.servers import started
from cli.tools import needs, packages

_SECTIONS = ("base", "run", "hierarchy", "hosts")  # guards need what a hierarchy needs


def of(arguments: Sequence[str]) -> dict[str, Any]:
    """Packages, servers, the version of the source and, where there is one, an archive of it."""
    parser = argparse.ArgumentParser(prog="wanted")
    parser.add_argument("experiment", type=tables.find)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args(arguments)
    experiment = experiments.load(options.experiment, options.set)
    listed = packages.listed()
    sections = [
        one for one in dict.fromkeys((*_SECTIONS, *needs.of(["run", *arguments]).sections)) if one in listed
    ]
    building = [one for one in sections if one in packages.BUILDING]
    found = source.checksum()
    emulated = experiment.emulated
    by_proxy = emulated is not None and emulated.data_path == "tun"
    return {
        "packages": sorted({name for one in sections if one not in building for name in listed[one]}),
        "building": sorted({name for one in building for name in listed[one]}),
        "programs": sorted(started.packaged_programs(experiments.as_dict(experiment))),
        "hierarchy": emulated is not None,
        "tun": by_proxy or experiment.rtt is not None or experiment.server.front == "reference",
        "source": found,
        "archive": "" if programs.INSTALLED else str(_archive(found)),
    }


def _archive(checksum: str) -> Path:
    """Made once for each version; earlier ones go."""
    cache = programs.cache()
    path = cache / f"source-{checksum[:16]}.tar.gz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob("source-*.tar.gz"):
            old.unlink(missing_ok=True)
        making = path.with_suffix(f".{os.getpid()}")
        source.write(making)
        making.rename(path)
    return path


def main(arguments: Sequence[str]) -> int:
    try:
        sys.stdout.write(json.dumps(of(arguments)) + "\n")
    except RepriseError as error:
        tell(error)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
