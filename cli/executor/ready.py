"""Whether a started process is ready for the next one; each check is one quick attempt, made in the network
of the host that the plan names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import assert_never

from cli.executor.processes import Child
from cli.plan.planned import Ready, Refused
from cli.servers import ask
from report.transports import TRANSPORTS

_LISTEN = "0A"  # TCP_LISTEN of the kernel
_SHOWN = 3  # zones that a server did not load, in an error line


def problem(ready: Ready, child: Child) -> str | None:
    """None when the process is ready as far as its own host can tell, otherwise what is still missing."""
    match ready.kind:
        case "exit":
            return None if child.exit == 0 else "it has not ended"
        case "log":
            said = _log_has(child.log, child.log_begin, ready.text)
            return None if said else f"its log does not say '{ready.text}'"
        case "listen":
            return None if listens(ready.port) else f"it does not listen on TCP port {ready.port}"
        case "none" | "dns" | "answers":
            return None
    assert_never(ready.kind)


def listens(port: int) -> bool:
    """Whether any socket of this network namespace listens on a TCP port."""
    files = [path.read_text(encoding="ascii") for path in Path("/proc/self/net").glob("tcp*")]
    rows = [line.split() for text in files for line in text.splitlines()]
    return any(row[3] == _LISTEN and row[1].endswith(f":{port:04X}") for row in rows)


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
    """Asks every address for the zone's SOA over all its transports; all must answer with authority.
    Connections come first: what does not listen yet refuses them at once.
    """
    ports = sorted(ready.ports.items(), key=lambda one: not TRANSPORTS[one[0]].stream)
    for address in ready.addresses:
        for transport, port in ports:
            trouble = ask.problem(address, port, ready.origin, transport, ready.kind == "answers")
            if trouble is not None:
                return f"{address} over {TRANSPORTS[transport].title}: {trouble}"
    return None
