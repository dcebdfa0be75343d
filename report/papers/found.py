"""What a study has measured so far, and what that says of each published value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report import series, statistics
from report.busy import spoils
from report.compare import pairs
from report.errors import ReportError
from report.papers import measured
from report.papers.book import FULL, QUICK, Row, Study, published
from report.rafile import join
from report.run import Json, Run, as_dict, as_json, as_list, value_at
from report.sources import digested
from report.tables import number
from report.wire import parse

FILE = "study.json"  # beside series.json
HOLDS, DIFFERS, NOT_HERE, NOT_YET = "holds", "differs", "not testable here", "not run yet"
NO_CLEAN = "no clean run"
_PLACES = {"least": 0, "": 50, "largest": 100}  # percentiles of a figure with a value for each node
TOLD = "no figure published"
_INTERVALS = "cpu."  # measures with a value for each interval
# By how a measure's path begins: what tells by its slope whether it was steady, and the part of a summary
# that a busy machine spoils with it, where that is not the measure itself.
_MEASURES: Sequence[tuple[tuple[str, ...], str, str | None]] = (
    (("arrival.rate",), "steady.sent", "rate_error"),
    (("arrival.error",), "arrival.steady", "timing_error_us"),
    (("arrival",), "steady.sent", "timing_error_us"),
    (("load.sent", "load.query"), "steady.sent", "cpu_us_per_query"),
    (("load.response",), "steady.sent", ""),  # it hangs on the rate alone
    (("load.server_cpu",), "steady.server_cpu", "cpu_us_per_query"),
    (("load.truncated", "load.fallback", "sessions.bytes"), "", ""),
    (("load", _INTERVALS), "", "cpu_us_per_query"),
    (("sessions",), "", "latency_us"),  # which are those of connections
    (("cpu_us_per_query.server",), "steady.server_cpu", None),
    (("latency", "response"), "steady.response_median", None),
    (("nodes.lookup", "nodes.slow"), "steady.response_median", "response_us"),
    (("server_memory",), "steady.server_memory", None),
    (("state.time_wait",), "steady.time_wait", None),
    (("state",), "steady.established", None),
)


@dataclass(frozen=True)
class Found:
    """`told` is study.json, `runs` the figures of clean runs, each with its `round`, by the labels of the
    variants that have been run, whose `settings` are those of the sweep. `unclean` says which runs were not
    clean.
    """

    study: Study
    folder: Path | None = None
    told: Json = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    settings: Mapping[str, Json] = field(default_factory=dict)
    runs: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    unclean: tuple[str, ...] = ()

    @property
    def profile(self) -> str:
        return str(self.told.get("profile") or QUICK)

    @property
    def warnings(self) -> list[str]:
        return [*map(str, as_list(self.told.get("warnings"))), *self.unclean]


@dataclass(frozen=True)
class Judged:
    """A row of the report in words; `state` is one of the constants above."""

    row: Row
    state: str
    published: str
    measured: str = "–"
    interval: str = "–"
    steady: str = "–"
    verdict: str = ""

    @property
    def cells(self) -> list[str]:
        words = (self.row.what, f"beside {self.row.over}" if self.row.over else "")
        what = f"{self.row.variant}: {', '.join(filter(None, words))}"
        return [what, self.published, self.measured, self.interval, self.steady, self.verdict or self.state]


def newest(study: Study, parent: Path) -> Path | None:
    """The latest folder that the study has made there."""
    files = parent.glob(f"{study.name}-*/{FILE}")
    made = (one.parent for one in files if as_json(one).get("study") == study.name)
    return max(made, key=lambda one: one.name, default=None)


def read(study: Study, parent: Path) -> Found:
    """What the study's latest folder holds; without one nothing has been run."""
    folder = newest(study, parent)
    if folder is None:
        return Found(study, labels=tuple(study.traces or study.labels(QUICK)))
    told = as_json(folder / FILE)
    if study.traces:
        runs = {one.stem: [as_json(one)] for one in sorted(folder.glob("*.json")) if one.name != FILE}
        labels = dict.fromkeys((*study.traces, *runs))
        return Found(study, folder, told, tuple(labels), {}, runs)
    made = as_json(folder / series.FILE)
    variants = as_list(made.get("variants"))
    labels_of = study.labels(str(told.get("profile")), bool(told.get("real")))
    names = labels_of if len(labels_of) == len(variants) else series.labels(variants)
    with_arrivals = tells_arrivals(study, names)
    runs = {}
    unclean = []
    for one in as_list(made.get("runs")):
        if one["folder"]:
            held = runs.setdefault(names[one["variant"]], [])
            try:
                figures = measured.figures_of(folder / one["folder"], with_arrivals)
            except ReportError as error:
                unclean.append(f"{one['folder']} is not counted: {error}")
                continue
            if problem := value_at(figures, "arrival.problem"):
                unclean.append(f"{one['folder']}: arrivals are not known: {problem}")
            if figures.get("clean"):
                held.append({**figures, "round": one["round"], "folder": folder / one["folder"]})
            else:
                unclean.append(
                    f"{one['folder']} is not clean and not counted: {figures['unclean_because'][0]}"
                )
    return Found(
        study, folder, told, tuple(names), dict(zip(names, variants, strict=True)), runs, tuple(unclean)
    )


def tells_arrivals(study: Study, labels: Sequence[str]) -> bool:
    """Whether a published value is compared with when queries arrived."""
    return any(row.measure.startswith("arrival") for row in published(study, list(labels)))


def judge(found: Found) -> list[Judged]:
    """Every published value of the study's figures; of traces without one what they hold."""
    rows = [_judge(row, found) for row in published(found.study, list(found.labels))]
    named = {one.row.variant for one in rows}
    first = {one.row.measure: one.row for one in rows if one.row.variant == rows[0].row.variant}
    more = [
        replace(row, variant=name, value=None, tolerance=None, only="told")
        for name in found.labels
        if found.study.traces and name not in named
        for row in first.values()
    ]
    return rows + [_judge(row, found) for row in more]


def _judge(row: Row, found: Found) -> Judged:
    wanted, names = _published(row), {row.variant, *filter(None, [row.over])}
    if not names <= set(found.labels) or (row.only == FULL and found.profile != FULL):
        full = found.study.traces or names <= set(found.study.labels(FULL))
        where = "in the full profile only" if full and found.profile == QUICK else "not in these runs"
        return Judged(row, NOT_HERE, wanted, verdict=f"{NOT_HERE}: {where}")
    if not names <= found.runs.keys():
        return Judged(row, NOT_YET, wanted)
    if not set.intersection(*({one.get("round") for one in found.runs[name]} for name in names)):
        return Judged(row, NO_CLEAN, wanted)
    values, runs = _values(row, found), found.runs[row.variant]
    names |= set(on_line(found, row.variant, row.fit)) if row.fit else set()
    if not values:
        stolen = row.measure.startswith("arrival") and value_at(runs[0], "arrival.seconds") == 0
        why = "the hypervisor took time in every second" if stolen else "not measured"
        return Judged(row, NOT_HERE, wanted, verdict=f"{NOT_HERE}: {why}")
    spread = statistics.spread(values)
    interval = f"{number(spread.low)} to {number(spread.high)}" if len(values) > 1 else "one trial"
    interval = "–" if row.fit or row.relation == "apart" else interval
    name = f" ({value_at(runs[0], row.name)})" if row.name else ""
    involved = [one for name in found.labels for one in found.runs.get(name, ()) if name in names]
    state, verdict = _verdict(row, spread.median, involved, _overlap(row, found))
    shown = _shown(spread.median, row.unit) + name
    return Judged(row, state, wanted, shown, interval, _steady(row, involved), verdict)


def _published(row: Row) -> str:
    if row.value is None or row.only == "told":
        return "–"
    within = f" ± {_shown(row.tolerance, '')}" if row.tolerance else ""
    return f"{row.bound} {_shown(row.value, '')}{within} {row.unit}".strip()


def _shown(value: float, unit: str) -> str:
    return f"{number(int(value) if value == int(value) else value)} {unit}".rstrip()


def _values(row: Row, found: Found) -> list[float]:
    """One for each run or part of it, or for each pair of one round where it is set beside another variant;
    with `fit` or `apart` one of all together.
    """
    if row.relation == "answers":
        return _differing(row, found)
    if row.fit:
        held = points(found, row.variant, row.fit, row.measure)
        places = sorted({at for at, _ in held})
        means = [float(np.mean([value for at, value in held if at == one])) for one in places]
        told = len(places) > 2 and len(set(means)) > 1
        return [float(np.corrcoef(places, means)[0, 1] ** 2)] if told else []  # R² of a straight line
    own, others = (_each(found, name, row) for name in (row.variant, row.over))
    if row.relation == "apart":
        spreads = [statistics.spread([float(one) for one in each.values()]) for each in (own, others) if each]
        return [spreads[0].low - spreads[1].high] if len(spreads) == 2 else []
    if row.per:
        own = {at: value / found.settings[row.variant][row.per] for at, value in own.items()}
    if not row.over:
        return [_of_nodes(row, value) for value in own.values()]
    pairs = [
        (value, others[at])
        for at, value in own.items()
        if at in others and value.shape == others[at].shape and (row.relation == "minus" or others[at].all())
    ]
    if row.relation == "minus":
        return [_of_nodes(row, one - other) for one, other in pairs]
    ratios = [_of_nodes(row, one / other) for one, other in pairs]
    return ratios if row.relation == "times" else [100 * (one - 1) for one in ratios]


def _differing(row: Row, found: Found) -> list[float]:
    """The share of the answers that are not those of the other variant, by pairs of runs of one round."""
    own, others = (
        {one["round"]: one["folder"] for one in found.runs.get(name, ())} for name in (row.variant, row.over)
    )
    shares = (differing(one, others[at]) for at, one in own.items() if at in others)
    return [share * row.scale for share in shares if share is not None]


def differing(one: Path, other: Path) -> float | None:
    """The share of the queries answered in either run that have another rcode or other records in the answer
    section; TTLs do not count. None where no run kept answers.
    """
    sets = (digested(join(str(folder), Run(folder).answer_paths)) for folder in (one, other))
    different = queries = 0
    for own, others in pairs(*sets):
        queries += bool(own.reply or others.reply)
        different += own.reply[2:] != others.reply[2:] and _said(own.reply) != _said(others.reply)
    return different / queries if queries else None


def _said(reply: bytes) -> object:
    message = parse(reply)
    return (message.rcode, message.answer.sets) if message else bool(reply)


def _of_nodes(row: Row, values: NDArray[np.float64]) -> float:
    """A value, or of those of all nodes the one that the row is about."""
    return float(np.percentile(values, _PLACES[row.nodes]))


def _each(found: Found, variant: str, row: Row) -> dict[tuple[Any, int], NDArray[np.float64]]:
    """By round, and by the part of a run where the measure is a list; those of all nodes are one."""
    of_nodes = bool(row.nodes) or row.measure.startswith("nodes.")
    return {
        (one.get("round"), at): np.array(value, np.float64) * row.scale
        for one in found.runs.get(variant, ())
        if (told := value_at(one, row.measure)) is not None
        for at, value in enumerate([told] if of_nodes else _as_values(told))
    }


def _as_values(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def on_line(found: Found, variant: str, key: str) -> list[str]:
    """Variants that have been run, with no other settings than the variant's but for this one."""
    own = {**found.settings[variant], key: 0}
    return [name for name in found.runs if {**found.settings[name], key: 0} == own]


def points(found: Found, variant: str, key: str, measure: str) -> list[tuple[float, float]]:
    """A numeric setting and a value of a measure by it, for all values of the variants that differ in it
    alone.
    """
    return [
        (found.settings[name][key], value)
        for name in on_line(found, variant, key)
        for one in found.runs[name]
        for value in _as_values(value_at(one, measure))
    ]


def _verdict(row: Row, value: float, runs: Sequence[Json], overlap: str = "") -> tuple[str, str]:
    """State and words; `runs`: all that the value is made of, `overlap`: why it may be chance."""
    _, of = _known(row.measure)
    part = row.measure if of is None else of
    busy = [f"the machine was busy: {one['busy'][0]}" for one in runs if spoils(one, part)][:1]
    if row.value is None or row.tolerance is None or row.only == "told":
        return TOLD, "; ".join([TOLD, *busy])
    above, below = value <= row.value + row.tolerance, value >= row.value - row.tolerance
    if (above or row.bound == "at least") and (below or row.bound == "at most"):
        return HOLDS, "; ".join([HOLDS, *busy])
    told = ", or because ".join(filter(None, [row.because, *busy]))
    why = f" because {told}" if told else "" if overlap else "; nothing here says why"
    return DIFFERS, "; ".join(filter(None, [DIFFERS + why, overlap]))


def _overlap(row: Row, found: Found) -> str:
    """In words, that the server's CPU in parts of one trial does not tell two variants apart; else empty."""
    if row.measure != "cpu_us_per_query.server" or not row.over or len(found.runs[row.variant]) > 1:
        return ""
    own, others = (
        [value for one in found.runs[name] for value in value_at(one, "cpu.server_s") or ()]
        for name in (row.variant, row.over)
    )
    if not own or not others or min(own) > max(others) or max(own) < min(others):
        return ""
    parts = " and ".join(f"{number(min(one))} to {number(max(one))} s" for one in (own, others))
    return f"its intervals of 10 s overlap ({parts} of CPU), so that one trial tells no difference"


def _steady(row: Row, runs: Sequence[Json]) -> str:
    if row.fit or row.relation == "apart":
        return "–"
    if row.measure.startswith(_INTERVALS):
        trends = (statistics.trend(_as_values(value_at(one, row.measure))) for one in runs)
        states = [one.steady for one in trends if one]
    else:
        told = (as_dict(value_at(one, _known(row.measure)[0])) for one in runs)
        states = [one.get("steady") for one in told if one]
    return "–" if not states else "no" if False in states else "yes" if all(states) else "not clear"


def _known(path: str) -> tuple[str, str | None]:
    """What `_MEASURES` says of a measure."""
    return next(((slope, spoilt) for begin, slope, spoilt in _MEASURES if path.startswith(begin)), ("", None))
