"""Many connections held open: counted on both sides by the kernel while they stand.

Read once a second, and kept as the kernel gave it: TCP sockets by state in both namespaces, descriptors and
memory of every querier, the kernel's slab memory before the first connection and while all stand.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bench.bed import CLIENT, Bed
from bench.tools import Reprise, Tree
from cli.plan import network
from report.hosts import snmp

_PERIOD_S = 1.0
_MEMORY = ("machine", "meminfo", Path("/proc/meminfo"))  # sockets live in the kernel's slabs


@dataclass(frozen=True)
class Hold:
    """A replay whose connections stand until its last query, and the readings taken meanwhile."""

    reprise: Reprise

    def run(self, bed: Bed) -> list[list[str]]:
        """Runs it to its end."""
        bed.log.file("before", *_MEMORY)
        tree = self.reprise.start(bed)
        due = time.monotonic() + _PERIOD_S
        while not tree.controller.has_ended(max(0.0, due - time.monotonic())):
            due += _PERIOD_S
            read_sockets(bed)  # first: the queriers' memory is compared with their number
            read_queriers(bed, tree)
            bed.log.file("during", *_MEMORY)
        return tree.finish()


def read_sockets(bed: Bed) -> None:
    """Established TCP sockets of client and server; the client's hold the one to its controller too."""
    for side, host in (("client", CLIENT), ("server", network.SERVER)):
        begin = time.monotonic_ns()
        with bed.inside(host):
            count = snmp(Path("/proc/self/net/snmp").read_text(encoding="ascii"))["TcpCurrEstab"]
        bed.log.add("during", side, "sockets", established=count, begin_ns=begin)


def read_queriers(bed: Bed, tree: Tree) -> None:
    """Descriptors and memory of the distributor's children."""
    for child in bed.queriers(tree.distributor):
        folder = Path(f"/proc/{child}")
        try:
            descriptors = sum(1 for _ in (folder / "fd").iterdir())
            text = (folder / "smaps_rollup").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        bed.log.add("during", f"querier-{child}", "process", descriptors=descriptors, smaps=text)
