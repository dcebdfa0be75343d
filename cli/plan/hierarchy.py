"""The server's side of a plan with server.kind = "hierarchy": resolvers under test, and the DNS behind them.

    client -> resolver -> (data path) -> meta-DNS-server
              server       rewriting     meta1, ...

A resolver sends its queries to real public addresses. What is for port 53 goes into the data path (TUN and a
proxy, or nftables) at its host and comes out at the meta address that stands for the address asked and the
resolver; answers go the same way back. Rules of routing send packets there by their ports, not by marks.
"""

from collections.abc import Iterator

from cli.experiment.experiment import keys_of
from cli.experiment.schema import Experiment, Hierarchy
from cli.plan import delay, hierarchy_hosts, network, replay_options, server_plan
from cli.plan.hierarchy_hosts import PLAN, SERVED, WORLD
from cli.plan.network import Network
from cli.plan.planned import (
    RESULTS,
    RUN,
    Facts,
    File,
    Folder,
    HostStep,
    Management,
    Process,
    Ready,
    Refused,
    Step,
    shell,
)
from cli.programs import flags
from cli.servers.kind import Site
from cli.servers.kinds import KINDS, users_lines
from cli.zones import zone_plan

_WARMED, _IDLE = Ready("exit", timeout_s=3_600.0), Ready("exit", timeout_s=90.0)
# Zones are loaded once and never change, so that arenas beside the first and freed pages kept for later only
# cost memory: with 10,000 zones the peak is 197 MiB instead of 204. Debian's BIND allocates by jemalloc,
# which reads this; other allocators do not.
_MALLOC = {"MALLOC_CONF": "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0"}
_SKIP = "hierarchy.skip_bad = true leaves them out"


def local(experiment: Experiment, base: Network, own_way_out: bool) -> Network:
    """The local topology with the hierarchy's hosts; real hosts have a way out of their own."""
    servers, metas = _resolvers(experiment), _metas(experiment)
    outside = [] if own_way_out else [host for _, host in metas]
    if not own_way_out and not experiment.replay.shows_trace_addresses:
        outside += [host for _, host, _ in servers]
    queue = experiment.server.tcp_listen_queue
    return hierarchy_hosts.hierarchy(base, len(servers), len(metas), queue, outside)


def _emulated(experiment: Experiment) -> Hierarchy:
    return experiment.emulated or Hierarchy()


def _resolvers(experiment: Experiment) -> list[tuple[int, str, str]]:
    """Number, host and kind of each resolver."""
    return [(n, network.server(n), kind) for n, kind in enumerate(_emulated(experiment).resolvers, 1)]


def _metas(experiment: Experiment) -> list[tuple[int, str]]:
    return [(n, hierarchy_hosts.meta(n)) for n in range(1, _emulated(experiment).instances + 1)]


def names(experiment: Experiment) -> str | None:
    """The names that a synthesized trace of a resolver's clients asks for, where it does not say itself."""
    synth, emulated = experiment.synth or {}, _emulated(experiment)
    wanted = synth.get("profile") == "recursive" and not synth.keys() & {"names", "unique_below"}
    made = emulated.zones is None and emulated.capture is None
    return f"{WORLD}/names.txt" if wanted and made else None


# --- before anything starts -------------------------------------------------------------------------------


def folders(experiment: Experiment, facts: Facts) -> Iterator[Folder]:
    """A folder for the zones and for the planner, for what root makes of its plan, and for each server, owned
    by the user that it drops to.
    """
    engine = facts.users.get(KINDS[_emulated(experiment).engine].program, "")
    yield from (Folder(name, "0750", facts.user, engine) for name in (PLAN, WORLD))
    yield Folder(SERVED)
    for _, host, kind in _resolvers(experiment):
        yield Folder(f"{RUN}/{host}", "0700", facts.users.get(KINDS[kind].program, ""))
    yield from (Folder(f"{RUN}/{host}", "0700", engine) for _, host in _metas(experiment))


def files(experiment: Experiment, facts: Facts) -> Iterator[File]:
    used = [KINDS[kind] for kind in (_emulated(experiment).engine, *_emulated(experiment).resolvers)]
    yield from server_plan.copies(used, facts)
    for number, host, kind in _resolvers(experiment):
        name, owner = f"resolver-{number}.conf", facts.users.get(KINDS[kind].program, "")
        site = Site(
            f"{RUN}/{host}",
            (),
            server_plan.addresses(experiment),
            owner,
            facts.descriptors,
            server_plan.tls_service(experiment, host),
            version=facts.version(kind, host),
            extra=facts.config_lines,
            upstream=hierarchy_hosts.upstream(number),
            hints=f"{SERVED}/root.hints",
            anchors=f"{SERVED}/root.key",
            bind_anchors=f"{SERVED}/root.anchors",
        )
        write = KINDS[kind].resolver
        assert write is not None, "the schema allows no other"
        text = write(experiment.server, _emulated(experiment), site)
        places = users_lines(name, text, facts.config_lines, "hierarchy.resolver_config")
        # The user's lines may have secrets.
        yield File(f"{RUN}/{name}", text, mode="0600", owner=owner, places=places)


def steps(experiment: Experiment, facts: Facts) -> Iterator[Step]:
    """Work before the hosts are set up: the zones, and the plan of who serves them."""
    emulated, numbers = _emulated(experiment), [number for number, _, _ in _resolvers(experiment)]
    options = flags(
        engine=emulated.engine,
        form=emulated.form,
        instances=emulated.instances,
        resolver=[",".join(hierarchy_hosts.upstream(number)) for number in numbers],
        reserved=network.own_prefixes(experiment.topology.clients, hierarchy=True),
        skip_bad=emulated.skip_bad,
        refuse_signatures=_refused_signatures(emulated),
        need_root=True,
        warnings=f"{PLAN}/warnings.txt",
    )
    built = (f"{WORLD}/build.json",) if emulated.capture is not None else ()
    kept = (f"{PLAN}/map.tsv", f"{PLAN}/plan.json", *built)
    keep = shell('to=$1; shift; mkdir -p "$to" && cp "$@" "$to"', f"{RESULTS}/zones", *kept)
    yield _bring_zones(emulated, facts)
    planning = facts.module("cli", "zones", "plan", WORLD, "-o", PLAN, *options)
    env, keys = server_plan.builder_env(facts), keys_of("hierarchy")
    yield Step("plan", "planning the hierarchy", planning, env, keys=keys, warnings=f"{PLAN}/warnings.txt")
    yield facts.step(
        "serve",
        "configuring the hierarchy",
        "cli.zones.zones.serve",
        zones=WORLD,
        made=PLAN,
        out=SERVED,
        engine=emulated.engine,
        edns_size=emulated.edns_size,
        minimal=emulated.minimal_responses,
        folder=f"{RUN}/meta{{}}",
        user=facts.users.get(KINDS[emulated.engine].program, ""),
        descriptors=facts.descriptors,
        versions=[facts.version(emulated.engine, host) for _, host in _metas(experiment)],
        hops=[
            (number, instance, *hierarchy_hosts.link_addresses(number, instance, emulated.instances)[1])
            for number in numbers
            for instance, _ in _metas(experiment)
        ],
    )
    yield Step("keep", "keeping the plan", keep)


def _bring_zones(emulated: Hierarchy, facts: Facts) -> Step:
    if emulated.zones is not None:
        given = {"source": emulated.zones, "target": WORLD}
        return facts.step("zones", "copying the zones", "cli.zones.zone_folder.copy", **given)
    if emulated.capture is not None:
        warnings = f"{WORLD}/warnings.txt"
        options = flags(dnssec=emulated.dnssec, warnings=warnings, skip_bad=emulated.skip_bad)
        argv = facts.module("cli", "zones", "build", emulated.capture, "-o", WORLD, *options)
        env, keys = server_plan.builder_env(facts), ("hierarchy.skip_bad",)
        return Step("build", "building the zones", argv, env, keys=keys, warnings=warnings)
    synth = emulated.synth
    assert synth is not None, "the rules want zones"
    options = flags(zones=synth.zones, seed=synth.seed, signed=synth.signed)
    argv = facts.module("cli", "zones", "synth", "-o", WORLD, *options)
    return Step("zones", "making the zones", argv, facts.module_env)


def _refused_signatures(emulated: Hierarchy) -> tuple[str, ...]:
    """States of signatures with which nobody would get an answer. unbound looks at no dates where it accepts
    expired ones.
    """
    if not emulated.validate or emulated.expired_signatures == "keep":
        return ()
    if emulated.expired_signatures == "refuse":
        return zone_plan.UNSOUND
    return ("missing", *(("early",) if any(KINDS[kind].sees_early for kind in emulated.resolvers) else ()))


def counts(experiment: Experiment, facts: Facts, name: str, when: str = "") -> Iterator[HostStep]:
    """What is read off the hosts before the replay and at its end, at moments within those of the hosts'
    counters; `name` is that of the moment, and `when` in the files'.
    """
    env = ("env", *(f"{key}={value}" for key, value in facts.module_env.items()))
    for number, host, kind in _resolvers(experiment) if experiment.emulated else ():
        told = {"out": f"{RESULTS}/resolver-{host}{when}.json"}
        told |= {"first": f"{RESULTS}/resolver-{network.SERVER}{when}.json"} if number > 1 else {}
        argv = facts.call("cli.servers.counted.write", **_of_resolver(experiment, host, kind), **told)
        yield HostStep(f"count-{host}-{name}", host, ((*env, *argv),))


def _of_resolver(experiment: Experiment, host: str, kind: str) -> dict[str, str]:
    proxied = _emulated(experiment).data_path != "nft"
    path = {"proxies": RESULTS, "prefix": f"proxy-{host}-"} if proxied else {}
    return {"kind": kind, "folder": f"{RUN}/{host}", **path}


# --- processes --------------------------------------------------------------------------------------------


def processes(experiment: Experiment, facts: Facts, management: Management | None) -> Iterator[Process]:
    """From the far end: meta-DNS-servers, proxies, resolvers, what watches them, what fills their caches."""
    emulated, resolvers, metas = _emulated(experiment), _resolvers(experiment), _metas(experiment)
    yield from (_meta(experiment, facts, *one) for one in metas)
    if emulated.data_path == "tun":
        yield from (_proxy(experiment, facts, "meta", *one) for one in metas)
        yield from (_proxy(experiment, facts, "resolver", number, host) for number, host, _ in resolvers)
    if experiment.sample.capture:  # on the link to the first resolver, from its first query
        link, wanted = hierarchy_hosts.resolver_link(1), f"port 53 or {server_plan.FRAGMENTS}"
        host = hierarchy_hosts.meta(1)
        yield server_plan.tcpdump(facts, management, "capture-meta", host, link, wanted)
    yield from (_resolver(experiment, facts, *one) for one in resolvers)
    hosts = [*(host for _, host, _ in resolvers), *(host for _, host in metas)]
    yield from (server_plan.sampler(host, {host: host}, experiment, facts) for host in hosts)
    for number, host, kind in resolvers:
        yield server_plan.conditions(host, facts, f"{RUN}/resolver-{number}.conf", kind)
        of = _of_resolver(experiment, host, kind)
        out = f"{RESULTS}/resolver-{host}.csv"
        yield server_plan.watcher(host, "cli.servers.counted.watch_resolver", facts, **of, out=out)
    if experiment.sample.capture:
        yield server_plan.capture(experiment, facts, management)
    for number, host, _ in resolvers if emulated.cache == "warm" else ():
        argv = facts.call(
            "cli.plan.warm.warm",
            mutator=facts.programs["reprise-mutator"],
            trace=replay_options.played_path(experiment, facts),
            server=network.SERVICE_V4,
            ports=experiment.replay.ports,
            rules=replay_options.rules(experiment, facts),
        )
        title, client = f"filling the cache of the resolver on {host}", network.client(number)
        yield server_plan.once(f"warm-{host}", "warm", client, argv, facts, title, ready=_WARMED)
    for _, host, kind in resolvers:
        argv = facts.call("cli.servers.counted.await_idle", kind=kind, folder=f"{RUN}/{host}")
        title = f"waiting until the resolver on {host} has nothing to do"
        yield server_plan.once(f"idle-{host}", "count", host, argv, facts, title, ready=_IDLE)


def _meta(experiment: Experiment, facts: Facts, number: int, host: str) -> Process:
    emulated = _emulated(experiment)
    kind = KINDS[emulated.engine]
    if emulated.engine == "bind":
        config, started, env = f"{SERVED}/named-{number}.conf", " running\n", _MALLOC
        argv = server_plan.command(kind, facts, config, 1)
    else:
        config, started, env = f"{SERVED}/nsd-{number}.list", "event=ready", dict(facts.module_env)
        argv = facts.call("cli.servers.slots.serve", nsd=facts.programs["nsd"], listed=config)
        argv = kind.checked(argv, config, listed=True)
    refused = Refused(kind.refused, "zone{s} did not load", "" if emulated.skip_bad else _SKIP)
    ready, files = Ready("log", started, refused=refused), (config,) if emulated.engine == "bind" else ()
    made = Process(host, "meta", host, argv, env, files, ready=ready)
    return server_plan.serving(made, emulated.engine, experiment, facts)


def _proxy(experiment: Experiment, facts: Facts, side: str, number: int, host: str) -> Process:
    emulated = _emulated(experiment)
    options = flags(
        tun=hierarchy_hosts.TUN,
        map=f"{SERVED}/map.tsv",
        resolver=number if side == "resolver" else None,
        stats=f"{RESULTS}/proxy-{host}-@turn@.json",
    )
    late = delay.options(emulated.rtt) if emulated.rtt else ()
    argv = (facts.programs["reprise-proxy"], side, *options, *late)
    return delay.proxy(f"proxy-{host}", host, argv, facts)


def _resolver(experiment: Experiment, facts: Facts, number: int, host: str, kind: str) -> Process:
    emulated, server = _emulated(experiment), KINDS[kind]
    config = f"{RUN}/resolver-{number}.conf"
    argv = server_plan.command(server, facts, config, experiment.server.processes, f"{RUN}/{host}")
    ready = Ready(
        "answers",
        ports=experiment.ports_by_transport,
        addresses=server_plan.addresses(experiment),
        origin=".",
        hint="correct hierarchy.resolver_config" if emulated.resolver_config else "",
        # Answers to clients are late, and a client's way to a peer leads to another resolver.
        source=host if experiment.rtt or experiment.replay.peers else network.client(number),
    )
    made = Process(host, "server", host, argv, files=(config,), ready=ready)
    return server_plan.serving(made, kind, experiment, facts)
