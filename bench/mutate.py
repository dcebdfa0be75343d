"""`reprise bench mutate`: queries changed for each second of processor time, and what two threads gain."""

import json
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench import reader, recompute_raw
from bench.bed import CLIENT_CORE, SERVER_CORE
from bench.session import Session, alone, make, pack, root_trace, want_rows
from cli import programs
from cli.errors import RepriseError

# One of each sort: a message rewritten, its flags, its name made longer, the transport of a share, the times.
FIVE = (
    *("--edns", "do=on,size=1232"),
    *("--header", "rd=on"),
    *("--name", "prefix=x"),
    *("--transport", "udp:90,tcp:10"),
    *("--speed", "2"),
)


@dataclass(frozen=True)
class Change:
    """One way from a capture to another trace."""

    row: str
    form: str  # ending of the output
    rules: tuple[str, ...] = ()
    jobs: int = 1
    files: int = 1  # the same trace in so many


CHANGES = (
    Change("stream", "rps"),
    Change("text", "tsv"),
    Change("pcap", "pcap"),
    Change("rules", "rps", FIVE),
    Change("rules", "rps", FIVE, jobs=2),
    Change("files", "rps", FIVE, files=2),
    Change("files", "rps", FIVE, jobs=2, files=2),
)


def inputs(traces: Path, files: int) -> list[Path]:
    """The trace whole or in parts."""
    return [traces / "root.pcap"] if files == 1 else sorted(traces.glob("part_*"))


def measure(session: Session) -> None:
    want_rows(session.options.only, {change.row for change in CHANGES})
    programs.packaged("capinfos")  # counts what is written
    trace, queries = root_trace(session)
    half, part = str(queries // 2), str(trace.with_name("part"))
    make([programs.packaged("editcap"), "-F", "nsecpcap", "-c", half, str(trace), part])
    row, tool, *argv = reader.reference("reference", str(trace))
    for repeat in range(session.options.repeats):
        alone(session, row, tool, argv, repeat)
        for change in CHANGES:
            if not session.options.only or change.row in session.options.only:
                _run(session, change, repeat)
    for file in inputs(session.traces, 2):
        file.unlink()
    pack(trace)


def _run(session: Session, change: Change, repeat: int) -> None:
    output = session.folder / f"out.{change.form}"
    own = [programs.own("reprise-mutator"), "mutate", *change.rules, "--jobs", str(change.jobs)]
    argv = [*own, *map(str, inputs(session.traces, change.files)), "-o", str(output)]
    tool = "reprise"
    if change.jobs > 1:
        tool += f"-jobs-{change.jobs}"
        argv = [programs.packaged("taskset"), "-c", f"{CLIENT_CORE},{SERVER_CORE}", *argv]
    folder = alone(session, change.row, tool, argv, repeat)
    try:
        count = recompute_raw.written(output)
    except (struct.error, subprocess.CalledProcessError, ValueError) as error:
        raise RepriseError(f"{output.name} cannot be counted: {error}", f"see {folder}") from None
    (folder / "count.json").write_text(json.dumps(count), encoding="utf-8")
    output.unlink()  # some hundred megabytes; its digest and counts stay
