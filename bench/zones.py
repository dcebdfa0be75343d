"""`reprise bench zones`: responses made into zones a second of processor time, and the memory for it."""

from __future__ import annotations

from bench import upstream
from bench.bed import CLIENT_CORE, spawn
from bench.session import Session, make
from cli import linux, programs
from cli.errors import RepriseError, UsageError

_RESPONSES, _QUICK_RESPONSES = 1_000_000, 10_000
_QUERIES, _QUICK_QUERIES = 2_000_000, 20_000
_LIMIT_S = 300.0
ROWS = ("build", "reader")


def prepare(session: Session) -> None:
    """A capture of a resolver's upstream side, and a root-like trace for the reader."""
    quick = session.options.quick
    upstream.write(session.traces / "upstream.pcap", _QUICK_RESPONSES if quick else _RESPONSES)
    queries = str(_QUICK_QUERIES if quick else _QUERIES)
    synth = [programs.own("reprise-mutator"), "synth", "--queries", queries, "--rate", "38000"]
    make([*synth, "--clients", "100000", "--tcp-share", "0", "-o", str(session.traces / "root.pcap")])


def measure(session: Session) -> None:
    """All repeats, builder and reader in turn."""
    if unknown := [row for row in session.options.only if row not in ROWS]:
        raise UsageError(f"--only {unknown[0]}: no such row", f"give {' or '.join(ROWS)}")
    prepare(session)
    for repeat in range(session.options.repeats):
        _read(session, repeat)
        _build(session, repeat)
    for name in ("upstream", "root"):
        make([programs.packaged("zstd"), "-q", "--rm", str(session.traces / f"{name}.pcap")])


def _read(session: Session, repeat: int) -> None:
    """The reference: the same reader, on queries."""
    folder = session.next_folder("reader", "reader")
    folder.mkdir(parents=True)
    argv = [programs.own("reprise-bench-reader"), str(session.traces / "root.pcap")]
    program = spawn(folder, "reader", CLIENT_CORE, argv)
    if program.wait(_LIMIT_S) != 0:
        raise RepriseError(f"the reader failed: {program.last_line()}", f"see {folder}")
    session.note(folder, row="reader", tool="reader", repeat=repeat, argv=[argv])


def _build(session: Session, repeat: int) -> None:
    folder = session.next_folder("build", "reprise")
    # In memory: ext4 takes several times as long to make files when thousands were removed lately.
    zones = folder / "zones"
    zones.mkdir(parents=True)
    linux.mount("tmpfs", str(zones), "tmpfs", 0)
    builder = programs.own("reprise-zonebuilder")
    argv = [builder, "build", str(session.traces / "upstream.pcap"), "-o", str(zones)]
    program = spawn(folder, "reprise", CLIENT_CORE, argv)
    if program.wait(_LIMIT_S) != 0:
        raise RepriseError(f"the zone builder failed: {program.last_line()}", f"see {folder}")
    kept = [(file.name, file.read_bytes()) for file in zones.glob("*.json")]
    make([programs.packaged("umount"), str(zones)])
    for name, data in kept:
        (zones / name).write_bytes(data)
    session.note(folder, row="build", tool="reprise", repeat=repeat, argv=[argv])
