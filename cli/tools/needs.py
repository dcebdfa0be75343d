"""What a command line needs before it can be carried out: Debian packages, Python packages, programs.

Runs before anything is installed, so it uses Python's own library alone. Nothing is checked here: where a
command line or an experiment cannot be read, the command itself will say so.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from cli import programs
from cli.errors import RepriseError
from cli.experiment import tables
from cli.servers.kinds import KINDS
from cli.servers.started import front, own_programs, packaged_programs, source_mode
from report.nested import leaves

RUN_PYTHON = "requirements.txt"
HOSTS_PYTHON = "requirements-hosts.txt"
TEST_PYTHON = "requirements-test.txt"
EXPORT_PYTHON = "requirements-export.txt"  # of `export --parquet`
REPLAY = ("reprise-controller", "reprise-querier", "reprise-sampler", "reprise-mutator")
HIERARCHY = ("reprise-zonebuilder", "reprise-proxy")
# The section of packages.txt that a packaged program is in, where an experiment decides whether it is needed.
_SECTIONS = {
    **{one.program: one.section for one in KINDS.values()},
    "nft": "hierarchy",
    "sysctl": "hierarchy",
    "tcpdump": "capture",
}
_EVERY_SECTION = (
    "base", "run", "bind", "knot", "pdns", "recursor", "dnsdist", "hierarchy", "capture", "packet", "spread",
    "hosts", "bench", "man", "test",
)  # fmt: skip
# Commands that build, check or measure; the Debian package of Reprise does not have them.
SOURCE_COMMANDS = ("package", "bench", "fuzz", "test")
_UDP_BENCH = (("packet",), (*REPLAY, "reprise-sink"))  # clang, for the sink's BPF program
_TCP_BENCH = ((), (*REPLAY, "reprise-sink", "reprise-floor"))
_BENCHES = {  # sections beside those of every bench, and targets
    "udp": _UDP_BENCH,
    "timing": _UDP_BENCH,
    "tcp": _TCP_BENCH,
    "tls": _TCP_BENCH,
    "reader": ((), ("reprise-mutator", "reprise-bench-reader")),
    "mutate": ((), ("reprise-mutator",)),
    "zones": ((), ("reprise-mutator", "reprise-bench-reader", "reprise-zonebuilder")),
    "hierarchy": (("bind", "hierarchy", "packet"), (*REPLAY, *HIERARCHY, "reprise-sink")),
    "stateless": (("bind", "packet"), (*REPLAY, "reprise-proxy", "reprise-flood")),
}
_BY_WORD = (  # sections of packages.txt
    ("mutate", "--inventory", "spread"),
    ("mutate", "--inventory", "hosts"),
    ("zones", "--signed", "run"),
    ("zones", "build", "run"),
    ("zones", "resign", "run"),
    ("zones", "check", "run"),
    ("zones", "check", "bind"),
    ("zones", "harvest", "bind"),
    ("zones", "plan", "run"),
)
_TARGETS = {  # of commands that need nothing but programs of ours
    "report": (),
    "check": (),
    "compare": ("reprise-mutator",),
    "export": ("reprise-mutator",),
    "trace": ("reprise-mutator",),
    "mutate": ("reprise-mutator",),
    "package": ("reprise-mutator",),
    "zones": ("reprise-zonebuilder", "reprise-mutator"),
}


@dataclass(frozen=True)
class Needs:
    """Sections of packages.txt, files of pinned Python packages, and targets of the release build."""

    sections: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def of(arguments: Sequence[str]) -> Needs:
    """The needs of `reprise ARGUMENTS`; none for help, and for what is no command."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", ())
    passed_on = (
        "trace",
        "mutate",
        "report",
        "compare",
        "check",
        "export",
    )  # another program explains their options
    if command not in passed_on and any(one in ("-h", "--help") for one in rest):
        return Needs()
    if programs.INSTALLED and command in SOURCE_COMMANDS:
        return Needs()
    if command == "package" and "--deb" in rest:
        return Needs(("base", "packet", "man", "debian"))
    if command in _TARGETS:
        words = [one.split("=")[0] for one in rest]
        sections = [name for first, word, name in _BY_WORD if first == command and word in words]
        found = _needs(sections, *_TARGETS[command])
        if command == "export" and "--parquet" in words:
            found = replace(found, python=(*found.python, EXPORT_PYTHON))
        return _replay(_of_runs(rest)) if command == "compare" and "--again" in words else found
    return {
        "run": lambda: _experiment(rest),
        "plan": lambda: _experiment(rest),
        "papers": lambda: _papers(rest),
        "fire": lambda: Needs(("base",), (RUN_PYTHON,), REPLAY),
        "bench": lambda: _bench(rest),
        "test": lambda: Needs(  # which builds what it checks
            (*_EVERY_SECTION, *(("debian",) if "--slow" in rest else ())),
            (RUN_PYTHON, HOSTS_PYTHON, EXPORT_PYTHON, TEST_PYTHON),
        ),
        "fuzz": lambda: _needs(("packet", "test", *(("coverage",) if "--coverage" in rest else ()))),
        # Ansible reads what Merge generates.
        "inventory": lambda: Needs(("base",), (RUN_PYTHON, HOSTS_PYTHON)) if "merge" in rest[:1] else Needs(),
        "doctor": lambda: _needs(("run",), *REPLAY, *HIERARCHY, "reprise-packet-check"),
    }.get(command, Needs)()


def _bench(rest: Sequence[str]) -> Needs:
    """Of the bench whose name is no option's value."""
    names = [
        one
        for before, one in zip(("", *rest), rest, strict=False)
        if one in _BENCHES and (not before.startswith("-") or before in ("--json", "--quick", "--resume"))
    ]
    if not names:
        return Needs()
    sections, targets = _BENCHES[names[0]]
    return _needs(("run", "capture", *sections, "bench"), *targets)


def _needs(sections: Sequence[str], *targets: str) -> Needs:
    return Needs(("base", *sections), (RUN_PYTHON,), targets)


def _experiment(arguments: Sequence[str]) -> Needs:
    experiment = _read(arguments)
    if experiment is None:
        return Needs()
    if any(one.partition("=")[0] == "--inventory" for one in arguments):
        return Needs(("base", "run", "hosts"), (RUN_PYTHON, HOSTS_PYTHON), REPLAY)
    return _replay(_variants(experiment))


def _papers(rest: Sequence[str]) -> Needs:
    """Of the studies whose figures are to be run, with what is set for all of them."""
    parser = _Parser(add_help=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--set", action="append", default=[])
    for option in ("-o", "--output", "--traces"):
        parser.add_argument(option)
    for option in ("--full", "--resume"):
        parser.add_argument(option, action="store_true")
    try:
        options = parser.parse_intermixed_args(rest)
        step, *figures = options.words or [""]
        found = [
            table
            for path in sorted((programs.ROOT / "experiments/papers").glob("*.toml"))
            for table in [tables.read(path)]
            if {"all", path.stem, *tables.get(table, "paper.figures", {})} & set(figures)
        ]
        for setting, table in itertools.product(options.set, found):
            tables.lay_over(table, setting)
    except RepriseError:
        return Needs()
    if step != "run":
        return _needs((), "reprise-mutator")
    return _replay(variant for table in found for variant in _variants(table))


def _of_runs(arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The experiments of those runs among the arguments that tell theirs."""
    for one in arguments:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads((Path(one) / "manifest.json").read_text(encoding="utf-8"))["experiment"]
            yield dict(found)


def _replay(experiments: Iterable[dict[str, Any]]) -> Needs:
    sections, targets = ["run"], list(REPLAY)  # the mutator also reads a finished run's trace, for `compare`
    for one in experiments:
        sections += [_SECTIONS.get(program, "run") for program in packaged_programs(one)]
        sections += ["packet"] if source_mode(one) == "packet" or front(one) == "bpf" else []
        targets += own_programs(one)
    return _needs(tuple(dict.fromkeys(sections)), *dict.fromkeys(targets))


def _variants(experiment: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The experiment with each combination of the values of [sweep], up to a thousand."""
    swept = leaves(experiment.get("sweep") or {})
    axes = {key: values for key, values in swept if isinstance(values, list) and values}
    for row in itertools.islice(itertools.product(*axes.values()), 1_000):
        made = json.loads(json.dumps(experiment))
        for key, value in zip(axes, row, strict=True):
            tables.lay_over(made, f"{key}={json.dumps(value)}")
        yield made


def _read(arguments: Sequence[str]) -> dict[str, Any] | None:
    """The experiment's tables with its --set; None where the command will refuse it."""
    parser = _Parser(add_help=False)
    parser.add_argument("experiment", type=tables.find)
    parser.add_argument("--set", action="append", default=[])
    for option in ("-o", "--output", "--inventory", "--resume"):
        parser.add_argument(option)
    try:
        options = parser.parse_args(arguments)
        found = tables.read(options.experiment)
        for setting in options.set:
            tables.lay_over(found, setting)
    except (RepriseError, OSError):
        return None
    return None if tables.unknown_keys(found) else found


class _Parser(argparse.ArgumentParser):
    """Leaves complaints about the command line to the command."""

    def error(self, message: str) -> NoReturn:
        raise RepriseError(message)
