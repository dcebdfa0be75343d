"""Asks a DNS server whether it answers.

`python -m cli.servers.ask --port P [--transport T] ADDRESS...` asks a server that the user runs, as a step
of the plan; any answer will do.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import time

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from cli.errors import RepriseError, telling

_ATTEMPT_S = 0.5  # patience of one DNS attempt
_PATIENCE_S = 5.0  # with a server that the user runs


def problem(address: str, port: int, origin: str, transport: str, any_answer: bool = False) -> str | None:
    """None when the server answers a query for the SOA of a zone as it should, otherwise what is wrong."""
    try:
        answer = _exchange(address, port, origin, transport)
    except (OSError, EOFError, dns.exception.DNSException) as error:
        return str(error) or type(error).__name__
    if any_answer:
        return None
    if answer.rcode() != dns.rcode.NOERROR:
        return f"answers {dns.rcode.to_text(answer.rcode())} for the SOA of {origin}"
    if not answer.flags & dns.flags.AA:
        return f"answers without authority for {origin}"
    return None


def _exchange(address: str, port: int, origin: str, transport: str) -> dns.message.Message:
    query = dns.message.make_query(origin, dns.rdatatype.SOA)
    query.flags &= ~dns.flags.RD
    if transport == "TLS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # queriers look at that
        return dns.query.tls(query, address, timeout=_ATTEMPT_S, port=port, ssl_context=context)
    ask = dns.query.udp if transport == "UDP" else dns.query.tcp
    return ask(query, address, timeout=_ATTEMPT_S, port=port)


def silence(address: str, port: int, transport: str = "UDP") -> str | None:
    """None as soon as the server gives any answer, otherwise why it did not within the patience."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        begin = time.monotonic()
        try:
            _exchange(address, port, ".", transport)
        except (OSError, EOFError, dns.exception.DNSException) as error:
            if time.monotonic() > end:
                return str(error) or type(error).__name__
            time.sleep(max(0.0, begin + _ATTEMPT_S - time.monotonic()))
        else:
            return None


@telling
def main(arguments: list[str]) -> int:
    """The plan's look at a server of the user's own."""
    parser = argparse.ArgumentParser(prog="python -m cli.servers.ask")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--transport", choices=("udp", "tcp", "tls"), default="udp")
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS")
    options = parser.parse_args(arguments)
    for address in options.addresses:
        trouble = silence(address, options.port, options.transport.upper())
        if trouble is not None:
            what = f"no answer from {address} port {options.port} ({trouble})"
            raise RepriseError(what, "start the server or correct server.addresses")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
