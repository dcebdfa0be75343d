"""Everything that is counted and measured over the records, in one pass and in bounded memory."""

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report.distribution import Counts, Distribution, Slices, Values, counted
from report.rqfile import (
    FLAG_TC,
    MARK_FALLBACK,
    MARK_OPENED,
    MARK_REUSED,
    MARK_SILENT,
    MARK_WAITED,
    NEVER,
    NO_RCODE,
    TCP,
    Records,
    RqFile,
    Status,
    Window,
    read_rq,
    transport_name,
    windows,
)
from report.run import Run

MOST_SOURCES = 1 << 28
FEWEST_ANSWERS = 3  # of a client: the least time of them is taken for its round trip
# Lower ends of the classes of round trips, ms.
_STEPS = (1, 1.5, 2, 3, 4, 6, 8)
_ENDS = np.array([0.0, *(step * decade for decade in (1, 10, 100) for step in _STEPS), 1000.0])
_TRIPS = [*(f"{low:g}–{high:g}" for low, high in itertools.pairwise(_ENDS)), f"over {_ENDS[-1]:g}"]


class Rate:
    """How often something happened in each hundredth of a second since the start. Memory grows with the time
    in which something did.
    """

    STEP_NS = 10_000_000
    _MOST = 100_000_000  # steps, a schedule of eleven days: beyond it a time is damaged, not long

    def __init__(self) -> None:
        self._held = Counts(4_096)

    def add(self, times: Values) -> None:
        """Times in ns; NEVER is left out. What left a moment before the start is of the first step."""
        known = (times > -self.STEP_NS) & (times < self._MOST * self.STEP_NS)
        self._held.add(np.maximum(times[known], 0) // self.STEP_NS)

    def steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Steps in which something happened, ascending, and how often."""
        none = np.zeros(0, np.int64)
        steps, counts = (np.concatenate(both) for both in zip((none, none), *self._held.parts(), strict=True))
        return steps, counts

    @property
    def end_ns(self) -> int:
        """The end of the last step in which something happened."""
        return int((max(self.steps()[0], default=-1) + 1) * self.STEP_NS)

    def per(self, size_ns: int, bins: int) -> NDArray[np.int64]:
        """Counts in the first `bins` periods of so many ns, a multiple of a step."""
        steps, counts = self.steps()
        periods = steps // (size_ns // self.STEP_NS)
        known = periods < bins
        return np.bincount(periods[known], weights=counts[known], minlength=bins).astype(np.int64)


class _Sources:
    """Which source ids there were, a bit each."""

    def __init__(self) -> None:
        self._seen = np.zeros(0, np.bool_)
        self._beyond: set[int] = set()

    def add(self, ids: NDArray[np.uint32]) -> None:
        usual = ids[ids < MOST_SOURCES]
        if len(usual):
            self._seen.resize(max(len(self._seen), int(usual.max()) + 1), refcheck=False)
            self._seen[usual] = True
        self._beyond.update(np.unique(ids[ids >= MOST_SOURCES]).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._seen)) + len(self._beyond)


class Means:
    """The mean of each source's values, for the first sources: 12 bytes for each of them."""

    _MOST = 1 << 22

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.uint32)
        self._sums = np.zeros(0, np.float64)

    def add(self, ids: NDArray[np.uint32], values: Values) -> None:
        known = ids < self._MOST
        if not known.any():
            return
        size = max(len(self._counts), int(ids[known].max()) + 1)
        self._counts.resize(size, refcheck=False)  # what is new is 0
        self._sums.resize(size, refcheck=False)
        self._counts += np.bincount(ids[known], minlength=size).astype(np.uint32)
        self._sums += np.bincount(ids[known], values[known], size)

    def all(self) -> Distribution:
        """Those of the sources that have a value."""
        held, found = self._counts > 0, Distribution()
        found.add((self._sums[held] / self._counts[held]).astype(np.int64))
        return found


ByTransport = dict[str, Distribution]


@dataclass
class Tally:
    """Times in ns. Keys are names of transports, hosts, reasons and rcodes' numbers.

    `errors` are send - due by host and transport, of what was sent and due after the warm-up; `interarrival`
    is how much they change from one query to the next in the trace's order. `asked` are queries that were not
    skipped and `unanswered` those of them without an answer, at their due times, or at that of the send where
    there is none. `latency` counts from the send,
    on a fresh connection from its SYN; `response` from the time at which the query was due (or sent, where
    that was a little earlier), so that no delay of ours or of another query's handshake is left out.
    `truncated_over` has answers with TC by their transport, also those that were asked again over TCP.
    `connect`, `fresh` and `reused` are of connections. `hosts`: how many of a host's records there are, were
    sent and answered.
    """

    records: int = 0
    ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    sent: int = 0
    sent_over: Counter[str] = field(default_factory=Counter)
    asked_over: Counter[str] = field(default_factory=Counter)
    rcodes: Counter[int] = field(default_factory=Counter)
    skipped: Counter[int] = field(default_factory=Counter)
    truncated: int = 0
    truncated_over: Counter[str] = field(default_factory=Counter)
    reply_bytes: int = 0
    retried: int = 0
    reused_queries: int = 0
    opened: int = 0
    fallbacks: int = 0
    duplicate_seqs: int = 0
    span_ns: int = 0  # to the last due time, or without due times to the last sending
    last_ns: int = 0  # to the last thing that happened to a query
    files: tuple[str, ...] = ()  # hosts with files of records, also empty ones
    hosts: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: dict[tuple[str, str], Distribution] = field(default_factory=lambda: defaultdict(Distribution))
    interarrival: Distribution = field(default_factory=Distribution)
    latency: ByTransport = field(default_factory=lambda: defaultdict(Distribution))
    response: ByTransport = field(default_factory=lambda: defaultdict(Distribution))
    source_response: Means = field(default_factory=Means)
    connect: ByTransport = field(default_factory=lambda: defaultdict(Distribution))
    fresh: Distribution = field(default_factory=Distribution)
    reused: Distribution = field(default_factory=Distribution)
    error_slices: Slices = field(default_factory=Slices)
    response_slices: Slices = field(default_factory=Slices)
    due: Rate = field(default_factory=Rate)
    sends: Rate = field(default_factory=Rate)
    answers: Rate = field(default_factory=Rate)
    asked: Rate = field(default_factory=Rate)
    unanswered: Rate = field(default_factory=Rate)
    sources: _Sources = field(default_factory=_Sources)
    _last_error: int | None = None

    def unanswered_share(self, size_ns: int, bins: int) -> NDArray[np.float64]:
        """Of the queries asked in each of the first periods of so many ns; NaN where there were none."""
        asked, unanswered = (rate.per(size_ns, bins) for rate in (self.asked, self.unanswered))
        return np.where(asked > 0, unanswered / np.maximum(asked, 1), np.nan)

    def errors_of(self, host: str | None = None, transport: str | None = None) -> Distribution:
        """Timing errors of one host, over one transport, or all."""
        return Distribution.of(
            found
            for (at, over), found in self.errors.items()
            if host in (None, at) and transport in (None, over)
        )

    def add(self, window: Window, hosts: Sequence[str], warmup_ns: int) -> None:
        sent, known = window.sent != NEVER, window.due != NEVER
        self._count(window, sent, hosts)
        timed = sent & known & (window.due >= warmup_ns) & (window.marks & MARK_WAITED == 0)
        self._time(window, timed, hosts)
        self._answers(window, known)
        self._connections(window)

    def _count(self, window: Window, sent: NDArray[np.bool_], hosts: Sequence[str]) -> None:
        self.records += len(window)
        self.ends += np.bincount(window.status, minlength=256)
        self.sent += int(np.count_nonzero(sent))
        self.rcodes.update(dict(_counted(window.rcode[window.rcode != NO_RCODE])))
        self.skipped.update(dict(_counted(window.reason[window.status == Status.SKIPPED])))
        truncated = window.flags & FLAG_TC != 0
        self.truncated += int(np.count_nonzero(truncated))
        fallback = window.marks & MARK_FALLBACK != 0
        again = np.where(fallback, TCP, window.transport)  # the transport of the last answer
        cut = window.transport[fallback & (window.marks & MARK_SILENT == 0)]
        self.reply_bytes += int(window.reply_size.sum(dtype=np.int64))
        self.retried += int(np.count_nonzero(window.retries))
        self.sources.add(window.source)
        self.duplicate_seqs += int(np.count_nonzero(window.seq[1:] == window.seq[:-1]))
        rates = (self.due, self.sends, self.answers)
        for rate, times in zip(rates, (window.due, window.sent, window.received), strict=True):
            rate.add(times)
            self.last_ns = max(self.last_ns, int(times.max(initial=0)))
        answered = window.status == Status.ANSWERED
        asked, when = window.status != Status.SKIPPED, np.where(window.due != NEVER, window.due, window.sent)
        for held, transports in (
            (self.sent_over, window.transport[sent]),
            (self.asked_over, window.transport[asked]),
            (self.truncated_over, np.concatenate([again[truncated], cut])),
        ):
            for transport, count in _counted(transports):
                held[transport_name(transport)] += count
        self.span_ns = max(self.span_ns, int(when.max(initial=0)))
        self.asked.add(when[asked])
        self.unanswered.add(when[asked & ~answered])
        own = window.file
        for name, files in (("records", own), ("sent", own[sent]), ("answered", own[answered])):
            for file, count in _counted(files):
                self.hosts[hosts[file], name] += count

    def _time(self, window: Window, timed: NDArray[np.bool_], hosts: Sequence[str]) -> None:
        error = window.sent[timed] - window.due[timed]
        if not len(error):
            return
        self.error_slices.add(window.due[timed], error)
        before = [] if self._last_error is None else [self._last_error]
        self.interarrival.add(np.diff(np.concatenate([np.array(before, np.int64), error])))
        self._last_error = int(error[-1])
        kinds = window.file[timed] * 256 + window.transport[timed]
        for kind in counted(kinds)[0].tolist():
            self.errors[hosts[kind // 256], transport_name(kind % 256)].add(error[kinds == kind])

    def _answers(self, window: Window, known: NDArray[np.bool_]) -> None:
        answered = window.latency != NEVER
        _add(self.latency, window.transport, answered, window.latency)
        timed = answered & known & (window.received != NEVER) & (window.sent != NEVER)
        response = window.received - np.minimum(window.due, window.sent)
        self.response_slices.add(window.due[timed], response[timed])
        self.source_response.add(window.source[timed], response[timed])
        _add(self.response, window.transport, timed, response)

    def _connections(self, window: Window) -> None:
        """`connect` is by the transport of the connection: TCP for queries that began over UDP."""
        marks = (MARK_OPENED, MARK_REUSED, MARK_FALLBACK)
        opened, reused, fallback = (window.marks & bit != 0 for bit in marks)
        self.opened += int(np.count_nonzero(opened))
        self.reused_queries += int(np.count_nonzero(reused))
        self.fallbacks += int(np.count_nonzero(fallback))
        answered = window.latency != NEVER
        self.fresh.add(window.latency[opened & answered])
        self.reused.add(window.latency[reused & ~opened & answered])
        connected = opened & (window.connect > 0)
        _add(self.connect, np.where(fallback, TCP, window.transport), connected, window.connect)


def _add(held: ByTransport, over: NDArray[np.uint8], which: NDArray[np.bool_], values: Values) -> None:
    """Those values to the distributions of their transports."""
    for transport in np.unique(over[which]):
        held[transport_name(transport)].add(values[which & (over == transport)])


def _counted(values: NDArray[Any]) -> list[tuple[int, int]]:
    return list(zip(*(one.tolist() for one in counted(values.astype(np.int64))), strict=True))


@dataclass(frozen=True)
class Measured:
    """A run and what its records come to, for the summary and the plots alike."""

    run: Run
    files: list[RqFile]
    tally: Tally
    warmup_ns: int


def measure(run: Run, seen: Callable[[int, int], None] = lambda _done, _of: None) -> Measured:
    """Reads all records once; `seen` is told how many of how many were read."""
    files = [read_rq(path) for path in run.record_paths]
    warmup_ns = int(float(run.manifest.get("warmup_s") or 0) * 1e9)
    total = sum(len(file.records) for file in files)
    hosts = tuple(file.host for file in files)
    tally = Tally(files=hosts)
    for window in windows(files, lambda done: seen(done, total)):
        tally.add(window, hosts, warmup_ns)
    return Measured(run, files, tally, warmup_ns)


def by_round_trip(files: Sequence[RqFile]) -> tuple[list[tuple[str, Distribution]], int]:
    """Latencies by a class of the clients' round trips [ms], ascending, only those with values; and how many
    answers of clients with too few are left out. Reads the records three times, in bounded memory.
    """
    sources = (part["source"] for part in _answered(files))
    ids = functools.reduce(np.union1d, sources, np.zeros(0, np.uint32))
    least, count = np.full(len(ids), np.inf), np.zeros(len(ids), np.int64)
    for part in _answered(files):
        at = np.searchsorted(ids, part["source"])
        np.minimum.at(least, at, part["latency_ns"] - part["connect_ns"])
        np.add.at(count, at, 1)
    places = np.searchsorted(_ENDS, least / 1e6, side="right") - 1
    places[count < FEWEST_ANSWERS] = -1
    latency = [Distribution() for _ in _ENDS]
    left = 0
    for part in _answered(files):
        classes = places[np.searchsorted(ids, part["source"])]
        left += int(np.count_nonzero(classes < 0))
        for place in np.unique(classes[classes >= 0]):
            latency[place].add(part["latency_ns"][classes == place])
    return [(name, one) for name, one in zip(_TRIPS, latency, strict=True) if one.count], left


def _answered(files: Sequence[RqFile]) -> Iterator[Records]:
    """Records with an answer, part by part, without sources that only a damaged file can have."""
    for file in files:
        for part in file.parts():
            found = part[(part["latency_ns"] >= 0) & (part["source"] < MOST_SOURCES)]
            if len(found):
                yield found
