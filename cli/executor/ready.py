"""Whether a started process is ready for the next one; each check is one quick attempt.

`python -m cli.executor.ready --port P [--transport T] ADDRESS...` asks a server that the user runs, as a step
of the plan; any answer will do.
"""

from __future__ import annotations

import argparse
import re
import ssl
import sys
import time
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from cli import linux
from cli.errors import RepriseError
from cli.executor import sockdiag
from cli.executor.netns import Hosts
from cli.executor.processes import Child
from cli.plan.planned import Process, Ready

_ATTEMPT_S = 0.5  # patience of one DNS attempt
_PATIENCE_S = 5.0  # with a server that the user runs
_SHOWN = 3  # zones that a server did not load, in an error line


def problem(process: Process, hosts: Hosts, child: Child) -> str | None:
    """None when the process is ready, otherwise what is still missing."""
    ready = process.ready
    if ready.kind == "none":
        return None
    if ready.kind == "exit":
        return None if child.exit == 0 else "it has not ended"
    if ready.kind == "log":
        said = _log_has(child.log, child.log_begin, ready.text)
        return None if said else f"its log does not say '{ready.text}'"
    if ready.kind == "listen":
        with linux.inside(hosts.of(process.host)):
            return None if sockdiag.listens(ready.port) else f"it does not listen on TCP port {ready.port}"
    with linux.inside(hosts.of(ready.source)):
        return dns_problem(ready)


def _log_has(log: Path, begin: int, text: str) -> bool:
    try:
        return text.encode() in log.read_bytes()[begin:]
    except OSError:
        return False


def refused(pattern: str, log: Path) -> str:
    """What the log says of things refused, the first few in words; "" when there is nothing."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = {match["what"]: match["why"] for match in re.finditer(pattern, text, re.MULTILINE)}
    shown = ", ".join(f"{what} ({why})" for what, why in list(found.items())[:_SHOWN])
    many = "s" if len(found) > 1 else ""
    return f"{len(found)} zone{many} did not load: {shown}" if found else ""


def dns_problem(ready: Ready) -> str | None:
    """Asks every address for the zone's SOA over all its transports; all must answer with authority."""
    wanted = (("UDP", ready.port if ready.udp else 0), ("TCP", ready.port), ("TLS", ready.tls_port))
    ways = [(transport, port) for transport, port in wanted if port]
    for address in ready.addresses:
        for transport, port in ways:
            trouble = _ask(address, port, ready.origin, transport, ready.kind == "answers")
            if trouble is not None:
                return f"{address} over {transport}: {trouble}"
    return None


def _ask(address: str, port: int, origin: str, transport: str, any_answer: bool = False) -> str | None:
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


def main(arguments: list[str]) -> int:
    """The plan's look at a server of the user's own."""
    parser = argparse.ArgumentParser(prog="python -m cli.executor.ready")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--transport", choices=("udp", "tcp", "tls"), default="udp")
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS")
    options = parser.parse_args(arguments)
    for address in options.addresses:
        trouble = silence(address, options.port, options.transport.upper())
        if trouble is not None:
            what = f"no answer from {address} port {options.port} ({trouble})"
            sys.stderr.write(RepriseError(what, "start the server or correct server.addresses").line() + "\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
