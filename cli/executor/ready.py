"""Whether a started process is ready for the next one; each check is one quick attempt, made in the network
of the host that the plan names.
"""

from __future__ import annotations

import re
from pathlib import Path

from cli.executor import sockdiag
from cli.executor.processes import Child
from cli.plan.planned import Ready, Refused
from cli.servers import ask

_SHOWN = 3  # zones that a server did not load, in an error line


def problem(ready: Ready, child: Child) -> str | None:
    """None when the process is ready as far as its own host can tell, otherwise what is still missing."""
    if ready.kind == "exit":
        return None if child.exit == 0 else "it has not ended"
    if ready.kind == "log":
        said = _log_has(child.log, child.log_begin, ready.text)
        return None if said else f"its log does not say '{ready.text}'"
    if ready.kind == "listen":
        return None if sockdiag.listens(ready.port) else f"it does not listen on TCP port {ready.port}"
    return None


def asks(ready: Ready) -> bool:
    """Whether it is ready when it answers, see `dns_problem`."""
    return ready.kind in ("dns", "answers")


def _log_has(log: Path, begin: int, text: str) -> bool:
    try:
        return text.encode() in log.read_bytes()[begin:]
    except OSError:
        return False


def refused(wanted: Refused, log: Path) -> str:
    """What the log says of things refused, the first few in words; "" when there is nothing."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = {match["what"]: match["why"] for match in re.finditer(wanted.pattern, text, re.MULTILINE)}
    shown = ", ".join(f"{what} ({why})" for what, why in list(found.items())[:_SHOWN])
    title = wanted.title.format(s="s" if len(found) > 1 else "")
    return f"{len(found)} {title}: {shown}" if found else ""


def dns_problem(ready: Ready) -> str | None:
    """Asks every address for the zone's SOA over all its transports; all must answer with authority."""
    wanted = (("UDP", ready.port if ready.udp else 0), ("TCP", ready.port), ("TLS", ready.tls_port))
    ways = [(transport, port) for transport, port in wanted if port]
    for address in ready.addresses:
        for transport, port in ways:
            trouble = ask.problem(address, port, ready.origin, transport, ready.kind == "answers")
            if trouble is not None:
                return f"{address} over {transport}: {trouble}"
    return None
