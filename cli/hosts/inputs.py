"""The files that an experiment names, carried to its hosts.

They lie under their checksums, so that what is there already is not copied again. What only the
controller's host reads goes there alone, as the trace does unless clients fill caches by it. A path that is
not here is left as it is: it may be one of the hosts'.
"""

from collections.abc import Sequence
from pathlib import Path

from cli.errors import UsageError
from cli.executor.machine import Text
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment
from cli.hosts import changes
from cli.hosts.inventory import Target, passed_on
from cli.plan import network
from cli.zones import zonefile

_ON_ALL = ("server.", "hierarchy.", "rtt.", "tls.")  # tables whose files servers and proxies may read
# Not read by what they start.
_AT_HOME = ("hierarchy.capture", "hierarchy.resolver_config", "server.config", "server.capture")


def carry(experiment: Experiment, targets: Sequence[Target]) -> Experiment:
    """The experiment with the paths that its files have on the hosts, when all of them are there."""
    emulated = experiment.emulated
    warm = len(emulated.resolvers) if emulated and emulated.cache == "warm" else 0
    warming = {network.client(index) for index in range(1, warm + 1)}
    asked = {experiment.trace, experiment.mutate and experiment.mutate.rules}
    sums: dict[str, str] = {}  # of the paths here
    wanted: set[str] = set()  # on every machine

    def there(key: str, path: str) -> str:
        """The path on the hosts of what is here."""
        if not Path(path).exists():
            return path
        sums[path] = sums.get(path) or changes.named_sum(Path(path))
        if key == "mutate.rule.key":
            asked.add(path)
        if key == "server.zone" and zonefile.has_include(Path(path)):
            what = f"{path} has $INCLUDE lines, and hosts get the zone file alone"
            raise UsageError(what, "write it out with named-compilezone, and set server.zone to that file")
        if key.startswith(_ON_ALL) and key not in _AT_HOME:
            wanted.add(path)
        return str(changes.place_of(sums[path]) / Path(path).name)

    table = experiments.with_paths(experiments.as_dict(experiment), there)
    if not sums:
        return experiment
    for target in targets:
        listed, fills = _listed(target), not warming.isdisjoint(target.hosts)
        for path, checksum in sums.items():
            reads = target is targets[0] or (fills and path in asked)
            if checksum not in listed and (reads or path in wanted):
                _copy(target, Path(path), checksum)
    return experiments.of(table)


def _listed(target: Target) -> set[str]:
    """Checksums of the files that are on a machine."""
    return set(target.ask(list[Text], "changes.inputs"))


def _copy(target: Target, path: Path, checksum: str) -> None:
    pack = ["tar", "-C", str(path.parent), "--dereference", "-cf", "-", "--", path.name]
    unpack, hint = target.call("changes.take", wanted=checksum), f"check free space in {changes.STATE}"
    passed_on(pack, unpack, f"{path} to {target.name}", hint)
