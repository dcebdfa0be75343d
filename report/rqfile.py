"""Reads `.rq` files: one fixed-size record a query, see docs/formats.md. Records stay mapped, never Python
objects. Those of several queriers and hosts come in the trace's order.

Every querier writes its own CLOCK_MONOTONIC, so times are kept relative to the start announced to that
querier: 0 is the start of the schedule on every host. Records are read in windows of about a million, so that
memory does not grow with the number of queries.
"""

import enum
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from report import transports
from report.container import Frame, open_frame, release
from report.errors import ReportError
from report.run import as_dict, as_int

Records = NDArray[np.void]

HEADER_MAGIC = b"RPRQHDR1"
FOOTER_MAGIC = b"RPRQEND1"
NO_RCODE = 0xFFFF
FLAG_TC = 0x0200
MARK_REUSED, MARK_OPENED, MARK_WAITED, MARK_HEDGED, MARK_HEDGE_WON, MARK_FALLBACK = 1, 2, 128, 256, 512, 1024
MARK_SILENT = 32768  # with MARK_FALLBACK: no answer came over UDP
CHUNK = 1 << 17  # records looked at in one step
TRANSPORTS = tuple(transports.TRANSPORTS)  # by the number in a record
TCP = TRANSPORTS.index("tcp")
SKIP_REASONS = {1: "aborted", 2: "oversize", 3: "no_address", 4: "duration"}
UNASKED = ("aborted", "oversize", "no_address")  # skipped although the query was to be asked
# What queriers count, as `reprise-controller --describe` has it: group -> name -> help. Groups are those of a
# file's statistics; "" stands for its top level.
COUNTERS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("counters.json").read_text())
NEEDED = (
    *("seq", "trace_ns", "due_ns", "send_ns", "recv_ns", "latency_ns", "connect_ns", "source", "connection"),
    *("reply_size", "rcode", "flags", "marks", "status", "transport", "reason", "retries"),
)
NEVER = np.iinfo(np.int64).min  # the time of what did not happen
_WINDOW = 1 << 20  # records, about
_SAMPLE = 1 << 10  # one of so many sequence numbers is looked at to find the windows' ends
_TIMES = {"due": "due_ns", "sent": "send_ns", "received": "recv_ns"}  # fields by their names in a window
_FIELDS = {**_TIMES, "latency": "latency_ns", "connect": "connect_ns"}


def transport_name(number: int) -> str:
    return TRANSPORTS[number] if number < len(TRANSPORTS) else f"transport_{number}"


class Status(enum.IntEnum):
    ANSWERED = 1
    TIMED_OUT = 2
    SEND_FAILED = 3
    CONNECTION_FAILED = 4
    SKIPPED = 5


@dataclass(frozen=True)
class RqFile(Frame):
    """One querier's records."""

    records: Records
    host: str
    querier: int
    start_mono_ns: int

    def parts(self) -> Iterator[Records]:
        """The records, some at a time; those before need no memory."""
        for at in range(0, len(self.records), CHUNK):
            yield self.records[at : at + CHUNK]
            release(self.data)


def read_rq(path: Path) -> RqFile:
    """Maps one file. Raises ReportError for what is not an `.rq` file of a known schema."""
    frame = open_frame(path, HEADER_MAGIC, FOOTER_MAGIC)
    facts: dict[str, Any] = {name: as_int(frame.header.get(name)) for name in ("querier", "start_mono_ns")}
    facts["host"] = str(frame.header.get("host", "unknown"))
    if not frame.header:
        return RqFile(**vars(frame), **facts, records=np.zeros(0, [(name, "<i8") for name in NEEDED]))
    dtype = _dtype(frame)
    held, rest = divmod(frame.end - frame.start, frame.record_size)
    records: Records = np.frombuffer(frame.data, dtype=dtype, count=held, offset=frame.start)
    if frame.cut_off:
        records = records[: _plausible_prefix(records)]
    problem = frame.problem or frame.miscounted(held + rest / frame.record_size if rest else held)
    return RqFile(**{**vars(frame), **facts, "problem": problem}, records=records)


def _dtype(frame: Frame) -> np.dtype[np.void]:
    """The record's layout comes from the header, so that added fields do not break older readers."""
    try:
        fields = frame.header["fields"]
        dtype = np.dtype(
            {
                "names": [field["name"] for field in fields],
                "formats": [field["type"] for field in fields],
                "offsets": [field["offset"] for field in fields],
                "itemsize": frame.record_size,
            }
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{frame.path} does not describe its fields", "repeat the run") from error
    missing = [name for name in NEEDED if name not in (dtype.names or ())]
    if missing:
        raise ReportError(
            f"{frame.path} lacks the fields {', '.join(missing)}", "use the version that wrote it"
        )
    return dtype


def _plausible_prefix(records: Records) -> int:
    """Records before the first that no querier writes: a file cut inside its statistics ends in a piece of
    JSON, one cut by a crash of the host may end in zeroes.
    """
    for at in range(0, len(records), CHUNK):
        part = records[at : at + CHUNK]
        status = part["status"]
        good = (
            (status >= Status.ANSWERED) & (status <= Status.SKIPPED) & (part["transport"] < len(TRANSPORTS))
        )
        if not good.all():
            return at + int(np.argmin(good))
    return len(records)


def sums_of(files: Iterable[RqFile], group: str) -> dict[str, int]:
    """The counters of a group but for maxima, added over the files. What a file lacks is 0."""
    groups = [as_dict(file.statistics.get(group)) if group else file.statistics for file in files]
    return {
        name: sum(as_int(one.get(name)) for one in groups)
        for name in COUNTERS[group]
        if not name.startswith("max_")
    }


# --- records of several queriers and hosts --------------------------------------------------------------


class Window:
    """Records whose sequence numbers lie between two, ascending. `file` is the number of the one that each is
    from. Their fields are read when they are asked for; times are in ns since the announced start, or NEVER.
    """

    def __init__(self, files: Sequence[RqFile], held: Sequence[tuple[int, Records]]) -> None:
        self._parts = [part for _, part in held]
        self._starts = np.array([one.start_mono_ns for one in files], np.int64)
        seq = np.concatenate([part["seq"] for part in self._parts])
        self._order: slice | NDArray[np.intp] = slice(None)
        if np.any(seq[1:] < seq[:-1]):
            self._order = np.argsort(seq, kind="stable")
        self.seq = seq[self._order]
        self.file = np.concatenate([np.full(len(part), number) for number, part in held])[self._order]

    def __getattr__(self, name: str) -> NDArray[Any]:
        found = np.concatenate([part[_FIELDS.get(name, name)] for part in self._parts])[self._order]
        if name in _TIMES:
            found = np.where(found == 0, NEVER, found - self._starts[self.file])
        elif name == "latency":
            found = np.where(found >= 0, found, NEVER)
        self.__dict__[name] = found
        return found

    def __len__(self) -> int:
        return len(self.file)


class Piece(NamedTuple):
    """Records that stand together in a file, by its number; their least and largest sequence number, and some
    of those in between.
    """

    file: int
    records: Records
    low: int
    high: int
    sample: NDArray[np.uint64]

    def between(self, low: int, high: int) -> Records:
        """Those with sequence numbers from `low` to before `high`."""
        if high <= self.low or self.high < low:
            return self.records[:0]
        if low <= self.low and self.high < high:
            return self.records
        seq = self.records["seq"]
        return self.records[(seq >= np.uint64(low)) & (seq <= np.uint64(high - 1))]


def pieces_of(file: int, records: Records, data: memoryview) -> Iterator[Piece]:
    """Of the records of a file, which are in this mapped data and need no memory behind it."""
    for at in range(0, len(records), CHUNK):
        part = records[at : at + CHUNK]
        seq = part["seq"]
        yield Piece(file, part, int(seq.min()), int(seq.max()), seq[::_SAMPLE].copy())
        release(data)


def spans(pieces: Sequence[Piece], size: int) -> Iterator[tuple[int, int]]:
    """Sequence numbers, from and up to, of windows that have about so many of the pieces' records."""
    if pieces:
        samples = np.sort(np.concatenate([piece.sample for piece in pieces]))
        step = size // _SAMPLE
        ends = np.unique(samples[step::step]).tolist()
        yield from zip([0, *ends], [*ends, max(piece.high for piece in pieces) + 1], strict=True)


def windows(files: Sequence[RqFile], seen: Callable[[int], None] = lambda _: None) -> Iterator[Window]:
    """All records, each once. Records of one sequence number are in one window. `seen` is told how many
    records there have been so far.
    """
    pieces = [piece for at, file in enumerate(files) for piece in pieces_of(at, file.records, file.data)]
    count = 0
    for low, high in spans(pieces, _WINDOW):
        held = [(piece.file, part) for piece in pieces if len(part := piece.between(low, high))]
        if held:
            yield (window := Window(files, held))
            count += len(window)
            seen(count)
        for file in files:
            release(file.data)
