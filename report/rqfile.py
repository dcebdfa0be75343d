"""Reads `.rq` files: one fixed-size record a query, see docs/formats.md. Records stay mapped, never Python
objects.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report import transports
from report.container import Frame, open_frame
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


def transport_name(number: int) -> str:
    return TRANSPORTS[number] if number < len(TRANSPORTS) else f"transport_{number}"


class Status(enum.IntEnum):
    ANSWERED = 1
    TIMED_OUT = 2
    SEND_FAILED = 3
    CONNECTION_FAILED = 4
    SKIPPED = 5


@dataclass(frozen=True)
class RqFile:
    """One querier's records. `statistics` is empty where the writer was cut off."""

    path: Path
    host: str
    querier: int
    start_mono_ns: int
    records: Records
    statistics: dict[str, Any]
    cut_off: bool
    problem: str | None
    data: memoryview  # the whole file


def read_rq(path: Path) -> RqFile:
    """Maps one file. Raises ReportError for what is not an `.rq` file of a known schema."""
    frame = open_frame(path, HEADER_MAGIC, FOOTER_MAGIC)
    if not frame.header:
        return _build(frame, np.zeros(0, [(name, "<i8") for name in NEEDED]), frame.problem)
    dtype = _dtype(frame)
    held, rest = divmod(frame.end - frame.start, frame.record_size)
    records: Records = np.frombuffer(frame.data, dtype=dtype, count=held, offset=frame.start)
    if frame.cut_off:
        records = records[: _plausible_prefix(records)]
    return _build(frame, records, frame.problem or _count_problem(frame, held, rest))


def _build(frame: Frame, records: Records, problem: str | None) -> RqFile:
    header = frame.header
    return RqFile(
        path=frame.path,
        host=str(header.get("host", "unknown")),
        querier=int(header.get("querier", 0)),
        start_mono_ns=int(header.get("start_mono_ns", 0)),
        records=records,
        statistics=frame.statistics,
        cut_off=frame.cut_off,
        problem=problem,
        data=frame.data,
    )


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


def _count_problem(frame: Frame, held: int, rest: int) -> str | None:
    if frame.count is not None and (rest or frame.count != held):
        return f"its footer counts {frame.count} records and it holds {held}"
    return None


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
