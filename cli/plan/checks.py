"""What is looked at before anything starts: the values that programs take.

The programs have `--check`: they look at their options, and for a first query in a trace, and end. So what
they refuse is known before there is a network, a server or a results folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cli.experiment.experiment import keys_of
from cli.experiment.schema import Experiment
from cli.plan import delay, mutation
from cli.plan.planned import RUN, Check, Facts, Process, Step


def of(
    experiment: Experiment, facts: Facts, steps: Sequence[Step], processes: Sequence[Process]
) -> Iterator[Check]:
    """The command lines, in the order in which the run would use them."""
    what = "trace" if experiment.trace is not None else "options"
    for step in steps:
        if step.id == "synth":
            yield Check((*step.argv, "--check"), step.keys)
        elif step.id == "mutate":
            yield Check((*step.argv, "--check", what))
    behind = experiment.emulated.rtt if experiment.emulated else None
    for table, rtt in (("rtt", experiment.rtt), ("hierarchy.rtt", behind)):
        if rtt is not None and rtt.by is None:
            proxy = facts.programs["reprise-proxy"]
            yield Check((proxy, "delay", "--tun", "check", *delay.options(rtt), "--check"), keys_of(table))
    distributor = next(one for one in processes if one.role == "distributor")
    yield Check((*distributor.argv, "--check"), keys_of("replay"))
    played = experiment.trace is not None and not mutation.is_written(experiment, facts)
    argv = _without_own_authority(processes[-1].argv)
    yield Check((*argv, "--check", "trace" if played else "options"))


def _without_own_authority(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The certificates of the run are still to be made."""
    ours = argv[-2] == "--set" and RUN in argv[-1]
    return argv[:-2] if ours else argv
