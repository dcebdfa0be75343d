"""A machine of a run that is reached by ssh: its agent does what `Machine` asks for."""

import contextlib
import dataclasses
import ipaddress
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from cli.errors import RepriseError, complain, last_line, one_line
from cli.executor.machine import Said, State, Text
from cli.executor.processes import Child
from cli.hosts import changes, results, share
from cli.hosts.inventory import MOST_SAID, Target, UnreachableError, checked
from cli.plan import plan as plans
from cli.plan.planned import RESULTS, RUN, HostStep, Plan

_AWAKE_S = 10.0
_PATIENCE_S = 180.0  # for one answer: ten thousand addresses may be added for it
_Address = Annotated[str, AfterValidator(lambda text: str(ipaddress.ip_address(text)))]


@dataclasses.dataclass(frozen=True)
class Greeting:
    """What the agent's `hello` reports about a machine."""

    version: str
    source: str
    cores: int
    operator: str
    interfaces: dict[_Address, str]
    dns_ports: list[str]
    clock: dict[str, Any]
    host: dict[str, Any]


class Agent:
    """The agent on a machine: a process of ssh that is written to and read from."""

    said: Greeting  # its answer to `hello`

    def __init__(self, target: Target, run: str) -> None:
        """Starts it for a run; it has not answered yet."""
        self.target = target
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            target.call("unit.main", run=run),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # ctrl-C is for us, and it ends when we say so
        )
        self._rest = b""
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def keep_awake(self) -> None:
        """Asks for nothing now and then: the agent knows that we are there while we do other things."""
        threading.Thread(target=self._wake, daemon=True).start()

    def _wake(self) -> None:
        with contextlib.suppress(RepriseError, ValueError):  # whoever asks next is told, or it is closed
            while not self._ended.wait(_AWAKE_S):
                if self._lock.acquire(blocking=False):  # else it is being asked
                    try:
                        self.ask("nop")
                    finally:
                        self._lock.release()

    def ask(self, do: str, form: Any = None, **values: Any) -> Any:
        """Its answer to a request, of the type `form`; its error is raised, with its machine named."""
        with self._lock:
            self.send(do, **values)
            return checked(self.target.name, self.receive(), form)

    def send(self, do: str, **values: Any) -> None:
        """Several machines work at the same time when all are asked first."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._lost() from None

    def receive(self) -> Any:
        """The answer to what was sent first and has none yet."""
        assert self._process.stdout is not None
        reader = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([reader], [], [], _PATIENCE_S)[0]:
                raise UnreachableError(self.target, f"no answer in {_PATIENCE_S:g} s")
            chunk = os.read(reader, 1 << 20)
            if not chunk:
                raise self._lost()
            self._rest += chunk
            if len(self._rest) > MOST_SAID:
                raise UnreachableError(self.target, "its answer is too long")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            value = json.loads(line)
            if "error" in value:
                raise RepriseError(f"{self.target.name}: {value['error']}", str(value["hint"]))
            return value["ok"]
        except (ValueError, TypeError, KeyError, RecursionError):
            what = f"its answer makes no sense: {one_line(str(line[:80]))}"
            raise UnreachableError(self.target, what) from None

    def _lost(self) -> UnreachableError:
        self._process.wait()
        return UnreachableError(self.target, self.last_words() or "its agent ended")

    def last_words(self) -> str:
        """Of ssh or of the agent itself."""
        self._errors.seek(0)
        return last_line(self._errors.read())

    def hang_up(self) -> None:
        """It ends what it runs and undoes what it changed, from now on."""
        assert self._process.stdin is not None
        self._ended.set()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Hangs up and waits for the agent to end; its last error is told."""
        self.hang_up()
        if self._process.wait() != 0 and (said := self.last_words()).startswith("reprise: error:"):
            complain(f"{said} (on {self.target.name})")


class RemoteMachine:
    """What the executor asks for, done by an agent. `local` is where results are in the end."""

    tick_s = 0.2

    def __init__(self, agent: Agent, plan: Plan, local: Path) -> None:
        self.agent, self.target = agent, agent.target
        self._children: dict[int, Child] = {}
        self._plan = plan
        self._results = local
        self._state = State({})
        self._has_main = any(one.id == plan.main and one.host in self.target.hosts for one in plan.processes)
        self._stolen: float | None = None  # seconds since its boot, at the first poll
        self.steal_s: float | None = None  # that its hypervisor has given to others since then
        agent.ask("plan", plan=json.loads(json.dumps(plans.as_json(plan), default=str)))
        self._folder = changes.runtime(plan.run)
        self._seen = self._folder / "results" if plan.user else changes.results(plan.run)

    def _ask(self, do: str, otherwise: Any, form: Any = None, **values: Any) -> Any:
        """The agent's answer; `otherwise` where the machine was lost, whose processes have all ended then."""
        if self._state.lost is None:
            try:
                return self.agent.ask(do, form, **values)
            except UnreachableError as error:
                self._state = State({}, records=self._state.records, lost=error.what)
                for child in self._children.values():
                    child.exit = -signal.SIGKILL if child.exit is None else child.exit
        return otherwise

    def prepare(self) -> list[str]:
        return list(self.agent.ask("prepare", list[Text]))

    def carry_out(self, steps: Sequence[HostStep]) -> None:
        """Those of the set-up over connections of their own, and outside of the sandbox, so that they can be
        undone when everything in there is gone.
        """
        batches: list[list[HostStep]] = []
        for step in steps:
            if step not in self._plan.setup:
                self._ask("carry_out", None, ident=step.id)
            elif step.new_connection or not batches:
                batches.append([step])
            else:
                batches[-1].append(step)
        for batch in batches:
            asked = {"run": self._plan.run, "steps": [dataclasses.asdict(one) for one in batch]}
            self.target.ask(list[Text], "changes.apply", given=json.dumps(asked).encode())

    def start(self, ident: str, turn: int = 0) -> Child:
        what = self._plan.named(ident)
        log = self._results / "logs" / f"{ident}.log"
        pid = self.agent.ask("start", int, ident=ident, turn=turn)
        self._children[pid] = Child(ident, what.role, what.host, pid, log, turn=turn)
        return self._children[pid]

    def begin(self) -> None:
        self.agent.ask("begin")

    def poll(self, awaited: str = "", ended: bool = False) -> State:
        """Everything that may have changed, in one answer."""
        found: State | None = self._ask("poll", None, State, awaited=awaited, ended=ended)
        if found is None:
            return self._state
        for pid, seen in found.children.items():
            if (child := self._children.get(pid)) is not None:
                child.exit, child.cpu_s, child.max_rss_bytes = seen
        self._stolen = found.steal_s if self._stolen is None else self._stolen
        self.steal_s = round(found.steal_s - self._stolen, 3)
        trouble = found.trouble and (f"{self.target.name}: {found.trouble[0]}", found.trouble[1])
        lines = found.lines if self._has_main else ()
        self._state = dataclasses.replace(found, trouble=trouble, lines=lines, lost=None)
        return self._state

    def said(self, ident: str, keep: bool = False) -> Said:
        found: Said = self._ask("said", Said(""), Said, ident=ident, keep=keep)
        return found

    def signal(self, child: Child, number: int) -> None:
        self._ask("signal", None, pid=child.pid, number=int(number))

    def collect(self) -> dict[str, int]:
        """Everything comes at the end, see `fetch`; the figures' files are needed before. A machine has a way
        out, and its guard counts what would take it.
        """
        if self._state.lost is None:
            files = sorted({one.files for one in self._plan.figures})
            own = share.results(self._plan, self.target.hosts)
            with contextlib.suppress(UnreachableError):
                results.fetch(self.target, self._plan.run, self._results, own, files)
        return {}

    def fill(self, text: str) -> str:
        return text.replace(RUN, str(self._folder)).replace(RESULTS, str(self._seen))
