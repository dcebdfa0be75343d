"""`python -m cli.plan.warm MUTATOR TRACE --server ADDRESS`: asks each different question of a trace once.

So a replay finds the resolver's cache as it would be after hours of service. Questions go by UDP with EDNS
and the DO bit, so that signatures come along, at most _AT_ONCE at a time; one that gets no answer is asked
again, and then given up: its domain may be one that nobody answers for. Where a thousand in a row are given
up, so is the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator

import dns.exception
import dns.message
import dns.rdataclass
import dns.rdatatype

from cli.errors import RepriseError, telling

_AT_ONCE = 200
_TRIES = 2
_PATIENCE_S = 6.0
_HOPELESS = 1_000
_RECURSIVE_ANSWER_BYTES = 1232

Question = tuple[str, str, str]


class _Conversation(asyncio.DatagramProtocol):
    """Answers by (id); one socket for each slot, so that an id names one question."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bytes] | None = None

    def datagram_received(self, data: bytes, _address: object) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(data)

    def error_received(self, _error: Exception) -> None:
        """The question is asked again after its time."""


def questions(mutator: str, trace: str, ports: list[int]) -> Iterator[Question]:
    """Name, class and type of every question of the trace, each once, in order."""
    argv = [mutator, "mutate", trace, "-o", "-", "--to", "text"]
    argv += [text for port in ports for text in ("--port", str(port))]
    seen: set[Question] = set()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        columns: list[str] = []
        for line in process.stdout:
            words = line.rstrip("\n").split("\t")
            if line.startswith("#"):
                continue
            if not columns:
                columns = words
                continue
            row = dict(zip(columns, words, strict=False))
            question = (row["name"].lower(), row["class"], row["type"])
            if question[0] != "-" and question not in seen:
                seen.add(question)
                yield question


async def _ask_all(found: Iterator[Question], server: str, port: int) -> tuple[int, int, bool]:
    """Asked and answered, and whether the rest was given up."""
    counts = [0, 0]
    silent = 0  # questions in a row that got no answer

    async def slot() -> None:
        nonlocal silent
        loop = asyncio.get_running_loop()
        transport, conversation = await loop.create_datagram_endpoint(
            _Conversation, remote_addr=(server, port)
        )
        for question in found:
            counts[0] += 1
            answered = await _ask(transport, conversation, question)
            counts[1] += answered
            silent = 0 if answered else silent + 1
            if silent >= _HOPELESS:
                break
        transport.close()

    await asyncio.gather(*(slot() for _ in range(_AT_ONCE)))
    return counts[0], counts[1], silent >= _HOPELESS


async def _ask(transport: asyncio.DatagramTransport, conversation: _Conversation, question: Question) -> bool:
    try:
        name, kind_class, kind = question
        wire = dns.message.make_query(
            name, kind, kind_class, want_dnssec=True, payload=_RECURSIVE_ANSWER_BYTES
        ).to_wire()
    except (dns.exception.DNSException, ValueError):
        return False
    for _ in range(_TRIES):
        conversation.answered = asyncio.get_running_loop().create_future()
        transport.sendto(wire)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while (await conversation.answered)[:2] != wire[:2]:
                    conversation.answered = asyncio.get_running_loop().create_future()
                return True
        except TimeoutError:
            continue
    return False


@telling
def main(arguments: list[str]) -> int:
    """0 also where single questions were not answered: that is the replay's business."""
    parser = argparse.ArgumentParser(prog="python -m cli.plan.warm")
    parser.add_argument("mutator")
    parser.add_argument("trace")
    parser.add_argument("--server", required=True)
    parser.add_argument("--server-port", type=int, default=53)
    parser.add_argument("--port", type=int, action="append", default=[])
    options = parser.parse_args(arguments)
    found = questions(options.mutator, options.trace, options.port)
    asked, answered, hopeless = asyncio.run(_ask_all(found, options.server, options.server_port))
    sys.stderr.write(f"level=info event=warm asked={asked} answered={answered}\n")
    if hopeless:
        what = f"{_HOPELESS:,} questions in a row got no answer"
        raise RepriseError(what, "see the logs of the resolver and of its proxy")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
