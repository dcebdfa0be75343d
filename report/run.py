"""A results folder as values. All reading of run files but the records themselves happens here. Uses Python's
own library alone: the bootstrap reads it.
"""

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import hosts
from report.errors import ReportError

SCHEMA = 1
UPSTREAM = "upstream"  # the process under which a resolver's data path has counted
COUNTED = ("queries", "tcp_queries", "answers")  # by an authoritative server itself
TRACE_KEYS = ("trace", "generate", "synth")
RENAMED = {  # keys of experiments that had another name before, and the one that they have now
    "hierarchy.qname_minimisation": "hierarchy.qname_minimization",
}
Json = dict[str, Any]
Samples = list["ServerSample"]


@dataclass(frozen=True)
class ServerSample:
    """One line of server.csv; absent or unreadable numbers are 0."""

    time_real_ns: int
    time_mono_ns: int
    process: str
    values: dict[str, float]


class Run:
    """What a folder holds. `controller` and `manifest` are empty where the file is missing (a run cut off
    early); `problems` says what else is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        """Raises ReportError where the folder is none, holds nothing of a run, or is of an unknown schema."""
        if not folder.is_dir():
            raise ReportError(f"{folder} is not a results folder", "name a folder below results/", 2)
        self.folder = folder
        self.problems: list[str] = []
        manifest, controller = (self._json(folder / name) for name in ("manifest.json", "controller.json"))
        self.record_paths = sorted(folder.glob("queries-*.rq"))
        if manifest is None and (folder / "series.json").is_file():
            raise ReportError(f"{folder} is a series", "name runs of it, which are the folders in it", 2)
        if manifest is None and controller is None and not self.record_paths:
            raise ReportError(f"{folder} holds no run", "name a folder that `reprise run` wrote", 2)
        self.manifest, self.controller = manifest or {}, controller or {}
        self.answer_paths = sorted(folder.glob("answers-*.ra"))
        self.samples = self._samples(folder / "server.csv")
        self.client_samples: dict[str, Samples] = self._all(self._samples, "client[0-9]*.csv")
        self.comparison = self._json(folder / "compare.json")
        self.resolvers = list(self._resolvers())  # counters of each, before and after the replay
        self.hierarchy = self._json(folder / "zones/plan.json")  # the planner's report
        self.built = self._json(folder / "zones/build.json")  # what the zones were built of
        self.mutation = self._json(folder / "mutate.json")  # what became of the trace before it was played
        further = ("server[0-9]*.csv", "meta[0-9]*.csv")  # of further hosts with servers
        self.other_samples: dict[str, Samples] = self._all(self._samples, *further)
        ran_with: dict[str, Json] = self._all(self._json, "conditions-*.json", prefix="conditions-")
        self.conditions = {
            name: {k: v for k, v in found.items() if k != "schema"} for name, found in ran_with.items()
        }
        counters = ("resolver-server*.csv",)
        self.resolver_samples: dict[str, Samples] = self._all(self._samples, *counters, prefix="resolver-")
        self.server_counts = self._samples(folder / "counts-server.csv")  # of an authoritative server itself
        self.hosts = hosts.read(folder, self.problems)  # what their kernels counted
        self.proxies = self._all(self._json, "delay-*.json", "proxy-*.json")  # statistics by the file's name
        self.fronts = list(self._all(self._json, "front*.json").values())  # of each front of statelessTCP
        self.name = folder.resolve().name.removesuffix(".partial")
        self.experiment = as_dict(self.manifest.get("experiment"))
        # The key of the experiment that says what was played, the first that is there.
        self.source = next((key for key in TRACE_KEYS if self.experiment.get(key) is not None), None)
        # What the controller read: the trace, or what was made instead, in the folder, renamed since.
        read = str(self.controller.get("trace") or "")
        own = folder / Path(read).name
        self.trace_read = (own if os.path.exists(own) else Path(read)) if read else None  # noqa: PTH110
        named = self.experiment.get("trace")
        self.trace = Path(str(named)) if named else self.trace_read  # as named, or the one that was made
        # The experiment without sources of queries that were not played.
        self.used = {k: v for k, v in self.experiment.items() if k not in TRACE_KEYS or k == self.source}
        # The keys that the experiment gave; none in runs of older versions, which do not say it.
        self.given = set(map(str, as_list(self.manifest.get("given"))))
        self.children = [as_dict(one) for one in as_list(self.controller.get("children"))]
        # What each rule did, as says who applied it: the mutator before, or the controller.
        self.rules = as_list((self.mutation or self.controller).get("rules"))
        self.because = [str(one) for one in as_list(self.controller.get("because"))]  # it is not clean
        self.faults = [as_dict(one) for one in as_list(self.manifest.get("faults"))]  # in the order of time
        # Processes of servers that ended without a complaint: a reason only where queries have no answer.
        self.replaced = [str(one) for one in as_list(self.manifest.get("replaced"))]
        # For how long the cache of a resolver that began without one counts as cold; 0 where none did.
        began_cold = self.resolvers and self.setting("hierarchy.cache") == "cold"
        self.cold_s = as_number(self.setting("hierarchy.cold_s")) or 0.0 if began_cold else 0.0

    def _json(self, path: Path) -> Json | None:
        """None where the file is absent; a damaged one is a problem of the run, an unknown schema ends the
        report.
        """
        if not path.exists():
            return None
        try:
            value = json.loads(path.read_text("utf-8", errors="replace"))
        except ValueError:
            value = None
        except OSError as error:
            raise ReportError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
        if not isinstance(value, dict):
            self.problems.append(f"{path.name} is damaged")
            return None
        if value.get("schema") != SCHEMA:
            raise ReportError(
                f"{path} has schema {value.get('schema')}, known is {SCHEMA}", "use the version that wrote it"
            )
        return value

    def _all(self, read: Callable[[Path], Any], *patterns: str, prefix: str = "") -> dict[str, Any]:
        """What is read of each file of the patterns, by its name without the prefix, but damaged ones."""
        paths = [path for pattern in patterns for path in sorted(self.folder.glob(pattern))]
        found = ((path.stem.removeprefix(prefix), read(path)) for path in paths)
        return {name: one for name, one in found if one is not None}

    def _resolvers(self) -> Iterator[tuple[Json, Json]]:
        """Without the counters before the replay, which is a problem, all counts are the replay's."""
        read = self._all(self._json, "resolver-server*.json")
        for name, after in read.items():
            if not name.endswith("-before"):
                earlier = f"{name}-before"
                missing = not (self.folder / f"{earlier}.json").exists()
                self.problems += [f"{earlier}.json is missing"] if missing else []
                yield read.get(earlier, {}), after

    def _samples(self, path: Path) -> Samples:
        if not path.exists():
            return []
        try:
            with path.open(newline="", encoding="utf-8", errors="replace") as file:
                rows = list(csv.DictReader(line for line in file if "\0" not in line))
        except csv.Error:
            self.problems.append(f"{path.name} is damaged")
            return []
        samples = [sample for row in rows if (sample := _sample(row)) is not None]
        if len(samples) + 1 < len(rows):  # a last line cut in the middle is what an ended sampler leaves
            self.problems.append(f"{len(rows) - len(samples)} lines of {path.name} are damaged")
        return samples

    def setting(self, path: str) -> Any:
        """A key of the experiment; None where it is not there."""
        return value_at(self.experiment, path)

    def told(self, part: str) -> Json:
        """A part of what the controller told."""
        return as_dict(self.controller.get(part))

    def processes(self, *roles: str) -> list[Json]:
        """The plan's processes, those of these roles or all, as the manifest has them."""
        listed = map(as_dict, as_list(self.manifest.get("processes")))
        return [one for one in listed if not roles or one.get("role") in roles]

    @property
    def played(self) -> str:
        """Where the queries come from, in words: a file, or what they were made by."""
        made = as_dict(self.experiment.get(self.source or ""))
        if self.source == "generate":
            return f"generated: {made.get('name')} {made.get('type')}"
        if self.source == "synth":
            return f"synthetic: profile {made.get('profile', 'simple')}, seed {made.get('seed', 1)}"
        return str(self.trace or "unknown")


def over_laps(run: Run) -> str:
    """A note for counts of a trace that was played several times: they are sums over all laps."""
    laps = as_int(run.told("reader").get("laps"))
    return f"in {laps} laps" if laps > 1 else ""


def as_dict(value: object) -> Json:
    """JSON from other programs: a missing or unexpected part is an empty one."""
    return value if isinstance(value, dict) else {}


def as_int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def as_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def value_at(table: Json, path: str) -> Any:
    """The value under dotted keys; None where it is not there."""
    found: Any = table
    for key in path.split("."):
        found = as_dict(found).get(key)
    return found


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a table, also in tables below it, and their values."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def as_json(path: Path) -> Json:
    """A file of JSON; empty where it cannot be read."""
    try:
        return as_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _sample(row: dict[str, str]) -> ServerSample | None:
    """None of a line that is cut or damaged; an empty cell is 0 (nothing to count)."""
    if None in row or None in row.values():
        return None
    try:
        sample = ServerSample(
            time_real_ns=int(row["time_real_ns"]),
            time_mono_ns=int(row["time_mono_ns"]),
            process=row["process"],
            values={name: float(text or 0) for name, text in row.items() if name != "process"},
        )
    except (KeyError, ValueError):
        return None
    return sample if math.isfinite(sum(sample.values.values())) else None
