"""The files that an experiment names, carried to its hosts.

They lie under their checksums, so that what is there already is not copied again. What only the
controller's host reads goes there alone, as the trace does unless clients fill caches by it. A path that is
not here is left as it is: it may be one of the hosts'.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cli.errors import RepriseError, UsageError
from cli.executor.machine import Text
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment
from cli.hosts import changes
from cli.hosts.inventory import Placement, Target, passed_on
from cli.plan import network
from cli.zones import zonefile

_READER = TypeAdapter(Experiment)
_ON_ALL = ("server", "hierarchy", "rtt", "tls")  # tables whose files servers and proxies may read
_AT_HOME = (
    ["hierarchy", "capture"],
    ["hierarchy", "resolver_config"],
    ["server", "config"],
    ["server", "capture"],
)  # not read by what they start
_ZONE = ["server", "zone"]


def carry(experiment: Experiment, placement: Placement) -> Experiment:
    """The experiment with the paths that its files have on the hosts, when all of them are there."""
    table = experiments.as_dict(experiment)
    emulated = experiment.emulated
    warm = len(emulated.resolvers) if emulated and emulated.cache == "warm" else 0
    warming = [placement.targets[network.client(index)] for index in range(1, warm + 1)]
    asked = [experiment.trace, experiment.mutate and experiment.mutate.rules]
    sums: dict[str, str] = {}  # of the paths here
    wanted: set[str] = set()  # on every machine
    for key, mark, path in list(_paths(table)):
        sums[path] = sums.get(path) or changes.named_sum(Path(path))
        if mark:  # a rule's key
            asked.append(path)
        if key == _ZONE and zonefile.has_include(Path(path)):
            what = f"{path} has $INCLUDE lines, and hosts get the zone file alone"
            raise UsageError(what, "write it out with named-compilezone, and set server.zone to that file")
        if key[0] in _ON_ALL and key not in _AT_HOME:
            wanted.add(path)
        _holder(table, key)[key[-1]] = mark + str(changes.place_of(sums[path]) / Path(path).name)
    if not sums:
        return experiment
    for target in placement.machines().values():
        there = _listed(target)
        for path, checksum in sums.items():
            reads = target == placement.home or (path in asked and target in warming)
            if checksum not in there and (reads or path in wanted):
                _copy(target, Path(path), checksum)
    return _READER.validate_python(experiments.given(table))


def _paths(table: dict[str, Any]) -> Iterator[tuple[list[Any], str, str]]:
    """Keys, marks and values of what names a file or folder that is here: rules name the files of their keys
    with the mark @.
    """
    keys: list[list[Any]] = [name.split(".") for name in experiments.file_keys()]
    rules = (table.get("mutate") or {}).get("rule") or ()
    keys += [["mutate", "rule", number, "key"] for number in range(len(rules))]
    for key in keys:
        mark = "@" if "rule" in key else ""
        value = (_holder(table, key) or {}).get(key[-1])
        if isinstance(value, str) and value.startswith(mark) and Path(value.removeprefix(mark)).exists():
            yield key, mark, value.removeprefix(mark)


def _holder(table: Any, key: list[Any]) -> Any:
    """The table that holds a key; None where it is not given."""
    for name in key[:-1]:
        table = None if table is None else table[name]
    return table


def _listed(target: Target) -> set[str]:
    """Checksums of the files that are on a machine."""
    return set(target.ask(list[Text], "inputs"))


def _copy(target: Target, path: Path, checksum: str) -> None:
    pack = ["tar", "-C", str(path.parent), "--dereference", "-cf", "-", "--", path.name]
    complaint = passed_on(pack, target.call("take", wanted=checksum))
    if complaint is not None:
        what = f"cannot copy {path} to {target.name}: {complaint or 'tar failed'}"
        raise RepriseError(what, f"check free space in {changes.STATE}")
