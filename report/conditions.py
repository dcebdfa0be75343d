"""What the servers of several runs ran with, as far as it is not the same (cli/servers/conditions.py)."""

from __future__ import annotations

from collections.abc import Sequence

from report.run import Json, Run

NOT_SAID = "not said"


def conditions_that_differ(runs: Sequence[Run]) -> list[Json]:
    """Of each run, what its servers ran with, as far as it is not the same in all that say anything of it.
    What one of them does not say is NOT_SAID.
    """
    several = any(len(run.conditions) > 1 for run in runs)
    flat = [_conditions(run, several) for run in runs]
    held = [one for one in flat if one]
    titles = dict.fromkeys(title for one in held for title in one)
    differing = [title for title in titles if len({str(one.get(title)) for one in held}) > 1]
    return [{title: one.get(title, NOT_SAID) for title in differing} for one in flat]


def _conditions(run: Run, several: bool) -> Json:
    """With a server's name where there are several."""
    return {
        f"{name}: {title}" if several else title: value
        for name, own in run.conditions.items()
        for title, value in own.items()
    }
