"""`reprise compare --again`: queries whose answers differ are asked again of both runs' servers.

Who starts the servers is the caller's matter: it is given a run and a trace, and returns the folder of a run
of that trace.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from report.classify import CLASSES, ENCODING, Evidence, Finding, foremost
from report.compare import pairs
from report.errors import ReportError
from report.export import nameless, table
from report.rafile import join
from report.run import Json, Run
from report.sources import digested
from report.verdicts import MAX_LISTED, Pair, asked, findings
from report.wire import parse

Ask = Callable[[Run, Path], Path]
_HEADING = "#reprise-text 1\ntime\tsource\ttransport\thex\n"
_GAP_S = 0.001


@dataclass
class Again:
    """Queries whose answers differ in their content, by number; `now` has the class of those that were
    answered again, "" where the answers agree.
    """

    differing: dict[int, tuple[str, bytes]] = field(default_factory=dict)  # class, query; 10,000 of each
    kinds: Counter[str] = field(default_factory=Counter)  # how many differ
    now: dict[int, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def seen(self, pair: Pair, found: list[Finding]) -> None:
        if (kind := foremost(found).kind) != ENCODING:
            self.kinds[kind] += 1
            if self.kinds[kind] <= MAX_LISTED:
                self.differing[pair[0].seq] = kind, pair[0].query

    def ask(
        self, runs: Sequence[Run], ask: Ask, scratch: Path, evidence: Evidence, programs: Path | None
    ) -> None:
        """Asks the servers of both runs, one after the other. Raises ReportError where a run does not tell
        how its queries were sent, or the answers are not kept.
        """
        trace = scratch / "again.tsv"
        numbers = self._write(trace, runs[0])
        folders = [ask(run, trace) for run in runs]
        self.names = tuple(map(str, folders))
        before, after = (digested(join(str(one), Run(one).answer_paths), programs) for one in folders)
        for was, now in pairs(before, after):
            if was.reply or now.reply:
                equal = was.reply[2:] == now.reply[2:]
                kind = ENCODING if equal else foremost(findings(was.reply, now.reply, evidence)).kind
                self.now[numbers[was.seq]] = "" if kind == ENCODING else kind

    def _write(self, path: Path, run: Run) -> list[int]:
        """The queries as a trace in the text form; their numbers, in its order."""
        written: list[int] = []
        wanted = np.array(sorted(self.differing), np.uint64)
        with path.open("w", encoding="ascii") as file:
            file.write(_HEADING)
            for block in table(run, nameless):
                rows = np.flatnonzero(np.isin(block["seq"], wanted))
                columns = (block[name][rows].tolist() for name in ("seq", "source", "transport"))
                for seq, source, transport in zip(*columns, strict=True):
                    if source is not None and written[-1:] != [seq]:
                        query = self.differing[seq][1].hex()
                        file.write(f"{len(written) * _GAP_S:.3f}\t{source}\t{transport}\t{query}\n")
                        written.append(seq)
        if not written:
            raise ReportError(f"{run.folder} does not say who sent its queries", "compare without --again")
        return written

    def words(self, seq: int) -> str:
        """What became of a query, "" where nobody knows."""
        kind = self.now.get(seq)
        return "" if kind is None else "differs again" if kind else "agrees now"

    def as_json(self) -> Json:
        kinds = Counter(kind for kind, _ in self.differing.values())
        differ = Counter(self.differing[seq][0] for seq, now in self.now.items() if now)
        agree = Counter(self.differing[seq][0] for seq, now in self.now.items() if not now)
        return {
            "runs": list(self.names),
            "left_out": self.kinds.total() - len(self.differing),
            "asked": kinds.total(),
            "differ": differ.total(),
            "agree": agree.total(),
            "unanswered": kinds.total() - differ.total() - agree.total(),
            "classes": [
                {"class": kind, "asked": kinds[kind], "differ": differ[kind], "agree": agree[kind]}
                for kind in CLASSES
                if kinds[kind]
            ],
            "listed": [
                {
                    **asked(seq, parse(data)),
                    "class": kind,
                    "detail": self.words(seq) or "no answer",
                    "now": self.now.get(seq),
                }
                for seq, (kind, data) in list(self.differing.items())[:MAX_LISTED]
            ],
        }
