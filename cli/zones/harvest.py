"""`reprise zones harvest TRACE -o DIR`: asks real name servers once what a trace asks, to rebuild them.

A BIND with an empty cache resolves each name and type of the trace once; after that the NS and SOA records
of every name above them, the keys and DS records of the zones found, and the addresses of their servers. All
that it and name servers say to each other is kept (dnstap). It is the only command that asks name servers of
the Internet: it wants consent, and limits its rate, its questions and its time, since strangers' answers say
what it asks next. What was answered is noted in asked.tsv, so that the same
command goes on where it was ended.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype

from cli import programs
from cli.errors import RepriseError, want
from cli.progress import Progress
from cli.servers import ask
from cli.zones import harvest_resolver
from cli.zones.harvest_resolver import CAPTURE, Resolver, prefixes_of
from report.questions import distinct

ASKED = "asked.tsv"
_HEADER = "#reprise-harvest 1"
_WINDOW = 50  # questions on their way
_PATIENCE_S = 15.0  # longer than BIND's own, which is 10 s
_MOST_RATE = 1_000
_HELD_S = 3.0  # dnstap may keep frames back for so long: what was asked then is asked again after a crash
_MOST_SERVERS = 64  # of a zone; further NS records are not followed
_MOST_BYTES = 4 << 30  # of the capture
_NO_QUESTIONS = frozenset(("AXFR", "IXFR", "OPT", "TKEY", "TSIG", "MAILA", "MAILB"))

Question = tuple[dns.name.Name, str]


@dataclass
class Worklist:
    """The questions to ask, each once. Answers lead to further questions, up to a number of steps from the
    trace and a total number. `done`: what was answered earlier and the data of its NS records.
    """

    limit: int
    depth: int
    done: dict[Question, tuple[dns.name.Name, ...]] = field(default_factory=dict)
    queue: deque[Question] = field(default_factory=deque)
    known: dict[Question, int] = field(default_factory=dict)  # steps from the trace
    left_out: int = 0  # questions over the limits, counted again where they come again

    def add(self, *questions: Question, depth: int = 0) -> None:
        """Skips known questions and those over a limit; earlier answers lead to further questions at once."""
        waiting = [(question, depth) for question in questions]
        for question, step in waiting:  # more come meanwhile
            if question in self.known:
                continue
            if step > self.depth or len(self.known) >= self.limit:
                self.left_out += 1
                continue
            self.known[question] = step
            if question in self.done:
                waiting += [(one, step + 1) for one in _next(question[0], self.done[question])]
            else:
                self.queue.append(question)

    def follow(self, question: Question, servers: Iterable[dns.name.Name]) -> None:
        """What the NS records of an answer lead to."""
        self.add(*_next(question[0], tuple(servers)), depth=self.known[question] + 1)


def _next(zone: dns.name.Name, servers: tuple[dns.name.Name, ...]) -> list[Question]:
    """A name with NS records is a zone's."""
    found: list[Question] = [(zone, "DNSKEY"), (zone, "DS")] if servers else []
    for server in servers[:_MOST_SERVERS]:
        found += [(server, "A"), (server, "AAAA"), *lineage(server)]
    return found


def lineage(name: dns.name.Name) -> list[Question]:
    """NS and SOA of the name and of all above it."""
    names = [dns.name.Name(name.labels[at:]) for at in range(len(name))]
    return [(one, kind) for one in names for kind in ("NS", "SOA")]


def questions_of(trace: list[str], ports: list[str]) -> Iterator[Question]:
    """Names and types of a trace's queries, each once, in the order of the trace."""
    arguments = (*trace, *programs.flags(port=ports))
    for name, kind_class, kind in distinct(programs.own("reprise-mutator"), arguments):
        if kind_class == "IN" and kind not in _NO_QUESTIONS:
            with contextlib.suppress(dns.exception.DNSException):
                yield dns.name.from_text(name), dns.rdatatype.to_text(dns.rdatatype.from_text(kind))


# --- what was asked before --------------------------------------------------------------------------------


class Notes:
    """asked.tsv: a line for each question that was answered. Lines are held back until what they speak of is
    in the capture.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: deque[tuple[float, str]] = deque()

    def read(self) -> dict[Question, tuple[dns.name.Name, ...]]:
        """Questions, and the data of the NS records in the answers. A cut last line counts for nothing."""
        data = self._path.read_bytes() if self._path.exists() else b""
        whole = data.rfind(b"\n") + 1
        found = {}
        try:
            header, *lines = data[:whole].decode("ascii").splitlines() or [_HEADER]
            if header != _HEADER:
                raise ValueError
            for line in lines:
                name, kind, _, servers = line.split("\t")
                found[dns.name.from_text(name), kind] = tuple(map(dns.name.from_text, servers.split()))
        except (ValueError, dns.exception.DNSException):
            what = f"{self._path} was not written by `reprise zones harvest`"
            raise RepriseError(what, "give -o another folder") from None
        if whole < len(data):
            os.truncate(self._path, whole)
        return found

    def add(self, question: Question, rcode: str, servers: Iterable[dns.name.Name]) -> None:
        names = " ".join(one.to_text() for one in servers)
        self._held.append((time.monotonic(), f"{question[0].to_text()}\t{question[1]}\t{rcode}\t{names}\n"))

    def write(self, until: float) -> None:
        """What was noted before a moment."""
        lines = []
        while self._held and self._held[0][0] <= until:
            lines.append(self._held.popleft()[1])
        if lines:
            with self._path.open("a", encoding="ascii") as file:
                file.write("".join([*([] if file.tell() else [f"{_HEADER}\n"]), *lines]))


# --- asking -----------------------------------------------------------------------------------------------


@dataclass
class Asker:
    """Asks a resolver at a bounded rate, some questions at once. After SERVFAIL the next run asks again."""

    resolver: Resolver
    rate: float
    work: Worklist
    notes: Notes
    answered: int = 0
    failed: int = 0
    next_s: float = 0.0  # when the next query may be sent

    async def run(self, progress: Progress, duration_s: float) -> str:
        """Asks until nothing is left, or a limit on the time or on the capture's size is reached: returns
        that in words, otherwise "".
        """
        end = time.monotonic() + duration_s
        asked: set[asyncio.Task[None]] = set()
        bound = ""
        while self.work.queue or asked:
            if self.resolver.process.has_ended():
                raise RepriseError("the resolver is gone", "see named.log")
            late = time.monotonic() >= end
            if late or os.fstat(self.resolver.file).st_size > _MOST_BYTES:
                what = f"--duration-s {duration_s:g}" if late else f"{_MOST_BYTES >> 30} GiB of capture"
                bound = f"ended at {what} with {len(self.work.queue) + len(asked)} questions left"
                break
            while self.work.queue and len(asked) < _WINDOW:
                asked.add(asyncio.create_task(self._ask(self.work.queue.popleft())))
            done, asked = await asyncio.wait(
                asked, timeout=min(1.0, end - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                one.result()
            progress.show(self._far(len(asked)))
        for one in asked:
            one.cancel()
        progress.end(self._far(len(asked)))
        return bound

    def _far(self, under_way: int) -> str:
        left = len(self.work.queue) + under_way
        return f"{self.answered} answered, {left} left, {self.failed} unanswered"

    async def _turn(self) -> None:
        """Waits until the rate allows another query."""
        now = time.monotonic()
        self.next_s = max(self.next_s + 1.0 / self.rate, now)
        await asyncio.sleep(self.next_s - now)

    async def _ask(self, question: Question) -> None:
        query = dns.message.make_query(*question, use_edns=0, payload=4096)
        answer = await ask.answer(query, "127.0.0.1", self.resolver.port, _PATIENCE_S, before_each=self._turn)
        if answer is None or answer.rcode() == dns.rcode.SERVFAIL:
            self.failed += 1
            return
        name, kind = question
        rrset = answer.get_rrset(answer.answer, name, dns.rdataclass.IN, dns.rdatatype.NS)
        found = [record.target for record in rrset or () if kind == "NS"]
        self.answered += 1
        self.notes.add(question, dns.rcode.to_text(answer.rcode()), found)
        self.notes.write(time.monotonic() - _HELD_S)
        self.work.follow(question, found)


# --- the command ------------------------------------------------------------------------------------------


def command_harvest(options: argparse.Namespace) -> int:
    fits = 0 < options.rate <= _MOST_RATE
    want(fits, f"--rate {options.rate:g}: out of range", f"give up to {_MOST_RATE}")
    for name in ("limit", "depth", "duration_s"):
        value = getattr(options, name)
        want(value > 0, f"--{name.replace('_', '-')} {value:g}: out of range", "give more than 0")
    prefixes = prefixes_of(options.allow)
    notes = Notes(options.output / ASKED)
    work = Worklist(options.limit, options.depth, notes.read())
    wanted = list(questions_of(options.traces, options.port))
    if not wanted:
        raise RepriseError("the trace has no question to ask", "give a trace with queries of class IN")
    work.add(*wanted)
    work.add(*(question for name, _ in wanted for question in lineage(name)))
    if not work.queue:
        sys.stdout.write(f"{options.output}: all {len(work.known)} questions have been answered\n")
        return 0
    _want_consent(options, len(work.queue))
    options.output.mkdir(parents=True, exist_ok=True)
    with harvest_resolver.started(options.output, prefixes) as resolver:
        asker = Asker(resolver, options.rate, work, notes)
        try:
            bound = asyncio.run(asker.run(Progress(), options.duration_s))
        finally:
            if resolver.stop():  # it has written what it held back
                notes.write(time.monotonic())
    if asker.answered == 0 and not work.done:
        hint = "see whether this machine may send to port 53, by UDP and TCP"
        raise RepriseError("no name server could be reached", hint)
    if work.left_out:
        left = f"questions over --limit or --depth were not asked (they came up {work.left_out} times)"
        bound += f"{'; ' if bound else ''}{left}"
    if bound:
        sys.stderr.write(f"reprise: warning: {bound}\n")
    sys.stdout.write(
        f"{options.output}: {asker.answered} questions answered, {asker.failed} unanswered; "
        f"next: reprise zones build {options.output / CAPTURE.format('*')} -o ZONES\n"
    )
    return 0


def _want_consent(options: argparse.Namespace, count: int) -> None:
    if options.yes:
        return
    what = (
        f"this asks a resolver {count} questions at first, more where zones are found, at most "
        f"{options.limit} in all and {options.rate:g} a second; each may send several queries to "
        "name servers of the Internet"
    )
    want(sys.stdin.isatty(), f"confirmation required: {what}", "give --yes")
    sys.stdout.write(f"{what[0].upper()}{what[1:]}. Go on? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RepriseError("nothing was asked", "answer yes, or give --yes")
