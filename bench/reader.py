"""`reprise bench reader`: queries read from a capture for each second of processor time."""

from pathlib import Path

from bench.session import Session, alone, make, root_trace, want_rows
from cli import programs

Reading = tuple[str, ...]  # row, tool and command line of what reads one form of the trace


def readings(traces: Path) -> list[Reading]:
    """Ours on every form, the libraries' own tools where they can read it."""
    own, tcpdump = programs.own("reprise-bench-reader"), programs.packaged("tcpdump")
    pcap, ng, packed = (str(traces / f"root.{form}") for form in ("pcap", "pcapng", "pcap.zst"))
    return [
        ("pcap", "reprise", own, pcap),
        ("pcapng", "reprise", own, ng),
        ("pcap.zst", "reprise", own, packed),
        ("pcap", "tcpdump", tcpdump, "-n", "--count", "-r", pcap),
        reference("pcap", pcap),
        ("pcapng", "tcpdump", tcpdump, "-n", "--count", "-r", ng),
    ]


def reference(row: str, pcap: str) -> Reading:
    """What the speed of ours is compared with: libtrace reads a capture and counts its packets."""
    return row, "tracestats", programs.packaged("tracestats"), f"pcapfile:{pcap}"


def measure(session: Session) -> None:
    todo = readings(session.traces)
    want_rows(session.options.only, {row for row, *_ in todo})
    pcap, _ = root_trace(session)
    ng, packed = (session.traces / f"root.{form}" for form in ("pcapng", "pcap.zst"))
    make([programs.packaged("editcap"), "-F", "pcapng", str(pcap), str(ng)])
    make([programs.packaged("zstd"), "-q", "-f", str(pcap), "-o", str(packed)])
    for repeat in range(session.options.repeats):
        for row, tool, *argv in todo:
            if not session.options.only or row in session.options.only or tool == "tracestats":
                alone(session, row, tool, argv, repeat)
    for file in (pcap, ng):
        file.unlink()  # the packed one stays as evidence
