"""`reprise bench reader`: queries read from a capture for each second of processor time."""

from dataclasses import dataclass
from pathlib import Path

from bench.session import Session, alone, make, root_trace, want_rows
from cli import programs

_QUERIES = 2_000_000
_QUICK_QUERIES = 20_000


@dataclass(frozen=True)
class Reading:
    """A tool that reads one form of the trace."""

    row: str
    name: str
    argv: tuple[str, ...]
    file: Path


def readings(traces: Path) -> list[Reading]:
    """Ours on every form, the libraries' own tools where they can read it."""
    own = programs.own("reprise-bench-reader")
    files = {form: traces / f"root.{form}" for form in ("pcap", "pcapng", "pcap.zst")}
    pcap, ng = files["pcap"], files["pcapng"]
    found = [Reading(form, "reprise", (own, str(file)), file) for form, file in files.items()]
    tcpdump = programs.packaged("tcpdump")
    return [
        *found,
        Reading("pcap", "tcpdump", (tcpdump, "-n", "--count", "-r", str(pcap)), pcap),
        reference(pcap, "pcap"),
        Reading("pcapng", "tcpdump", (tcpdump, "-n", "--count", "-r", str(ng)), ng),
    ]


def reference(pcap: Path, row: str) -> Reading:
    """What the speed of ours is compared with: libtrace reads a capture and counts its packets."""
    return Reading(row, "tracestats", (programs.packaged("tracestats"), f"pcapfile:{pcap}"), pcap)


def prepare(session: Session) -> None:
    pcap = root_trace(session, _QUICK_QUERIES if session.options.quick else _QUERIES)
    ng, packed = (session.traces / f"root.{form}" for form in ("pcapng", "pcap.zst"))
    make([programs.packaged("editcap"), "-F", "pcapng", str(pcap), str(ng)])
    make([programs.packaged("zstd"), "-q", "-f", str(pcap), "-o", str(packed)])


def measure(session: Session) -> None:
    todo = readings(session.traces)
    want_rows(session.options.only, {one.row for one in todo})
    prepare(session)
    for repeat in range(session.options.repeats):
        for one in todo:
            if not session.options.only or one.row in session.options.only or one.name == "tracestats":
                run(session, one, repeat)
    for form in ("pcap", "pcapng"):
        (session.traces / f"root.{form}").unlink()  # the packed one stays as evidence


def run(session: Session, one: Reading, repeat: int) -> None:
    file = str(one.file.relative_to(session.folder))
    alone(session, one.row, one.name, list(one.argv), repeat, file=file)
