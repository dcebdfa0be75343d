"""Faults of an experiment as a timetable: [[fault]].

Packets are lost where a way ends, see cli/servers/nftables.py: what is lost there has been sent as usual, and
came nowhere. All rules are loaded with the hosts' set-up and are in force for the time of their fault, which
the kernel ends. A server stands still while its processes are stopped. One that is to be started again runs
below a shell that keeps its number: who watches the tree of its processes sees it end and come back.
"""

import dataclasses
import math
from collections.abc import Iterator

from cli.errors import want
from cli.experiment import schema
from cli.experiment.addresses import META4, META6
from cli.experiment.fault_rules import bytes_of, effects, size_of
from cli.experiment.schema import Experiment
from cli.plan import hierarchy_hosts, network, server_plan
from cli.plan.network import Network
from cli.plan.planned import RUN, Fault, File, HostStep, Management, Process, shell
from cli.servers import nftables
from cli.servers.kinds import STARTED

_FILE = f"{RUN}/faults-{{}}.nft"  # of a host
# A limited rate lets so much through in each window, which is a whole number of any kernel's ticks.
_TICKS_MS, _LEAST_TICKS, _LEAST_BYTES = 20, 3, 3_000
_SUPERVISE = (
    "trap 'wanted=1 go=; kill -TERM $pid' URG; trap go=1 WINCH; trap 'over=1; kill -TERM $pid' TERM; "
    'while :; do wanted= go=1; trap "" HUP USR1 USR2; "$@" & pid=$!; '
    'for one in HUP USR1 USR2; do trap "kill -$one \\$pid 2> /dev/null" $one; done; '
    "while wait $pid; status=$?; kill -0 $pid 2> /dev/null; do :; done; "
    'test -n "$wanted" -a -z "$over" || exit $status; '
    'until test -n "$go$over"; do sleep 0.02; done; test -z "$over" || exit 0; done'
)
Hosts = dict[str, tuple[list[str], list[nftables.Lossy]]]


def supervised(one: Process, experiment: Experiment) -> Process:
    """The server so that it can be started again where that is wanted: SIGURG ends it, and SIGWINCH lets it
    start again (of two that come at once a shell sees the lower number first). It gets the signals for which
    servers have a use, once it takes them.
    """
    wanted = one.role == "server" and any(each.restart for each in experiment.fault)
    return dataclasses.replace(one, argv=shell(_SUPERVISE, *one.argv)) if wanted else one


def files(hosts: Hosts) -> tuple[File, ...]:
    return tuple(File(_FILE.format(host), nftables.faults_ruleset(*found)) for host, found in hosts.items())


def setup(hosts: Hosts) -> tuple[HostStep, ...]:
    drop = shell(hierarchy_hosts.drop_table(nftables.FAULTS, "netdev"))
    return tuple(HostStep(f"faults-{at}", at, (("nft", "-f", _FILE.format(at)),), (drop,)) for at in hosts)


def of(experiment: Experiment, hosts: Hosts) -> tuple[Fault, ...]:
    """The faults of an experiment, each with the commands that begin and end it."""
    kind = STARTED.get(experiment.server.kind)
    title = kind.title if kind else experiment.server.kind
    found = []
    for number, one in enumerate(experiment.fault, 1):
        what = f"fault {number}: {title} cannot be told to reload"
        want(not one.reload or (kind is not None and kind.reloads), what, "use restart")
        begin: tuple[HostStep, ...] = tuple(
            HostStep(f"fault-{number}-{host}", host, (nftables.fault_begin(f"fault{number}", one.for_),))
            for host, (_, ways) in hosts.items()
            if f"fault{number}" in {each.name for each in ways}
        )
        end: tuple[HostStep, ...] = ()
        if one.stall:
            begin, end = (_signals(experiment, number, word, group=True) for word in ("STOP", "CONT"))
        elif one.reload:
            begin = _signals(experiment, number, "HUP")
        elif one.restart:
            begin, end = (_signals(experiment, number, word) for word in ("URG", "WINCH"))
        replaces = one.reload or one.restart
        found.append(Fault(_text(one), one.at, one.for_, begin, end, replaces))
    return tuple(found)


def _text(one: schema.Fault) -> str:
    (what,) = effects(one)
    value = {"loss": f" {100 * (one.loss or 0):g} %", "drop": f" {one.drop}", "rate": f" {one.rate}"}
    way = f" ({one.direction})" if one.direction != "both" else ""
    which = " " + ", ".join(map(str, one.servers)) if one.servers else ""
    return f"{one.target}{which}: {what}{value.get(what, '')}{way}"


def _signals(experiment: Experiment, number: int, word: str, group: bool = False) -> tuple[HostStep, ...]:
    """A signal to the server, or to each resolver under test; to all processes of its `group`."""
    kill = ("kill", f"-{word}", "--")
    return tuple(
        HostStep(f"fault-{number}-{word.lower()}-{host}", host, ((*kill, f"{'-' * group}@pid:{host}@"),))
        for server, host in enumerate(network.servers(experiment.servers), 1)
        if _concerns(experiment.fault[number - 1], server)
    )


# --- ways that lose packets -------------------------------------------------------------------------------


def lossy(experiment: Experiment, net: Network, management: Management | None) -> Hosts:
    """Hosts where packets are lost, each with the devices by which they come."""
    found: Hosts = {}
    for host, devices, ends in _ends(experiment, net) if experiment.fault else ():
        own = management.interfaces.get(host) if management else None
        here = []
        for number, one in enumerate(experiment.fault, 1):
            chosen = [name for name, server in devices.items() if _concerns(one, server)]
            partly = chosen if len(chosen) < len(devices) else ()
            for target, direction, end, addresses in ends if chosen else ():
                if one.target == target and one.direction in ("both", direction):
                    what = f"fault {number}: packets of some resolvers cannot be told from others there"
                    want(not partly or own is None, what, "leave servers out")
                    name, window = f"fault{number}", _window_ms(one)
                    rules = _rules(one, name, window)
                    here.append(nftables.Lossy(name, end, addresses, rules, partly, window))
        if here:
            found[host] = ([own] if own is not None else list(devices), here)
    return found


_End = tuple[str, str, str, tuple[str, ...]]  # target, direction, and whose packets they are


def _ends(experiment: Experiment, net: Network) -> Iterator[tuple[str, dict[str, int], list[_End]]]:
    """The hosts at the ends of ways, servers first, their devices there with the number of the server at the
    way, and what comes by them.
    """
    service = server_plan.addresses(experiment)
    servers = {host: number for number, host in enumerate(network.servers(experiment.servers), 1)}
    clients = {network.client(index) for index in range(1, experiment.topology.clients + 1)}
    for host in sorted((one.name for one in net.hosts), key=lambda one: one not in servers):
        devices = {
            device: servers.get(host) or servers[other]
            for device, _, other, _ in net.ends(host)
            if other != host and (host in servers or other in servers)
        }
        ends: list[_End] = [("upstream", "queries", "daddr", (META4, META6))]
        if host in clients:
            ends = [("link", "answers", "saddr", service)]
        elif host in servers:
            own = hierarchy_hosts.upstream(servers[host])
            ends = [("link", "queries", "daddr", service), ("upstream", "answers", "daddr", own)]
        yield host, devices, ends


def _concerns(one: schema.Fault, server: int) -> bool:
    return not one.servers or server in one.servers


def _window_ms(one: schema.Fault) -> int:
    """0 for a fault without a rate."""
    least = _LEAST_BYTES * 1_000 / bytes_of(one.rate) if one.rate is not None else 0
    return _TICKS_MS * max(_LEAST_TICKS, math.ceil(least / _TICKS_MS)) if least else 0


def _rules(one: schema.Fault, name: str, window_ms: int) -> tuple[str, ...]:
    """What is lost, in the words of nftables. Its `limit` of bytes lets a second through at once; a quota of
    what has come in a window does not. All packets to a host have one type.
    """
    if one.loss is not None:
        return (f"numgen random mod 1000000 <= {round(one.loss * 1_000_000) - 1}",)
    if one.rate is not None:
        quota = round(bytes_of(one.rate) * window_ms / 1_000)
        return (f"add @{name}_came {{ meta pkttype quota over {quota} bytes }}",)
    size = size_of(one.drop or "")
    if size == 0:
        return ("ip frag-off & 0x3fff != 0", "exthdr frag exists")
    later = ("ip frag-off & 0x1fff != 0", "frag frag-off != 0")
    return (f"udp length > {size + 8}", *(f"meta l4proto udp {rule}" for rule in later))
