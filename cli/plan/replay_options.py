"""Options that say what is played, when, and as whom, for the plan."""

from __future__ import annotations

from typing import Any

from cli.experiment import addresses, rules
from cli.experiment.schema import Experiment, Replay, Tls
from cli.plan import network


def trace_or_generator(experiment: Experiment, trace: str) -> tuple[str, ...]:
    """What the controller plays: the trace's path, or the generator."""
    generate = experiment.generate
    if generate is None or experiment.mutate is not None:
        return (trace,)
    return (
        "--generate",
        f"{generate.name}/{generate.type}",
        "--generate-sources",
        str(generate.sources),
        *(("--generate-rd",) if experiment.wants_recursion else ()),
    )


def options(experiment: Experiment) -> tuple[str, ...]:
    """Those that differ from the controller's defaults."""
    replay, default = experiment.replay, Replay()
    words: list[str] = []
    for option, value, usual in (
        ("--source-mode", replay.source_mode, default.source_mode),
        ("--transport", replay.transport, default.transport),
        ("--queries-per-connection", replay.queries_per_connection, default.queries_per_connection),
        ("--closer", replay.closer, default.closer),
        ("--speed", replay.speed, default.speed),
        ("--rate", replay.rate, default.rate),
        ("--loop", 0 if _repeats(experiment) else replay.loop, default.loop),
        ("--from", replay.from_, default.from_),
        ("--until", replay.until, default.until),
        ("--limit", replay.limit, default.limit),
        ("--duration-s", replay.duration_s, default.duration_s),
        ("--sample-sources", replay.sample_sources, default.sample_sources),
        ("--hedge", replay.hedge_ms, default.hedge_ms),
        ("--late-ms", replay.late_ms, default.late_ms),
    ):
        words += [option, _text(value)] if value != usual else []
    words += ["--peers", ",".join(replay.peers)] if replay.peers else []
    words += ["--confirm-return-path"] if replay.shows_trace_addresses else []
    for prefix in (*replay.skip_sources, *_own_prefixes(experiment)):
        words += ["--skip-source", prefix]
    for flag, on in (
        ("--fast", replay.fast),
        ("--collapse-retransmits", replay.collapse_retransmits),
        ("--dependent", replay.dependent),
        ("--tcp-fallback", replay.tcp_fallback),
    ):
        words += [flag] if on else []
    return tuple(words)


def _repeats(experiment: Experiment) -> bool:
    """Generated queries that rules have changed are a trace, played until [replay] ends it."""
    return experiment.generate is not None and experiment.mutate is not None


def tls(experiment: Experiment, authority: str, name: str) -> tuple[str, ...]:
    """How queries travel over TLS; `authority` and `name` are those of our own server's certificate."""
    if not experiment.over_tls:
        return ()
    wanted, default = experiment.tls or Tls(), Tls()
    own = experiment.own_server
    words: list[str] = []
    for option, value, usual in (
        ("--tls-port", wanted.port, default.port),
        ("--tls-version", wanted.version, default.version),
        ("--tls-name", wanted.name or (name if own else ""), ""),
        ("--tls-ca", wanted.ca or (authority if own else ""), ""),
    ):
        words += [option, str(value)] if value != usual else []
    for flag, on in (
        ("--no-tls-verify", not wanted.verify),
        ("--tls-resume", wanted.resume),
        ("--tls-early-data", wanted.early_data),
    ):
        words += [flag] if on else []
    return tuple(words)


def _own_prefixes(experiment: Experiment) -> tuple[str, ...]:
    """The testbed's own addresses cannot be sources where the server sees the trace's."""
    behind = addresses.PREFIXES if experiment.emulated else ()
    own = (*network.own_prefixes(experiment.topology.clients), *behind)
    return own if experiment.replay.shows_trace_addresses else ()


def _text(value: float | str) -> str:
    """Numbers without an exponent, which the controller does not read in a moment."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def synth(table: dict[str, Any]) -> list[str]:
    """[synth] keys become options of the same name: `junk_share = 0.2` is `--junk-share 0.2`."""
    options: list[str] = []
    for key, value in table.items():
        name = "--" + key.replace("_", "-")
        if isinstance(value, bool):
            options += [name] if value else []
        elif isinstance(value, list):
            options += [text for one in value for text in (name, str(one))]
        else:
            options += [name, str(value)]
    return options


def source_prefixes(experiment: Experiment, index: int) -> tuple[str, ...]:
    """The distributor's options: out of what its queriers take an address for each source."""
    if experiment.replay.source_mode != "mapped":
        return ()
    prefixes = network.source_prefixes(index, experiment.topology.clients)
    return tuple(word for prefix in prefixes for word in ("--source-prefix", prefix))


def peers(experiment: Experiment) -> tuple[str, ...]:
    """Further addresses of our own server that hedged queries go to."""
    own = (network.SERVICE_V4, network.SERVICE_V6)
    addresses = [str(rules.peer(text)[0]) for text in experiment.replay.peers]
    return tuple(dict.fromkeys(one for one in addresses if one not in own))
