"""What runs on each machine of a run, started by ssh and spoken to by lines of JSON.

`serve`, called by ssh, answers requests until its input ends. From the plan on they are answered
from within the sandbox, so that all processes end with this one, whatever ends it. Then what was changed on
the machine is undone, see changes.py, and the run's folder with its keys goes. A machine whose agent was
killed is repaired by the next one.
"""

import contextlib
import ipaddress
import json
import os
import platform
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from cli import VERSION, linux
from cli.errors import RepriseError, interrupts_held
from cli.executor import sandbox
from cli.executor.machine import LocalMachine
from cli.experiment.schema import Experiment
from cli.hosts import changes, leftovers, source
from cli.plan import facts as machine
from cli.plan import planned, privileges
from cli.servers.kinds import KINDS
from report.transports import PORTS

_LEAST_KERNEL = (5, 10)  # of playbooks/roles/common, too
_SILENCE_S = 60.0  # whoever started us asks many times a second
_LEFT_S = 5.0  # for processes, when nobody asks any more


# --- requests ---------------------------------------------------------------------------------------------


class Channel:
    """Requests and their answers: a line of JSON each."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def next(self, limit_s: float) -> dict[str, Any] | None:
        """The next request; None where none came in time, or will come."""
        end = time.monotonic() + limit_s
        while not self._lines:
            left = end - time.monotonic()
            if left <= 0 or not select.select([0], [], [], left)[0]:
                return None
            chunk = os.read(0, 1 << 20)
            if not chunk:
                return None
            *self._lines, self._rest = (self._rest + chunk).split(b"\n")
        value = json.loads(self._lines.pop(0))
        return value if isinstance(value, dict) else None

    def answer(self, what: Callable[..., Any], **asked: Any) -> None:
        """Calls it with what was asked; its value is the answer, or its error."""
        try:
            value: dict[str, Any] = {"ok": what(**asked)}
        except RepriseError as error:
            value = {"error": error.what, "hint": error.hint}
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            value = {"error": f"{where}{error.strerror or error}", "hint": "check its disk and permissions"}
        text = json.dumps(value, default=vars).encode() + b"\n"
        while text:
            text = text[os.write(1, text) :]


def hello() -> dict[str, Any]:
    """What must be known of this machine before there is a plan."""
    if os.geteuid() != 0:
        raise RepriseError("the agent is not root", "use root in the inventory, or ansible_become: true")
    kernel = platform.release()
    if tuple(map(int, re.findall(r"\d+", kernel)[:2])) < _LEAST_KERNEL:
        least = ".".join(map(str, _LEAST_KERNEL))
        raise RepriseError(f"kernel {kernel} is older than {least}", f"use kernel {least} or later")
    return {
        "version": VERSION,
        "source": source.checksum(),
        "cores": len(os.sched_getaffinity(0)),
        "operator": os.environ.get("SSH_CONNECTION", "").split(" ")[0],
        "interfaces": interfaces(),
        "dns_ports": dns_ports(),
        "clock": linux.clock(),
        "host": machine.host(),
    }


def interfaces() -> dict[str, str]:
    """Interfaces by the addresses of this machine."""
    return {
        address["local"]: link["ifname"]
        for link in leftovers.read("ip", "-j", "addr")
        for address in link.get("addr_info", [])
        if "local" in address and link["ifname"] != "lo"
    }


def dns_ports() -> list[str]:
    """What listens at servers' ports for others than this machine: services of systemd, or programs."""
    argv = ["ss", "-Hlntup", " or ".join(f"sport = :{port}" for port in PORTS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = set()
    for line in done.stdout.splitlines():
        address = line.split()[4].rpartition(":")[0].partition("%")[0].strip("[]")
        for program, pid in re.findall(r'"([^"]*)",pid=(\d+)', line):
            if address in ("*", "") or not ipaddress.ip_address(address).is_loopback:
                found.add(next((one for one in linux.units(pid) if one.endswith(".service")), program))
    return sorted(found)


def serve() -> None:
    channel = Channel()
    with contextlib.ExitStack() as held:
        answers: dict[str, Callable[..., Any]] = {
            "hello": hello,
            "nop": lambda: None,  # whoever asks wants us to know that it is there
            "lock": lambda run: held.enter_context(changes.locked(run)),
            "versions": lambda kinds: {kind: KINDS[kind].version() for kind in kinds},
            "leftovers": lambda interface: [(one.what, one.hint) for one in leftovers.found(interface)],
            "facts": lambda experiment, run: machine.gather(
                TypeAdapter(Experiment).validate_python(experiment), run
            ),
        }
        while (asked := channel.next(_SILENCE_S)) is not None:
            if (do := asked.pop("do")) == "plan":
                _run(channel, planned.read(asked["plan"]))
                break
            channel.answer(answers[do], **asked)


def _run(channel: Channel, plan: planned.Plan) -> None:
    """Everything from the plan on, and its undo."""
    failed: list[str] = []
    kept = changes.results(plan.run)
    try:
        changes.make_runtime(plan.run)
        kept.parent.mkdir(exist_ok=True)
        kept.mkdir(mode=0o700)
        (kept / "logs").mkdir()
        changes.begin_journal(plan.run)
        sandbox.run(lambda life: _serve_plan(channel, plan, life), None, own_network=False)
    finally:
        with interrupts_held():
            try:
                with contextlib.suppress(OSError):  # there is nothing to give back
                    if plan.user:
                        privileges.give_back(kept)
            finally:
                failed = changes.undo(plan.run)
    if failed:
        raise RepriseError(f"cannot undo: {failed[0]}", f"see {kept}/logs/undo.log, and run teardown.yml")


# --- in the sandbox ---------------------------------------------------------------------------------------


def _serve_plan(channel: Channel, plan: planned.Plan, life: int) -> int:
    machine.raise_descriptors()
    kept, folder = changes.results(plan.run), changes.runtime(plan.run)
    linux.forbid_links(str(folder))
    seen = privileges.lend(kept, folder) if plan.user else kept
    local = LocalMachine(plan, folder, kept, seen)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    steps = {one.id: one for one in plan.later}
    channel.answer(_want_user, plan=plan)
    answers: dict[str, Callable[..., Any]] = {
        "nop": lambda: None,
        **{name: getattr(local, name) for name in ("prepare", "begin", "poll", "said")},
        "carry_out": lambda ident: local.carry_out([steps[ident]]),
        "start": lambda ident, turn: local.start(ident, turn).pid,
        "signal": lambda pid, number: local.signal(local.children[pid], number),
    }
    while not select.select([life], [], [], 0)[0] and (asked := channel.next(_SILENCE_S)) is not None:
        channel.answer(answers[asked.pop("do")], **asked)
    _end(local)
    return 0


def _want_user(plan: planned.Plan) -> None:
    """Refuses a plan whose programs would be root where they need not be."""
    if not plan.user and privileges.user():
        raise RepriseError(
            f"the plan runs programs as root, and this host has the user {privileges.USER} for them",
            "give the controller's host this user and the capabilities of docs/privileges.md",
        )


def _end(local: LocalMachine) -> None:
    """Nobody asks any more: what still runs may write what it has."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in reversed(local.children.values()):
            local.signal(child, number)
        end = time.monotonic() + _LEFT_S
        while any(child.running for child in local.children.values()) and time.monotonic() < end:
            local.poll()
            time.sleep(0.02)
