"""What an experiment needs on its hosts, for playbooks.

Every host gets all packages, so that what is prepared on one of them can be carried out on the others.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from cli import programs
from cli.experiment import experiment as experiments
from cli.experiment import tables
from cli.hosts import source
from cli.servers import started
from cli.tools import needs, packages

_SECTIONS = ("base", "run", "hierarchy", "hosts")  # guards need what a hierarchy needs


def of(experiment: str, settings: list[str]) -> str:
    """Packages, servers, the version of the source and, where there is one, an archive of it, as JSON."""
    asked = argparse.Namespace(command="run", experiment=tables.find(experiment), set=settings)
    wanted = experiments.load(asked.experiment, settings)
    listed = packages.listed()
    every = dict.fromkeys((*_SECTIONS, *needs.of(asked).sections))
    building, others = (
        sorted(name for one in every if (one in packages.BUILDING) == built for name in listed.get(one, ()))
        for built in (True, False)
    )
    found = source.checksum()
    by_proxy = wanted.emulated is not None and wanted.emulated.data_path == "tun"
    return json.dumps(
        {
            "packages": others,
            "building": building,
            "programs": sorted(started.packaged_programs(experiments.as_dict(wanted))),
            "hierarchy": wanted.emulated is not None,
            "tun": by_proxy or wanted.rtt is not None or wanted.server.front == "reference",
            "source": found,
            "archive": "" if programs.INSTALLED else str(_archive(found)),
        }
    )


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
