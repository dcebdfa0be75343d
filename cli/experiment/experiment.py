"""Experiments: a strict TOML file becomes one frozen value with every default in sight.

Unknown keys and wrong types are refused with the key's whole name and the nearest known one. Paths in the
file are relative to the file, paths given by `--set` to the working directory; both are absolute afterwards.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import keyword
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.errors import UsageError
from cli.experiment import rules

SCHEMA = rules.SCHEMA
PATH = {"path": True}


@dataclass(frozen=True)
class RootLike:
    """A signed root-like zone made from the names in Debian's publicsuffix package."""

    seed: int = 1
    ds_share: float = 0.9
    ksk_bits: int = 2048
    zsk_bits: int = 2048


@dataclass(frozen=True)
class Server:
    """The server under test. `zone` wins over `root_like`; `addresses` are for kind = "address" only."""

    kind: str = "nsd"
    zone: str | None = field(default=None, metadata=PATH)
    origin: str | None = None
    addresses: tuple[str, ...] = ()
    port: int = 53
    processes: int = 1
    edns_size: int = 4096
    tcp_count: int = 0  # connections a process; 0 = as many as its descriptors allow
    tcp_idle_timeout_s: float = 20.0
    tcp_listen_queue: int = 4096
    minimal_responses: bool = False
    ready_s: float = 60.0
    root_like: RootLike | None = None


@dataclass(frozen=True)
class Replay:
    """How the trace is played; the names are those of the controller's and the querier's options."""

    source_mode: str = "ports"
    transport: str = "trace"
    queries_per_connection: int = 0  # 0 = no limit
    closer: str = "client"  # who closes a connection that is idle or used up
    tcp_fallback: bool = False
    speed: float = 1.0
    rate: float = 0.0  # queries a second; 0 = as the trace
    fast: bool = False
    loop: int = 1  # 0 = until limit or duration_s
    from_: int | float | str = ""  # the key is `from`
    until: int | float | str = ""
    limit: int = 0
    duration_s: float = 0.0
    sample_sources: int | float | str = "100%"
    skip_sources: tuple[str, ...] = ()
    collapse_retransmits: bool = False
    dependent: bool = False
    hedge_ms: float = 0.0
    peers: tuple[str, ...] = ()
    timeout_s: float = 5.0
    idle_timeout_s: float = 20.0
    in_flight: int = 262_144
    max_lateness_s: float = 1.0
    late_ms: float = 100.0  # 0 = no query counts as late
    window_s: float = 2.0
    answers: bool = False
    all_opcodes: bool = False
    ports: tuple[int, ...] = (53,)
    early_us: int | str = "auto"
    spin_us: int = 0
    realtime: bool = False
    cpus: str = ""  # such as "1" or "0,2-3"; empty = any

    @property
    def shows_trace_addresses(self) -> bool:
        """Whether the server sees the trace's own addresses, and answers them."""
        return self.source_mode in ("addresses", "packet")


@dataclass(frozen=True)
class Mutate:
    """What is changed in the trace before it is played: a rule file's rules, then those written here."""

    rules: str | None = field(default=None, metadata=PATH)
    rule: tuple[Mapping[str, Any], ...] = ()
    seed: int | None = None
    malformed: str | None = None  # "keep" or "drop"

    @property
    def over_tls(self) -> bool:
        """Whether a rule written here sends queries over TLS; the rule file is not looked into."""
        return any(one.get("kind") == "transport" and "tls" in str(one.get("to")) for one in self.rule)


@dataclass(frozen=True)
class Tls:
    """Queries over TLS. Our own servers have a certificate for `server.reprise.test`, made for the run."""

    port: int = 853
    version: str = "any"
    name: str | None = None  # of the server; None = that of our own server, or none
    ca: str | None = field(default=None, metadata=PATH)  # None = our own server's, or the system's
    verify: bool = True
    resume: bool = False
    early_data: bool = False
    key: str = "ecdsa-p256"  # of our own server


@dataclass(frozen=True)
class Generate:
    """One query again and again instead of a trace."""

    name: str = ""
    type: str = "A"
    sources: int = 1
    rd: bool | None = None  # the flag RD; None = as the server's kind wants it


@dataclass(frozen=True)
class Rtt:
    """How far the ends of a path are from each other, by a delay line; times are whole round trips.

    At most one of `table` and `by` names addresses, at most one of `rtt_ms`, `distribution` and `observed`
    holds for all others.
    """

    rtt_ms: float | None = None
    table: str | None = field(default=None, metadata=PATH)  # PREFIX rtt_ms [jitter_ms [loss_percent]]
    by: str | None = None  # "source": as the trace's rtt column says
    distribution: str | None = None  # such as "normal:20,5": drawn once for each address
    observed: str | None = field(default=None, metadata=PATH)  # a file of round trips to draw from
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    seed: int = 1
    realtime: bool = False


@dataclass(frozen=True)
class World:
    """A synthetic hierarchy; the names are the options of `reprise zones synth`."""

    zones: int = 100
    seed: int = 1
    signed: bool = False
    shape: str = "tree"


@dataclass(frozen=True)
class Hierarchy:
    """What stands behind the resolvers under test. `zones`, a folder of zone files, wins over `synth`."""

    zones: str | None = field(default=None, metadata=PATH)
    synth: World | None = None
    resolver: str | tuple[str, ...] = "bind"  # a list is several resolvers at once
    engine: str = "bind"
    form: str = "coloured"
    data_path: str = "tun"
    instances: int = 1
    cache: str = "cold"
    qname_minimisation: bool = True
    validate: bool = True
    expired_signatures: str = "refuse"
    resolver_config: str | None = field(default=None, metadata=PATH)  # lines for the resolver's configuration
    skip_bad: bool = False
    edns_size: int = 4096
    minimal_responses: bool = True
    max_servfail_percent: float = 1.0  # above these a run is not clean
    max_unmapped_percent: float = 1.0
    max_lost_percent: float = 1.0
    rtt: Rtt | None = None

    @property
    def resolvers(self) -> tuple[str, ...]:
        """The resolvers' kinds, in the order of their hosts."""
        return (self.resolver,) if isinstance(self.resolver, str) else self.resolver


@dataclass(frozen=True)
class Topology:
    """Where the processes run. queriers: on each client; 0 = the machine's cores shared by the clients."""

    kind: str = "local"
    clients: int = 1
    queriers: int = 0


@dataclass(frozen=True)
class Sample:
    """What is watched: samples a second, also of the clients, a capture at the server, seconds left out of
    the timing.
    """

    hz: float = 1.0
    clients: bool = False
    capture: bool = False
    warmup_s: float = 0.0


@dataclass(frozen=True)
class Experiment:
    """One experiment as resolved. One of `trace`, `generate` and `synth` is used, the first that is there."""

    name: str
    schema: int = SCHEMA
    title: str = ""
    trace: str | None = field(default=None, metadata=PATH)
    synth: Mapping[str, Any] | None = None
    generate: Generate | None = None
    mutate: Mutate | None = None
    server: Server = field(default_factory=Server)
    replay: Replay = field(default_factory=Replay)
    tls: Tls | None = None
    rtt: Rtt | None = None
    hierarchy: Hierarchy | None = None
    topology: Topology = field(default_factory=Topology)
    sample: Sample = field(default_factory=Sample)

    @property
    def own_server(self) -> bool:
        """Whether we start the server, on a network of our own."""
        return self.server.kind != "address"

    @property
    def wants_recursion(self) -> bool:
        """Whether generated queries have RD: resolvers refuse others, and authoritative servers do not mind.
        What a server at an address is, nobody knows.
        """
        said = self.generate.rd if self.generate else None
        return self.server.kind in ("hierarchy", "address") if said is None else said

    @property
    def world(self) -> Hierarchy | None:
        """The hierarchy behind the server, where that is a resolver."""
        return (self.hierarchy or Hierarchy()) if self.server.kind == "hierarchy" else None

    @property
    def over_tls(self) -> bool:
        """Whether queries may go over TLS: then our own server serves it too."""
        mutated = self.mutate is not None and self.mutate.over_tls
        return self.tls is not None or self.replay.transport == "tls" or mutated


def load(path: Path, settings: list[str]) -> Experiment:
    """Reads the file, lays the `--set` settings over it and checks the whole."""
    table = _resolve_paths(_read(path), Experiment, path.resolve().parent)
    for setting in settings:
        _lay_over(table, setting)
    if table.get("name") is None:
        table["name"] = path.stem
    experiment = typing.cast(Experiment, _build(Experiment, table, ""))
    rules.check(experiment)
    return experiment


def as_dict(experiment: Experiment) -> dict[str, Any]:
    """The experiment as plain values under the keys of the file, for plan.json and manifest.json."""
    return dataclasses.asdict(
        experiment, dict_factory=lambda pairs: {key.rstrip("_"): value for key, value in pairs}
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise UsageError(f"no experiment {path}", "see the files in experiments/") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "give a readable TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "correct it at the place named") from None


def _lay_over(table: dict[str, Any], setting: str) -> None:
    """Puts one `--set a.b=value` into the table; paths become absolute from the working directory."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {setting} has no '='", "write --set KEY=VALUE")
    names = key.strip().split(".")
    kind, is_path = _schema_of(names)
    at = table
    for name in names[:-1]:
        at = at.setdefault(name, {})
        if not isinstance(at, dict):
            raise UsageError(f"--set {key}: {name} is not a table", "see docs/formats.md for the keys")
    value = _parse_value(text, kind)
    if names == ["mutate", "rule"]:
        value = _resolve_key_files(value, Path.cwd())
    at[names[-1]] = str(Path(str(value)).absolute()) if is_path and value is not None else value


def _schema_of(names: list[str]) -> tuple[Any, bool]:
    """The type of a dotted key and whether it is a path; unknown keys are a usage error."""
    kind: Any = Experiment
    is_path = False
    for depth, name in enumerate(names):
        kind = _strip_optional(kind)
        if typing.get_origin(kind) is Mapping:
            return Any, False
        prefix = ".".join(names[:depth])
        known = _hints(kind) if dataclasses.is_dataclass(kind) else {}
        if name not in known:
            raise UsageError(f"unknown key {_join(prefix, name)}", _nearest(name, known, prefix))
        is_path = _is_path(kind, name)
        kind = known[name]
    return kind, is_path


def _parse_value(text: str, kind: Any) -> Any:
    """A `--set` value: text where the schema wants text, otherwise a TOML value (bare words are text)."""
    if _strip_optional(kind) is str:
        return text.strip().strip('"') or None
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if typing.get_origin(_strip_optional(kind)) is tuple and not isinstance(value, list):
        return [value]
    return value


def _resolve_paths(table: dict[str, Any], cls: Any, base: Path) -> dict[str, Any]:
    """The table with every path made absolute from `base`; wrong types are left for `_build` to name."""
    known = _hints(cls)
    result: dict[str, Any] = {}
    for name, value in table.items():
        kind = _strip_optional(known.get(name))
        if dataclasses.is_dataclass(kind) and isinstance(value, dict):
            result[name] = _resolve_paths(value, kind, base)
        elif cls is Mutate and name == "rule":
            result[name] = _resolve_key_files(value, base)
        elif name in known and _is_path(cls, name) and isinstance(value, str):
            result[name] = str((base / value).resolve())
        else:
            result[name] = value
    return result


def _resolve_key_files(rules: Any, base: Path) -> Any:
    """Rules with the files of their keys (`key = "@FILE"`) made absolute."""
    if not isinstance(rules, list):
        return rules
    return [
        {**rule, "key": f"@{(base / rule['key'][1:]).resolve()}"}
        if isinstance(rule, dict) and str(rule.get("key")).startswith("@")
        else rule
        for rule in rules
    ]


def _build(cls: Any, table: Mapping[str, Any], prefix: str) -> Any:
    known = _hints(cls)
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"unknown key {_join(prefix, name)}", _nearest(name, known, prefix))
        if value is not None:
            attribute = f"{name}_" if keyword.iskeyword(name) else name
            values[attribute] = _convert(value, known[name], _join(prefix, name))
    return cls(**values)


def _convert(value: Any, kind: Any, key: str) -> Any:
    """The value as the schema's type; integers serve as numbers, nothing else is converted."""
    kind = _strip_optional(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _build(kind, value, key)
    if isinstance(value, list) and (listed := _list_in(kind)) is not None:
        return tuple(_convert(one, typing.get_args(listed)[0], key) for one in value)
    if typing.get_origin(kind) is Mapping and isinstance(value, dict):
        return _plain(value)
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    allowed = typing.get_args(kind) or (kind,)
    if isinstance(value, datetime.datetime) and str in allowed:
        return _plain(value)
    if type(value) in allowed:
        if "\0" in str(value):
            raise UsageError(f"{key} = {value!r} has a NUL character", "leave it out")
        return value
    shown = "..." if key.startswith("mutate.rule") else repr(value)  # it may hold a secret key
    raise UsageError(f"{key} = {shown} has the wrong type", f"it must be {_describe(kind)}")


def _list_in(kind: Any) -> Any:
    """The list among the types a key may have; None where it can be none."""
    choices = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    return next((one for one in choices if typing.get_origin(one) is tuple), None)


def _plain(value: Any) -> Any:
    """The value with its dates and times as RFC 3339 text, so that it can be written as JSON."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _describe(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if typing.get_origin(kind) is tuple:
        return f"a list, each {_describe(typing.get_args(kind)[0])}"
    if isinstance(kind, types.UnionType):
        return " or ".join(_describe(one) for one in typing.get_args(kind))
    return words.get(kind, "a table")


def _hints(cls: Any) -> dict[str, Any]:
    """The keys of a table and their types; a field called like a word of Python's has a trailing _."""
    return {name.rstrip("_"): kind for name, kind in typing.get_type_hints(cls).items()}


def _is_path(cls: Any, name: str) -> bool:
    return any(one.name == name and one.metadata.get("path") for one in dataclasses.fields(cls))


def _strip_optional(kind: Any) -> Any:
    if not isinstance(kind, types.UnionType):
        return kind
    rest = [one for one in typing.get_args(kind) if one is not type(None)]
    return rest[0] if len(rest) == 1 else kind


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _nearest(name: str, known: Mapping[str, Any], prefix: str) -> str:
    if not known:
        return f"{prefix} has no keys of its own"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {_join(prefix, near[0])}?"
    elsewhere = {key.rpartition(".")[2]: key for key in _leaves(Experiment, "")}
    near = difflib.get_close_matches(name, elsewhere, n=1, cutoff=0.7)
    if near:
        return f"did you mean {elsewhere[near[0]]}?"
    return f"known keys{' of ' + prefix if prefix else ''}: {', '.join(known)}"


def _leaves(cls: Any, prefix: str) -> Iterator[str]:
    """The whole names of all keys of a table and of the tables in it; those of [replay] come last."""
    hints = _hints(cls)
    for name in sorted(hints, key=lambda one: one == "replay"):
        kind = _strip_optional(hints[name])
        key = _join(prefix, name)
        if dataclasses.is_dataclass(kind):
            yield from _leaves(kind, key)
        else:
            yield key
