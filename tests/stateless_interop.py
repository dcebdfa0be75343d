"""Compares what clients see through a front with what they see of the kernel's TCP, case by case.

    python -m tests.stateless_interop [FRONT ...]

carries out every case against BIND and NSD over IPv4 and IPv6, as root, and prints the tables of
docs/stateless.md (Markdown). Every difference must be one of tests/stateless_differences.py.
"""

import asyncio
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cli import programs
from tests import stateless_cases, stateless_client
from tests.stateless_bed import FRONT, FRONTS, PLAIN, PORT, SERVERS, StatelessBed, address
from tests.stateless_cases import Case, ProgramCase
from tests.stateless_client import Outcome
from tests.stateless_differences import DIFFERENCES, Difference
from tests.stateless_faults import NO_FIN_S
from tests.stateless_views import SAME, Verdict, compare, compare_lines, lines, merged, views

AT_ONCE = 32
_SILENT_S = 2.5  # where a front may say nothing it is not waited for longer


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    front: str
    server: str
    family: int
    row: str
    name: str
    verdict: Verdict

    def difference(self) -> Difference | None:
        """The documented difference that it is, if any."""
        return next(
            (
                one
                for one in DIFFERENCES
                if one.fits(self.front, self.server, self.row, self.name, self.verdict.kind)
            ),
            None,
        )

    @property
    def is_accepted(self) -> bool:
        return self.verdict.kind == SAME or self.difference() is not None

    def __str__(self) -> str:
        return f"{self.front} {self.server} IPv{self.family} {self.row}: {self.name}: {self.verdict}"


# --- cases ------------------------------------------------------------------------------------------------


async def _outcomes(
    bed: StatelessBed, cases: Sequence[Case], server: str, way: str, family: int
) -> list[Outcome]:
    """Of all cases, several at once."""
    room = asyncio.Semaphore(AT_ONCE)
    target = (address(server, way, family), PORT)
    close_s = NO_FIN_S if bed.front == "reference" and way == FRONT else 2.0

    async def one(case: Case) -> Outcome:
        silent = way == FRONT and any(
            one.fits(bed.front, server, case.row, case.name, "silent") for one in DIFFERENCES
        )
        limit_s = case.exchange.idle_s + _SILENT_S if silent else case.exchange.limit_s
        async with room:
            what = replace(case.exchange, close_s=close_s, limit_s=limit_s)
            return await stateless_client.exchange(bed.socket(family), target, what)

    return list(await asyncio.gather(*(one(case) for case in cases)))


def _judge(case: Case, truth: Outcome, seen: Outcome) -> Verdict:
    found = [views(one.messages, case.mac) for one in (truth, seen)]
    if case.transfer:
        found = [merged(one) for one in found]
    return compare(found[0], found[1], seen, truth.end)


def run_exchanges(bed: StatelessBed, cases: Sequence[Case], server: str, family: int) -> list[Result]:
    """The kernel's TCP first, then the front."""
    truths, seen = (asyncio.run(_outcomes(bed, cases, server, way, family)) for way in (PLAIN, FRONT))
    return [
        Result(bed.front, server, family, case.row, case.name, _judge(case, truth, one))
        for case, truth, one in zip(cases, truths, seen, strict=True)
    ]


def _printed(bed: StatelessBed, case: ProgramCase, server: str, way: str, family: int) -> list[str]:
    """What the program says, as lines to compare."""
    target = address(server, way, family)
    file = bed.folder / "dnsperf.txt"
    file.write_text(case.queries, encoding="ascii")
    argv = [one.format(server=target, file=file) for one in case.argv]
    done = bed.run([programs.packaged(argv[0]), *argv[1:]])
    text = (done.stdout + done.stderr).replace(target, "SERVER")
    if argv[0] == "dnsperf":
        wanted = ("Queries completed", "Queries lost", "Response codes")
        return [" ".join(line.split()) for line in text.splitlines() if line.strip().startswith(wanted)]
    return lines(text)


def run_program(bed: StatelessBed, case: ProgramCase, server: str, family: int) -> Result:
    truth, seen = (_printed(bed, case, server, way, family) for way in (PLAIN, FRONT))
    verdict = compare_lines(truth, seen, case.asked)
    return Result(bed.front, server, family, case.row, case.name, verdict)


def run_all(bed: StatelessBed, *, quick: bool = False) -> list[Result]:
    """Every case against both servers over both families; the quick ones of the programs over IPv4."""
    found: list[Result] = []
    exchanges = [one for one in stateless_cases.exchanges() if one.quick or not quick]
    clients = [one for one in stateless_cases.programs() if one.quick or not quick]
    for server in SERVERS:
        for family in (4, 6):
            found += run_exchanges(bed, exchanges, server, family)
            if family == 4 or not quick:
                found += [run_program(bed, one, server, family) for one in clients]
    return found


def unseen(results: Iterable[Result], front: str) -> list[str]:
    """Documented differences that no case shows: they are to be struck off the list."""
    seen = {one.difference() for one in results}
    return [one.what for one in DIFFERENCES if one.front == front and one.always and one not in seen]


# --- the tables -------------------------------------------------------------------------------------------


def _cell(results: Iterable[Result], notes: dict[Difference, int]) -> str:
    """How many of the cases were the same, and the notes of the others."""
    listed = list(results)
    if not listed:
        return "-"
    same = sum(one.verdict.kind == SAME for one in listed)
    seen: Counter[int | str] = Counter()
    for one in listed:
        if one.verdict.kind != SAME:
            difference = one.difference()
            seen["?" if difference is None else notes.setdefault(difference, len(notes) + 1)] += 1
    others = ", ".join(f"{count} ({note})" for note, count in seen.items())
    return f"{same} of {len(listed)}" + (f"; {others}" if others else "")


def table(results: Sequence[Result]) -> str:
    """Rows of cases, columns of fronts and servers; below it the notes."""
    rows = list(dict.fromkeys(one.row for one in results))
    columns = list(dict.fromkeys((one.front, one.server) for one in results))
    cells: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for one in results:
        cells[one.row, one.front, one.server].append(one)
    notes: dict[Difference, int] = {}
    text = [
        "| same as the kernel's TCP | "
        + " | ".join(f"{front}, {server.upper()}" for front, server in columns)
        + " |"
    ]
    text.append("|---" * (len(columns) + 1) + "|")
    for row in rows:
        text.append(f"| {row} | " + " | ".join(_cell(cells[row, *one], notes) for one in columns) + " |")
    text += ["", "| note | front | difference | reason |", "|---|---|---|---|"]
    text += [f"| {number} | {one.front} | {one.what} | {one.reason} |" for one, number in notes.items()]
    return "\n".join(text) + "\n"


def main(fronts: Sequence[str]) -> int:
    """Prints the tables; what is not documented goes to stderr, and makes it fail."""
    results: list[Result] = []
    for front in fronts:
        with tempfile.TemporaryDirectory() as folder, StatelessBed(Path(folder), front=front) as bed:
            bed.start_servers()
            bed.start_front()
            results += run_all(bed)
            bed.stop_front()
    sys.stdout.write(table(results))
    wrong = [one for one in results if not one.is_accepted]
    sys.stderr.writelines(f"{one}\n" for one in wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or FRONTS))
