"""Asks a server each different question of a trace once.

So a replay finds the resolver's cache as it would be after hours of service. Questions go by UDP with EDNS
and the DO bit, so that signatures come along, at most _AT_ONCE at a time; one that gets no answer is asked
again, and then given up: its domain may be one that nobody answers for. Where a thousand in a row are given
up, so is the rest.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator

import dns.exception
import dns.message

from cli.errors import RepriseError
from cli.programs import flags
from cli.servers import ask
from report.questions import distinct

_AT_ONCE = 200
_PATIENCE_S = 6.0
_HOPELESS = 1_000
_PAYLOAD = 1232


async def _ask_all(found: Iterator[tuple[str, str, str]], server: str) -> tuple[int, int, bool]:
    """Asked and answered, and whether the rest was given up."""
    counts = [0, 0]
    silent = 0  # questions in a row that got no answer

    async def asker() -> None:
        nonlocal silent
        for name, kind_class, kind in found:
            counts[0] += 1
            with contextlib.suppress(dns.exception.DNSException, ValueError):  # no question that can be asked
                query = dns.message.make_query(name, kind, kind_class, want_dnssec=True, payload=_PAYLOAD)
                answered = await ask.answer(query, server, 53, _PATIENCE_S) is not None
                counts[1] += answered
                silent = 0 if answered else silent + 1
            if silent >= _HOPELESS:
                break

    await asyncio.gather(*(asker() for _ in range(_AT_ONCE)))
    return counts[0], counts[1], silent >= _HOPELESS


def warm(mutator: str, trace: str, server: str, ports: list[int], rules: list[str]) -> None:
    """`rules`: the mutator's options. Succeeds also where single questions were not answered: that is the
    replay's business.
    """
    found = distinct(mutator, (trace, *flags(port=ports), *rules))
    asked, answered, hopeless = asyncio.run(_ask_all(found, server))
    sys.stderr.write(f"level=info event=warm asked={asked} answered={answered}\n")
    if hopeless:
        what = f"{_HOPELESS:,} questions in a row got no answer"
        raise RepriseError(what, "see the logs of the resolver and of its proxy")
