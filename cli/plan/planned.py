"""What a plan is made of, and the facts it is made from: values only.

Whoever carries out a plan needs nothing else: also how to tell that a process is ready, what in its messages
is the user's, what to warn of and what to count at the end are in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from cli import call
from cli.errors import RepriseError
from cli.experiment.schema import Experiment
from cli.plan.network import Network

SCHEMA = 2
RECORDS = "queries-*.rq"  # the files in the results that are there as soon as queries are recorded
RUN = "@run@"
RESULTS = "@results@"


@dataclass(frozen=True)
class Stop:
    """How a process is ended: seconds in which it may end by itself, where the main process has been started
    or, with `settle_with` "records", where there are records; then the signal, and the seconds before
    SIGKILL.
    """

    signal: str = "SIGTERM"
    wait_s: float = 5.0
    settle_s: float = 0.0
    settle_with: str = "replay"


@dataclass(frozen=True)
class Refused:
    """What a server does not take: a regular expression with the groups `what` and `why` for lines of its
    log, and what to say of them. Where there is a hint they end the run before it begins, otherwise they are
    a warning.
    """

    pattern: str
    title: str
    hint: str = ""


@dataclass(frozen=True)
class Ready:
    """When the next process may start.

    none; log: standard error has a line with `text`; dns: a query for the SOA of `origin`, sent from host
    `source`, is answered with authority by every address over all transports of `ports`; answers: the same,
    and any answer will do; exit: the process has ended well, its work was all there was to do.

    `hint`: how to fix that it ended before it was ready; `late_hint`: that it was not ready in time.
    `refusal`: what it means that it ended with the exit status 78 ("" = it has no such meaning).
    """

    kind: Literal["none", "log", "dns", "answers", "exit"] = "none"
    text: str = ""
    ports: dict[str, int] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    origin: str = ""
    source: str = ""
    timeout_s: float = 20.0
    hint: str = ""
    late_hint: str = ""
    refusal: str = ""
    refused: Refused | None = None

    @property
    def asks(self) -> bool:
        """Whether it is ready when it answers."""
        return self.kind in ("dns", "answers")


@dataclass(frozen=True)
class File:
    """A file put in place before anything starts: given text, or a copy of a file of this machine; `owner`
    as of a folder. `places`: where messages of programs name a place in it, and what the user knows it as.
    """

    path: str
    content: str | None = None
    from_: Annotated[str | None, Field(alias="from")] = None
    mode: str = "0644"
    owner: str = ""
    places: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Folder:
    """A folder made before the files, for the user a server drops to ("" = ours), and the group of another
    one ("" = ours).
    """

    path: str
    mode: str = "0755"
    owner: str = ""
    group: str = ""


@dataclass(frozen=True)
class Step:
    """Work done to its end before any process starts; `title` is shown while it lasts.

    `keys` and `reason`: as in Process. `warnings`: a file with a warning a line, read when the step has
    ended.
    """

    id: str
    title: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 3_600.0
    keys: tuple[str, ...] = ()
    reason: str = ""
    warnings: str = ""
    role: ClassVar[str] = "step"
    host: ClassVar[str] = ""  # its machine's own network
    ready: ClassVar[Ready] = Ready()
    files: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class HostStep:
    """A change of one host's system: `apply` may be carried out again, and `undo` leaves the host as it was.

    Command lines, one after the other; those that need a shell say so. `undo` also goes in their order, and
    that of the steps is the opposite of `apply`'s. `new_connection`: it is carried out over a connection to
    the host that is made after the step before it. `after_all`: it comes after the steps before it on every
    host; otherwise only those of one host have an order.
    """

    id: str
    host: str
    apply: tuple[tuple[str, ...], ...]
    undo: tuple[tuple[str, ...], ...] = ()
    new_connection: bool = False
    after_all: bool = False


@dataclass(frozen=True)
class Fault:
    """What is done to hosts from `at_s` seconds after the start of the replay on, for `for_s` seconds. `end`
    is carried out then, or when the run ends before; what has no `end` is over by itself. `replaces`:
    processes of servers end by it.
    """

    text: str
    at_s: float
    for_s: float
    begin: tuple[HostStep, ...]
    end: tuple[HostStep, ...] = ()
    replaces: bool = False


def shell(line: str, *words: str) -> tuple[str, ...]:
    """A command that needs a shell. Paths are `words`, "$1" and so on of the line: they may hold anything."""
    return ("sh", "-c", line, "sh", *words) if words else ("sh", "-c", line)


@dataclass(frozen=True)
class Process:
    """A long-running process. `files` names what it reads; `timeout_s` 0 = as long as the run.

    `restarts`: how often it is started again when it dies during the run, which is not clean then; `@turn@`
    in its command line is the number of the start, from 0. `complaints`: a regular expression; lines of its
    log during the replay that match it make the run unclean. `events`: likewise, lines that the report puts
    beside what was measured at their time.

    `title`: shown when it is started. `essential`: the run ends when it does, and is not clean when a
    process below it ends. `ends`: exit statuses with which it may end before it is stopped. `silence_s`: of
    the main process, for how long it may go on when all those that it comes after have ended (0 = as long as
    it likes). `leaves`: a program whose processes may outlive it, and are waited for.

    A program whose environment has REPRISE_ERRORS=json ends with its error as a line of JSON. Of others it
    is the first match of `reason` in the log, or the log's last line. `keys` of the experiment have the names
    of options, and stand for them in its messages; one that ends with a dot stands for all of its table.
    """

    id: str
    role: str
    host: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    ready: Ready = field(default_factory=Ready)
    stop: Stop = field(default_factory=Stop)
    timeout_s: float = 0.0
    restarts: int = 0
    complaints: str = ""
    events: str = ""
    title: str = ""
    essential: bool = False
    ends: tuple[int, ...] = ()
    silence_s: float = 0.0
    leaves: str = ""
    reason: str = ""
    keys: tuple[str, ...] = ()
    warnings: ClassVar[str] = ""


@dataclass(frozen=True)
class Check:
    """A command line that only looks at options, before anything else starts; its complaint is a usage
    error. `keys`: as in Process.
    """

    argv: tuple[str, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A number in JSON files of the results, for a host or process `subject`; when it is not 0 the run is
    not clean, and `text` says why, with the number at `{count}`. Nor is it clean where there is no such file
    or no such number in one of them, and `unread` says so.

    kind "json": `key` is the way to it, its names joined by dots; "nft": TABLE.NAME of a counter in what `nft
    -j list counters` prints. `leak`: the number is one of packets that left their way.
    """

    files: str
    subject: str
    key: str
    text: str
    unread: str
    kind: Literal["json", "nft"] = "json"
    leak: bool = False


@dataclass(frozen=True)
class Plan:
    """Everything an executor needs; `main` is the process whose end is the run's end.

    `setup` comes after `prepare` and before the processes; `begin` when everything but the main process has
    been started and is ready, `finish` when the main process has ended and everything else still runs,
    `faults` by the time of the replay. `user`: who owns the results while the run lasts ("" = ours).
    `private`: the plan holds what only its user may read. `given`: the experiment's keys that do not just
    have their defaults.
    """

    run: str
    experiment: Experiment
    network: Network
    folders: tuple[Folder, ...]
    files: tuple[File, ...]
    prepare: tuple[Step, ...]
    processes: tuple[Process, ...]
    main: str
    setup: tuple[HostStep, ...] = ()
    begin: tuple[HostStep, ...] = ()
    finish: tuple[HostStep, ...] = ()
    faults: tuple[Fault, ...] = ()
    checks: tuple[Check, ...] = ()
    figures: tuple[Figure, ...] = ()
    warnings: tuple[str, ...] = ()
    private: bool = False
    user: str = ""
    given: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def later(self) -> tuple[HostStep, ...]:
        """The steps of hosts behind their set-up."""
        return (*self.begin, *(step for one in self.faults for step in (*one.begin, *one.end)), *self.finish)

    def named(self, ident: str) -> Step | Process:
        every: tuple[Step | Process, ...] = (*self.prepare, *self.processes)
        return next(one for one in every if one.id == ident)


def read(value: Mapping[str, Any]) -> Plan:
    """A plan from what plan.json holds."""
    if value.get("schema") != SCHEMA:
        what = f"the plan has schema {value.get('schema')}, and this version carries out {SCHEMA}"
        raise RepriseError(what, "make it again with `reprise plan`")
    return TypeAdapter(Plan).validate_python(value)


@dataclass(frozen=True)
class Management:
    """Makes a plan one for real hosts, which have a default route and are reached from networks of the
    operator's. `interfaces`: that of each host of the plan in the experiment's network, see placement.py;
    without any, hosts have the plan's links.
    """

    prefixes: tuple[str, ...]
    interfaces: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What the plan must know of this machine and of the files; gathered by the caller."""

    run: str
    cores: int
    descriptors: int
    python: str
    source_root: str
    programs: dict[str, str]
    origin: str = "."
    config_lines: str = ""  # that the user adds to the configuration of servers or resolvers under test
    front_lines: str = ""  # likewise, to that of a packaged front
    rule_lines: str = ""  # of the user's rule file
    users: dict[str, str] = field(default_factory=dict)  # of further servers, by program; "" = ours
    user: str = ""  # that our own programs become, see privileges.py; "" = they stay what they are
    user_group: int = 0
    process: int = 0  # the first one of a server that the user runs here; 0 = not known
    cores_of: dict[str, int] = field(default_factory=dict)  # of hosts that are machines of their own
    zone_cache: str = ""  # folder of generated zones that were signed before; "" = none
    versions: dict[str, str] = field(default_factory=dict)  # of the servers, by kind; "" = not known
    versions_of: dict[str, dict[str, str]] = field(default_factory=dict)  # on hosts that are machines

    def version(self, kind: str, host: str) -> str:
        """That of a kind of server on a host of the plan; "" where it is not known."""
        return self.versions_of.get(host, self.versions).get(kind, "")

    def module(self, module: str, *arguments: str) -> tuple[str, ...]:
        """The command that runs one of our modules; wants `module_env`."""
        return (self.python, "-m", module, *arguments)

    def call(self, function: str, **values: Any) -> tuple[str, ...]:
        """The command that calls one of our functions, see call.py; wants `module_env`."""
        return self.module("cli.call", *call.words(function, **values))

    def step(self, ident: str, title: str, function: str, **values: Any) -> Step:
        return Step(ident, title, self.call(function, **values), self.module_env)

    @property
    def module_env(self) -> dict[str, str]:
        """The environment in which our modules are found."""
        return {"PYTHONPATH": self.source_root}
