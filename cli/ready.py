"""Whether a started process is ready for the next one; each check is one quick attempt."""

from __future__ import annotations

from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from cli import linux, sockdiag
from cli.netns import Hosts
from cli.plan import Process, Ready

_ATTEMPT_S = 0.5  # patience of one DNS attempt


def problem(process: Process, hosts: Hosts, log: Path) -> str | None:
    """None when the process is ready, otherwise what is still missing."""
    ready = process.ready
    if ready.kind == "none":
        return None
    if ready.kind == "log":
        return None if _log_has(log, ready.text) else f"its log does not say '{ready.text}'"
    if ready.kind == "listen":
        with linux.inside(hosts.of(process.host)):
            return None if sockdiag.listens(ready.port) else f"it does not listen on TCP port {ready.port}"
    with linux.inside(hosts.of(ready.source)):
        return dns_problem(ready)


def _log_has(log: Path, text: str) -> bool:
    try:
        return text.encode() in log.read_bytes()
    except OSError:
        return False


def dns_problem(ready: Ready) -> str | None:
    """Asks every address for the zone's SOA over UDP and TCP; all must answer with authority."""
    for address in ready.addresses:
        for transport in ("UDP", "TCP"):
            trouble = _ask(address, ready.port, ready.origin, transport)
            if trouble is not None:
                return f"{address} over {transport}: {trouble}"
    return None


def _ask(address: str, port: int, origin: str, transport: str) -> str | None:
    query = dns.message.make_query(origin, dns.rdatatype.SOA)
    query.flags &= ~dns.flags.RD
    ask = dns.query.udp if transport == "UDP" else dns.query.tcp
    try:
        answer = ask(query, address, timeout=_ATTEMPT_S, port=port)
    except (OSError, EOFError, dns.exception.DNSException) as error:
        return str(error) or type(error).__name__
    if answer.rcode() != dns.rcode.NOERROR:
        return f"answers {dns.rcode.to_text(answer.rcode())} for the SOA of {origin}"
    if not answer.flags & dns.flags.AA:
        return f"answers without authority for {origin}"
    return None
