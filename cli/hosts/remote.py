"""A machine of a run that is reached by ssh: its agent does what `Machine` asks for."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat

from cli.errors import RepriseError, complain, one_line
from cli.executor.processes import Child
from cli.hosts import changes, share
from cli.hosts.inventory import MOST_SAID, Target, Text, UnreachableError, checked, last_line, unreachable
from cli.hosts.results import Results
from cli.plan import plan as plans
from cli.plan.planned import RESULTS, RUN, HostStep, Plan

_AWAKE_S = 10.0
_PATIENCE_S = 180.0  # for one answer: ten thousand addresses may be added for it
_WORDS = tuple[Text, Text]


@dataclass
class _Started:
    """The agent's answer to `start` and `start_step`."""

    pid: int
    turn: int


@dataclass
class _Seen:
    """A process in the agent's answer to `poll`."""

    pid: int
    exit: int | None
    cpu_s: FiniteFloat
    max_rss_bytes: int


@dataclass
class _Polled:
    children: list[_Seen]
    trouble: tuple[Text, Text] | None
    lines: list[Text]
    steal_s: FiniteFloat | None
    records: bool


@dataclass
class _Applied:
    error: Text | None = None
    hint: Text = ""


class Agent:
    """The agent on a machine: a process of ssh that is written to and read from."""

    def __init__(self, target: Target, run: str) -> None:
        """Starts it for a run; it has not answered yet."""
        self.target = target
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            target.python("unit", "agent", run),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # ctrl-C is for us, and it ends when we say so
        )
        target.limit(self._process)
        self._rest = b""
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def keep_awake(self) -> None:
        """Asks for nothing now and then: the agent knows that we are there while we do other things."""
        threading.Thread(target=self._wake, daemon=True).start()

    def _wake(self) -> None:
        while not self._ended.wait(_AWAKE_S):
            if self._lock.acquire(blocking=False):
                try:
                    self._exchange("nop")
                except RepriseError:
                    return  # whoever asks next is told
                finally:
                    self._lock.release()

    def ask(self, do: str, form: Any = None, **values: Any) -> Any:
        """Its answer to a request, of the type `form`; its error is raised, with its machine named."""
        with self._lock:
            return checked(self.target.name, self._exchange(do, **values), form)

    def _exchange(self, do: str, **values: Any) -> Any:
        self.send(do, **values)
        return self.receive()

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
                raise unreachable(self.target, f"no answer in {_PATIENCE_S:g} s")
            chunk = os.read(reader, 1 << 20)
            if not chunk:
                raise self._lost()
            self._rest += chunk
            if len(self._rest) > MOST_SAID:
                raise unreachable(self.target, "its answer is too long")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            value = json.loads(line)
            if "error" in value:
                raise RepriseError(f"{self.target.name}: {value['error']}", str(value["hint"]))
            return value["ok"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise unreachable(self.target, f"its answer makes no sense: {one_line(str(line[:80]))}") from None

    def _lost(self) -> UnreachableError:
        self._process.wait()
        return unreachable(self.target, self.last_words() or "its agent ended")

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

    def __init__(self, agent: Agent, plan: Plan, local: Path, hosts: tuple[str, ...]) -> None:
        self.children: dict[int, Child] = {}
        self._agent = agent
        self._plan = plan
        self._results = local
        self._hosts = hosts
        self._trouble: tuple[str, str] | None = None
        self._records = False
        self._has_main = any(one.id == plan.main and one.host in hosts for one in plan.processes)
        self._steal: tuple[float, float] | None = None  # since its boot, at the first poll and at the last
        self._lost: str | None = None
        agent.ask("plan", plan=json.loads(json.dumps(plans.as_json(plan), default=str)))
        folder = changes.runtime(plan.run)
        seen = folder / "results" if plan.user else changes.results(plan.run)
        self._names = {RUN: str(folder), RESULTS: str(seen)}

    @property
    def target(self) -> Target:
        return self._agent.target

    @property
    def steal_s(self) -> float | None:
        """Seconds that its hypervisor gave to others during the run; None where nobody has looked."""
        return None if self._steal is None else round(self._steal[1] - self._steal[0], 3)

    def _ask(self, do: str, otherwise: Any, form: Any = None, **values: Any) -> Any:
        """The agent's answer; `otherwise` where the machine was lost, whose processes have all ended then."""
        if self._lost is None:
            try:
                return self._agent.ask(do, form, **values)
            except UnreachableError as error:
                self._lost = error.what
                for child in self.children.values():
                    child.exit = -signal.SIGKILL if child.exit is None else child.exit
        return otherwise

    def lost(self) -> str | None:
        """What ssh said when the machine was lost."""
        return self._lost

    def prepare(self) -> list[str]:
        return list(self._agent.ask("prepare", list[Text]))

    def start_step(self, ident: str) -> Child:
        return self._known(ident, "step", "", self._agent.ask("start_step", _Started, id=ident))

    def warnings(self, ident: str) -> list[str]:
        return list(self._agent.ask("warnings", list[Text], id=ident))

    def set_up(self, steps: Sequence[HostStep]) -> None:
        """Over connections of their own, and outside of the sandbox, so that they can be undone when
        everything in there is gone.
        """
        batches: list[list[HostStep]] = []
        for step in steps:
            if step.new_connection or not batches:
                batches.append([])
            batches[-1].append(step)
        for batch in batches:
            self._apply(batch)

    def _apply(self, steps: list[HostStep]) -> None:
        listed = [{"id": one.id, "apply": one.apply, "undo": one.undo} for one in steps]
        asked = json.dumps({"run": self._plan.run, "steps": listed}).encode()
        answer = self.target.ask(_Applied, "unit", "apply", self._plan.run, given=asked)
        if answer.error is not None:
            raise RepriseError(f"{self.target.name}: {answer.error}", answer.hint)

    def carry_out(self, step: HostStep) -> None:
        self._ask("carry_out", None, id=step.id)

    def start(self, ident: str, turn: int) -> Child:
        planned = next(one for one in self._plan.processes if one.id == ident)
        value = self._agent.ask("start", _Started, id=ident, turn=turn)
        return self._known(ident, planned.role, planned.host, value)

    def _known(self, ident: str, role: str, host: str, value: _Started) -> Child:
        log = self._results / "logs" / f"{ident}.log"
        child = Child(ident, role, host, value.pid, log, turn=value.turn)
        self.children[child.pid] = child
        return child

    def missing(self, ident: str) -> str | None:
        found: str | None = self._agent.ask("missing", Text | None, id=ident)
        return found

    def refused(self, ident: str) -> str:
        return str(self._agent.ask("refused", Text, id=ident))

    def dns_problem(self, ident: str) -> str | None:
        found: str | None = self._agent.ask("dns_problem", Text | None, id=ident)
        return found

    def words(self, ident: str) -> tuple[str, str]:
        what, hint = self._ask("words", ("", ""), _WORDS, id=ident)
        return what, hint

    def told(self, ident: str) -> tuple[str, str] | None:
        found: tuple[str, str] | None = self._ask("told", None, _WORDS | None, id=ident)
        return found

    def keep_files(self, ident: str) -> None:
        self._ask("keep_files", None, id=ident)

    def begin(self) -> None:
        self._agent.ask("begin")

    def poll(self) -> list[str]:
        """Everything that may have changed, in one answer."""
        found: _Polled = self._ask("poll", _Polled([], None, [], None, self._records), _Polled)
        for seen in found.children:
            if (child := self.children.get(seen.pid)) is not None:
                child.exit, child.cpu_s, child.max_rss_bytes = seen.exit, seen.cpu_s, seen.max_rss_bytes
        trouble = found.trouble
        self._trouble = None if trouble is None else (f"{self.target.name}: {trouble[0]}", trouble[1])
        self._records = found.records
        if (now := found.steal_s) is not None:
            self._steal = (self._steal[0] if self._steal else now, now)
        return found.lines if self._has_main else []

    def trouble(self) -> tuple[str, str] | None:
        return self._trouble

    def reasons(self) -> list[str]:
        return list(self._ask("reasons", [], list[Text]))

    def replaced(self) -> list[str]:
        return list(self._ask("replaced", [], list[Text]))

    def signal(self, child: Child, number: int) -> None:
        self._ask("signal", None, pid=child.pid, number=int(number))

    def outlived(self) -> bool:
        return bool(self._ask("outlived", False, bool))

    def has_records(self) -> bool:
        return self._records

    def refused_packets(self) -> dict[str, int]:
        """A machine has a way out, and its guard counts what would take it."""
        return {}

    def collect(self) -> None:
        """Everything comes at the end, see `fetch`; the figures' files are needed before."""
        if self._lost is not None:
            return
        files = sorted({one.files for one in self._plan.figures})
        own = share.results(self._plan, self._hosts)
        with contextlib.suppress(UnreachableError):
            Results(self.target, self._plan.run, self._results, own).fetch(files, while_it_runs=True)

    def fill(self, text: str) -> str:
        for mark, value in self._names.items():
            text = text.replace(mark, value)
        return text
