"""One NSD for each configuration in a list, as one process of the plan.

NSD has no views, so that every slot of a hierarchy has an NSD of its own. They start a few at a time, because
hundreds that load at once only hinder each other; when all serve, a line says `event=ready`. When one ends,
all end, and the exit status is 1. SIGTERM ends them in order.
"""

import os
import select
import subprocess
from pathlib import Path

from cli import linux, programs

_STARTED = b"nsd started"
_AT_ONCE = 8
_PATIENCE_S = 5.0


def _pass_on(children: list[subprocess.Popen[bytes]], nsd: str, configs: list[str]) -> None:
    """Starts them, passes on what they say until one has ended, and tells when all have started."""
    null, bound = subprocess.DEVNULL, linux.bound(programs.packaged("setpriv"), "TERM")
    pipes: dict[int, bytes] = {}
    waiting: set[int] = set()
    poll = select.poll()
    while all(child.poll() is None for child in children):
        while len(children) < len(configs) and len(waiting) < _AT_ONCE:
            argv = [*bound, nsd, "-d", "-c", configs[len(children)]]
            children.append(subprocess.Popen(argv, stdin=null, stdout=null, stderr=subprocess.PIPE))
            begun = children[-1].stderr
            assert begun is not None, "it is a pipe"
            poll.register(begun, select.POLLIN)
            pipes[begun.fileno()] = b""
            waiting.add(begun.fileno())
        if not waiting:
            waiting = {-1}
            os.write(2, b"level=info event=ready\n")
        for descriptor, _ in poll.poll(1_000):
            chunk = os.read(descriptor, 65_536)
            os.write(2, chunk)
            pipes[descriptor] = pipes[descriptor][-len(_STARTED) :] + chunk
            if _STARTED in pipes[descriptor]:
                waiting.discard(descriptor)
            if not chunk:
                return


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()


def serve(nsd: str, listed: Path) -> int:
    """Runs until a signal, which interrupts as ctrl-C does (0), or until one of them ends (1)."""
    children: list[subprocess.Popen[bytes]] = []
    try:
        try:
            _pass_on(children, nsd, listed.read_text(encoding="utf-8").splitlines())
        finally:
            _end(children)
    except KeyboardInterrupt:
        return 0
    return 1
