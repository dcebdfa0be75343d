"""The server's side of a plan: its zone, certificate, configuration, process and watchers."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli.experiment.schema import Experiment, Server
from cli.plan import delay, front, hierarchy_hosts, network, privileges, replay_options
from cli.plan.hierarchy_hosts import WORLD
from cli.plan.planned import RESULTS, RUN, Facts, File, Folder, Management, Process, Ready, Step, Stop, shell
from cli.programs import flags
from cli.servers.kind import ServerKind, Service, Site
from cli.servers.kinds import KINDS, REASON, STARTED, command_arguments, users_lines
from cli.zones import wildcard
from report.transports import TRANSPORTS

NAME = "server.reprise.test"  # in the certificate of our own server
AUTHORITY = f"{RUN}/tls/server-ca.pem"
# Of a zone checker: its first line with an error, or the first of all; its later lines only sum up.
FIRST_COMPLAINT = r"(?i)\A\s*(?![\s\S]*(?:error|fail))\S.*|\S.*(?:error|fail).*|(?:error|fail).*"
_SAMPLES = Ready("log", text="sampling")
FRAGMENTS = "ip[6:2] & 0x1fff != 0 or ip6[6] == 44"  # in a capture's filter: only the first has ports
_CAPTURE_SETTLE_S = 1.5  # tcpdump fetches packets once a second and loses those it has not fetched


def zone_path(experiment: Experiment) -> str:
    """The zone file the server reads: ours, or a copy of the user's."""
    return f"{WORLD}/zone" if _is_brought(experiment.server) else f"{RUN}/zone"


def _is_brought(server: Server) -> bool:
    """Whether the zone is the user's, and not made for the run."""
    return server.zone is not None or server.capture is not None


def names(experiment: Experiment) -> str | None:
    """The names that a synthesized trace asks for, where it does not say itself."""
    wild, synth = experiment.server.wildcard, experiment.synth or {}
    made = wild is not None and (wild.zones > 1 or wild.names > 0) and not _is_brought(experiment.server)
    return f"{zone_path(experiment)}.names" if made and not synth.keys() & {"names", "unique_below"} else None


def steps(experiment: Experiment, facts: Facts) -> Iterator[Step]:
    """The zone of our own server, or a question to the user's by the transport of the replay: it need not
    know another.
    """
    server, zone, transport = experiment.server, zone_path(experiment), experiment.replay.transport
    given: dict[str, Any]
    if not experiment.own_server:
        port = experiment.ports_by_transport.get(transport, server.port)
        given = {"port": port, "addresses": server.addresses}
        given |= {"transport": transport} if experiment.connections_only else {}
        yield facts.step("ask", "asking the server", "cli.servers.ask.await_answers", **given)
        return
    if server.zone is not None:
        given = {"source": server.zone, "target": zone, "origin": facts.origin}
        yield facts.step("unpack", "copying the zone", "cli.zones.server_zone.bring", **given)
    elif server.capture is not None:
        built, warnings = f"{WORLD}/built", f"{WORLD}/built.txt"
        more = flags(warnings=warnings, skip_bad=True)
        argv = facts.module("cli", "zones", "build", server.capture, "-o", built, *more)
        yield Step("build", "building the zone", argv, builder_env(facts), warnings=warnings)
        report = f"{RESULTS}/zones/build.json"
        given = {"folder": built, "target": zone, "origin": facts.origin, "report": report}
        yield facts.step("choose", "choosing the zone", "cli.zones.server_zone.choose", **given)
    elif server.root_like is not None:
        given = {"target": zone, **asdict(server.root_like)}
        given |= {"cache": facts.zone_cache} if facts.zone_cache else {}
        yield facts.step("zone", "making and signing the zone", "cli.zones.rootzone.write", **given)
    elif server.wildcard is not None:
        size = {"zones": server.wildcard.zones, "names": server.wildcard.names}
        given = {"target": zone, "origin": facts.origin, **size}
        yield facts.step("zone", "making the zone", "cli.zones.wildcard.write", **given)
    if server.zone is None and experiment.replay.answers:  # which the zone explains
        given = {"zone": zone, "target": f"{RESULTS}/zone.gz"}
        yield facts.step("keep", "keeping the zone", "cli.zones.server_zone.keep", **given)
    checker, *options = STARTED[server.kind].zone_checker
    warnings = f"{WORLD}/warnings.txt" if _is_brought(server) else ""
    given = {"argv": [facts.programs[checker], *options, facts.origin], "zone": zone}
    given |= {"warnings": warnings} if warnings else {}
    check = facts.step("checkzone", "checking the zone", "cli.zones.server_zone.check", **given)
    yield dataclasses.replace(check, reason=FIRST_COMPLAINT, warnings=warnings)


def certificate(experiment: Experiment, facts: Facts) -> dict[str, Any]:
    """For the certificates' step: servers that speak TLS get a key and a certificate."""
    if not (experiment.own_server and experiment.over_tls):
        return {}
    server, emulated = experiment.server, experiment.emulated
    asked = emulated.resolvers if emulated else (server.front if experiment.has_proxy else server.kind,)
    return {
        "servers": {
            _certificate(network.server(number)): facts.users.get(STARTED[kind].program, "")
            for number, kind in enumerate(asked, 1)
        },
        "authority": AUTHORITY,
        "name": NAME,
        "addresses": addresses(experiment),
        "key_type": experiment.tls_settings.key,
    }


def _certificate(host: str) -> str:
    """The files of a server's certificate and key, without their endings."""
    return f"{RUN}/{host}/server"


def addresses(experiment: Experiment) -> tuple[str, ...]:
    return (network.SERVICE_V4, network.SERVICE_V6, *replay_options.peers(experiment))


def asked(experiment: Experiment) -> tuple[str, ...]:
    """The server's addresses that clients ask: one of each family that it has."""
    server = experiment.server
    if not experiment.own_server:
        return server.addresses
    six = server.command is None or experiment.has_proxy or "{address6}" in server.command
    return (network.SERVICE_V4, *((network.SERVICE_V6,) if six else ()))


def builder_env(facts: Facts) -> dict[str, str]:
    """For modules that start the zone builder."""
    folder = Path(facts.programs["reprise-zonebuilder"]).parent
    return {**facts.module_env, "REPRISE_PROGRAMS": str(folder)}


def folders(experiment: Experiment, facts: Facts) -> tuple[Folder, ...]:
    if not experiment.own_server:
        return ()
    user = facts.users.get(STARTED[experiment.server.kind].program, "")
    copy = Folder(WORLD, "0750", facts.user, user)
    zone = (copy,) if _is_brought(experiment.server) else ()
    return (*zone, Folder(f"{RUN}/server", "0700", user))


def files(experiment: Experiment, facts: Facts) -> Iterator[File]:
    server = experiment.server
    for name, lines, key in (
        (server.kind, facts.config_lines, "server.config"),
        (server.front, facts.front_lines, "front.config"),
    ):
        kind = KINDS.get(name)
        if kind is None or (write := kind.authoritative or kind.front) is None:
            continue
        asked_first = kind.front is not None or not experiment.has_proxy
        wild, zone = None if _is_brought(server) else server.wildcard, zone_path(experiment)
        further = wildcard.further(facts.origin, wild.zones) if wild else ()
        site = Site(
            f"{RUN}/server",
            ((facts.origin, zone), *((origin, f"{zone}.more") for origin in further)),
            addresses(experiment) if asked_first else (network.BEHIND,),
            facts.users.get(kind.program, ""),
            facts.descriptors,
            tls_service(experiment) if asked_first else None,
            experiment.connections_only,
            facts.version(name, network.SERVER),
            lines,
            network.BEHIND,
        )
        beside = kind.beside(site) if kind.beside else {}
        text = write(server, site)
        places = users_lines(kind.quoted_as or kind.config_file, text, lines, key)
        yield File(_config(kind), text, places=places)
        yield from copies((kind,), facts)
        yield from (File(f"{RUN}/{other}", text) for other, text in beside.items())


def _config(kind: ServerKind) -> str:
    return f"{RUN}/{kind.config_file}"


def copies(kinds: Collection[ServerKind], facts: Facts) -> tuple[File, ...]:
    """Copies of those servers that a packager's AppArmor profile would keep out of our folders."""
    return tuple(
        File(f"{RUN}/{one.program}", from_=facts.programs[one.program], mode="0755")
        for one in KINDS.values()
        if one.copied and one in kinds
    )


def program_of(kind: ServerKind, facts: Facts) -> str:
    """The server's program, or the copy of it that is started."""
    return f"{RUN}/{kind.program}" if kind.copied else facts.programs[kind.program]


def command(kind: ServerKind, facts: Facts, config: str, processes: int, folder: str = "") -> tuple[str, ...]:
    """Starts a server, once its checker takes the configuration."""
    user = facts.users.get(kind.program, "")
    argv = kind.argv(program_of(kind, facts), config, folder, processes, user)
    return kind.checked(privileges.server(argv, user, facts) if kind.stays_root else argv, config)


def tls_service(experiment: Experiment, host: str = network.SERVER) -> Service | None:
    """DNS over TLS as the server on a host serves it; None where no query comes over it."""
    if not experiment.over_tls:
        return None
    files = _certificate(host)
    return Service(experiment.tls_settings.port, f"{files}.key", f"{files}.pem")


def processes(experiment: Experiment, facts: Facts, management: Management | None) -> Iterator[Process]:
    """The server, its front, and what watches them; of a server that the user runs, what watches that."""
    if not experiment.own_server:
        if facts.process:
            yield from _watchers(experiment, facts)
        return
    fronts = front.processes(experiment, facts, management)
    if experiment.has_proxy:
        fronts = (_proxy(experiment, facts),)
    watched = {name: name for name in ("server", *(one.id for one in fronts))}
    name, kind = experiment.server.kind, STARTED[experiment.server.kind]
    yield _server(experiment, facts)
    yield from fronts
    yield conditions(network.SERVER, facts, _config(kind), name)
    yield sampler(network.SERVER, watched, experiment, facts)
    if kind.counted is not None:
        of = {"kind": name, "folder": f"{RUN}/server", "process": "@pid:server@"}
        log, out = f"{RESULTS}/logs/server.log", f"{RESULTS}/counts-server.csv"
        tls = experiment.over_tls and not experiment.has_proxy
        yield watcher(network.SERVER, "cli.servers.counted.watch", facts, **of, log=log, out=out, tls=tls)
    if experiment.sample.capture:
        yield capture(experiment, facts, management)
    if experiment.socket is not None and (nagle := experiment.socket.nagle) is not None:
        argv = facts.call("cli.servers.running.switch_nagle", pid="@pid:server@", on=nagle)
        title = f"switching Nagle's algorithm {'on' if nagle else 'off'} at the server"
        yield once("nagle", "nagle", network.SERVER, argv, facts, title, after=("server",))


def serving(one: Process, name: str, experiment: Experiment, facts: Facts) -> Process:
    """The process of a server, with what follows from the name of its kind."""
    kind = STARTED[name]
    refusal, late = kind.refusal(facts.version(name, one.host)), "raise server.ready_s"
    timeout_s = experiment.server.ready_s
    return dataclasses.replace(
        one,
        ready=dataclasses.replace(one.ready, timeout_s=timeout_s, late_hint=late, refusal=refusal),
        stop=Stop("SIGTERM", 10.0),
        complaints=kind.complaints,
        events=kind.events,
        title=f"starting {one.role} on {one.host}",
        essential=True,
        reason=REASON,
    )


def _ready(experiment: Experiment, facts: Facts, name: str, hint: str) -> Ready:
    """When the server, or the front of this name, answers for its zone where it is asked."""
    behind = experiment.has_proxy and name == experiment.server.kind
    ports = experiment.ports_by_transport
    near = behind or experiment.rtt is not None  # answers to clients are late
    return Ready(
        "dns",
        ports={name: port for name, port in ports.items() if not (behind and TRANSPORTS[name].tls)},
        addresses=(network.BEHIND,) if behind else asked(experiment),
        origin=facts.origin,
        source=network.SERVER if near else network.client(1),
        hint=hint,
    )


def _proxy(experiment: Experiment, facts: Facts) -> Process:
    server, kind = experiment.server, KINDS[experiment.server.front]
    lines = experiment.front is not None and experiment.front.config is not None
    config = _config(kind)
    argv = command(kind, facts, config, server.processes)
    ready = _ready(experiment, facts, server.front, "correct front.config" if lines else "")
    made = Process(
        front.ROLE, front.ROLE, network.SERVER, argv, files=(config,), after=("server",), ready=ready
    )
    return serving(made, server.front, experiment, facts)


def _server(experiment: Experiment, facts: Facts) -> Process:
    server, kind = experiment.server, STARTED[experiment.server.kind]
    env: dict[str, str] = {}
    if server.command is None:
        argv = command(kind, facts, _config(kind), server.processes)
        hint = "correct server.config" if server.config else ""
    else:
        env = dict.fromkeys(("HOME", "TMPDIR"), f"{RUN}/server")
        given = {
            "port": str(server.port),
            "zone": zone_path(experiment),
            "address": network.BEHIND if experiment.has_proxy else network.SERVICE_V4,
            "address6": network.BEHIND6 if experiment.has_proxy else network.SERVICE_V6,
            "origin": facts.origin,
            "folder": f"{RUN}/server",
        }
        argv = (facts.programs[kind.program], *command_arguments(server.command, given))
        hint = f"correct server.command, which has to serve {facts.origin} over UDP and TCP"
    read = (*(one.path for one in files(experiment, facts)), zone_path(experiment))
    ready = _ready(experiment, facts, server.kind, hint)
    made = Process("server", "server", network.SERVER, argv, env, read, ready=ready)
    return serving(made, server.kind, experiment, facts)


def conditions(host: str, facts: Facts, config: str = "", kind: str = "", pid: int = 0) -> Process:
    """Writes down what the process named HOST runs with once it is ready; `pid`: one that is none of ours."""
    own, out = KINDS.get(kind), f"{RESULTS}/conditions-{host}.json"
    given = {"pid": pid or f"@pid:{host}@", "out": out, "kind": kind, "config": config}
    program = program_of(own, facts) if own and own.shows else ""
    argv = facts.call("cli.servers.conditions.write", **given, program=program)
    title = f"reading the settings of {host}"
    return once(f"conditions-{host}", "conditions", host, argv, facts, title, after=(host,))


def once(
    ident: str, role: str, host: str, argv: tuple[str, ...], facts: Facts, title: str, **more: Any
) -> Process:
    """A call of ours on a host that is over before the next process starts; `more`: of the process."""
    more = {"ready": Ready("exit"), **more}
    return Process(ident, role, host, argv, facts.module_env, title=title, ends=(0,), **more)


def watcher(host: str, function: str, facts: Facts, **given: Any) -> Process:
    """Writes down each second what the server of a host has counted itself."""
    argv = facts.call(function, **given)
    ready = Ready("log", text="watching")
    stop = Stop("SIGTERM", 30.0)  # it may be reading, and reads once more
    return Process(f"watch-{host}", "count", host, argv, facts.module_env, ready=ready, stop=stop)


def sampler(host: str, watched: Mapping[str, str], experiment: Experiment, facts: Facts) -> Process:
    """Samples a host and process trees (names, and the ids of their processes in the plan) into HOST.csv."""
    # Clients' ends of connections may be on the server's host, too.
    ports = experiment.ports if host == network.SERVER and experiment.has_proxy else ()
    by_proxy = experiment.emulated is not None and experiment.emulated.data_path == "tun"
    tunnels = {hierarchy_hosts.TUN: by_proxy, delay.TUN: experiment.rtt is not None}  # packets pass twice
    options = flags(
        process=[f"{name}=@pid:{process}@" for name, process in watched.items()],
        hz=experiment.sample.hz,
        skip_interface=(*(one for one, used in tunnels.items() if used), *front.tunnels(experiment)),
        packet_work=host == network.SERVER,
        tcp_port=ports,
    )
    argv = (facts.programs["reprise-sampler"], *options, "-o", f"{RESULTS}/{host}.csv")
    ident = "sampler" if host == network.SERVER else f"sampler-{host}"
    return Process(ident, "sampler", host, argv, after=tuple(watched.values()), ready=_SAMPLES)


def _watchers(experiment: Experiment, facts: Facts) -> Iterator[Process]:
    """Sample a server that runs beside the testbed, in the same network, and write down what it runs with.

    As all share a network, its connections are told from the clients' by their port. A run has a PID
    namespace, and a /proc of it over the machine's, which does not show a server outside: for these processes
    alone the upper one is taken away.
    """
    watched, ports = f"server={facts.process}", experiment.ports
    options = flags(process=watched, hz=experiment.sample.hz, tcp_port=ports)
    argv = (facts.programs["reprise-sampler"], *options, "-o", f"{RESULTS}/server.csv")
    sampling = Process("sampler", "sampler", network.SERVER, argv, ready=_SAMPLES)
    for one in (conditions(network.SERVER, facts, pid=facts.process), sampling):
        outside = ("unshare", "--mount", *shell('umount -l /proc && exec "$@"', *one.argv))
        yield dataclasses.replace(one, argv=outside, after=())


def capture(experiment: Experiment, facts: Facts, management: Management | None) -> Process:
    """Packets of the service at the server's host; what a resolver or a front asks has other addresses."""
    interface = "data1" if experiment.topology.clients == 1 else "any"
    ports = " or ".join(f"port {port}" for port in experiment.ports)
    hosts = " or ".join(f"host {address}" for address in addresses(experiment))
    wanted = f"({ports} or {FRAGMENTS}) and ({hosts})"
    return tcpdump(facts, management, "capture", network.SERVER, interface, wanted)


def tcpdump(
    facts: Facts, management: Management | None, ident: str, host: str, interface: str, wanted: str
) -> Process:
    """A capture at an interface of the plan, or at that of the host's machine; the server's begins when that
    is ready.
    """
    interface = (management.interfaces if management else {}).get(host, interface)
    # Into a new file of root's: one that exists already is refused.
    argv = shell(
        'set -C; to=$1; shift; exec "$@" > "$to"',
        f"{RESULTS}/{ident}.pcap",
        *(facts.programs["tcpdump"], "-i", interface, "-n", "-s", "0", "-B", "65536", "-Z", "root"),
        *("--time-stamp-precision=nano", "-w", "-", wanted),
    )
    after = ("server",) if host == network.SERVER else ()
    ready, stop = Ready("log", text="listening on"), Stop("SIGINT", 10.0, settle_s=_CAPTURE_SETTLE_S)
    return Process(ident, "capture", host, argv, after=after, ready=ready, stop=stop)
