"""What queriers count, by the programs' own description (`reprise-controller --describe`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from report.rqfile import RqFile
from report.run import as_dict, as_int

# Group -> name -> help. Groups are those of a .rq file's statistics; "" stands for its top level.
COUNTERS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("counters.json").read_text())


def summed(files: Iterable[RqFile], group: str) -> dict[str, int]:
    """The counters of a group but for maxima, added over the files. What a file lacks is 0."""
    groups = [as_dict(file.statistics.get(group)) if group else file.statistics for file in files]
    return {
        name: sum(as_int(one.get(name)) for one in groups)
        for name in COUNTERS[group]
        if not name.startswith("max_")
    }
