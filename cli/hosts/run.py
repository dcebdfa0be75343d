"""`reprise run --inventory`: an experiment's plan carried out on the machines of an Ansible inventory."""

import argparse
import dataclasses
import ipaddress
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cli import VERSION, run_name
from cli.errors import EXIT_FAILED, RepriseError, UsageError, complain, want
from cli.executor import preflight, sandbox
from cli.executor import run as local
from cli.executor.executor import Executor
from cli.executor.machine import Text
from cli.executor.outcome import Outcome
from cli.executor.preflight import Estimate
from cli.experiment import experiment as experiments
from cli.experiment.addresses import parsed
from cli.experiment.schema import Experiment
from cli.hosts import changes, inputs, results, share, source
from cli.hosts.inventory import Target, checked
from cli.hosts.remote import Agent, Greeting, RemoteMachine
from cli.plan import facts as machine
from cli.plan import guards, network
from cli.plan import plan as plans
from cli.plan.planned import Facts, Management, Plan
from cli.servers import running
from cli.servers.kind import release_in
from report import whole_file
from report.transports import PORTS

_TICK_S = 0.2


def carry_out(options: argparse.Namespace, targets: Sequence[Target]) -> int:
    """Runs an experiment to its results; 0 only when the run is clean."""
    experiment, given = experiments.read(options.experiment, options.set)
    preflight.check_files(experiment)
    run = run_name.new(experiment.name)
    with ExitStack() as held:
        with _agents(targets, run) as agents:
            _greet(agents, run)
            there = inputs.carry(experiment, targets)
            plan, expected = _plan(experiment, there, agents, run)
            plan = dataclasses.replace(plan, experiment=experiment, given=given)
            preflight.check_faults(experiment, expected)
            folder = local.make_folder(plan, expected, options.output)
            machines = _prepared(plan, agents, folder.partial)
            life = held.enter_context(_wishes())
            outcome = _carried_out(plan, machines, folder.partial, life)
        uncollected = _fetch(targets, plan, folder, life)
    found = {
        **local.manifest(plan, agents[0].said.host, outcome),
        "hosts": [
            {
                **one.agent.said.host,
                "machine": one.target.name,
                "hosts": one.target.hosts,
                "clock": one.agent.said.clock,
                "steal_s": one.steal_s,
            }
            for one in machines
        ],
        "uncollected": uncollected,
    }
    whole_file.write(folder.partial / "manifest.json", local.as_text(found))
    if uncollected and not local.has_records(folder.partial):
        local.print_error(found)
        return EXIT_FAILED
    return local.finish(folder, 0 if outcome.error is None else EXIT_FAILED)


@contextmanager
def _agents(targets: Sequence[Target], run: str) -> Iterator[list[Agent]]:
    agents: list[Agent] = []
    try:
        for target in targets:
            agents.append(Agent(target, run))
        yield agents
    finally:
        for agent in agents:
            agent.hang_up()
        for agent in agents:
            agent.close()


def _at_once(work: Callable[[Target], None], targets: Sequence[Target]) -> None:
    """On all machines at the same time; the first error is raised when all have ended."""
    with ThreadPoolExecutor(max(1, len(targets))) as pool:
        for done in [pool.submit(work, one) for one in targets]:
            done.result()


def _greet(agents: Sequence[Agent], run: str) -> None:
    """Has the machines say what they are; none of them is another run's, and all have one version."""
    for agent in agents:
        agent.send("hello")
    for agent in agents:
        agent.said = checked(agent.target.name, agent.receive(), Greeting)
    own = source.checksum()
    for agent in agents:
        name, said = agent.target.name, agent.said
        if said.version != VERSION:
            what = f"{name} has Reprise {said.version}, and this machine has {VERSION}"
            raise UsageError(what, "install the same version on all, see docs/testbeds.md")
        if said.source != own:
            what = f"{name} has Reprise {VERSION}, but not with the same files as this machine"
            raise UsageError(what, "run it without --no-deploy")
    for agent in agents:
        agent.keep_awake()
    for agent in agents:
        for left in agent.ask("lock", list[Text], run=run):
            complain(f"reprise: {agent.target.name}: cleaned up after run {left}, which did not end properly")


def _plan(
    experiment: Experiment, there: Experiment, agents: Sequence[Agent], run: str
) -> tuple[Plan, Estimate]:
    """The plan of the experiment `there`, whose files are where the hosts have them, and what it comes to."""
    home = agents[0]
    said: Facts = home.ask("facts", Facts, experiment=experiments.as_dict(there), run=run)
    facts = machine.checked(said, experiment, run, home.target.root)
    _check_sources(experiment, agents)
    kinds = machine.kinds(experiment)
    clients = [network.client(index) for index in range(1, experiment.topology.clients + 1)]
    interfaces: dict[str, str] = {}
    for host, agent in ((host, one) for one in agents for host in one.target.hosts):
        facts.cores_of[host] = agent.said.cores
        interfaces[host] = agent.target.interface(agent.said.interfaces)
        if host not in (network.CONTROLLER, *clients):
            found = agent.ask("versions", dict[str, Text], kinds=kinds)
            facts.versions_of[host] = {kind: release_in(found.get(kind, "")) for kind in kinds}
            _check_server(agent, interfaces[host])
    management = Management(_prefixes(agents), interfaces=interfaces)
    expected = preflight.check_values(plans.make(experiment, facts, management))  # here, with our files
    return plans.make(there, facts, management), expected


def _check_sources(experiment: Experiment, agents: Sequence[Agent]) -> None:
    """Addresses of sources are routed to clients: those of the hosts cannot lie among them."""
    prefixes = [ipaddress.ip_network(text) for text in guards.sources(experiment)]
    for agent, address in ((one, address) for one in agents for address in one.said.interfaces):
        inside = next((each for each in prefixes if ipaddress.ip_address(address) in each), None)
        want(
            inside is None,
            f"{agent.target.name} has the address {address}, and sources get addresses out of {inside}",
            'give the hosts others, such as 172.16.0.0/12, or use replay.source_mode = "ports"',
        )


def _check_server(agent: Agent, interface: str) -> None:
    """A server needs its ports, and those of packages listen at all addresses, also at new ones. Nothing on
    its interface answers or drops packets in its place.
    """
    name, used = agent.target.name, agent.said.dns_ports
    services = [one for one in used if one.endswith(".service")]
    want(
        not used,
        f"{name}: port {' or '.join(map(str, PORTS))} is in use by {', '.join(used)}",
        "stop it there" + (f": systemctl disable --now {shlex.join(services)}" if services else ""),
    )
    for what, hint in agent.ask("leftovers", list[tuple[Text, Text]], interface=interface):
        raise RepriseError(f"{name}: {what}", hint)


def _prefixes(agents: Sequence[Agent]) -> tuple[str, ...]:
    """The networks that guards let the machines' operator in from: those of the inventory, and the addresses
    from which the agents were started.
    """
    found: list[str] = []
    for target, address in ((one.target, one.said.operator) for one in agents):
        given = target.variables.get("reprise_management", [])
        found += [str(text) for text in ([given] if isinstance(given, str) else given)]
        found += [_single(target.name, address.partition("%")[0])] if address else []
        if not (target.local or address or given):
            what = f"{target.name} does not say from where it is reached, and its guard would lock you out"
            raise UsageError(what, "set reprise_management in the inventory")
    return tuple(dict.fromkeys(found)) or ("127.0.0.1/32",)


def _single(machine: str, address: str) -> str:
    """The network of a single address, so that no host opens the others' guards further."""
    what = f"{machine} reports that it is reached from {address!r}, which is not an address"
    return str(ipaddress.ip_network(parsed(address, RepriseError(what, "look at that host"))))


def _prepared(plan: Plan, agents: Sequence[Agent], folder: Path) -> list[RemoteMachine]:
    """The machines, each with its part of the plan."""
    (folder / "logs").mkdir()
    mode = 0o600 if plan.private else 0o644
    whole_file.write(folder / "plan.json", local.as_text(plans.as_json(plan)), mode=mode)
    parts = (plan if one is agents[0] else share.part(plan, one.target.hosts) for one in agents)
    return [RemoteMachine(one, part, folder) for one, part in zip(agents, parts, strict=True)]


@contextmanager
def _wishes() -> Iterator[int]:
    """The end to read of a pipe that gets STOP for each signal to this command."""
    life, leash = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with sandbox.signals_forwarded(leash):
            yield life
    finally:
        os.close(life)
        os.close(leash)


def _carried_out(plan: Plan, machines: Sequence[RemoteMachine], folder: Path, life: int) -> Outcome:
    home, *others = (one.target for one in machines)

    def send() -> None:
        _at_once(lambda one: share.send(plan, home, one), others)

    of_host = {host: one for one in machines for host in one.target.hosts}
    executor = Executor(plan, machines[0], folder, life, of_host, send)
    return local.carried_out(executor, folder, changes.results(plan.run))


def _fetch(targets: Sequence[Target], plan: Plan, folder: local.Folder, life: int) -> dict[str, str]:
    """All results; they stay on the machines unless they have come from all of them. Returns whose results
    have not come, and why. A wish to stop ends the copying.
    """
    failed: dict[str, str] = {}

    def fetch(target: Target) -> None:
        try:
            results.fetch(target, plan.run, folder.partial, share.results(plan, target.hosts))
        except (RepriseError, OSError) as error:
            failed[target.name] = error.what if isinstance(error, RepriseError) else str(error)

    def forget(target: Target) -> None:
        subprocess.run(target.call("changes.forget", run=plan.run), check=False, capture_output=True)

    with ThreadPoolExecutor(len(targets)) as pool:
        copying = [pool.submit(fetch, one) for one in targets]
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
        _at_once(forget, targets)
    for name, what in failed.items():
        complain(
            f"reprise: results of {name} were not collected: {what}; playbooks/collect.yml does it later"
        )
    return failed
