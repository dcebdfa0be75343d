"""The front of an experiment: what answers the clients' TCP in place of the server's kernel.

One `reprise-proxy stateless` serves each interface of the server's host that faces clients, or in user space
all of them. It starts when the server answers and before any client does, and puts back at its end what it
changed on the host.
"""

from cli.experiment.experiment import keys_of
from cli.experiment.schema import Experiment, Front
from cli.plan import network
from cli.plan.planned import RESULTS, Facts, HostStep, Management, Process, Ready, Stop
from cli.programs import flags

ROLE = "front"
_TUN = "stateless0"


def processes(experiment: Experiment, facts: Facts, management: Management | None) -> tuple[Process, ...]:
    """The fronts; none where the kernel's TCP answers clients."""
    if not experiment.has_front:
        return ()
    served = _served(experiment, management)
    return tuple(_front(experiment, facts, one, len(served)) for one in served)


def setup(experiment: Experiment, facts: Facts, management: Management | None = None) -> tuple[HostStep, ...]:
    """On a host that outlives the run: what a killed front leaves there is undone with all other changes."""
    if not experiment.has_front or management is None:
        return ()
    return tuple(
        HostStep(f"{ROLE}-{one[0]}", network.SERVER, (), ((*_program(experiment, facts, one), "--undo"),))
        for one in _served(experiment, management)
    )


def tunnels(experiment: Experiment) -> tuple[str, ...]:
    """Devices through which packets pass the server's host a second time."""
    return (_TUN,) if experiment.server.front == "reference" else ()


def _served(experiment: Experiment, management: Management | None) -> tuple[tuple[str, ...], ...]:
    """Those of the server's host that face clients, by the front that serves them: a machine has one for all
    clients.
    """
    own = management.interfaces.get(network.SERVER) if management else None
    links = tuple(f"data{index}" for index in range(1, experiment.topology.clients + 1))
    faces = (own,) if own is not None else links
    return (faces,) if experiment.server.front == "reference" else tuple((one,) for one in faces)


def _front(experiment: Experiment, facts: Facts, interfaces: tuple[str, ...], fronts: int) -> Process:
    ident = ROLE if fronts == 1 else f"{ROLE}-{interfaces[0]}"
    own = flags(port=experiment.server.port, stats=f"{RESULTS}/{ident}.json")
    argv = (*_program(experiment, facts, interfaces), *own, *options(experiment))
    return Process(
        ident,
        ROLE,
        network.SERVER,
        argv,
        after=("server",),
        ready=Ready("log", text="event=ready"),
        stop=Stop("SIGTERM", 10.0),
        title=f"starting {ROLE} on {network.SERVER}",
        essential=True,
        keys=keys_of("front", "server"),
    )


def _program(experiment: Experiment, facts: Facts, interfaces: tuple[str, ...]) -> tuple[str, ...]:
    words = flags(front=experiment.server.front, interface=interfaces)
    return (facts.programs["reprise-proxy"], "stateless", *words)


def options(experiment: Experiment) -> tuple[str, ...]:
    """Timeout, entries and log level are always given; the rest is the program's where not set."""
    given, reference = experiment.front or Front(), experiment.server.front == "reference"
    return flags(
        tun=_TUN if reference else None,
        active=1 if reference else None,
        timeout_ms=given.timeout_ms,
        early_ack=given.early_ack,
        no_early_ack=given.early_ack is False,
        axfr_detect=None if given.axfr_detect is None else int(given.axfr_detect),
        loglevel=given.loglevel,
        fin_last=given.fin_last,
        no_promote=not given.promote,
        entries=None if reference else given.entries,
        truncate_udp=given.truncate_udp or None,
        timed=given.timed,
    )
