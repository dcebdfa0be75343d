"""Delay lines of an experiment: [rtt], the path between its clients and its server.

The server's answers wait the whole round trip on the server's own host: a routing rule sends them into a TUN
device, `reprise-proxy delay` reads them there and writes them back when they are due, and the kernel forwards
them. Queries go straight, so that a client sees its query answered a round trip later and a TCP handshake
takes a round trip. Answers to the host itself never take that way (its table of local addresses comes first),
which is how the server is asked whether it is ready.

A front answers without a route, so before one the delay lines are on the clients' hosts: what comes there
from the service's ports goes into the device before the kernel takes it for its own, and waits the whole
round trip there.

A step may be carried out twice, and its undo leaves the host as it was.
"""

import os
from collections.abc import Iterable, Iterator

from cli.errors import RepriseError
from cli.experiment.schema import Experiment, Rtt
from cli.plan import host_settings, network, replay_options
from cli.plan.planned import RESULTS, Facts, Figure, HostStep, Management, Process, Ready, Step, Stop, shell
from cli.programs import flags

SOURCES = f"{RESULTS}/rtts.tsv"  # by = "source": the trace's round trips as a table
TUN = "reprise1"
_DEVICE = "/dev/net/tun"
TABLE = "53101"  # a number that no one else is likely to use
_PRIORITY = "85"  # before a resolver's rules, which send its answers straight to its clients
_RESTARTS = 3
# What the proxy writes back has a source of the host's own.
_TUN_SETTINGS = (f"net.ipv4.conf.{TUN}.accept_local=1", f"net.ipv4.conf.{TUN}.rp_filter=0")


def options(rtt: Rtt) -> tuple[str, ...]:
    """The delay options of reprise-proxy, for every subcommand."""
    table = SOURCES if rtt.by == "source" else rtt.table
    drawn = rtt.distribution or rtt.observed
    return flags(
        rtt_ms=None if rtt.rtt_ms is None else f"{rtt.rtt_ms:.15g}",
        table=table or None,
        distribution=drawn or None,
        jitter_ms=f"{rtt.jitter_ms:.15g}" if rtt.jitter_ms else None,
        loss_percent=f"{rtt.loss_percent:.15g}" if rtt.loss_percent else None,
        seed=rtt.seed if rtt.seed != 1 else None,
        realtime=rtt.realtime,
    )


def steps(experiment: Experiment, facts: Facts) -> list[Step]:
    """by = "source": the round trips of the sources of the trace that is played."""
    if experiment.rtt is None or experiment.rtt.by != "source":
        return []
    trace, ports = replay_options.played_path(experiment, facts), flags(port=experiment.replay.ports)
    rules = replay_options.rules(experiment, facts)
    table = ("-o", SOURCES, "--to", "rtts")
    argv = (facts.programs["reprise-mutator"], "mutate", trace, *table, *ports, *rules)
    return [Step("rtts", "taking the trace's round trips", argv)]


def setup(experiment: Experiment, management: Management | None = None) -> Iterator[HostStep]:
    """The way of the answers through the device: those of the host's own packets (they come from `lo` in the
    eyes of rules) that have the service's ports, or at a client those that come in.
    """
    routes = [(family, ("default", "dev", TUN)) for family in host_settings.FAMILIES]
    # The kernel forwards what the proxy writes back, and at a client also packets to its own addresses, for
    # which it must find no socket first.
    demux = ("net.ipv4.ip_early_demux=0",) if experiment.has_front else ()
    forward = (*host_settings.FORWARD, ("sysctl", "-q", "-w", "net.ipv4.conf.all.rp_filter=0", *demux))
    for host in _hosts(experiment) if experiment.rtt else ():
        priority, came = _PRIORITY, "lo"
        if experiment.has_front:
            priority, came = "1", (management.interfaces if management else {}).get(host, "data")
        rules = [(priority, "sport", port, TABLE) for port in experiment.ports]
        yield host_settings.settings(f"delay-forwarding-{host}", host, *forward)
        yield host_settings.tun(f"delay-tun-{host}", host, TUN, _TUN_SETTINGS, ("txqueuelen", "10000"))
        yield host_settings.routes(f"delay-table-{host}", host, TABLE, routes)
        yield host_settings.rules(f"delay-rules-{host}", host, came, rules)
        if experiment.has_front:
            yield _local_second(host)


def processes(experiment: Experiment, facts: Facts) -> tuple[Process, ...]:
    """The delay lines; they come before the servers, whose answers need them."""
    if experiment.rtt is None:
        return ()
    begin, end = (facts.programs["reprise-proxy"], "delay", "--tun", TUN), options(experiment.rtt)
    return tuple(
        proxy(f"delay-{host}", host, (*begin, "--stats", f"{RESULTS}/delay-{host}-@turn@.json", *end), facts)
        for host in _hosts(experiment)
    )


def check_device(device: str = _DEVICE) -> None:
    """Proxies of any kind need the kernel's TUN device."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        what = f"{device} may not be opened, and the proxies need it"
        raise RepriseError(what, f"run as root, or as root: chmod 666 {device}") from None
    except OSError as error:
        what = f"{device} cannot be opened: {error.strerror}"
        raise RepriseError(what, "load the kernel's module as root: modprobe tun") from None


def figures(processes: Iterable[Process]) -> tuple[Figure, ...]:
    """What proxies of any kind had to drop: a run that lost packets by itself is not clean."""
    return tuple(
        Figure(f"{one.id}-*.json", one.id, key, text, f"what {one.id} dropped could not be read")
        for one in processes
        if one.role == "proxy"
        for key, text in (
            ("packets.overflow", f"{one.id} dropped {{count}} packets: its delay line was full"),
            ("packets.unread", f"{one.id} dropped {{count}} packets that came faster than it could read"),
            ("packets.refused", f"{one.id} lost {{count}} packets that the kernel did not take back"),
        )
    )


def _hosts(experiment: Experiment) -> list[str]:
    """The hosts whose answers go to clients, or before a front the clients."""
    if experiment.has_front:
        return [network.client(index) for index in range(1, experiment.topology.clients + 1)]
    return network.servers(experiment.servers)


def proxy(ident: str, host: str, argv: tuple[str, ...], facts: Facts) -> Process:
    """A proxy of any kind, which is started again when it dies."""
    argv = (*argv, *flags(user=facts.user or None))  # once its device is open, which may be root's alone
    ready, stop = Ready("log", text="event=ready"), Stop("SIGTERM", 5.0)
    return Process(ident, "proxy", host, argv, ready=ready, stop=stop, restarts=_RESTARTS)


def _local_second(host: str) -> HostStep:
    """The kernel's first rule, for the host's own addresses, goes behind those with priority 1."""
    moved = (
        "ip {family} rule show pref {before} | grep -q local || exit 0; "
        "ip {family} rule add pref {to} lookup local && ip {family} rule del pref {before} lookup local"
    )
    apply, undo = (
        tuple(shell(moved.format(family=one, to=to, before=before)) for one in host_settings.FAMILIES)
        for to, before in (("2", "0"), ("0", "2"))
    )
    return HostStep(f"delay-local-{host}", host, apply, undo)
