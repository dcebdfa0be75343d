"""Carries out a plan, on this machine as init of the sandbox (see sandbox.py) or on several.

Order: network, folders, files, steps one by one, the hosts' set-up, then the processes in the plan's order,
each ready before the next. When the main process ends, the hosts' last steps are done, and the rest is
stopped in the opposite order. A server that dies, the
user's wish to stop and a full disk stop the run in order: the controller is interrupted first, so that
queriers keep their results.
"""

import itertools
import math
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cli import progress
from cli.errors import EXIT_FAILED, Interrupted, RepriseError
from cli.executor import outcome, processes
from cli.executor.machine import Machine, State
from cli.executor.outcome import Leak, Outcome
from cli.executor.processes import Child
from cli.executor.sandbox import STOP
from cli.executor.timetable import Timetable
from cli.executor.words import in_terms, shown
from cli.plan.planned import HostStep, Plan, Process, Step

_POLL_S = 0.05  # between two checks of readiness
_REFUSES = 78  # an exit status, see Ready.refusal
_USED = ("id", "role", "host", "exit", "cpu_s", "max_rss_bytes")  # of a process, in the manifest
_INTERRUPTED = "the run was interrupted"
_LOST_HINT = "see whether it is up, and run it again"
_OUTLIVE_S = 5.0  # for what outlives a process that was killed: queriers still write their records


class Executor:
    def __init__(
        self,
        plan: Plan,
        home: Machine,
        results: Path,
        life: int,
        others: Mapping[str, Machine] | None = None,
        prepared: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Steps and hosts are the machine `home`'s, but for hosts that `others` names. `results`: where they
        are in the end. `prepared` is called after the steps. `clock`: seconds.
        """
        self._clock = clock
        self._plan = plan
        self._planned = {process.id: process for process in plan.processes}
        self._results = results
        self._life = life
        self._home = home
        self._of_host = dict(others or {})
        self._prepared = prepared
        self._machines = list(dict.fromkeys((home, *self._of_host.values())))
        self._states = dict.fromkeys(self._machines, State({}))
        self._started: list[Child] = []
        self._lost: list[Machine] = []
        self._progress = progress.Progress()
        self._stopping = False
        self._main_because = ""
        self._faults = Timetable(plan.faults, lambda steps: self._at_once(*([one] for one in steps)), clock)
        self._alone_since: float | None = None  # when the last distributor was seen to have ended
        self.outcome = Outcome(warmup_s=plan.experiment.sample.warmup_s)

    def run(self) -> Outcome:
        """The whole run; failures are in the outcome, not raised."""
        steal = processes.steal_s()
        self._watch()
        try:
            self._prepare()
            self._set_up()
            self._start_all()
            self._until_main_ends()
            self._progress.over()
        except Interrupted:
            self.outcome.fail(_INTERRUPTED)
        except (RepriseError, OSError) as error:
            self.outcome.fail_by(error)
        for last in (self._end_faults, self._stop_main, self._finish, self._stop_all):
            try:
                last()
            except (RepriseError, OSError) as error:
                self.outcome.fail_by(error)
        if self.outcome.error == _INTERRUPTED:
            kept = "results up to here are kept and marked unclean"
            self.outcome.hint = kept if self._has_records() else "nothing had been replayed, run it again"
        self._progress.over()
        self.outcome.steal_s = round(processes.steal_s() - steal, 3)
        return self.outcome

    # --- events -------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """A descriptor becomes readable when children have ended."""
        self._wakes, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def _on_life(self) -> None:
        wish = os.read(self._life, 1)
        if wish == b"":
            os._exit(EXIT_FAILED)  # the command is gone: init's end takes everything with it
        if wish == STOP and self._stopping:
            for child in self._started:
                self._signal(child, signal.SIGKILL)
        elif wish == STOP:
            raise Interrupted

    def _wait(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Handles events until done() or the limit; false at the limit."""
        end = self._clock() + limit_s
        while True:
            for machine in self._machines:
                self._look(machine)
            if done():
                return True
            if (left := end - self._clock()) <= 0:
                return False
            tick = min(left, self._faults.due_s(), *(machine.tick_s for machine in self._machines))
            ready, _, _ = select.select([self._wakes, self._life], [], [], tick)
            if self._wakes in ready:
                os.read(self._wakes, 4_096)
            if self._life in ready:
                self._on_life()

    def _look(self, machine: Machine, awaited: str = "", ended: bool = False) -> State:
        """The machine's state, which is kept until the next look."""
        state = self._states[machine] = machine.poll(awaited, ended)
        for line in state.lines:
            self._on_main_output(line)
        return state

    # --- before the run -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self._plan.network.kind == "namespaces":
            self._progress.begin("making the network")
        for machine in self._machines:
            self.outcome.refused_sysctls += machine.prepare()
        for step in self._plan.prepare:
            self._run_step(step)
        self._prepared()

    def _warn(self, found: Sequence[str]) -> None:
        for warning in found:
            self.outcome.warnings.append(warning)
            self._progress.phase(f"warning: {warning}")

    def _run_step(self, step: Step) -> None:
        self._progress.begin(step.title)
        child = self._home.start(step.id)
        self._started.append(child)
        if not self._wait(lambda: not child.running, step.timeout_s):
            raise RepriseError(f"{step.title} took over {step.timeout_s:g} s", self._see(step.id))
        said = self._home.said(step.id)
        if child.exit != 0:
            what, hint = (self._told(one, step.keys, self._home) for one in (said.what, said.hint))
            raise RepriseError(f"{step.title} failed: {what or child.end}", hint or self._see(step.id))
        self._warn(said.warnings)

    def _told(self, text: str, keys: Sequence[str], machine: Machine) -> str:
        return in_terms(text, keys, self._plan.files, machine.fill)

    def _set_up(self) -> None:
        """The hosts' own set-up, on all machines at the same time as far as its order allows."""
        for _, steps in itertools.groupby(self._plan.setup, lambda one: one.after_all):
            listed = list(steps)
            shares = ([one for one in listed if self._machine(one.host) is each] for each in self._machines)
            self._at_once(*shares)

    def _at_once(self, *shares: Sequence[HostStep]) -> None:
        """Steps of a machine each, all at the same time; the first error is raised when all have ended."""
        with ThreadPoolExecutor(max(1, len(shares))) as pool:
            done = [pool.submit(self._machine(one[0].host).carry_out, one) for one in shares if one]
        for each in done:
            each.result()

    def _finish(self) -> None:
        """What is read off the hosts at the end; a run that failed before it began has nothing to read."""
        if not self.outcome.started:
            return
        for machine in self._machines:
            state = self._look(machine, ended=True)
            self.outcome.unclean_because += state.reasons
            if not any(one.replaces for one in self._plan.faults):
                self.outcome.replaced += state.replaced
            self.outcome.server_events += state.events
        for step in self._plan.finish:
            try:
                self._machine(step.host).carry_out([step])
            except RepriseError as error:
                self.outcome.unclean_because.append(error.what)
            except OSError as error:
                self.outcome.unclean_because.append(f"cannot read the end of {step.host}: {error.strerror}")

    def _start_all(self) -> None:
        for process in self._plan.processes:
            if process.id == self._plan.main:
                for step in self._plan.begin:
                    self._machine(step.host).carry_out([step])
                for machine in self._machines:
                    machine.begin()
                self._check_machines()
                self._progress.begin("replaying")
                self.outcome.started = True
            elif process.title:
                self._progress.begin(process.title)
            self._start(process)

    def _start(self, process: Process, turn: int = 0) -> None:
        child = self._machine(process.host).start(process.id, turn)
        self._started.append(child)
        self._await_ready(process, child)

    def _await_ready(self, process: Process, child: Child) -> None:
        end = self._clock() + process.ready.timeout_s
        while (missing := self._missing(process)) is not None:
            self._wait(lambda: not child.running, _POLL_S)
            if self._why_lost(process.host) is not None:
                continue  # which is the reason then
            what, hints, log = None, [process.ready.hint], ""
            if not child.running and (process.ready.kind != "exit" or child.exit != 0):
                what = f"{process.id} ended before it was ready ({child.end})"
                if process.ready.refusal and child.exit == _REFUSES:
                    what = f"{process.id}: {process.ready.refusal}"
                    log = Path(process.files[0]).name if process.files else ""
            elif self._clock() > end:
                what = f"{process.id} was not ready within {process.ready.timeout_s:g} s ({missing})"
                hints.insert(0, process.ready.late_hint)
            if what is not None:
                words = self._last_words(process, keep=True)
                hints.append(self._see(process.id, log))
                raise RepriseError(what + words, ", ".join(filter(None, hints)))
            if process.ready.kind == "exit":
                self._check()  # an hour may pass, and what it needs may die
        if (wanted := process.ready.refused) is not None:
            found = self._machine(process.host).said(process.id).warnings
            refused = [f"{process.id}: {one}" for one in found]
            if refused and wanted.hint:
                raise RepriseError(refused[0], wanted.hint)
            self._warn(refused)

    def _missing(self, process: Process) -> str | None:
        """What a process lacks to be ready; one that answers may be asked from another machine."""
        if process.ready.kind == "none":
            return None
        host = process.ready.source if process.ready.asks else process.host
        missing = self._look(self._machine(host), process.id).missing
        for why in filter(None, map(self._why_lost, (host, process.host))):
            raise RepriseError(why, _LOST_HINT)
        return missing

    def _last_words(self, process: Process, keep: bool = False) -> str:
        """What ended it, to be put after what happened to it; `keep`: see `Machine.said`."""
        machine = self._machine(process.host)
        words = self._told(machine.said(process.id, keep).what, process.keys, machine)
        return f": {words}" if words else ""

    # --- the run ------------------------------------------------------------------------------------------

    def _on_main_output(self, line: str) -> None:
        word, fields = progress.parse(line)
        if word == "progress":
            self._progress.show(progress.describe(fields))
        elif word == "start":
            self._faults.start = self._clock() + float(fields["in_s"])
        elif word == "done":
            self._main_because = fields.get("because", "").strip('"')

    def _until_main_ends(self) -> None:
        main = next(child for child in self._started if child.id == self._plan.main)

        def is_over() -> bool:
            if not main.running:
                return True
            self._check()
            self._faults.go_on()
            return False

        self._wait(is_over, math.inf)
        self._note_the_lost()
        if (why := self._why_lost(main.host)) is not None:
            raise RepriseError(f"the controller's host was lost: {why}", _LOST_HINT)
        self.outcome.complete = True
        self._judge_main(main)

    def _check(self) -> None:
        """Raises what makes going on pointless: a dead server, a controller that hangs, or a full disk."""
        self._note_the_lost()
        self._restart_the_dead()
        for child in self._started:
            if not child.running and child.id in self._planned and self._planned[child.id].essential:
                what = self._death_of(child)
                self.outcome.server_died = what if child.role != "front" else None
                raise RepriseError(what, self._see(child.id))
        if self._left_alone():
            raise RepriseError("the controller does not react", "see what stopped it, and run it again")
        self._check_machines()

    def _check_machines(self) -> None:
        for trouble in filter(None, [state.trouble for state in self._states.values()]):
            raise RepriseError(*trouble)

    def _note_the_lost(self) -> None:
        """The run goes on without a machine of clients, as without a client."""
        for machine, state in self._states.items():
            if state.lost is not None and machine not in self._lost:
                self._lost.append(machine)
                self.outcome.unclean_because.append(f"a host was lost during the run: {state.lost}")

    def _restart_the_dead(self) -> None:
        """Starts again what the plan says may die; the run is not clean any more, and says why."""
        for child in [one for one in self._started if not one.replaced]:
            process = self._planned.get(child.id)
            if process is None or not process.restarts or child.running or self._why_lost(child.host):
                continue
            child.replaced = True
            what = self._death_of(child)
            if child.turn >= process.restarts:
                raise RepriseError(what, self._see(child.id))
            self.outcome.unclean_because.append(f"{what}, and was started again")
            self._start(process, child.turn + 1)

    def _death_of(self, child: Child) -> str:
        words = self._last_words(self._planned[child.id])
        return f"{child.id} died during the run ({child.end}){words}"

    def _has_records(self) -> bool:
        """Whether the start was announced: queriers open their records then."""
        return any(state.records for state in self._states.values())

    def _left_alone(self) -> bool:
        """Whether the main process goes on long after all that it needs has ended: it hangs."""
        main = self._planned[self._plan.main]
        needed = [child for child in self._started if child.id in main.after]
        if not main.silence_s or not needed or any(child.running for child in needed):
            return False
        self._alone_since = self._alone_since or self._clock()
        return self._clock() - self._alone_since > main.silence_s

    def _judge_main(self, main: Child) -> None:
        """The error that ended the main process, if any; all reasons of a replay are in a file of its own."""
        if main.exit == 0:
            return
        process = self._planned[main.id]
        machine = self._machine(main.host)
        said = machine.said(main.id)
        words = (said.what, said.hint) if said.itself else (self._main_because, "")
        what, hint = (self._told(one, process.keys, machine) for one in words)
        self.outcome.fail(what or f"{main.id} ended with {main.end}", hint or self._see(main.id))

    # --- the end ------------------------------------------------------------------------------------------

    def _end_faults(self) -> None:
        """What stands still would not end in order."""
        missed = self._faults.end()
        self.outcome.faults = self._faults.happened
        if self.outcome.complete:
            self.outcome.unclean_because += [f"the replay ended before a fault: {text}" for text in missed]

    def _stop_main(self) -> None:
        """A replay that is cut short ends before anything is read off the hosts."""
        self._forget_wishes()
        self._stopping = True
        for child in self._started:
            if child.id == self._plan.main:
                self._stop(child)

    def _stop_all(self) -> None:
        """In the opposite order of the start."""
        self._forget_wishes()
        for child in reversed(self._started):
            self._stop(child)
        self._wait(lambda: not any(state.outlived for state in self._states.values()), _OUTLIVE_S)
        self._collect()

    def _forget_wishes(self) -> None:
        """A wish to stop that came while the last figures were read is fulfilled already; taken for a second
        one, it would kill what still writes.
        """
        while select.select([self._life], [], [], 0)[0]:
            if os.read(self._life, 4_096) == b"":
                os._exit(EXIT_FAILED)

    def _stop(self, child: Child) -> None:
        if not child.running:
            return
        if (process := self._planned.get(child.id)) is None:  # a step
            self._signal(child, signal.SIGKILL)
            return
        reached = self._has_records() if process.stop.settle_with == "records" else self.outcome.started
        if process.stop.settle_s and reached:
            self._wait(lambda: not child.running, process.stop.settle_s)
        child.stopped_by_us = True
        self._signal(child, signal.Signals[process.stop.signal])
        if not self._wait(lambda: not child.running, process.stop.wait_s):
            late = f"{child.id} did not end within {process.stop.wait_s:g} s and was killed"
            self.outcome.unclean_because.append(late)
            self._signal(child, signal.SIGKILL)
            self._wait(lambda: not child.running, 5.0)

    def _collect(self) -> None:
        """Book-keeping: what each process used, and whether it ended as it should."""
        for child in (one for one in self._started if one.id in self._planned):
            self.outcome.processes.append({name: getattr(child, name) for name in _USED})
            if child.id != self._plan.main and not child.stopped_by_us:
                self._note_early_end(child)
        if self._plan.network.kind != "host":
            refused = [one for machine in self._machines for one in machine.collect().items()]
            counted = self._plan.figures if self.outcome.started else ()
            reasons, found = outcome.read(counted, self._results)
            self.outcome.unclean_because += reasons
            what = "were meant for outside: no route leads there"
            found += [Leak(host, count, what) for host, count in refused]
            self.outcome.leaks = found
            self.outcome.leaked_packets = sum(one.packets for one in found)

    def _note_early_end(self, child: Child) -> None:
        process = self._planned[child.id]
        lost = self._why_lost(child.host) is not None  # which is the reason then
        if not child.replaced and not lost and child.exit not in process.ends and self.outcome.error is None:
            words = f"{child.id} ended early ({child.end}){self._last_words(process)}"
            self.outcome.fail(words, self._see(child.id))

    # --- small things -------------------------------------------------------------------------------------

    def _machine(self, host: str) -> Machine:
        return self._of_host.get(host, self._home)

    def _why_lost(self, host: str) -> str | None:
        return self._states[self._machine(host)].lost

    def _signal(self, child: Child, number: int) -> None:
        self._machine(child.host).signal(child, number)

    def _see(self, ident: str, log: str = "") -> str:
        return f"see {shown(self._results / 'logs' / (log or f'{ident}.log'))}"
