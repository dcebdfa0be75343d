"""Asks DNS servers: whether they answer, and many questions at the same time."""

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from cli.errors import RepriseError
from report.transports import TRANSPORTS

_ATTEMPT_S = 0.5  # patience of one DNS attempt
_TRIES = 2
_PATIENCE_S = 5.0  # with a server that the user runs


def problem(address: str, port: int, origin: str, transport: str, any_answer: bool = False) -> str | None:
    """None when the server answers a query for the SOA of a zone as it should, otherwise what is wrong."""
    try:
        query = dns.message.make_query(origin, dns.rdatatype.SOA)
        query.flags &= ~dns.flags.RD
        if TRANSPORTS[transport].stream:
            answer = _by_connection(query, address, port, TRANSPORTS[transport].tls)
        else:
            answer = dns.query.udp(query, address, timeout=_ATTEMPT_S, port=port)
    except (OSError, EOFError, dns.exception.DNSException) as error:
        return str(error) or type(error).__name__
    if any_answer:
        return None
    if answer.rcode() != dns.rcode.NOERROR:
        return f"answers {dns.rcode.to_text(answer.rcode())} for the SOA of {origin}"
    if not answer.flags & dns.flags.AA:
        return f"answers without authority for {origin}"
    return None


def _by_connection(query: dns.message.Message, address: str, port: int, tls: bool) -> dns.message.Message:
    """The answer over a connection that leaves no TIME-WAIT, which would count as one of the replay's."""
    with contextlib.ExitStack() as held:
        channel = held.enter_context(socket.create_connection((address, port), _ATTEMPT_S))
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # queriers look at that
            channel = held.enter_context(context.wrap_socket(channel))
        return dns.query.tcp(query, address, _ATTEMPT_S, sock=channel)


async def answer(
    query: dns.message.Message,
    address: str,
    port: int,
    patience_s: float,
    before_each: Callable[[], Awaitable[None]] | None = None,
) -> dns.message.Message | None:
    """The answer over UDP, or over TCP where that one was truncated. Asks twice at most, each time for
    `patience_s`; None where there was none. `before_each` is awaited before each query.
    """
    for _ in range(_TRIES):
        if before_each is not None:
            await before_each()
        try:
            found, _ = await dns.asyncquery.udp_with_fallback(
                query, address, patience_s, port, ignore_trailing=True, ignore_errors=True
            )
        except dns.exception.Timeout:
            continue
        except (OSError, EOFError, dns.exception.DNSException):
            return None
        return found
    return None


def await_answers(port: int, addresses: list[str], transport: str = "udp") -> None:
    """Waits until a server that the user runs gives an answer at each address; any will do."""
    for address in addresses:
        end = time.monotonic() + _PATIENCE_S
        while (trouble := problem(address, port, ".", transport, any_answer=True)) is not None:
            if time.monotonic() > end:
                what = f"no answer from {address} port {port} ({trouble})"
                raise RepriseError(what, "start the server or correct server.addresses")
            time.sleep(_ATTEMPT_S / 5)  # a refusal comes at once
