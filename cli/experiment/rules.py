"""Rules of an experiment that no type can say: choices, formats, and keys that need or exclude others.

The settings of a replay are checked by the controller (core/wire/settings.cc): before a run, with its plan.
"""

import ipaddress
import re
from typing import Any

from cli.errors import UsageError, exclude, want
from cli.experiment import addresses, fault_rules, hierarchy_rules, server_rules
from cli.experiment.schema import AUTHORITATIVE, SCHEMA, Experiment, Generate, Mutate
from report.errors import ReportError


def check(experiment: Experiment) -> None:
    server = experiment.server
    if experiment.schema != SCHEMA:
        raise UsageError(f"schema = {experiment.schema} is unknown", f"this version reads {SCHEMA}")
    want(
        any(one is not None for one in (experiment.trace, experiment.synth, experiment.generate)),
        "the experiment has neither a trace nor a [synth] or [generate] table",
        "add one of them",
    )
    if experiment.mutate is not None:
        _check_mutate(experiment.mutate)
        hint = "rules change traces: write the query to a text trace, and play that with replay.loop = 0"
        exclude("[mutate]", experiment.generate and "[generate]", hint=hint)
    here = experiment.topology.kind == "host" and 'topology.kind = "host"'
    own = experiment.own_server and f'server.kind = "{server.kind}"'
    exclude(here, own, hint='use server.kind = "address"')
    _check_expect(experiment.expect)
    _check_expect(experiment.search.expect if experiment.search else None)
    exclude(
        not experiment.own_server and 'server.kind = "address"',
        experiment.sample.capture and "sample.capture",
        hint="set sample.capture=false, and capture there by tcpdump",
    )
    server_rules.check_server(server)
    hierarchy_rules.check(experiment)
    _check_source_mode(experiment)
    _check_peers(experiment)
    if experiment.generate is not None:
        _check_generate(experiment, experiment.generate)
    server_rules.check_transport(experiment)
    server_rules.check_way(experiment)
    server_rules.check_front(experiment)
    fault_rules.check(experiment)


def _check_expect(expected: dict[str, Any] | None) -> None:
    if expected is None:
        return
    from report import expect  # noqa: PLC0415  (slow to import, and rarely needed)

    try:
        list(expect.limits(expected))
    except ReportError as error:
        raise UsageError(error.what, error.hint) from None


def _check_mutate(mutate: Mutate) -> None:
    """The rules themselves are checked by the programs that apply them."""
    if not mutate.rules and not mutate.rule:
        what = "[mutate] has no rule"
        raise UsageError(what, 'name a rule file (rules = "FILE") or add [[mutate.rule]] tables')
    for number, rule in enumerate(mutate.rule, 1):
        if not isinstance(rule.get("kind"), str):
            what = f"mutate.rule {number} has no kind"
            raise UsageError(what, 'write kind = "transport" or another kind of docs/rules.md')
        want(
            "key" not in rule or str(rule["key"]).startswith("@"),
            f"mutate.rule {number} holds a secret key, which would stand in the results",
            'write it to a file that only you may read, and give key = "@FILE"',
        )


def _check_source_mode(experiment: Experiment) -> None:
    mode, topology = experiment.replay.source_mode, experiment.topology
    if mode == "ports":
        return
    want(
        experiment.server.kind != "address",
        f'replay.source_mode = "{mode}" needs the local network, which a server at an address is not in',
        f'use server.kind = {AUTHORITATIVE}, or source_mode = "ports"',
    )
    if experiment.replay.shows_trace_addresses:
        want(
            topology.clients == 1,
            f'replay.source_mode = "{mode}" has one way back to the sources, and there are '
            f"{topology.clients} clients",
            'use source_mode = "mapped" or topology.clients = 1',
        )
    if mode == "packet" and topology.queriers > 1:
        what = f'replay.source_mode = "packet" takes one querier, not {topology.queriers}'
        raise UsageError(what, "leave topology.queriers out or set it to 1")


def _check_peers(experiment: Experiment) -> None:
    replay, server = experiment.replay, experiment.server
    command = server.kind == "command" and 'server.kind = "command"'
    hint = "the command line has one address of each family: leave out replay.peers and replay.hedge_ms"
    exclude(replay.peers and "replay.peers", command, hint=hint)
    others = experiment.servers - 1
    found = [peer(text)[0] for text in replay.peers]
    families = [one.version for one in found]
    most = max(families.count(4), families.count(6))
    want(
        others == 0 or len({*addresses.SERVICES, *map(str, found)}) == 2 + len(found),
        "replay.peers has an address twice, or that of the client's own resolver",
        "give each other resolver an address of its own",
    )
    if 0 < others < most:
        what = f"replay.peers has {most} addresses of one family for {others} other resolvers"
        raise UsageError(what, f"name {others} at most")
    for text in replay.peers:
        address, port = peer(text)
        if server.kind == "address":
            want(
                address.is_loopback and not experiment.elsewhere,
                f"replay.peers has {text}, and peers of a running server are on this machine's loopback",
                "give loopback addresses to both, or leave out replay.peers and replay.hedge_ms",
            )
            continue
        served = any(address in ipaddress.ip_network(one) for one in addresses.SERVICE_PREFIXES)
        want(
            served and port in (None, server.port),
            f"replay.peers has {text}, where the server cannot listen",
            f"use {addresses.SERVICE_PREFIXES[0]} or {addresses.SERVICE_PREFIXES[1]}, and no other port",
        )


def peer(text: str) -> tuple[addresses.Address, int | None]:
    """Address and port of ADDR, ADDR:PORT or [ADDR]:PORT."""
    match = re.fullmatch(r"\[([^]]+)\]:(\d+)|([\d.]+):(\d+)", text, re.ASCII)
    host, port = (match[1] or match[3], int(match[2] or match[4])) if match else (text, None)
    error = UsageError(f"replay.peers has {text!r}, which is not an address", "write ADDRESS or ADDRESS:PORT")
    return addresses.parsed(host, error), port


def _check_generate(experiment: Experiment, generate: Generate) -> None:
    replay = experiment.replay
    if experiment.trace is not None:
        raise UsageError("the experiment has a trace and a [generate] table", "leave one of them out")
    what, hint = "generate.name = '' is not a domain name", "give one, such as www.example.com"
    want(generate.name != "", what, hint)
    want(
        replay.rate > 0 or replay.fast or generate.source_rate > 0,
        "[generate] has no times of its own",
        "set replay.rate, generate.source_rate or replay.fast",
    )
    exclude(
        replay.rate and "replay.rate",
        replay.fast and "replay.fast",
        generate.source_rate and "generate.source_rate",
        hint="give one of them",
    )
    if replay.limit == 0 and replay.duration_s == 0:
        raise UsageError("[generate] never ends", "set replay.limit or replay.duration_s")
    want(
        replay.loop == 1 and replay.from_ == "" and replay.until == "" and not replay.collapse_retransmits,
        "[generate] goes without replay.loop, from, until and collapse_retransmits",
        "leave them out",
    )
