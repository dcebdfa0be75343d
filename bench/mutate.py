"""`reprise bench mutate`: queries changed for each second of processor time, and what two threads gain."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import reader
from bench.bed import CLIENT_CORE, SERVER_CORE, spawn
from bench.session import Session, make
from cli import programs
from cli.errors import RepriseError, UsageError

QUERIES = 2_000_000
_QUICK_QUERIES = 20_000
_LIMIT_S = 300.0
_COUNT = Path(__file__).with_name("recompute_count.py")

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

    @property
    def name(self) -> str:
        """In the table."""
        return "reprise" if self.jobs == 1 else f"reprise-jobs-{self.jobs}"


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


def prepare(session: Session) -> None:
    """A root-like trace without TCP, so that packets are queries; whole, and cut in two."""
    queries = _QUICK_QUERIES if session.options.quick else QUERIES
    trace = session.traces / "root.pcap"
    synth = [programs.own("reprise-mutator"), "synth", "--queries", str(queries), "--rate", "38000"]
    make([*synth, "--clients", "100000", "--tcp-share", "0", "-o", str(trace)])
    half = str(queries // 2)
    make([programs.packaged("editcap"), "-F", "nsecpcap", "-c", half, str(trace), str(trace.parent / "part")])


def measure(session: Session) -> None:
    """All repeats, the changes in turn."""
    rows = sorted({change.row for change in CHANGES})
    if unknown := [row for row in session.options.only if row not in rows]:
        raise UsageError(f"--only {unknown[0]}: no such row", f"give one of {', '.join(rows)}")
    prepare(session)
    for repeat in range(session.options.repeats):
        reader.run(session, reader.reference(session.traces / "root.pcap", "reference"), repeat)
        for change in CHANGES:
            if not session.options.only or change.row in session.options.only:
                _run(session, change, repeat)
    for part in inputs(session.traces, 2):
        part.unlink()
    make([programs.packaged("zstd"), "-q", "--rm", str(session.traces / "root.pcap")])


def _run(session: Session, change: Change, repeat: int) -> None:
    folder = session.next_folder(change.row, change.name)
    folder.mkdir(parents=True)
    output = folder / f"out.{change.form}"
    own = [programs.own("reprise-mutator"), "mutate", *change.rules, "--jobs", str(change.jobs)]
    argv = [*own, *map(str, inputs(session.traces, change.files)), "-o", str(output)]
    if change.jobs > 1:
        argv = [programs.packaged("taskset"), "-c", f"{CLIENT_CORE},{SERVER_CORE}", *argv]
    began = time.monotonic()
    program = spawn(folder, change.name, CLIENT_CORE, argv)
    status = program.wait(_LIMIT_S)
    wall_s = time.monotonic() - began
    if status != 0:
        raise RepriseError(f"{change.name} failed: {program.last_line()}", f"see {folder}")
    _count(output, folder)
    output.unlink()  # some hundred megabytes; its digest and counts stay
    session.note(
        folder, row=change.row, tool=change.name, repeat=repeat, argv=[argv], form=change.form, wall_s=wall_s
    )


def _count(output: Path, folder: Path) -> None:
    """Evidence of what was written, by a script that shares no code with the programs."""
    argv = [sys.executable, "-I", str(_COUNT), str(output)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RepriseError(f"{output.name} cannot be counted: {done.stderr.strip()}", f"see {folder}")
    (folder / "count.json").write_text(done.stdout, encoding="utf-8")
