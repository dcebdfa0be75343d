"""From an experiment to one plan: the only place where command lines are composed.

The plan is a value; `make` is pure. In it `@run@` stands for the private runtime folder, `@results@` for the
results folder and `@pid:ID@` for the process number of a process started earlier.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from cli.errors import want
from cli.experiment.experiment import as_dict, given, keys_of
from cli.experiment.schema import Experiment
from cli.plan import (
    delay,
    faults,
    front,
    guards,
    hierarchy,
    hierarchy_hosts,
    host_settings,
    network,
    placement,
    privileges,
    replay_options,
    server_plan,
)
from cli.plan.network import Network
from cli.plan.planned import RESULTS, RUN, Check, Facts, Folder, Management, Plan, Process, Ready, Step, Stop
from cli.programs import flags
from cli.servers import kinds

_Program = TypeVar("_Program", Step, Process)
CONTROL_PORT = 8053
_SHARED_PORT = 18052  # where all processes share the machine's own network, the control ports come after it
LOOPBACK = "127.0.0.1"
_CLIENTS = "10.64.0.0/10"  # of a trace made for it, where the server sees its addresses: not the testbed's
_SILENCE_S = 10.0  # a controller that lasts so long after its last distributor hangs


def make(experiment: Experiment, facts: Facts, management: Management | None = None) -> Plan:
    """The plan of an experiment on a machine, or for real hosts with their management network."""
    if management is not None:
        guards.check(experiment, management)
    want(
        management is not None or not experiment.elsewhere,
        f"server address {experiment.elsewhere and experiment.server.addresses[0]} is not on this machine",
        "use hosts that reach it, with --inventory, or run the server on this machine's loopback",
    )
    clients = range(1, experiment.topology.clients + 1)
    side = hierarchy if experiment.emulated else server_plan
    copies, facts = privileges.files(facts), privileges.moved(facts)
    before = (*delay.processes(experiment, facts), *side.processes(experiment, facts, management))
    distributors = tuple(_distributor(experiment, facts, index, before) for index in clients)
    controller = _controller(experiment, facts, distributors)
    steps = tuple(_steps(experiment, facts))
    watched = [one for one in distributors if experiment.sample.clients]
    samplers = [server_plan.sampler(one.host, {"querier": one.id}, experiment, facts) for one in watched]
    processes = (*before, *distributors, *samplers, controller)
    net = placement.placed(_network(experiment, management), management)
    guarded, lossy = guards.of(experiment, net, management), faults.lossy(experiment, net, management)
    return Plan(
        run=facts.run,
        experiment=experiment,
        network=net,
        folders=(*privileges.folders(facts), *side.folders(experiment, facts), Folder(f"{RESULTS}/logs")),
        files=(
            *copies,
            *guards.files(guarded),
            *side.files(experiment, facts),
            *faults.files(lossy),
            *replay_options.rule_files(experiment, facts),
            replay_options.file(experiment, server_plan.NAME),
        ),
        prepare=tuple(_with_rights(one, experiment, facts) for one in steps),
        processes=tuple(
            _with_rights(faults.supervised(one, experiment), experiment, facts) for one in processes
        ),
        checks=tuple(_checks(experiment, facts, steps, processes)),
        figures=(*delay.figures(processes), *guards.figures(guarded)),
        warnings=tuple(_warnings(experiment, facts)),
        private=bool(facts.config_lines or facts.front_lines),  # the user's lines may have secrets
        user=facts.user,
        main=controller.id,
        setup=(
            *(one for each in guarded.items() for one in guards.steps(*each)),
            *placement.setup(net, management),
            *(hierarchy_hosts.steps(experiment.emulated) if experiment.emulated else ()),
            *delay.setup(experiment, management),
            *host_settings.unsegmented(experiment, net, management),
            *front.setup(experiment, facts, management),
            *faults.setup(lossy),
        ),
        faults=faults.of(experiment, lossy),
        # A hierarchy's own reads lie within the hosts' counters in time, so that what is under way at the
        # first or the last of them does not look lost.
        begin=(
            *host_settings.counters(net, host_settings.BEFORE),
            *hierarchy.counts(experiment, facts, "begin", host_settings.BEFORE),
        ),
        finish=(
            *guards.counters(guarded),
            *hierarchy.counts(experiment, facts, "end"),
            *host_settings.counters(net),
        ),
    )


def _with_rights(one: _Program, experiment: Experiment, facts: Facts) -> _Program:
    """Our own programs also end with their error in a form for whoever started them."""
    ours = {facts.python, *(path for name, path in facts.programs.items() if name.startswith("reprise-"))}
    env = {**one.env, **({"REPRISE_ERRORS": "json"} if one.argv[0] in ours else {})}
    return dataclasses.replace(one, argv=privileges.command(one, experiment, facts), env=env)


def _warnings(experiment: Experiment, facts: Facts) -> Iterator[str]:
    """What makes a clean run say less than it seems to."""
    replay = experiment.replay
    releases = [each for one in (facts.versions, *facts.versions_of.values()) for each in one.items()]
    untested = dict.fromkeys(kinds.KINDS[kind].untested(version) for kind, version in releases)
    yield from filter(None, untested)
    paced = experiment.generate is None and (replay.speed != 1 or replay.rate != 0 or replay.fast)
    if experiment.emulated is not None and paced:
        yield (
            "the trace's times are changed and TTLs are not: "
            "cached answers live longer or shorter than they did"
        )
    rtt = experiment.rtt
    if rtt and (rtt.distribution or rtt.observed) and replay.source_mode == "ports":
        yield (
            "[rtt] draws one round trip for each address, and all queries of a client host come from one: "
            'use replay.source_mode = "mapped" for one of each source'
        )
    if experiment.has_front and replay.transport == "tcp" and replay.queries_per_connection != 1:
        yield (
            "the front serves one query on a connection and queries share them: "
            'use replay.transport = "stateless-tcp"'
        )


def _network(experiment: Experiment, management: Management | None) -> Network:
    if experiment.elsewhere:
        return network.local(experiment.topology.clients, 0, servers=0)
    if not experiment.own_server:
        return Network("host")
    base = network.local(
        experiment.topology.clients,
        experiment.server.tcp_listen_queue,
        experiment.replay.source_mode,
        replay_options.peers(experiment),
        experiment.servers,
    )
    return hierarchy.local(experiment, base, management is not None) if experiment.emulated else base


def as_json(plan: Plan) -> dict[str, Any]:
    """plan.json; of a file it has the content or where it is copied from."""
    value = as_dict(plan)
    value["files"] = [given(one) for one in value["files"]]
    return {"schema": value.pop("schema"), **value}


def _steps(experiment: Experiment, facts: Facts) -> Iterator[Step]:
    served = (hierarchy if experiment.emulated else server_plan).steps(experiment, facts)
    if experiment.emulated or server_plan.names(experiment):  # a trace is made of the zones
        yield from served
    if experiment.trace is None and experiment.generate is None and experiment.synth is not None:
        options = (*flags(**_synth_options(experiment)), "-o", replay_options.trace_path(experiment))
        argv = (facts.programs["reprise-mutator"], "synth", *options)
        yield Step("synth", "making the trace", argv, keys=keys_of("synth"))
    yield from replay_options.steps(experiment, facts)
    yield from delay.steps(experiment, facts)
    yield from served  # unless they came first
    hosts = {name: address for name, (address, _) in _control(experiment).items()}
    given: dict[str, Any] = {"out": f"{RUN}/tls", "hosts": hosts, "owner": facts.user}
    given |= server_plan.certificate(experiment, facts)
    title, function = "making the run's certificates", "cli.plan.certificates.write"
    yield facts.step("certificates", title, function, **given)


def _checks(
    experiment: Experiment, facts: Facts, steps: Sequence[Step], processes: Sequence[Process]
) -> Iterator[Check]:
    """What is looked at before anything starts, in the order in which the run would use it. The programs have
    `--check`: they look at their options, and for a first query in a trace, and end. So what they refuse is
    known before there is a network, a server or a results folder.
    """
    what = "trace" if experiment.trace is not None else "options"
    for step in steps:
        if step.id == "synth":
            yield Check((*step.argv, "--check"), step.keys)
        elif step.id == "mutate":
            yield Check((*step.argv, "--check", what))
    behind = experiment.emulated.rtt if experiment.emulated else None
    for table, rtt in (("rtt", experiment.rtt), ("hierarchy.rtt", behind)):
        if rtt is not None and rtt.by is None:
            proxy = facts.programs["reprise-proxy"]
            yield Check((proxy, "delay", "--tun", "check", *delay.options(rtt), "--check"), keys_of(table))
    distributor = next(one for one in processes if one.role == "distributor")
    yield Check((*distributor.argv, "--check"), keys_of("replay"))
    played = experiment.trace is not None and not replay_options.is_written(experiment, facts)
    argv = processes[-1].argv
    if argv[-2] == "--set" and RUN in argv[-1]:
        argv = argv[:-2]  # the certificates of the run are still to be made
    yield Check((*argv, "--check", "trace" if played else "options"))


def _synth_options(experiment: Experiment) -> dict[str, Any]:
    """[synth], with the names of the zones that are made where it names none, and clients whose addresses are
    not the testbed's where the server sees them.
    """
    names = (hierarchy if experiment.emulated else server_plan).names(experiment)
    what = "the trace asks for names of [server.wildcard], whose zone no server at an address has"
    want(not names or experiment.own_server, what, "set synth.names")
    clients = {"client_prefix": _CLIENTS} if experiment.replay.shows_trace_addresses else {}
    return {**clients, **(experiment.synth or {}), **({"names": names} if names else {})}


def _control(experiment: Experiment) -> dict[str, tuple[str, int]]:
    """Address and port at which each client's distributor listens: on its host, or all on this machine."""
    clients = range(1, experiment.topology.clients + 1)
    if experiment.own_server or experiment.elsewhere:
        return {network.client(n): (network.control_address(n), CONTROL_PORT) for n in clients}
    return {network.client(n): (LOOPBACK, _SHARED_PORT + n) for n in clients}


def _tls(name: str) -> tuple[str, ...]:
    return flags(cert=f"{RUN}/tls/{name}.pem", key=f"{RUN}/tls/{name}.key", ca=f"{RUN}/tls/ca.pem")


def _distributor(experiment: Experiment, facts: Facts, index: int, before: tuple[Process, ...]) -> Process:
    name = network.client(index)
    address, port = _control(experiment)[name]
    topology, mode = experiment.topology, experiment.replay.source_mode
    queriers = topology.queriers or facts.cores_of.get(name) or max(1, facts.cores // topology.clients)
    mapped = mode == "mapped"  # sources get addresses out of the client's prefixes
    argv = (
        *(facts.programs["reprise-querier"], "distribute"),
        *flags(run_id=facts.run, listen=f"{address}:{port}", name=name),
        *_tls(name),
        *flags(results=RESULTS, queriers=1 if mode == "packet" else queriers),
        *flags(cpus=experiment.replay.cpus or None),
        *flags(source_prefix=network.source_prefixes(index, topology.clients) if mapped else None),
    )
    return Process(
        f"distributor-{name}",
        "distributor",
        name,
        argv,
        after=tuple(one.id for one in before),
        ready=Ready("log", text="event=listening"),
        stop=Stop("SIGTERM", 10.0, settle_s=10.0, settle_with="records"),
        title=f"starting distributor on {name}",
        ends=(0, 1),  # its verdict reaches the results through the controller
        leaves="reprise-querier",
    )


def _controller(experiment: Experiment, facts: Facts, distributors: tuple[Process, ...]) -> Process:
    server = experiment.server
    children = [f"{name}={address}:{port}" for name, (address, port) in _control(experiment).items()]
    argv = (
        facts.programs["reprise-controller"],
        *replay_options.trace_or_generator(experiment, facts),
        *flags(run_id=facts.run, distributor=children),
        *_tls("controller"),
        *flags(
            results=RESULTS,
            server=server_plan.asked(experiment),
            server_port=server.port,
            allow_public=server.allow_public,
        ),
        *replay_options.rules(experiment, facts),
        *flags(options=replay_options.SETTINGS, confirm_return_path=experiment.replay.shows_trace_addresses),
        *replay_options.authority(experiment, server_plan.AUTHORITY),
    )
    return Process(
        "controller",
        "controller",
        network.CONTROLLER,
        argv,
        after=tuple(one.id for one in distributors),
        stop=Stop("SIGINT", 15.0),
        silence_s=_SILENCE_S,
    )
