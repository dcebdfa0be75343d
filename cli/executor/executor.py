"""Carries out a plan on this machine, as init of the sandbox (see sandbox.py).

Order: network, folders, files, steps one by one, the hosts' set-up, then the processes in the plan's order,
each ready before the next. When the main process ends, the hosts' last steps are done, and the rest is
stopped in the opposite order. A server that dies, the
user's wish to stop and a full disk stop the run in order: the controller is interrupted first, so that
queriers keep their results.
"""

from __future__ import annotations

import os
import select
import selectors
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from cli import linux, progress
from cli.errors import EXIT_FAILED, Interrupted, RepriseError
from cli.executor import figures, hoststeps, netns, processes, ready, sockdiag, workers
from cli.executor.outcome import Outcome
from cli.executor.processes import Child, Launch
from cli.executor.sandbox import STOP
from cli.executor.space import Space
from cli.executor.words import end_of, ended, in_terms, last_words, told
from cli.plan.planned import RESULTS, RUN, Folder, HostStep, Plan, Process, Step, Terms

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POLL_S = 0.05  # between two checks of readiness
_OUTLIVE_S = 5.0  # for what outlives a process that was killed: queriers still write their records


class Executor:
    """One run of one plan. Single-threaded: namespaces belong to the thread."""

    def __init__(self, plan: Plan, runtime: Path, results: Path, life: int, seen: Path | None = None) -> None:
        """`seen`: the results as the programs see them."""
        self._plan = plan
        self._planned = {process.id: process for process in plan.processes}
        self._names = {RUN: str(runtime), RESULTS: str(seen or results)}
        self._results = results
        self._space = Space(results)
        self._life = life
        self._hosts = netns.Hosts()
        self._children: dict[int, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._progress = progress.Progress()
        self._stopping = False
        self._main_output = b""
        self._main_because = ""
        self._workers = workers.Watch(())
        self._alone_since: float | None = None  # when the last distributor was seen to have ended
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """The whole run; failures are in the outcome, not raised."""
        steal = processes.steal_s()
        self._watch()
        try:
            self._prepare()
            self._set_up()
            self._start_all()
            self._until_main_ends()
        except RepriseError as error:
            self.outcome.fail(error.what, error.hint)
        except Interrupted:
            kept = "results up to here are kept and marked unclean"
            hint = kept if self._has_records() else "nothing had been replayed, run it again"
            self.outcome.fail("the run was interrupted", hint)
        except OSError as error:
            self.outcome.fail_by(error)
        for last in (self._stop_main, self._finish, self._stop_all):
            try:
                last()
            except OSError as error:
                self.outcome.fail_by(error)
        self._progress.finish()
        self.outcome.steal_s = round(processes.steal_s() - steal, 3)
        return self.outcome

    # --- events -------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wakes the selector for ended children and for the command's wishes."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(reader, selectors.EVENT_READ, lambda pipe: os.read(pipe, 4096))
        self._selector.register(self._life, selectors.EVENT_READ, self._on_life)

    def _on_life(self, descriptor: int) -> None:
        wish = os.read(descriptor, 1)
        if wish == b"":
            os._exit(EXIT_FAILED)  # the command is gone: init's end takes everything with it
        if wish == STOP and self._stopping:
            for child in self._children.values():
                child.signal(signal.SIGKILL)
        elif wish == STOP:
            raise Interrupted

    def _wait(self, done: Callable[[], bool], limit_s: float | None) -> bool:
        """Handles events until done() or the limit; false at the limit."""
        end = None if limit_s is None else time.monotonic() + limit_s
        while True:
            processes.reap(self._children)
            if done():
                return True
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            for child in self._children.values():
                child.note_peak()
            for key, _ in self._selector.select(1.0 if left is None else min(1.0, left)):
                key.data(key.fd)

    # --- before the run -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self._plan.network.kind == "namespaces":
            self._progress.phase("making the network")
        self._hosts = netns.build(self._plan.network)
        self.outcome.refused_sysctls = self._hosts.refused_sysctls
        for folder in self._plan.folders:
            self._make_folder(folder)
        for file in self._plan.files:
            path = Path(self._fill(file.path))
            if file.copy_of is not None:
                shutil.copyfile(self._fill(file.copy_of), path)
            else:
                text = self._fill(file.content or "")
                path.write_bytes(text.encode("utf-8", "surrogateescape"))  # names of files may be any bytes
            path.chmod(int(file.mode, 8))
        for step in self._plan.prepare:
            self._run_step(step)

    def _warn(self, found: Sequence[str]) -> None:
        for warning in found:
            self.outcome.warnings.append(warning)
            self._progress.phase(f"warning: {warning}")

    def _make_folder(self, folder: Folder) -> None:
        path = Path(self._fill(folder.path))
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(int(folder.mode, 8))
        if folder.owner:
            shutil.chown(path, folder.owner)

    def _run_step(self, step: Step) -> None:
        self._progress.phase(step.title)
        log = self._log(step.id)
        child = processes.start(self._launch(step, "step", ""), None, None)
        self._children[child.pid] = child
        if not self._wait(lambda: not child.running, step.timeout_s):
            raise RepriseError(f"{step.title} took over {step.timeout_s:g} s", f"see {self._show(log)}")
        if child.exit != 0:
            what, hint = ended(step, log)
            what, hint = (self._told(one, step.terms) for one in (what, hint))
            raise RepriseError(
                f"{step.title} failed: {what or end_of(child)}", hint or f"see {self._show(log)}"
            )
        if step.warnings:
            self._warn(Path(self._fill(step.warnings)).read_text(encoding="utf-8").splitlines())

    def _told(self, text: str, terms: str) -> str:
        return in_terms(text, self._plan.terms.get(terms, Terms()), self._fill)

    def _set_up(self) -> None:
        """The hosts' own set-up; the namespaces vanish, so that nothing is undone here."""
        for step in self._plan.setup:
            self._carry_out(step)

    def _carry_out(self, step: HostStep) -> None:
        log = self._log(step.id)
        hoststeps.carry_out(step.apply, self._hosts.of(step.host), self._fill, self._env({}), log)

    def _begin(self) -> None:
        """The last before the main process: what is read off the hosts, and the servers' processes."""
        for step in self._plan.begin:
            self._carry_out(step)
        complaints = {process.id: process.complaints for process in self._plan.processes}
        self._workers = workers.of_plan(filter(self._is_essential, self._children.values()), complaints)

    def _finish(self) -> None:
        """What is read off the hosts at the end; a run that failed before it began has nothing to read."""
        if not self.outcome.started:
            return
        self._workers.look()
        self.outcome.because += self._workers.reasons()
        for step in self._plan.finish:
            try:
                self._carry_out(step)
            except RepriseError as error:
                self.outcome.because.append(error.what)
            except OSError as error:
                self.outcome.because.append(f"cannot read the end of {step.host}: {error.strerror}")

    def _start_all(self) -> None:
        for process in self._plan.processes:
            if process.id == self._plan.main:
                self._begin()
                if (trouble := self._space.trouble()) is not None:
                    raise RepriseError(*trouble)
                self._progress.phase("replaying")
                self.outcome.started = True
            elif process.title:
                self._progress.phase(process.title)
            self._start(process)

    def _start(self, process: Process, turn: int = 0) -> None:
        self._check_port(process)
        is_main = process.id == self._plan.main
        output = self._main_pipe() if is_main else None
        child = processes.start(
            self._launch(process, process.role, process.host, turn), output, self._hosts.of(process.host)
        )
        child.turn = turn
        self._children[child.pid] = child
        if output is not None:
            os.close(output)
        self._await_ready(process, child)

    def _check_port(self, process: Process) -> None:
        """A port that is taken would make a process look ready that is not."""
        port = process.ready.port
        if process.ready.kind == "listen":
            with linux.inside(self._hosts.of(process.host)):
                if sockdiag.listens(port):
                    raise RepriseError(
                        f"TCP port {port}, which {process.id} needs, is in use", "end what uses it"
                    )

    def _await_ready(self, process: Process, child: Child) -> None:
        end = time.monotonic() + process.ready.timeout_s
        while (missing := ready.problem(process, self._hosts, child)) is not None:
            self._wait(lambda: not child.running, _POLL_S)
            what, hints = None, [process.ready.hint]
            if not child.running and (process.ready.kind != "exit" or child.exit != 0):
                what = f"{process.id} ended before it was ready ({end_of(child)})"
            elif time.monotonic() > end:
                what = f"{process.id} was not ready within {process.ready.timeout_s:g} s ({missing})"
                hints.insert(0, process.ready.late_hint)
            if what is not None:
                hints.append(self._look_at(process, child))
                raise RepriseError(what + last_words(process, child), ", ".join(filter(None, hints)))
            if process.ready.kind == "exit" and (trouble := self._trouble()) is not None:
                raise RepriseError(*trouble)  # an hour may pass, and what it needs may die
        if (wanted := process.ready.refused) is not None and (refused := ready.refused(wanted, child.log)):
            if wanted.hint:
                raise RepriseError(f"{process.id}: {refused}", wanted.hint)
            self._warn([f"{process.id}: {refused}"])

    def _look_at(self, process: Process, child: Child) -> str:
        """Where to look for why it did not start; its configuration is kept beside its log."""
        for path in map(Path, map(self._fill, process.files)):
            if path.is_file():
                shutil.copyfile(path, child.log.parent / path.name)
        return f"see {self._show(child.log)}"

    # --- the run ------------------------------------------------------------------------------------------

    def _main_pipe(self) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self._selector.register(reader, selectors.EVENT_READ, self._on_main_output)
        return writer

    def _on_main_output(self, descriptor: int) -> None:
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            self._selector.unregister(descriptor)
            os.close(descriptor)
        *lines, self._main_output = (self._main_output + chunk).split(b"\n")
        for line in lines:
            word, fields = progress.parse(line.decode("utf-8", "replace"))
            if word == "progress":
                self._progress.update(fields)
            elif word == "done":
                self._main_because = fields.get("because", "").strip('"')

    def _until_main_ends(self) -> None:
        main = self._child(self._plan.main)
        self._wait(lambda: not main.running or self._trouble() is not None, None)
        trouble = self._trouble() if main.running else None
        if trouble is not None:
            raise RepriseError(*trouble)
        self.outcome.reached_end = True
        self._judge_main(main)

    def _trouble(self) -> tuple[str, str] | None:
        """What makes going on pointless: a dead server, a controller that hangs, or no space for results."""
        self._restart_the_dead()
        self._workers.look()
        for child in self._children.values():
            if self._is_essential(child) and not child.running:
                what = self._death_of(child)
                self.outcome.server_died = what
                return what, f"see {self._show(child.log)}"
        if self._left_alone():
            return "the controller does not react", "see what stopped it, and run it again"
        return self._space.trouble()

    def _restart_the_dead(self) -> None:
        """Starts again what the plan says may die; the run is not clean any more, and says why."""
        planned = {process.id: process for process in self._plan.processes if process.restarts}
        for child in [one for one in self._children.values() if one.id in planned and not one.replaced]:
            if child.running:
                continue
            child.replaced = True
            what = self._death_of(child)
            if child.turn >= planned[child.id].restarts:
                raise RepriseError(what, f"see {self._show(child.log)}")
            self.outcome.because.append(f"{what}, and was started again")
            self._start(planned[child.id], child.turn + 1)

    def _is_essential(self, child: Child) -> bool:
        return child.id in self._planned and self._planned[child.id].essential

    def _death_of(self, child: Child) -> str:
        return f"{child.id} died during the run ({end_of(child)}){last_words(self._planned[child.id], child)}"

    def _has_records(self) -> bool:
        """Whether the start was announced: queriers open their records then."""
        return any(self._results.glob(self._plan.records))

    def _left_alone(self) -> bool:
        """Whether the main process goes on long after all that it needs has ended: it hangs."""
        main = self._planned[self._plan.main]
        needed = [child for child in self._children.values() if child.id in main.after]
        if not main.silence_s or not needed or any(child.running for child in needed):
            return False
        self._alone_since = self._alone_since or time.monotonic()
        return time.monotonic() - self._alone_since > main.silence_s

    def _judge_main(self, main: Child) -> None:
        """The error that ended the main process, if any; all reasons of a replay are in a file of its own."""
        if main.exit == 0:
            return
        process = self._planned[main.id]
        said = told(main.log) or (self._main_because, "")
        what, hint = (self._told(one, process.terms) for one in said)
        self.outcome.fail(
            what or f"{main.id} ended with {end_of(main)}", hint or f"see {self._show(main.log)}"
        )

    # --- the end ------------------------------------------------------------------------------------------

    def _stop_main(self) -> None:
        """A replay that is cut short ends before anything is read off the hosts."""
        self._forget_wishes()
        self._stopping = True
        for process in (one for one in self._plan.processes if one.id == self._plan.main):
            for child in [one for one in self._children.values() if one.id == process.id]:
                self._stop(child, process)

    def _stop_all(self) -> None:
        """In the opposite order of the start."""
        self._forget_wishes()
        running = [child for child in reversed(list(self._children.values())) if child.running]
        for child in running:
            if child.id in self._planned:
                self._stop(child, self._planned[child.id])
            else:
                child.signal(signal.SIGKILL)
        left = {process.leaves for process in self._plan.processes if process.leaves}
        self._wait(lambda: not any(map(processes.named, left)), _OUTLIVE_S)
        self._collect()

    def _forget_wishes(self) -> None:
        """A wish to stop that came while the last figures were read is fulfilled already; taken for a second
        one, it would kill what still writes.
        """
        while select.select([self._life], [], [], 0)[0]:
            if os.read(self._life, 4_096) == b"":
                os._exit(EXIT_FAILED)

    def _stop(self, child: Child, process: Process) -> None:
        if not child.running:
            return
        reached = self._has_records() if process.stop.settle_with == "records" else self.outcome.started
        if process.stop.settle_s and reached:
            self._wait(lambda: not child.running, process.stop.settle_s)
        child.stopped_by_us = True
        child.signal(signal.Signals[process.stop.signal])
        if not self._wait(lambda: not child.running, process.stop.wait_s):
            self.outcome.because.append(
                f"{child.id} did not end within {process.stop.wait_s:g} s and was killed"
            )
            child.signal(signal.SIGKILL)
            self._wait(lambda: not child.running, 5.0)

    def _collect(self) -> None:
        """Book-keeping: what each process used, and whether it ended as it should."""
        for child in (one for one in self._children.values() if one.id in self._planned):
            self.outcome.processes.append(
                {
                    "id": child.id,
                    "role": child.role,
                    "host": child.host,
                    "exit": child.exit,
                    "cpu_s": round(child.cpu_s, 6),
                    "max_rss_bytes": child.max_rss_bytes,
                }
            )
            if child.id != self._plan.main and not child.stopped_by_us:
                self._note_early_end(child)
        if self._plan.network.kind == "namespaces" and self._hosts.descriptors:
            self.outcome.because += figures.reasons(self._plan.figures, self._results)
            self._count_leaks()

    def _count_leaks(self) -> None:
        """What had no route out, and what the hosts' guards stopped; the report says why."""
        found = figures.leaks(self._plan.figures, self._results)
        for host, count in netns.refused_packets(self._hosts).items():
            found.append(figures.Leak(host, count, "were meant for outside: no route leads there"))
        self.outcome.leaks = [asdict(one) for one in found]
        self.outcome.leaked_packets = sum(one.packets for one in found)

    def _note_early_end(self, child: Child) -> None:
        process = self._planned[child.id]
        if not child.replaced and child.exit not in process.ends and self.outcome.error is None:
            words = f"{child.id} ended early ({end_of(child)}){last_words(process, child)}"
            self.outcome.fail(words, f"see {self._show(child.log)}")

    # --- small things -------------------------------------------------------------------------------------

    def _child(self, ident: str) -> Child:
        return next(child for child in self._children.values() if child.id == ident)

    def _launch(self, what: Step | Process, role: str, host: str, turn: int = 0) -> Launch:
        argv = [self._fill(text).replace("@turn@", str(turn)) for text in what.argv]
        return Launch(what.id, role, host, argv, self._env(what.env), self._log(what.id))

    def _env(self, env: dict[str, str]) -> dict[str, str]:
        base = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": self._names[RUN], "TMPDIR": self._names[RUN]}
        return {**base, **{key: self._fill(value) for key, value in env.items()}}

    def _fill(self, text: str) -> str:
        for mark, value in self._names.items():
            text = text.replace(mark, value)
        for child in self._children.values():
            text = text.replace(f"@pid:{child.id}@", str(child.pid))
        return text

    def _log(self, ident: str) -> Path:
        return self._results / "logs" / f"{ident}.log"

    def _show(self, log: Path) -> str:
        try:
            return str(log.relative_to(Path.cwd()))
        except ValueError:
            return str(log)
