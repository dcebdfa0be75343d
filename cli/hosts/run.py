"""`reprise run --inventory`: an experiment's plan carried out on the machines of an Ansible inventory."""

import argparse
import dataclasses
import ipaddress
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from cli import VERSION, run_name
from cli.errors import EXIT_FAILED, SIGNALS, RepriseError, complain, want
from cli.executor import preflight
from cli.executor import run as local
from cli.executor.executor import Executor
from cli.executor.machine import Text
from cli.executor.outcome import Outcome
from cli.executor.preflight import Estimate
from cli.executor.sandbox import STOP
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment
from cli.hosts import changes, inputs, inventory, results, share, source
from cli.hosts.inventory import Placement, Target
from cli.hosts.remote import Agent, RemoteMachine
from cli.plan import facts as machine
from cli.plan import guards, network
from cli.plan import plan as plans
from cli.plan.planned import Facts, Management, Plan
from cli.servers import running
from cli.servers.kind import release_in
from report import whole_file
from report.transports import PORTS

_TICK_S = 0.2
_Address = Annotated[str, AfterValidator(lambda text: str(ipaddress.ip_address(text)))]


@dataclasses.dataclass(frozen=True)
class Greeting:
    """What the agent's `hello` reports about a machine."""

    version: str
    source: str
    commit: str | None
    cores: int
    operator: str
    interfaces: dict[_Address, str]
    dns_ports: list[str]
    clock: dict[str, Any]
    host: dict[str, Any]


def carry_out(options: argparse.Namespace, placement: Placement) -> int:
    """Runs an experiment to its results; 0 only when the run is clean."""
    experiment, given = experiments.read(options.experiment, options.set)
    preflight.check_files(experiment)
    run = run_name.new(experiment.name)
    with ExitStack() as held:
        with _agents(placement, run) as agents:
            hosts = _greet(agents, run)
            there = inputs.carry(experiment, placement)
            plan, expected = _plan(experiment, there, placement, agents, hosts, run)
            plan = dataclasses.replace(plan, given=given)
            preflight.check_faults(experiment, expected)
            preflight.want_room(expected, options.output)
            for warning in plan.warnings:
                complain(f"reprise: warning: {warning}")
            folder = local.make_folder(options.output, plan.run)
            preflight.tell_estimate(expected, options.output)
            machines = _prepared(plan, placement, agents, folder.partial)
            life = held.enter_context(_wishes())
            outcome = _carried_out(plan, placement, machines, folder.partial, life)
        uncollected = _fetch(placement, plan, folder, life)
    own = hosts[placement.home.name].host
    found = {
        **local.manifest(plan, own, outcome),
        "hosts": [
            {
                **hosts[name].host,
                "machine": name,
                "hosts": list(placement.hosts_of(target)),
                "clock": hosts[name].clock,
                "steal_s": machines[name].steal_s,
            }
            for name, target in placement.machines().items()
        ],
        "uncollected": uncollected,
    }
    whole_file.write(folder.partial / "manifest.json", local.as_text(found))
    if uncollected and not local.has_records(folder.partial):
        local.print_error(found)
        return EXIT_FAILED
    return local.finish(folder, 0 if outcome.error is None else EXIT_FAILED)


@contextmanager
def _agents(placement: Placement, run: str) -> Iterator[dict[str, Agent]]:
    agents: dict[str, Agent] = {}
    try:
        for name, target in placement.machines().items():
            agents[name] = Agent(target, run)
        yield agents
    finally:
        for agent in agents.values():
            agent.hang_up()
        for agent in agents.values():
            agent.close()


def _at_once(work: Callable[[Target], None], targets: Iterable[Target]) -> None:
    """On all machines at the same time; the first error is raised when all have ended."""
    listed = list(targets)
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        for done in [pool.submit(work, one) for one in listed]:
            done.result()


def _greet(agents: Mapping[str, Agent], run: str) -> dict[str, Greeting]:
    """What the machines say of themselves; none of them is another run's, and all have one version."""
    for agent in agents.values():
        agent.send("hello")
    hosts: dict[str, Greeting] = {
        name: inventory.checked(name, agent.receive(), Greeting) for name, agent in agents.items()
    }
    own = source.checksum()
    for name, one in hosts.items():
        want(
            one.version == VERSION,
            f"{name} has Reprise {one.version}, and this machine has {VERSION}",
            "install the same version on all, see docs/testbeds.md",
        )
        want(
            one.source == own,
            f"{name} has Reprise {VERSION}, but not with the same files as this machine",
            "run it without --no-deploy",
        )
    for agent in agents.values():
        agent.keep_awake()
    for name, agent in agents.items():
        for left in agent.ask("lock", list[Text], run=run):
            complain(f"reprise: {name}: cleaned up after run {left}, which did not end properly")
    return hosts


def _plan(
    experiment: Experiment,
    there: Experiment,
    placement: Placement,
    agents: Mapping[str, Agent],
    hosts: Mapping[str, Greeting],
    run: str,
) -> tuple[Plan, Estimate]:
    """The plan of the experiment `there`, whose files are where the hosts have them, and what it comes to."""
    home = agents[placement.home.name]
    said: Facts = home.ask("facts", Facts, experiment=experiments.as_dict(there), run=run)
    facts = machine.checked(said, experiment, run, placement.home.root)
    for host, target in placement.targets.items():
        facts.cores_of[host] = hosts[target.name].cores
    kinds = machine.kinds(experiment)
    for host in _servers(placement):
        found = agents[placement.targets[host].name].ask("versions", dict[str, Text], kinds=kinds)
        facts.versions_of[host] = {kind: release_in(found.get(kind, "")) for kind in kinds}
    interfaces = {
        host: target.interface(hosts[target.name].interfaces) for host, target in placement.targets.items()
    }
    _check_sources(experiment, hosts)
    _check_servers(placement, agents, hosts, interfaces)
    management = Management(_prefixes(placement, hosts), interfaces=interfaces)
    ours = plans.make(experiment, facts, management)
    expected = preflight.check_values(ours)  # which is done here, with our files
    plan = dataclasses.replace(plans.make(there, facts, management), experiment=experiment)
    return plan, expected


def _check_sources(experiment: Experiment, hosts: Mapping[str, Greeting]) -> None:
    """Addresses of sources are routed to clients: those of the hosts cannot lie among them."""
    prefixes = [ipaddress.ip_network(text) for text in guards.sources(experiment)]
    for name, one in hosts.items():
        for address in one.interfaces:
            inside = next((each for each in prefixes if ipaddress.ip_address(address) in each), None)
            want(
                inside is None,
                f"{name} has the address {address}, and sources get addresses out of {inside}",
                'give the hosts others, such as 172.16.0.0/12, or use replay.source_mode = "ports"',
            )


def _check_servers(
    placement: Placement,
    agents: Mapping[str, Agent],
    hosts: Mapping[str, Greeting],
    interfaces: Mapping[str, str],
) -> None:
    """Servers need their ports, and those of packages listen at all addresses, also at new ones. Nothing on a
    server's interface answers or drops packets in its place.
    """
    for host in _servers(placement):
        name = placement.targets[host].name
        used = hosts[name].dns_ports
        services = [one for one in used if one.endswith(".service")]
        want(
            not used,
            f"{name}: port {' or '.join(map(str, PORTS))} is in use by {', '.join(used)}",
            "stop it there" + (f": systemctl disable --now {shlex.join(services)}" if services else ""),
        )
        left = agents[name].ask("leftovers", list[tuple[Text, Text]], interface=interfaces[host])
        for what, hint in left[:1]:
            raise RepriseError(f"{name}: {what}", hint)


def _servers(placement: Placement) -> list[str]:
    clients = {network.client(index) for index in range(1, len(placement.targets) + 1)}
    return [host for host in placement.targets if host != network.CONTROLLER and host not in clients]


def _prefixes(placement: Placement, hosts: Mapping[str, Greeting]) -> tuple[str, ...]:
    """The networks that guards let the machines' operator in from: those of the inventory, and the addresses
    from which the agents were started.
    """
    found: dict[str, None] = {}
    for name, target in placement.machines().items():
        given = target.variables.get("reprise_management", [])
        for text in [given] if isinstance(given, str) else given:
            found[str(text)] = None
        if address := hosts[name].operator:
            found[_single(name, address.partition("%")[0])] = None
        want(
            target.local or bool(address or given),
            f"{name} does not say from where it is reached, and its guard would lock you out",
            "set reprise_management in the inventory",
        )
    return tuple(found) or ("127.0.0.1/32",)


def _single(machine: str, address: str) -> str:
    """The network of a single address, so that no host opens the others' guards further."""
    try:
        return str(ipaddress.ip_network(ipaddress.ip_address(address)))
    except ValueError:
        what = f"{machine} reports that it is reached from {address!r}, which is not an address"
        raise RepriseError(what, "look at that host") from None


def _prepared(
    plan: Plan, placement: Placement, agents: Mapping[str, Agent], folder: Path
) -> dict[str, RemoteMachine]:
    """The machines by their names, each with its part of the plan."""
    (folder / "logs").mkdir()
    mode = 0o600 if plan.private else 0o644
    whole_file.write(folder / "plan.json", local.as_text(plans.as_json(plan)), mode=mode)
    machines = {}
    for name, target in placement.machines().items():
        own = plan if target == placement.home else share.part(plan, placement.hosts_of(target))
        machines[name] = RemoteMachine(agents[name], own, folder, placement.hosts_of(target))
    return machines


@contextmanager
def _wishes() -> Iterator[int]:
    """The end to read of a pipe that gets STOP for each signal to this command, which ends nothing else
    meanwhile.
    """
    life, leash = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {one: signal.signal(one, lambda _number, _frame: os.write(leash, STOP)) for one in SIGNALS}
    try:
        yield life
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(life)
        os.close(leash)


def _carried_out(
    plan: Plan, placement: Placement, machines: Mapping[str, RemoteMachine], folder: Path, life: int
) -> Outcome:
    home = placement.home

    def send() -> None:
        others = [one for one in placement.machines().values() if one != home]
        _at_once(lambda one: share.send(plan, home, one, placement.hosts_of(one)), others)

    others = {host: machines[target.name] for host, target in placement.targets.items()}
    executor = Executor(plan, machines[home.name], folder, life, others, send)
    return local.carried_out(executor, folder, changes.results(plan.run))


def _fetch(placement: Placement, plan: Plan, folder: local.Folder, life: int) -> dict[str, str]:
    """All results; they stay on the machines unless they have come from all of them. Returns whose results
    have not come, and why. A wish to stop ends the copying.
    """
    failed: dict[str, str] = {}
    machines = placement.machines().values()

    def fetch(target: Target) -> None:
        own = share.results(plan, placement.hosts_of(target))
        try:
            results.fetch(target, plan.run, folder.partial, own)
        except (RepriseError, OSError) as error:
            failed[target.name] = error.what if isinstance(error, RepriseError) else str(error)

    def forget(target: Target) -> None:
        subprocess.run(target.call("forget", run=plan.run), check=False, capture_output=True)

    with ThreadPoolExecutor(len(machines)) as pool:
        copying = [pool.submit(fetch, one) for one in machines]
        while wait(copying, _TICK_S).not_done:
            if select.select([life], [], [], 0)[0]:  # where the wish stays
                for child in [*running.tree(os.getpid())][1:]:  # what copies: nothing else runs any more
                    with suppress(OSError):  # it has ended, or is root's
                        os.kill(int(child.name), signal.SIGTERM)
    for one in copying:
        one.result()
    if select.select([life], [], [], 0)[0]:
        failed = dict.fromkeys(failed, "it was interrupted")
    if not failed:
        _at_once(forget, machines)
    for name, what in failed.items():
        complain(
            f"reprise: results of {name} were not collected: {what}; playbooks/collect.yml does it later"
        )
    return failed
