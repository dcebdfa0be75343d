"""What a plan is made of, and the facts it is made from: values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from cli.experiment.experiment import Experiment
from cli.plan.network import Network

SCHEMA = 1
RUN = "@run@"
RESULTS = "@results@"


@dataclass(frozen=True)
class Stop:
    """How a process is ended: seconds of rest, then the signal, and the seconds before SIGKILL."""

    signal: str = "SIGTERM"
    wait_s: float = 5.0
    settle_s: float = 0.0


@dataclass(frozen=True)
class Ready:
    """When the next process may start.

    none; log: standard error has a line with `text`; listen: a TCP socket listens on `port`; dns: a query for
    the SOA of `origin`, sent from host `source`, is answered with authority by every address over TCP, UDP
    (where `udp`) and TLS (where `tls_port` is not 0); answers: the same, and any answer will do; exit: the
    process has ended well, its work was all there was to do.

    `refuse`: a regular expression with a group `what` and a group `why`; lines of the log that match it when
    the process is ready end the run before it begins, with `hint`; without a hint they are warnings.
    """

    kind: str = "none"
    text: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()
    origin: str = ""
    source: str = ""
    timeout_s: float = 20.0
    udp: bool = True
    tls_port: int = 0
    refuse: str = ""
    hint: str = ""


@dataclass(frozen=True)
class File:
    """A file put in place before anything starts: given text, or a copy of a file of this machine."""

    path: str
    content: str | None = None
    copy_of: str | None = None
    mode: str = "0644"


@dataclass(frozen=True)
class Folder:
    """A folder made before the files, for the user a server drops to ("" = ours)."""

    path: str
    mode: str = "0755"
    owner: str = ""


@dataclass(frozen=True)
class Step:
    """Work done to its end before any process starts; `title` is shown while it lasts."""

    id: str
    title: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 3_600.0


@dataclass(frozen=True)
class HostStep:
    """A change of one host's system: `apply` may be carried out again, and `undo` leaves the host as it was.

    Command lines, one after the other; those that need a shell say so. `undo` also goes in their order, and
    that of the steps is the opposite of `apply`'s. `new_connection`: it is carried out over a connection to
    the host that is made after the step before it.
    """

    id: str
    host: str
    apply: tuple[tuple[str, ...], ...]
    undo: tuple[tuple[str, ...], ...] = ()
    new_connection: bool = False


def shell(line: str, *words: str) -> tuple[str, ...]:
    """A command that needs a shell. Paths are `words`, "$1" and so on of the line: they may hold anything."""
    return ("sh", "-c", line, "sh", *words) if words else ("sh", "-c", line)


@dataclass(frozen=True)
class Process:
    """A long-running process. `files` names what it reads; `timeout_s` 0 = as long as the run.

    `restarts`: how often it is started again when it dies during the run, which is not clean then; `@turn@`
    in its command line is the number of the start, from 0. `complaints`: a regular expression; lines of its
    log during the replay that match it make the run unclean.
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


@dataclass(frozen=True)
class Plan:
    """Everything an executor needs; `main` is the process whose end is the run's end.

    `setup` comes after `prepare` and before the processes; `begin` when everything but the main process has
    been started and is ready, `finish` when the main process has ended and everything else still runs.
    `user`: who owns the results while the run lasts ("" = ours).
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
    user: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True)
class Management:
    """Makes a plan one for real hosts, which have a default route and are reached from networks of the
    operator's. A guard that nobody confirms within `undo_s` seconds drops itself.
    """

    prefixes: tuple[str, ...]
    undo_s: float = 60.0


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
    zone_compression: str | None = None
    server_user: str = ""
    resolver_config: str = ""  # the lines that the user adds to a resolver's configuration
    users: dict[str, str] = field(default_factory=dict)  # of further servers, by program; "" = ours
    user: str = ""  # that our own programs become, see privileges.py; "" = they stay what they are
    user_group: int = 0

    def module(self, module: str, *arguments: str) -> tuple[str, ...]:
        """The command that runs one of our modules; wants `module_env`."""
        return (self.python, "-m", module, *arguments)

    @property
    def module_env(self) -> dict[str, str]:
        """The environment in which our modules are found."""
        return {"PYTHONPATH": self.source_root}
