"""What the servers of several runs ran with, as far as it is not the same (cli/servers/conditions.py)."""

from __future__ import annotations

from collections.abc import Sequence

from report.run import Json, Run


def conditions_that_differ(runs: Sequence[Run]) -> list[Json]:
    """Of each run, what its servers ran with, as far as all runs say it and it is not the same in all."""
    flat = [_conditions(run) for run in runs]
    titles = [title for title in flat[0] if all(title in one for one in flat)]
    differing = [title for title in titles if any(one[title] != flat[0][title] for one in flat)]
    return [{title: one[title] for title in differing} for one in flat]


def _conditions(run: Run) -> Json:
    """With a server's name where there are several."""
    several = len(run.conditions) > 1
    return {
        f"{name}: {title}" if several else title: value
        for name, own in run.conditions.items()
        for title, value in own.items()
    }
