"""One call of `reprise bench`: its result folder, the runs in it, and what recompute.py makes of them."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.bed import CLIENT_CORE, SERVER_CORE, SERVER_IF, Bed, start
from bench.tools import Sink, Tool
from cli import linux, programs, run_name
from cli.errors import RepriseError, UsageError, complain, last_line, one_line, want
from cli.plan import facts, network
from cli.process import Process
from report import whole_file
from tests.bed import Capture

SCHEMA = 1
_LIMIT_S = 300.0  # of a tool that runs alone
_RECOMPUTE = Path(__file__).with_name("recompute.py")
_NOTED = ("bench", "quick", "repeats", "sources", "key", "seconds")  # options that recompute.py is to know


@dataclass(frozen=True)
class Options:
    bench: str
    repeats: int
    quick: bool
    sources: int
    only: tuple[str, ...]
    output: Path
    seconds: int | None = None  # of timing's traces, tcp's hold and stateless's runs; None = each its own
    key: str = "ecdsa-p256"  # of the server's certificate in tls


@dataclass(frozen=True)
class Step:
    """A run: one tool in one row of the table."""

    row: str
    name: str  # of the tool, as in the table
    tool: Tool
    source_mode: str = "ports"
    capture: bool = False  # tcpdump at the server, plain veth; otherwise threaded NAPI and a faster sink
    sink: Sink = field(default_factory=Sink)
    once: bool = False  # in the first repeat only
    reference_of: tuple[str, ...] = ()  # other rows that are compared with it, so it runs beside them
    plain: bool = False  # veth without NAPI, whose full ring would lose packets, unless the sink turns it on


@dataclass
class Session:
    """A result folder in the making; its name ends in .partial until all is done."""

    options: Options
    final: Path
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder while the session lasts."""
        return self.final.with_name(self.final.name + ".partial")

    @property
    def traces(self) -> Path:
        path = self.folder / "traces"
        path.mkdir(exist_ok=True)
        return path

    def next_folder(self, row: str, name: str) -> Path:
        return self.folder / "runs" / f"{len(self.runs) + 1:03d}-{row}-{name}"

    def note(self, folder: Path, **values: Any) -> None:
        """Makes a run known to recompute.py."""
        self.runs.append({**values, "folder": str(folder.relative_to(self.folder))})
        self.write()

    def write(self) -> None:
        """bench.json: what was run, on what machine."""
        value = {
            "schema": SCHEMA,
            **{name: getattr(self.options, name) for name in _NOTED},
            "commit": facts.commit(),
            "host": facts.host(),
            "runs": self.runs,
        }
        whole_file.write(self.folder / "bench.json", json.dumps(value, indent=1) + "\n")


@contextlib.contextmanager
def opened(options: Options) -> Iterator[Session]:
    """A result folder with the watch on the processors' time running."""
    session = Session(options, options.output.absolute() / run_name.new(options.bench))
    try:
        session.folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"cannot make result folder {session.folder}: {error.strerror}", "choose another parent with -o"
        ) from None
    session.write()
    # Where the server is what is measured, its core is left to it.
    core = CLIENT_CORE if options.bench == "stateless" else SERVER_CORE
    argv = [sys.executable, "-m", "bench.watch", str(session.folder / "watch.txt")]
    watch = Process.started(argv, session.folder / "watch.log", bound=True, core=core)
    try:
        watch.until("watching")
        yield session
    finally:
        watch.stop()
    session.folder.rename(session.final)


def need_root() -> None:
    """Benches make namespaces, load BPF programs and pin kernel threads."""
    want(os.geteuid() == 0, "bench needs root: it loads BPF programs and pins kernel threads", "run as root")
    if (os.cpu_count() or 1) < 2:
        raise RepriseError("bench needs two processors", "run on a machine with more")
    try:
        linux.unshare(linux.CLONE_NEWNS, "mount namespace")
        linux.make_mounts_private()
    except OSError as error:
        raise RepriseError(
            f"no mount namespace of its own: {error.strerror}", "run outside of a container"
        ) from None
    facts.raise_descriptors()


def run(session: Session, step: Step, repeat: int) -> None:
    """One run of one tool in a bed of its own."""
    folder = session.next_folder(step.row, step.name)
    complain(f"bench: {folder.name} (repeat {repeat + 1} of {session.options.repeats})")
    with Bed(folder, step.source_mode, napi=not (step.capture or step.plain)) as bed:
        servers = step.sink.start(bed, step.capture)
        capture = None
        if step.capture:
            snap, wanted = step.sink.snap, step.sink.filter
            capture = Capture(
                bed, network.SERVER, SERVER_IF, "capture", wanted, snap=snap, live=False, core=SERVER_CORE
            )
        step.sink.read(bed, "before")
        argvs = step.tool.run(bed)
        step.sink.read(bed, "after")
        if capture:
            capture.stop()
            pack(folder / "capture.pcap")
        for server in reversed(servers):
            if (status := server.stop()) != 0:
                raise RepriseError(f"{server.name} ended with status {status}", f"see {server.log}")
    argvs += [[*server.argv] for server in servers]
    session.note(folder, row=step.row, tool=step.name, repeat=repeat, argv=argvs, mode=step.source_mode)


def want_rows(only: tuple[str, ...], known: Iterable[str]) -> None:
    for row in only:
        want(row in known, f"--only {row}: no such row", f"give one of {', '.join(sorted(known))}")


def alone(session: Session, row: str, name: str, argv: list[str], repeat: int) -> Path:
    """One run of one tool without a bed; its folder."""
    folder = session.next_folder(row, name)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    program = start(folder, name, CLIENT_CORE, argv)
    if program.wait(_LIMIT_S) != 0:
        raise RepriseError(f"{name} failed: {program.last_line()}", f"see {folder}")
    wall_s = time.monotonic() - began
    session.note(folder, row=row, tool=name, repeat=repeat, argv=[argv], wall_s=wall_s)
    return folder


def root_trace(session: Session) -> tuple[Path, int]:
    """A root-like trace without TCP, so that packets are queries; and their number."""
    trace, queries = session.traces / "root.pcap", 20_000 if session.options.quick else 2_000_000
    synth = [programs.own("reprise-mutator"), "synth", "--queries", str(queries), "--rate", "38000"]
    make([*synth, "--clients", "100000", "--tcp-share", "0", "-o", str(trace)])
    return trace, queries


def chosen(steps: list[Step], only: tuple[str, ...]) -> list[Step]:
    want_rows(only, {step.row for step in steps})
    return [step for step in steps if not only or {step.row, *step.reference_of} & set(only)]


def run_all(session: Session, steps: list[Step]) -> None:
    for repeat in range(session.options.repeats):
        for step in steps:
            if repeat == 0 or not step.once:
                run(session, step, repeat)


def make(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RepriseError(f"{Path(argv[0]).name} failed: {one_line(done.stderr)}", "see the message")


def pack(path: Path) -> None:
    """Compresses a capture in its place; tshark and capinfos read it as it is."""
    make([programs.packaged("zstd"), "-q", "--rm", str(path)])


def recomputed(folder: Path) -> dict[str, Any]:
    """All figures, by the script that shares no code with the bench or the programs."""
    done = subprocess.run(
        [sys.executable, str(_RECOMPUTE), str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1) or not done.stdout:
        raise RepriseError(f"recompute.py failed: {last_line(done.stderr) or 'no message'}", f"see {folder}")
    (folder / "recomputed.json").write_text(done.stdout, encoding="utf-8")
    value: dict[str, Any] = json.loads(done.stdout)
    return value
