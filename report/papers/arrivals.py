"""When queries arrived at the server, by the capture there and not by our own records.

A query is known by its name, which no other query of the trace has. Its due time is the announced start plus
its place in the trace. What was due in the warm-up, or in a second in which the hypervisor took time, is left
out. Times are compared by the clocks of the server's host and of the controller's: on one machine they are
the same.
"""

import itertools
from pathlib import Path

import numpy as np

from report import server, statistics, timing
from report.distribution import Distribution, Values
from report.errors import ReportError
from report.figures import cdf_points
from report.questions import Questions
from report.run import Json, Run, as_dict
from report.sources import find_program, reading_arguments, trace_of

CAPTURE = "capture.pcap"
_CHANGED = "trace.rps"  # by the experiment's rules
_PLAYED = {"speed": 1, "rate": 0, "fast": False, "loop": 1}  # settings by which due times are the trace's
_SECOND = 1_000_000_000
_SHARES = (5, 25, 50, 75, 95)  # percentiles at which gaps are compared
_KNOWN = 0.99  # of a trace's queries at least have names of their own: no rule can change all of them
_DIGITS = 9  # of a time behind its point
_PARTS = 10  # of the time, of which each has a median that may rise or fall


def check(replay: Json) -> None:
    """Raises ReportError where queries are not due at their places in the trace, as replayed once."""
    changed = [key for key, usual in _PLAYED.items() if replay.get(key, usual) != usual]
    if changed:
        what = f"replay.{changed[0]} changes when queries are due, which arrivals are compared with"
        raise ReportError(what, "leave it out", 2)


def of(run: Run, warmup_ns: int, sent: int) -> Json:
    """The part `arrival` of papers.json, of a run that `sent` so many queries; empty where nothing was
    captured. Raises ReportError where the trace does not tell its queries apart, or one of both is not
    whole, and as `check`.
    """
    if not (run.folder / CAPTURE).is_file():
        return {}
    check(as_dict(run.experiment.get("replay")))
    changed = run.folder / _CHANGED
    if run.rules and not changed.is_file():
        raise ReportError("rules changed the trace as it was played", "run it with mutate.keep = true")
    played = changed if changed.is_file() else trace_of(run)
    trace, came = (_named(path, run) for path in (played, run.folder / CAPTURE))
    start = run.told("start")
    due, arrived, others = matched(trace, came, start["trace_first_ns"], start["real_ns"])
    missing = max(0, sent - len(due) - others)
    if missing > (1 - _KNOWN) * sent:
        hint = "see what took the disk or the processors, and run it again"
        raise ReportError(f"the capture lacks {missing} of {sent} queries", hint)
    span = int(due.max(initial=0)) // _SECOND
    seconds = np.arange(-(-warmup_ns // _SECOND), span)
    stolen = timing.touched(span + 1, _SECOND, server.steal_spans(run) or [])
    clean = seconds[~stolen[seconds]]
    counted = np.isin(due // _SECOND, clean)
    error = Distribution()
    error.add(late := (arrived - due)[counted])
    return {
        "error_us": error.spread(),
        "steady": _steady(due[counted], late),
        **_gaps(np.sort(due), np.sort(arrived), clean),
        "rate": _rates(due, arrived, clean),
        "missing": missing,
        "seconds": len(clean),
        "steal_seconds": int(len(seconds) - len(clean)),
    }


def matched(
    trace: tuple[Values, Values], came: tuple[Values, Values], first_ns: int, start_ns: int
) -> tuple[Values, Values, int]:
    """Of each query with a name of its own that came, when it was due and when it arrived, in ns from the
    start; how many others came. Both sides are times and names, as numbers.
    """
    names, order, times = np.unique(trace[1], return_index=True, return_counts=True)
    shared, names, order = names[times > 1], names[times == 1], order[times == 1]
    if len(names) < _KNOWN * len(trace[1]):
        hint = 'give each its own: [[mutate.rule]] name, unique = "q"'
        raise ReportError("queries of the trace have the same names", hint)
    seen, places = np.unique(came[1], return_index=True)  # the first arrival of each
    _, ours, theirs = np.intersect1d(names, seen, assume_unique=True, return_indices=True)
    due = trace[0][order[ours]] - first_ns
    return due, came[0][places[theirs]] - start_ns, int(np.isin(came[1], shared).sum())


def _named(path: Path, run: Run) -> tuple[Values, Values]:
    """The times of a trace's queries, and numbers that stand for their names."""
    asked = Questions(str(find_program(None)), (str(path), *reading_arguments(run)), "time", "name")
    numbers = ((_ns(time), hash(name.lower())) for time, name in asked)
    both = np.fromiter(itertools.chain.from_iterable(numbers), np.int64)
    if asked.status:
        raise ReportError(f"{path} cannot be read whole", "look at it with `reprise trace info`")
    if not len(both):
        raise ReportError(f"{path} has no query", "look at it with `reprise trace info`")
    return both[::2], both[1::2]


def _ns(time: str) -> int:
    whole, _, rest = time.partition(".")
    return int(whole + rest.ljust(_DIGITS, "0"))


def _steady(due: Values, late: Values) -> Json:
    """Whether the median error moves in the course of the replay; empty where there are too few to tell."""
    if not len(due):
        return {}
    place = (due - due.min()) * _PARTS // (due.max() - due.min() + 1)
    found = statistics.trend(
        [float(np.median(late[place == at])) for at in range(_PARTS) if np.any(place == at)]
    )
    return {"change": found.change, "steady": found.steady} if found else {}


def _gaps(due: Values, arrived: Values, clean: Values) -> Json:
    """Gaps that begin in seconds that count: of the trace and of the arrivals, and how far percentiles of
    these are from those, as shares.
    """
    both = [np.diff(times)[np.isin(times[:-1] // _SECOND, clean)] for times in (due, arrived)]
    if not all(map(len, both)):
        return {}
    held = [Distribution(), Distribution()]
    for one, gaps in zip(held, both, strict=True):
        one.add(gaps)
    theirs, ours = (np.percentile(gaps, _SHARES, method="inverted_cdf") for gaps in both)
    off = np.abs(ours / np.maximum(theirs, 1) - 1)
    curves = zip(("trace", "arrivals"), map(cdf_points, held), strict=True)
    return {
        "trace_gap_us": held[0].spread(),
        "gap_us": held[1].spread(),
        "gap_off": {"median": float(off[2]), "all": float(off.max()), "upper": float(off[2:].max())},
        "curves": {name: {"x": (x / 1e6).tolist(), "y": y.tolist()} for name, (x, y) in curves},
    }


def _rates(due: Values, arrived: Values, clean: Values) -> Json:
    """Of whole seconds, how many are near the trace's rate; `differences` of all, in order of size."""
    most = int(clean.max(initial=0)) + 1
    seconds = (np.maximum(times, 0) // _SECOND for times in (due, arrived))
    wanted, came = (np.bincount(one, minlength=most)[clean] for one in seconds)
    asked = wanted > 0
    off = (came[asked] - wanted[asked]) / wanted[asked]
    if not len(off):
        return {}
    return {
        "within_0_1_percent": float(np.mean(np.abs(off) <= 0.001)),
        "over_2_percent": float(np.mean(np.abs(off) > 0.02)),
        "differences": np.sort(off).tolist(),
    }
