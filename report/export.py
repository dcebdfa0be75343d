"""The records of runs as one table with a row a query, for other programs: CSV, or Parquet by pyarrow.

Records have neither name nor type. These are read from the kept queries (replay.answers), else from the trace
that was played; of generated queries the experiment says them. Where none of these is there, they are empty.
"""

import csv
import functools
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import dns.exception
import dns.name
import dns.rdatatype
import numpy as np
from numpy.typing import NDArray

from report import rqfile, whole_file
from report.errors import ReportError
from report.rafile import AnswerSet
from report.rqfile import NEVER, Status, read_rq, transport_name
from report.run import Run, as_dict
from report.sources import digested, open_source, reading_arguments
from report.wire import HEADER_BYTES, end_of_question, rcode_name

_STATUS = {one.value: one.name.lower() for one in Status}
Column = NDArray[Any]
Asked = tuple[str | None, str | None]  # name and type
Names = Callable[[NDArray[np.uint64]], Sequence[Asked]]  # of queries by their numbers


def table(run: Run, names: Names) -> Iterator[dict[str, Column]]:
    """Blocks of rows in the trace's order, by column. Objects are None, and floats NaN, where there is no
    value. Times count from the start of the replay, in seconds; `trace_time` is the trace's own.
    """
    files = [read_rq(path) for path in run.record_paths]
    hosts = np.array([one.host for one in files], object)
    queriers = np.array([one.querier for one in files])
    addresses = _addresses(run.folder / "sources.csv")
    for window in rqfile.windows(files):
        asked = names(window.seq)
        times = (window.latency, window.due, window.received, window.sent)
        answered = np.all([one != NEVER for one in times], axis=0)
        response = np.where(answered, window.received - np.minimum(window.due, window.sent), NEVER)
        yield {
            "run": np.full(len(window), run.name, object),
            "seq": window.seq,
            "trace_time": window.trace_ns.astype("datetime64[ns]"),
            "due_s": _scaled(window.due, 1e9),
            "sent_s": _scaled(window.sent, 1e9),
            "received_s": _scaled(window.received, 1e9),
            "latency_us": _scaled(window.latency, 1e3),
            "response_us": _scaled(response, 1e3),
            "connect_us": _scaled(np.where(window.connect > 0, window.connect, NEVER), 1e3),
            "status": _named(window.status, lambda one: _STATUS.get(one, f"status_{one}")),
            "reason": _named(
                np.where(window.status == Status.SKIPPED, window.reason, 0),
                lambda one: rqfile.SKIP_REASONS.get(one, f"reason_{one}") if one else None,
            ),
            "rcode": _named(window.rcode, lambda one: None if one == rqfile.NO_RCODE else rcode_name(one)),
            "truncated": window.flags & rqfile.FLAG_TC != 0,
            "reply_size": window.reply_size,
            "transport": _named(window.transport, transport_name),
            "connection": window.connection,
            "opened": window.marks & rqfile.MARK_OPENED != 0,
            "reused": window.marks & rqfile.MARK_REUSED != 0,
            "fallback": window.marks & rqfile.MARK_FALLBACK != 0,
            "hedged": window.marks & rqfile.MARK_HEDGED != 0,
            "hedge_won": window.marks & rqfile.MARK_HEDGE_WON != 0,
            "retries": window.retries,
            "source_id": window.source,
            "source": _named(window.source, addresses.get),
            "qname": np.array([one for one, _ in asked], object),
            "qtype": np.array([one for _, one in asked], object),
            "host": hosts[window.file],
            "querier": queriers[window.file],
        }


def _scaled(times: NDArray[np.int64], by: float) -> NDArray[np.float64]:
    return np.where(times == NEVER, np.nan, times / by)


def _named(codes: NDArray[Any], name: Callable[[int], str | None]) -> Column:
    found, places = np.unique(codes, return_inverse=True)
    return np.array([name(int(one)) for one in found], object)[places]


def _addresses(path: Path) -> dict[int, str]:
    """Of the sources by their ids; empty where the file is not there."""
    if not path.exists():
        return {}
    with path.open(encoding="ascii", errors="replace") as file:
        rows = [line.rstrip("\n").split(",") for line in file][1:]
    return {int(row[0]): row[1] for row in rows if len(row) > 1 and row[0].isdigit()}


# --- names ------------------------------------------------------------------------------------------------


def names_of(run: Run, scratch: Path) -> tuple[Names, str]:
    """From the kept queries, the played trace, or the generator; why they are not known, "" = they are."""
    if run.answer_paths:
        return _lookup(digested(open_source(run.folder, scratch))), ""
    if run.source == "generate" and run.mutation is None:
        made = as_dict(run.experiment.get("generate"))
        name = dns.name.from_text(str(made.get("name"))).to_text()
        kind = dns.rdatatype.to_text(dns.rdatatype.from_text(str(made.get("type"))))
        return lambda seqs: [(name, kind)] * len(seqs), ""
    trace = run.trace_read or run.trace
    if trace is None or not trace.exists():
        return nameless, f"its trace {trace or ''} is gone".replace("  ", " ")
    if why := _differs(run):
        return nameless, why
    try:
        return _lookup(digested(open_source(trace, scratch, reading_arguments(run)))), ""
    except ReportError as error:
        return nameless, error.what


def _differs(run: Run) -> str:
    """Why what was played is not what the controller read; "" where it is."""
    if run.rules and run.mutation is None:
        return "rules changed its trace as it was played (mutate.keep = true keeps it)"
    return "its trace was played several times" if (run.told("reader").get("laps") or 1) > 1 else ""


def nameless(seqs: NDArray[np.uint64]) -> Sequence[Asked]:
    return [(None, None)] * len(seqs)


def _lookup(answers: AnswerSet) -> Names:
    def of(seqs: NDArray[np.uint64]) -> Sequence[Asked]:
        held = answers.between(int(seqs.min()), int(seqs.max()) + 1)
        known = np.isin(seqs, held.seqs)
        found = (_asked(one.query) for one in held[np.searchsorted(held.seqs, seqs[known])])
        return [next(found) if one else (None, None) for one in known.tolist()]

    return of


def _asked(query: bytes) -> Asked:
    """Name, as zone files have it, and type; None of a message without a whole question."""
    end = end_of_question(query)
    return _texts_of(query[HEADER_BYTES : end - 2]) if end else (None, None)


@functools.lru_cache(1_000_000)
def _texts_of(asked: bytes) -> Asked:
    try:
        kind = dns.rdatatype.RdataType.make(int.from_bytes(asked[-2:], "big"))
        return dns.name.from_wire(asked, 0)[0].to_text(), dns.rdatatype.to_text(kind)
    except dns.exception.DNSException:
        return None, None


# --- files ------------------------------------------------------------------------------------------------


def _write_csv(file: IO[str], blocks: Iterable[dict[str, Column]]) -> None:
    """A heading and a line a query; what has no value is empty."""
    writer = csv.writer(file, lineterminator="\n")
    for number, block in enumerate(blocks):
        if not number:
            writer.writerow(block)
        writer.writerows(zip(*map(_texts, block.values()), strict=True))
    file.flush()


def _texts(column: Column) -> list[object]:
    if column.dtype.kind == "f":
        return ["" if one != one else f"{one:.15g}" for one in column.tolist()]  # noqa: PLR0124 - to the ns
    if column.dtype.kind == "M":
        return [str(one) for one in column]
    if column.dtype.kind == "b":
        return ["true" if one else "false" for one in column.tolist()]
    return list(column.tolist())


def _write_parquet(path: Path, blocks: Iterable[dict[str, Column]]) -> None:
    """A file in columns, compressed; a row group for each block."""
    try:
        import pyarrow  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional package
        import pyarrow.parquet  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        what = "Parquet needs the Python package pyarrow"
        raise ReportError(what, "install it, or use --csv") from None

    def column(name: str, held: Column) -> Any:
        if held.dtype.kind == "f":
            return pyarrow.array(held, mask=np.isnan(held))
        if held.dtype.kind == "O":
            made = pyarrow.array(held.tolist(), pyarrow.string())
            return made if name in ("qname", "source") else made.dictionary_encode()
        return pyarrow.array(held)

    writer: Any = None
    for block in blocks:
        made = pyarrow.table({name: column(name, one) for name, one in block.items()})
        writer = writer or pyarrow.parquet.ParquetWriter(str(path), made.schema, compression="zstd")
        writer.write_table(made)
    if writer:
        writer.close()


def command(runs: Sequence[Path], target: Path | None, parquet: bool) -> None:
    """Writes the table of all runs; CSV without a target goes to standard output. A file is whole or not
    there.
    """
    if target is not None and target.exists() and not target.is_file():
        raise ReportError(f"{target} is no file", "name another, or none: CSV then goes to standard output")
    opened = [Run(folder) for folder in runs]
    if not any(len(read_rq(path).records) for run in opened for path in run.record_paths):
        raise ReportError("there are no records to export", "name a run that sent queries")
    if target is None:
        _write_csv(sys.stdout, _blocks(opened))
        return
    with whole_file.half_of(target.resolve()) as half:  # a link stays
        if parquet:
            _write_parquet(half, _blocks(opened))
        else:
            with half.open("w", encoding="utf-8", newline="") as file:
                _write_csv(file, _blocks(opened))


def _blocks(runs: Sequence[Run]) -> Iterator[dict[str, Column]]:
    for run in runs:
        with tempfile.TemporaryDirectory(prefix="reprise-export-") as scratch:
            names, why = names_of(run, Path(scratch))
            if why:
                print(f"reprise: warning: {run.name}: no names and types: {why}", file=sys.stderr)
            yield from table(run, names)
