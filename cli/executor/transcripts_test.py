"""Whole runs on machines that only pretend, with a clock of their own: what the executor asks for, in which
order, and what the run comes to. Each is compared with its transcript in tests/runs/, which
REPRISE_WRITE_TRANSCRIPTS=1 writes anew.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli import programs
from cli.errors import RepriseError
from cli.executor.executor import Executor
from cli.executor.machine import Said, State
from cli.executor.processes import Child
from cli.executor.sandbox import STOP
from cli.experiment.schema import Experiment
from cli.plan.network import Network
from cli.plan.planned import Fault, HostStep, Plan, Process, Ready, Refused, Step, Stop

_FOLDER = programs.ROOT / "tests/runs"
_TICK_S = 0.05
_MOST_POLLS = 4_000  # a run that lasts longer hangs


@dataclass
class Actor:
    """How a process or step behaves; times count from its start."""

    ready_s: float = 0.1
    exits: int | None = None  # of its own
    after_s: float = 0.2
    obeys: bool = True  # ends on a signal other than SIGKILL
    says: str = ""  # its last words
    refuses: str = ""
    cuts_off: bool = False  # its machine is lost when it has been started


@dataclass
class World:
    """A script: how processes behave, and what happens at which time of the replay."""

    actors: dict[str, Actor] = field(default_factory=dict)
    events: list[tuple[float, Callable[[World], None]]] = field(default_factory=list)
    now: float = 0.0
    began: float | None = None
    records: bool = False
    transcript: list[str] = field(default_factory=list)
    life: tuple[int, int] = (-1, -1)
    latest: dict[str, tuple[float, Child]] = field(default_factory=dict)  # by name: when it was started
    polls: int = 0

    def note(self, what: str) -> None:
        self.transcript.append(f"{self.now:6.2f} {what}")

    def actor(self, ident: str) -> Actor:
        return self.actors.setdefault(ident, Actor())

    def stop(self) -> None:
        """The user wishes it to end."""
        self.note("user: stop")
        os.write(self.life[1], STOP)


class FakeMachine:
    """Does nothing, and notes what was asked of it."""

    tick_s = 0.0

    def __init__(self, world: World, name: str = "here") -> None:
        self.children: dict[int, Child] = {}
        self.name = name
        self._world = world
        self._ends: dict[int, tuple[float, int]] = {}
        self._announced = False
        self.why_lost: str | None = None
        self.breaks = ""  # a step
        self.full = False
        self.found: list[str] = []

    def _note(self, what: str) -> None:
        self._world.note(what if self.name == "here" else f"{self.name}: {what}")

    def _start(self, ident: str, role: str, host: str, turn: int = 0) -> Child:
        actor = self._world.actor(ident)
        child = Child(ident, role, host, 1_000 + len(self.children), Path(f"logs/{ident}.log"), turn=turn)
        self._note(f"start {ident}" + (f" again ({turn})" if turn else ""))
        self._world.latest[ident] = (self._world.now, child)
        if actor.exits is not None:
            self._ends[child.pid] = (self._world.now + actor.after_s, actor.exits)
        self.children[child.pid] = child
        if actor.cuts_off:
            self.lose(f"{self.name} cannot be reached")
        return child

    def kill(self, ident: str, status: int) -> None:
        """A process ends by itself."""
        child = next(one for one in reversed(self.children.values()) if one.id == ident)
        self._ends[child.pid] = (self._world.now, status)

    def poll(self, awaited: str = "", ended: bool = False) -> State:
        """Time goes on where nothing else is wanted."""
        world = self._world
        world.polls += 1
        assert world.polls < _MOST_POLLS, "\n".join(world.transcript)
        if self.name == "here" and not awaited and not ended:
            world.now += _TICK_S
            while world.began is not None and world.events and world.now - world.began >= world.events[0][0]:
                world.events.pop(0)[1](world)
        for child in self.children.values():
            end, status = self._ends.get(child.pid, (world.now + 1, 0))
            if child.running and end <= world.now + 1e-9:
                child.exit = status
                self._note(f"{child.id} ends with {status}")
        return State(
            {},
            self._lines(),
            missing=self._waits(awaited) if awaited else None,
            trouble=("no space left for results", "make room") if self.full else None,
            records=world.records,
            reasons=tuple(self.found),
            lost=self.why_lost,
        )

    def _lines(self) -> tuple[str, ...]:
        """The controller announces the start of the replay at once."""
        if self._announced or all(one.id != "controller" for one in self.children.values()):
            return ()
        self._announced = True
        return ("start in_s=0.1",)

    def prepare(self) -> list[str]:
        self._note("prepare")
        return []

    def carry_out(self, steps: Sequence[HostStep]) -> None:
        for step in steps:
            done = "set up" if step in PLAN.setup else "read" if step in _READ else "do"
            self._note(f"{done} {step.id} on {step.host}")
            if step.id == self.breaks:
                raise RepriseError(f"{step.id} failed: no such table", "see its log")

    def start(self, ident: str, turn: int = 0) -> Child:
        what = _EVERY.named(ident)
        return self._start(ident, what.role, what.host, turn)

    def _waits(self, ident: str) -> str | None:
        since, child = self._world.latest[ident]
        ready = child.running and self._world.now >= since + self._world.actor(ident).ready_s
        return None if ready else "no answer yet"

    def said(self, ident: str, keep: bool = False) -> Said:
        if keep:
            self._note(f"keep the files of {ident}")
        actor = self._world.actor(ident)
        return Said(actor.says, "", bool(actor.says), (actor.refuses,) if actor.refuses else ())

    def begin(self) -> None:
        self._note("begin")
        self._world.began = self._world.now

    def lose(self, why: str) -> None:
        """Nothing can be asked of it any more, and its processes have ended."""
        self.why_lost = why
        for child in self.children.values():
            child.exit = -signal.SIGKILL if child.exit is None else child.exit
        self._note("is lost")

    def signal(self, child: Child, number: int) -> None:
        if child.running and self.why_lost is None:
            self._note(f"{signal.Signals(number).name} to {child.id}")
            if number == signal.SIGKILL:
                self._ends[child.pid] = (self._world.now, -number)
            elif self._world.actor(child.id).obeys:
                self._ends[child.pid] = (self._world.now + 0.1, 0 if child.id != "controller" else 1)

    def collect(self) -> dict[str, int]:
        self._note("collect")
        return {}

    def fill(self, text: str) -> str:
        return text


SERVER = Process(
    "server",
    "server",
    "server",
    ("server",),
    ready=Ready("dns", source="client1", timeout_s=2.0, hint="look at the zone", late_hint="wait longer"),
    stop=Stop("SIGTERM", 1.0),
    essential=True,
    title="starting the server",
    files=("server.conf",),
)
DISTRIBUTOR = Process(
    "distributor",
    "distributor",
    "client1",
    ("distributor",),
    after=("server",),
    ready=Ready("log", timeout_s=2.0),
    stop=Stop("SIGTERM", 1.0, settle_s=1.0, settle_with="records"),
    ends=(0, 1),
)
CONTROLLER = Process(
    "controller",
    "controller",
    "controller",
    ("controller",),
    after=("distributor",),
    stop=Stop("SIGINT", 2.0),
    silence_s=3.0,
)
PROXY = dataclasses.replace(
    SERVER, id="proxy", role="proxy", host="proxy", ready=Ready("log"), essential=False, restarts=1
)
PLAN = Plan(
    run="x",
    experiment=Experiment(name="x", trace="/t"),
    network=Network("host"),
    folders=(),
    files=(),
    prepare=(Step("zone", "making the zone", ("zone",), timeout_s=5.0),),
    processes=(SERVER, DISTRIBUTOR, CONTROLLER),
    main="controller",
    setup=(HostStep("guard", "server", ()),),
    begin=(HostStep("counters-before", "server", ()),),
    finish=(HostStep("counters", "server", ()),),
)
_READ = (*PLAN.begin, *PLAN.finish)
PROXIED = dataclasses.replace(PLAN, processes=(SERVER, PROXY, DISTRIBUTOR, CONTROLLER))


def play(plan: Plan, world: World, others: dict[str, FakeMachine] | None = None) -> list[str]:
    """The transcript of a run, which ends with what it came to."""
    world.life = os.pipe()
    before = signal.getsignal(signal.SIGCHLD)
    home = next((one for one in (others or {}).values() if one.name == "here"), None) or FakeMachine(world)
    try:
        executor = Executor(plan, home, Path("results"), world.life[0], others, clock=lambda: world.now)
        outcome = executor.run()
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, before)
        for descriptor in world.life:
            os.close(descriptor)
    end = "clean" if not outcome.unclean_because else "because " + "; ".join(outcome.unclean_because)
    world.transcript += [
        f"end: {'' if outcome.complete else 'not '}at the end, {end}",
        *([f"error: {outcome.error}; {outcome.hint}"] if outcome.error else []),
        *([f"warning: {one}" for one in outcome.warnings]),
        *(
            [
                f"fault {one.number}: {one.text} at {one.at_s:.2f} s, {one.seconds:.2f} s"
                for one in outcome.faults
            ]
        ),
        *([f"server died: {outcome.server_died}"] if outcome.server_died else []),
    ]
    return world.transcript


def _world(actors: dict[str, Actor]) -> World:
    """A replay of three seconds whose controller ends well, but for what is said."""
    world = World(actors)
    world.actors.setdefault("zone", Actor(exits=0))
    world.actors.setdefault("controller", Actor(exits=0, after_s=3.0))
    world.actors.setdefault("distributor", Actor())
    return world


def _records(world: World) -> None:
    world.records = True


def _faulty(*faults: tuple[str, float, float]) -> Plan:
    """A plan with faults: of the server, which stands still or is started again, or of the link."""
    made = []
    for what, at_s, for_s in faults:
        begin = tuple(HostStep(f"{what}-{host}", host, ()) for host in ("server", "client1"))
        one = Fault(f"link: {what}", at_s, for_s, begin)
        if what != "loss":
            end = (HostStep(f"{what}-end", "server", ()),)
            one = Fault(f"server: {what}", at_s, for_s, begin[:1], end, what == "restart")
        made.append(one)
    return dataclasses.replace(PLAN, faults=tuple(made))


def _alone(events: Sequence[tuple[float, str, int]], **actors: Actor) -> Callable[[Plan], list[str]]:
    """A run on one machine, in which processes end at times of the replay."""

    def run(plan: Plan) -> list[str]:
        world = _world(actors)
        machine = FakeMachine(world)
        for time, ident, status in events:

            def happen(_world: World, ident: str = ident, status: int = status) -> None:
                machine.kill(ident, status)

            world.events.append((time, happen))
        world.events.insert(0, (0.3, _records))
        world.events.sort(key=lambda one: one[0])
        return play(plan, world, {"server": machine})

    return run


def _with(
    *events: tuple[float, Callable[[World, FakeMachine], None]], **actors: Actor
) -> Callable[[Plan], list[str]]:
    """The same with other events."""

    def run(plan: Plan) -> list[str]:
        world = _world(actors)
        machine = FakeMachine(world)
        world.events += [
            (0.3, _records),
            *((time, lambda one, do=do: do(one, machine)) for time, do in events),
        ]
        world.events.sort(key=lambda one: one[0])
        return play(plan, world, {"server": machine})

    return run


def _two(
    *events: tuple[float, Callable[[FakeMachine, FakeMachine], None]], **actors: Actor
) -> Callable[[Plan], list[str]]:
    """A run on two machines: `load` has the client, the other one the rest."""

    def run(plan: Plan) -> list[str]:
        world = _world(actors)
        home, load = FakeMachine(world), FakeMachine(world, "load")
        world.events += [(0.3, _records), *((time, lambda _, do=do: do(home, load)) for time, do in events)]
        world.events.sort(key=lambda one: one[0])
        world.actors["distributor"].exits, world.actors["distributor"].after_s = 0, 3.5
        return play(plan, world, {"server": home, "client1": load, "proxy": load})

    return run


def _break(_world: World, machine: FakeMachine) -> None:
    machine.breaks = "loss-client1"


def _fill(_world: World, machine: FakeMachine) -> None:
    machine.full = True


def _refusing(hint: str) -> Plan:
    refused = Refused("(?P<what>.*)(?P<why>)", "does not take", hint)
    server = dataclasses.replace(SERVER, ready=dataclasses.replace(SERVER.ready, refused=refused))
    return dataclasses.replace(PLAN, processes=(server, DISTRIBUTOR, CONTROLLER))


HARVEST = dataclasses.replace(
    DISTRIBUTOR, id="warm", ready=Ready("exit", timeout_s=5.0), title="waiting for warm", ends=(0,)
)
WARMED = dataclasses.replace(PLAN, processes=(SERVER, HARVEST, DISTRIBUTOR, CONTROLLER))
CHECKED = dataclasses.replace(
    SERVER, ready=dataclasses.replace(SERVER.ready, refusal="its configuration is refused")
)

_EVERY = dataclasses.replace(PLAN, processes=(SERVER, PROXY, HARVEST, DISTRIBUTOR, CONTROLLER))

RUNS: dict[str, tuple[Plan, Callable[[Plan], list[str]]]] = {
    "clean": (PLAN, _alone([])),
    "step-fails": (PLAN, _alone([], zone=Actor(exits=1, says="line 3: bad TTL"))),
    "step-never-ends": (PLAN, _alone([], zone=Actor(exits=None))),
    "step-warns": (PLAN, _alone([], zone=Actor(exits=0, refuses="a key is small"))),
    "server-not-ready": (PLAN, _alone([], server=Actor(ready_s=99))),
    "server-ends-at-its-start": (PLAN, _alone([], server=Actor(99, 1, 0.3, says="address in use"))),
    "server-refuses-its-configuration": (
        dataclasses.replace(PLAN, processes=(CHECKED, DISTRIBUTOR, CONTROLLER)),
        _alone([], server=Actor(99, 78, 0.3, says="nsd.conf:7: unknown option")),
    ),
    "server-refuses-a-zone": (_refusing("mend the zone"), _alone([], server=Actor(refuses="zone x. is bad"))),
    "server-warns-of-a-zone": (_refusing(""), _alone([], server=Actor(refuses="zone x. is bad"))),
    "server-dies": (PLAN, _alone([(1.0, "server", -9)], server=Actor(says="out of memory"))),
    "server-dies-while-work-before-the-replay-lasts": (
        WARMED,
        _alone([], server=Actor(exits=1, after_s=1.0), warm=Actor(99, 0, 3.0)),
    ),
    "work-before-the-replay-fails": (WARMED, _alone([], warm=Actor(99, 2, 1.0, says="no answer"))),
    "proxy-dies-and-is-started-again": (PROXIED, _alone([(1.0, "proxy", -11)])),
    "proxy-dies-twice": (PROXIED, _alone([(1.0, "proxy", -11), (2.0, "proxy", -11)])),
    "distributor-dies": (PLAN, _alone([(1.0, "distributor", -9), (2.0, "controller", 1)])),
    "distributor-not-ready": (PLAN, _alone([], distributor=Actor(ready_s=99))),
    "controller-fails": (PLAN, _alone([(1.0, "controller", 1)], controller=Actor(says="client1 was lost"))),
    "controller-hangs": (
        PLAN,
        _alone([(1.0, "distributor", 0)], controller=Actor(obeys=False)),
    ),
    "stop-in-the-replay": (PLAN, _with((1.0, lambda world, _: world.stop()), controller=Actor())),
    "stop-twice": (
        PLAN,
        _with(
            (1.0, lambda world, _: world.stop()),
            (2.0, lambda world, _: world.stop()),
            controller=Actor(obeys=False),
            server=Actor(obeys=False),
        ),
    ),
    "disk-full-in-the-replay": (PLAN, _with((1.0, _fill), controller=Actor())),
    "server-does-not-end": (PLAN, _alone([], server=Actor(obeys=False))),
    "process-complains": (PLAN, _with((1.0, lambda _, machine: machine.found.append("server: it said so")))),
    "two-hosts": (PLAN, _two()),
    "faults": (_faulty(("restart", 1.0, 0.0), ("loss", 0.5, 1.0), ("stall", 2.0, 0.2)), _two()),
    "fault-cannot-begin": (_faulty(("stall", 0.5, 2.0), ("loss", 1.0, 1.0)), _with((0.3, _break))),
    "fault-comes-after-the-replay": (_faulty(("loss", 2.5, 1.0), ("stall", 5.0, 0.1)), _alone([])),
    "stop-while-the-server-stands-still": (
        _faulty(("stall", 0.5, 2.0), ("loss", 0.5, 2.0)),
        _with((1.0, lambda world, _: world.stop()), controller=Actor()),
    ),
    "server-dies-while-it-stands-still": (_faulty(("stall", 0.5, 2.0)), _alone([(1.0, "server", -9)])),
    "client-host-lost-in-a-fault": (
        _faulty(("loss", 0.5, 2.0), ("stall", 1.5, 0.2)),
        _two(
            (1.0, lambda _, load: load.lose("load cannot be reached")),
            (2.0, lambda home, _: home.kill("controller", 1)),
        ),
    ),
    "client-host-lost": (
        PLAN,
        _two(
            (1.0, lambda _, load: load.lose("load cannot be reached")),
            (2.0, lambda home, _: home.kill("controller", 1)),
        ),
    ),
    "client-host-lost-with-its-proxy": (
        PROXIED,
        _two(
            (1.0, lambda _, load: load.lose("load cannot be reached")),
            (2.0, lambda home, _: home.kill("controller", 1)),
        ),
    ),
    "client-host-lost-before-the-replay": (PLAN, _two(distributor=Actor(cuts_off=True))),
    "controller-host-lost": (PLAN, _two((1.0, lambda home, _: home.lose("dns cannot be reached")))),
}


@pytest.mark.parametrize("name", list(RUNS))
def test_the_run_goes_as_written(name: str) -> None:
    plan, run = RUNS[name]
    told = "\n".join(run(plan)) + "\n"
    path = _FOLDER / f"{name}.txt"
    if os.environ.get("REPRISE_WRITE_TRANSCRIPTS"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")


def test_every_transcript_belongs_to_a_run() -> None:
    assert {path.stem for path in _FOLDER.glob("*.txt")} == set(RUNS)
