"""`reprise bench zones`: responses made into zones a second of processor time, and the memory for it."""

from __future__ import annotations

from bench import upstream
from bench.session import Session, alone, make, pack, root_trace, want_rows
from cli import linux, programs

_RESPONSES, _QUICK_RESPONSES = 1_000_000, 10_000
_QUERIES, _QUICK_QUERIES = 2_000_000, 20_000
ROWS = ("build", "reader")


def prepare(session: Session) -> None:
    """A capture of a resolver's upstream side, and a root-like trace for the reader."""
    quick = session.options.quick
    upstream.write(session.traces / "upstream.pcap", _QUICK_RESPONSES if quick else _RESPONSES)
    root_trace(session, _QUICK_QUERIES if quick else _QUERIES)


def measure(session: Session) -> None:
    """All repeats, builder and reader in turn."""
    want_rows(session.options.only, ROWS)
    prepare(session)
    for repeat in range(session.options.repeats):
        argv = [programs.own("reprise-bench-reader"), str(session.traces / "root.pcap")]
        alone(session, "reader", "reader", argv, repeat)  # the reference: the same reader, on queries
        _build(session, repeat)
    for name in ("upstream", "root"):
        pack(session.traces / f"{name}.pcap")


def _build(session: Session, repeat: int) -> None:
    """In memory: ext4 takes several times as long to make files when thousands were removed lately."""
    zones = session.folder / "zones"
    zones.mkdir()
    linux.mount("tmpfs", str(zones), "tmpfs", 0)
    builder = programs.own("reprise-zonebuilder")
    argv = [builder, "build", str(session.traces / "upstream.pcap"), "-o", str(zones)]
    folder = alone(session, "build", "reprise", argv, repeat)
    kept = [(file.name, file.read_bytes()) for file in zones.glob("*.json")]
    make([programs.packaged("umount"), str(zones)])
    zones.rename(folder / "zones")
    for name, data in kept:
        (folder / "zones" / name).write_bytes(data)
