"""From an experiment to one plan: the only place where command lines are composed.

The plan is a value; `make` is pure. In it `@run@` stands for the private runtime folder, `@results@` for the
results folder and `@pid:ID@` for the process number of a process started earlier.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from cli import network, replay_options
from cli.experiment import Experiment, as_dict
from cli.network import Network
from cli.servers import Site, bind_config, nsd_config

SCHEMA = 1
RUN = "@run@"
RESULTS = "@results@"
CONTROL_PORT = 8053
_SHARED_PORT = 18053  # first control port where all processes share the machine's own network
_CAPTURE_SETTLE_S = 1.5  # tcpdump fetches packets once a second and loses those it has not fetched
LOOPBACK = "127.0.0.1"


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
    the SOA of `origin`, sent from host `source`, is answered with authority by every address over UDP and
    TCP.
    """

    kind: str = "none"
    text: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()
    origin: str = ""
    source: str = ""
    timeout_s: float = 20.0


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
class Process:
    """A long-running process. `files` names what it reads; `timeout_s` 0 = as long as the run."""

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


@dataclass(frozen=True)
class Plan:
    """Everything an executor needs; `main` is the process whose end is the run's end."""

    run: str
    experiment: Experiment
    network: Network
    folders: tuple[Folder, ...]
    files: tuple[File, ...]
    prepare: tuple[Step, ...]
    processes: tuple[Process, ...]
    main: str
    schema: int = SCHEMA


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


def make(experiment: Experiment, facts: Facts) -> Plan:
    """The plan of an experiment on a machine."""
    own_server = experiment.server.kind != "address"
    clients = experiment.topology.clients
    net = _network(experiment) if own_server else Network("host")
    processes = _server_side(experiment, facts) if own_server else ()
    distributors = tuple(_distributor(experiment, facts, index, processes) for index in range(1, clients + 1))
    controller = _controller(experiment, facts, distributors)
    return Plan(
        run=facts.run,
        experiment=experiment,
        network=net,
        folders=(*_server_folders(experiment, facts), Folder(f"{RESULTS}/logs")),
        files=_server_files(experiment, facts),
        prepare=_steps(experiment, facts),
        processes=(*processes, *distributors, controller),
        main=controller.id,
    )


def _network(experiment: Experiment) -> Network:
    return network.local(
        experiment.topology.clients,
        experiment.server.tcp_listen_queue,
        experiment.replay.source_mode,
        replay_options.peers(experiment),
    )


def as_json(plan: Plan) -> dict[str, Any]:
    """plan.json: keys whose value is None are left out, `from` is spelled as in docs/formats.md."""
    value = dataclasses.asdict(plan)
    value["experiment"] = as_dict(plan.experiment)
    value["files"] = [_file_json(one) for one in plan.files]
    return {"schema": value.pop("schema"), **value}


def _file_json(file: File) -> dict[str, str]:
    body = {"content": file.content} if file.content is not None else {"from": file.copy_of or ""}
    return {"path": file.path, **body, "mode": file.mode}


def zone_path(experiment: Experiment, facts: Facts) -> str:
    """The zone file the server reads: the user's own where the server may read it as it is."""
    zone = experiment.server.zone
    return f"{RUN}/zone" if zone is None or _needs_copy(facts) else zone


def _needs_copy(facts: Facts) -> bool:
    """Compressed zones, and all where the server drops to a user that may not see the user's folders."""
    return facts.zone_compression is not None or bool(facts.server_user)


def trace_path(experiment: Experiment) -> str:
    """The trace that is replayed; a synthesized one lies in the results."""
    return experiment.trace or f"{RESULTS}/trace.pcap"


def _python(facts: Facts, module: str, *arguments: str) -> tuple[str, ...]:
    return (facts.python, "-m", module, *arguments)


def _python_env(facts: Facts) -> dict[str, str]:
    return {"PYTHONPATH": facts.source_root}


def _steps(experiment: Experiment, facts: Facts) -> tuple[Step, ...]:
    steps: list[Step] = []
    if experiment.trace is None and experiment.generate is None and experiment.synth is not None:
        argv = (
            facts.programs["reprise-mutator"],
            "synth",
            *replay_options.synth(dict(experiment.synth)),
            "-o",
            trace_path(experiment),
        )
        steps.append(Step("synth", "making the trace", argv))
    steps += (
        _address_steps(experiment, facts)
        if experiment.server.kind == "address"
        else _zone_steps(experiment, facts)
    )
    hosts = [
        f"{network.client(index)}={_control_address(experiment, index)}"
        for index in range(1, experiment.topology.clients + 1)
    ]
    steps.append(
        Step(
            "certificates",
            "making the run's certificates",
            _python(facts, "cli.certificates", "--out", f"{RUN}/tls", *hosts),
            _python_env(facts),
        )
    )
    return tuple(steps)


def _address_steps(experiment: Experiment, facts: Facts) -> list[Step]:
    server = experiment.server
    argv = _python(facts, "cli.ready", "--port", str(server.port), *server.addresses)
    return [Step("ask", "asking the server", argv, _python_env(facts))]


def _zone_steps(experiment: Experiment, facts: Facts) -> list[Step]:
    server, zone = experiment.server, zone_path(experiment, facts)
    steps = []
    if server.zone is not None and _needs_copy(facts):
        argv = _python(facts, "cli.zonefile", server.zone, zone)
        steps.append(Step("unpack", "unpacking the zone", argv, _python_env(facts)))
    elif server.zone is None and server.root_like is not None:
        like = server.root_like
        argv = _python(
            facts,
            "cli.rootzone",
            "--seed",
            str(like.seed),
            "--ds-share",
            str(like.ds_share),
            "--ksk-bits",
            str(like.ksk_bits),
            "--zsk-bits",
            str(like.zsk_bits),
            "--cache",
            f"{facts.source_root}/build/zones",
            "-o",
            zone,
        )
        steps.append(Step("zone", "making and signing the zone", argv, _python_env(facts)))
    check = (
        (facts.programs["nsd-checkzone"],)
        if server.kind == "nsd"
        else (facts.programs["named-checkzone"], "-i", "none", "-k", "ignore")
    )
    steps.append(Step("checkzone", "checking the zone", (*check, facts.origin, zone)))
    return steps


def _server_folders(experiment: Experiment, facts: Facts) -> tuple[Folder, ...]:
    if experiment.server.kind == "address":
        return ()
    return (Folder(f"{RUN}/server", "0755", facts.server_user),)


def _server_files(experiment: Experiment, facts: Facts) -> tuple[File, ...]:
    server = experiment.server
    site = Site(
        f"{RUN}/server",
        zone_path(experiment, facts),
        facts.origin,
        (network.SERVICE_V4, network.SERVICE_V6, *replay_options.peers(experiment)),
        facts.server_user,
        facts.descriptors,
    )
    if server.kind == "nsd":
        return (File(f"{RUN}/nsd.conf", nsd_config(server, site)),)
    if server.kind == "bind":
        # A copy, because Debian's AppArmor profile for /usr/sbin/named keeps it out of our folders.
        return (
            File(f"{RUN}/named.conf", bind_config(server, site)),
            File(f"{RUN}/named", copy_of=facts.programs["named"], mode="0755"),
        )
    return ()


def _server_side(experiment: Experiment, facts: Facts) -> tuple[Process, ...]:
    processes = [_server(experiment, facts), _sampler(experiment, facts)]
    if experiment.sample.capture:
        processes.append(_capture(experiment, facts))
    return tuple(processes)


def _server(experiment: Experiment, facts: Facts) -> Process:
    server = experiment.server
    if server.kind == "nsd":
        argv: tuple[str, ...] = (facts.programs["nsd"], "-d", "-c", f"{RUN}/nsd.conf")
    else:
        user = ("-u", facts.server_user) if facts.server_user else ()
        argv = (f"{RUN}/named", "-g", "-c", f"{RUN}/named.conf", "-n", str(server.processes), *user)
    ready = Ready(
        "dns",
        port=server.port,
        addresses=(network.SERVICE_V4, network.SERVICE_V6),
        origin=facts.origin,
        source=network.client(1),
        timeout_s=server.ready_s,
    )
    files = tuple(one.path for one in _server_files(experiment, facts))
    return Process(
        "server",
        "server",
        network.SERVER,
        argv,
        files=(*files, zone_path(experiment, facts)),
        ready=ready,
        stop=Stop("SIGTERM", 10.0),
    )


def _sampler(experiment: Experiment, facts: Facts) -> Process:
    argv = _python(
        facts,
        "cli.sampler",
        "--process",
        "server=@pid:server@",
        "--hz",
        str(experiment.sample.hz),
        "-o",
        f"{RESULTS}/server.csv",
    )
    return Process(
        "sampler",
        "sampler",
        network.SERVER,
        argv,
        env=_python_env(facts),
        after=("server",),
        ready=Ready("log", text="sampling"),
    )


def _capture(experiment: Experiment, facts: Facts) -> Process:
    interface = "data1" if experiment.topology.clients == 1 else "any"
    argv = (
        facts.programs["tcpdump"],
        "-i",
        interface,
        "-n",
        "-s",
        "0",
        "-B",
        "65536",
        "-Z",
        "root",
        "--time-stamp-precision=nano",
        "-w",
        f"{RESULTS}/capture.pcap",
        f"port {experiment.server.port}",
    )
    return Process(
        "capture",
        "capture",
        network.SERVER,
        argv,
        after=("server",),
        ready=Ready("log", text="listening on"),
        stop=Stop("SIGINT", 10.0, settle_s=_CAPTURE_SETTLE_S),
    )


def _control_address(experiment: Experiment, index: int) -> str:
    return network.control_address(index) if experiment.server.kind != "address" else LOOPBACK


def _control_port(experiment: Experiment, index: int) -> int:
    return CONTROL_PORT if experiment.server.kind != "address" else _SHARED_PORT + index - 1


def _queriers(experiment: Experiment, facts: Facts) -> int:
    topology = experiment.topology
    if experiment.replay.source_mode == "packet":
        return 1
    return topology.queriers or max(1, facts.cores // topology.clients)


def _tls(name: str) -> tuple[str, ...]:
    return ("--cert", f"{RUN}/tls/{name}.pem", "--key", f"{RUN}/tls/{name}.key", "--ca", f"{RUN}/tls/ca.pem")


def _distributor(experiment: Experiment, facts: Facts, index: int, before: tuple[Process, ...]) -> Process:
    name = network.client(index)
    port = _control_port(experiment, index)
    replay = experiment.replay
    argv = (
        facts.programs["reprise-querier"],
        "distribute",
        "--run-id",
        facts.run,
        "--listen",
        f"{_control_address(experiment, index)}:{port}",
        "--name",
        name,
        *_tls(name),
        "--results",
        RESULTS,
        "--queriers",
        str(_queriers(experiment, facts)),
        "--early-us",
        str(replay.early_us),
        "--spin-us",
        str(replay.spin_us),
        *(("--realtime",) if replay.realtime else ()),
        *(("--cpus", replay.cpus) if replay.cpus else ()),
        *replay_options.source_prefixes(experiment, index),
    )
    return Process(
        f"distributor-{name}",
        "distributor",
        name,
        argv,
        after=tuple(one.id for one in before),
        ready=Ready("listen", port=port),
        stop=Stop("SIGTERM", 10.0),
    )


def _controller(experiment: Experiment, facts: Facts, distributors: tuple[Process, ...]) -> Process:
    replay, server = experiment.replay, experiment.server
    children = [
        text
        for index in range(1, experiment.topology.clients + 1)
        for text in (
            "--distributor",
            f"{network.client(index)}={_control_address(experiment, index)}:"
            f"{_control_port(experiment, index)}",
        )
    ]
    addresses = server.addresses if server.kind == "address" else (network.SERVICE_V4, network.SERVICE_V6)
    argv = (
        facts.programs["reprise-controller"],
        *replay_options.trace_or_generator(experiment, trace_path(experiment)),
        "--run-id",
        facts.run,
        *children,
        *_tls("controller"),
        "--results",
        RESULTS,
        *(text for address in addresses for text in ("--server", address)),
        "--server-port",
        str(server.port),
        *(text for port in replay.ports for text in ("--port", str(port))),
        "--window-s",
        _number(replay.window_s),
        "--timeout-s",
        _number(replay.timeout_s),
        "--idle-timeout-s",
        _number(replay.idle_timeout_s),
        "--in-flight",
        str(replay.in_flight),
        "--max-lateness-s",
        _number(replay.max_lateness_s),
        *replay_options.options(experiment),
        *(("--all-opcodes",) if replay.all_opcodes else ()),
        *(("--answers",) if replay.answers else ()),
    )
    return Process(
        "controller",
        "controller",
        network.CONTROLLER,
        argv,
        after=tuple(one.id for one in distributors),
        stop=Stop("SIGINT", 15.0),
    )


def _number(value: float) -> str:
    return f"{value:g}"
