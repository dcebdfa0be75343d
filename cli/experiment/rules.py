"""Rules of a replay that no type can say: choices, formats, and keys that need or exclude others."""

import datetime
import ipaddress
import re
from typing import Any

from cli.errors import UsageError, exclude, want
from cli.experiment import addresses, fault_rules, hierarchy_rules, server_rules
from cli.experiment.schema import AUTHORITATIVE, SCHEMA, Experiment, Generate, Mutate, Replay
from report.errors import ReportError

_MOST_PEERS = 15
_SLOWEST, _FASTEST = 0.001, 100_000_000  # queries a second
_EPOCH_S = 100_000_000  # smaller numbers are seconds from the trace's first query


def check(experiment: Experiment) -> None:
    server, replay = experiment.server, experiment.replay
    want(
        experiment.schema == SCHEMA,
        f"schema = {experiment.schema} is unknown",
        f"this version reads {SCHEMA}",
    )
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
    early = replay.early_us
    good = early == "auto" if isinstance(early, str) else isinstance(early, int) and 0 <= early <= 1_000
    want(good, f"replay.early_us = {early!r} is out of range", 'use "auto" or 0 to 1000')
    exclude(
        not experiment.own_server and 'server.kind = "address"',
        experiment.sample.capture and "sample.capture",
        hint="set sample.capture=false, and capture there by tcpdump",
    )
    server_rules.check_server(server)
    hierarchy_rules.check(experiment)
    check_replay(experiment)
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
    want(
        bool(mutate.rules or mutate.rule),
        "[mutate] has no rule",
        'name a rule file (rules = "FILE") or add [[mutate.rule]] tables',
    )
    for number, rule in enumerate(mutate.rule, 1):
        want(
            isinstance(rule.get("kind"), str),
            f"mutate.rule {number} has no kind",
            'write kind = "transport" or another kind of docs/rules.md',
        )
        want(
            "key" not in rule or str(rule["key"]).startswith("@"),
            f"mutate.rule {number} holds a secret key, which would stand in the results",
            'write it to a file that only you may read, and give key = "@FILE"',
        )


def check_replay(experiment: Experiment) -> None:
    replay = experiment.replay
    _check_pace(experiment)
    _check_span(replay)
    _check_selection(replay)
    _check_source_mode(experiment)
    _check_hedge(experiment)
    want(bool(replay.ports), "replay.ports is empty", "name the DNS ports of the trace, such as 53")
    if experiment.generate is not None:
        want(
            experiment.trace is None,
            "the experiment has a trace and a [generate] table",
            "leave one of them out",
        )
        _check_generate(experiment.generate, replay)
    endless = "replay.loop = 0" if replay.loop == 0 else experiment.generate and "[generate]"
    want(
        not endless or replay.limit > 0 or replay.duration_s > 0,
        f"{endless} never ends",
        "set replay.limit or replay.duration_s",
    )


def _check_pace(experiment: Experiment) -> None:
    replay, generate = experiment.replay, experiment.generate
    of_sources = generate is not None and generate.source_rate > 0
    want(
        experiment.rate == 0 or _SLOWEST <= experiment.rate <= _FASTEST,
        "generate.source_rate times generate.sources is out of range"
        if of_sources
        else f"replay.rate = {replay.rate} is out of range",
        f"use {_SLOWEST} to {_FASTEST}",
    )
    exclude(
        replay.speed != 1 and "replay.speed",
        replay.rate and "replay.rate",
        replay.fast and "replay.fast",
        of_sources and "generate.source_rate",
        hint="give one of them",
    )


def _check_span(replay: Replay) -> None:
    for key, value in (("from", replay.from_), ("until", replay.until)):
        want(
            value == "" or instant(value) is not None,
            f"replay.{key} = {value!r} is not a time in the trace",
            "give seconds from the first query, or a time such as 2016-10-06T13:55:51Z",
        )
    begin, end = instant(replay.from_), instant(replay.until)
    want(
        begin is None or end is None or begin[0] != end[0] or begin < end,
        f"replay.from = {replay.from_!r} is not before replay.until = {replay.until!r}",
        "set an earlier replay.from or a later replay.until",
    )


def instant(value: float | str) -> tuple[bool, float] | None:
    """A moment as the controller understands it: seconds, and whether these are since the epoch and not from
    the first query. None for what is none, or no moment.
    """
    if not isinstance(value, str) or re.fullmatch(r"\d{1,10}(\.\d{1,9})?", value, re.ASCII):
        seconds = float(value)
        return (seconds >= _EPOCH_S, seconds) if 0 <= seconds < 9e9 else None
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    return (True, moment.timestamp()) if moment.tzinfo is not None and "T" in value else None


def _check_selection(replay: Replay) -> None:
    want(
        0 < share(replay.sample_sources) <= 1,
        f"replay.sample_sources = {replay.sample_sources!r} is not a share",
        'use "10%" or 0.1; above 0 and at most all',
    )
    for text in replay.skip_sources:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise UsageError(
                f"replay.skip_sources has {text!r}: {error}", "write it like 192.0.2.0/24"
            ) from None


def share(value: float | str) -> float:
    """A share given as "10%" or 0.1; 0 where it is neither."""
    text = f"{value:.20f}" if isinstance(value, float) else str(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text, re.ASCII)
    return float(match[1]) / (100 if match[2] else 1) if match else 0


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
    if mode == "packet":
        want(
            topology.queriers <= 1,
            f'replay.source_mode = "packet" takes one querier, not {topology.queriers}',
            "leave topology.queriers out or set it to 1",
        )


def _check_hedge(experiment: Experiment) -> None:
    replay, server = experiment.replay, experiment.server
    want(
        (replay.hedge_ms > 0) == bool(replay.peers),
        "replay.hedge_ms and replay.peers need each other",
        "set both or none",
    )
    want(
        replay.hedge_ms < replay.timeout_s * 1000,
        f"replay.hedge_ms = {replay.hedge_ms:g} is not below replay.timeout_s",
        "hedge earlier or wait longer",
    )
    command = server.kind == "command" and 'server.kind = "command"'
    hint = "the command line has one address of each family: leave out replay.peers and replay.hedge_ms"
    exclude(replay.peers and "replay.peers", command, hint=hint)
    want(len(replay.peers) <= _MOST_PEERS, "replay.peers has too many", f"name {_MOST_PEERS} at most")
    others = experiment.servers - 1
    found = [peer(text)[0] for text in replay.peers]
    families = [one.version for one in found]
    most = max(families.count(4), families.count(6))
    want(
        others == 0 or len({*addresses.SERVICES, *map(str, found)}) == 2 + len(found),
        "replay.peers has an address twice, or that of the client's own resolver",
        "give each other resolver an address of its own",
    )
    want(
        others == 0 or most <= others,
        f"replay.peers has {most} addresses of one family for {others} other resolvers",
        f"name {others} at most",
    )
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


def peer(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int | None]:
    """Address and port of ADDR, ADDR:PORT or [ADDR]:PORT."""
    match = re.fullmatch(r"\[([^]]+)\]:(\d+)|([\d.]+):(\d+)", text, re.ASCII)
    host, port = (match[1] or match[3], int(match[2] or match[4])) if match else (text, None)
    try:
        return ipaddress.ip_address(host), port
    except ValueError:
        raise UsageError(
            f"replay.peers has {text!r}, which is not an address", "write ADDRESS or ADDRESS:PORT"
        ) from None


def _check_generate(generate: Generate, replay: Replay) -> None:
    want(
        bool(re.fullmatch(r"[!-~]{1,255}", generate.name)) and "/" not in generate.name,
        f"generate.name = {generate.name!r} is not a domain name",
        "give one, such as www.example.com",
    )
    want(
        replay.rate > 0 or replay.fast or generate.source_rate > 0,
        "[generate] has no times of its own",
        "set replay.rate, generate.source_rate or replay.fast",
    )
    want(
        replay.loop == 1 and replay.from_ == "" and replay.until == "" and not replay.collapse_retransmits,
        "[generate] goes without replay.loop, from, until and collapse_retransmits",
        "leave them out",
    )
