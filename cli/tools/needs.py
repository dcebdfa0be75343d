"""What a command line needs before it can be carried out: Debian packages, Python packages, programs.

Runs before anything is installed, so it uses Python's own library alone. Nothing is checked here: where an
experiment cannot be read, the command itself will say so.
"""

import argparse
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cli import programs
from cli.errors import RepriseError
from cli.experiment import tables
from cli.programs import HIERARCHY, REPLAY
from cli.servers.kinds import KINDS, front, own_programs, packaged_programs
from cli.tools import packages
from cli.tools.bench import BENCHES
from report.run import as_json

RUN_PYTHON = "requirements.txt"
HOSTS_PYTHON = "requirements-hosts.txt"
TEST_PYTHON = "requirements-test.txt"
EXPORT_PYTHON = "requirements-export.txt"  # of `export --parquet`
# The section of packages.txt that a packaged program is in, where an experiment decides whether it is needed.
_SECTIONS = {
    **{one.program: one.section or name for name, one in KINDS.items() if one.section != "test"},
    "nft": "hierarchy",
    "sysctl": "hierarchy",
    "tcpdump": "capture",
}
# Commands that build, check or measure; the Debian package of Reprise does not have them.
SOURCE_COMMANDS = ("package", "bench", "fuzz", "test")
_ZONES = {  # sections of packages.txt, by the steps of `zones`
    "build": ("run",),
    "resign": ("run",),
    "check": ("run", "bind"),
    "harvest": ("bind",),
    "plan": ("run",),
}


class Needs(NamedTuple):
    """Sections of packages.txt, files of pinned Python packages, and targets of the release build."""

    sections: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def of(options: argparse.Namespace) -> Needs:
    """The needs of a command line, as the command's own parser reads it."""
    command = options.command
    words = getattr(options, "arguments", ())  # of another program
    sections: tuple[str, ...] = ()
    hosts = (RUN_PYTHON, HOSTS_PYTHON)
    if programs.INSTALLED and command in SOURCE_COMMANDS:
        return Needs()
    if command == "package" and options.deb:
        return Needs(("base", "packet", "man", "debian"))
    if command == "compare" and programs.given("--again", words):
        told = (as_json(Path(one) / "manifest.json").get("experiment") for one in words)  # of runs
        return _replay(one for one in told if isinstance(one, dict))
    if command == "zones":
        sections = ("run",) if getattr(options, "signed", False) else _ZONES.get(options.step, ())
    if command == "mutate" and programs.given("--inventory", words):
        sections = ("spread", "hosts")
    parquet = (EXPORT_PYTHON,) if programs.given("--parquet", words) else ()
    return {
        **dict.fromkeys(("report", "check"), lambda: _needs(())),
        **dict.fromkeys(
            ("compare", "trace", "mutate", "package"), lambda: _needs(sections, "reprise-mutator")
        ),
        "export": lambda: Needs(("base",), (RUN_PYTHON, *parquet), ("reprise-mutator",)),
        "zones": lambda: _needs(sections, "reprise-zonebuilder", "reprise-mutator"),
        "run": lambda: _experiment(options),
        "plan": lambda: _experiment(options),
        "papers": lambda: _papers(options) if options.step == "run" else _needs((), "reprise-mutator"),
        "fire": lambda: Needs(("base",), (RUN_PYTHON,), REPLAY),
        "bench": lambda: _needs(
            ("run", "capture", *BENCHES[options.bench].sections, "bench"), *BENCHES[options.bench].targets
        ),
        "test": lambda: Needs(  # which builds what it checks
            tuple(one for one in packages.listed() if options.slow or one != "debian"),
            (*hosts, EXPORT_PYTHON, TEST_PYTHON),
        ),
        "fuzz": lambda: _needs(("packet", "test")),
        # Ansible reads what Merge generates.
        "inventory": lambda: Needs(("base",), hosts) if options.testbed == "merge" else Needs(),
        "doctor": lambda: _needs(("run",), *REPLAY, *HIERARCHY),
    }[command]()


def _needs(sections: Sequence[str], *targets: str) -> Needs:
    return Needs(("base", *sections), (RUN_PYTHON,), targets)


def _experiment(options: argparse.Namespace) -> Needs:
    tables_of = _read(options.experiment, options.set)
    if tables_of is None or tables.unknown_keys(tables_of):
        return Needs()
    found = _replay(variants(tables_of))
    if getattr(options, "inventory", None):  # servers are elsewhere, and options are looked at here
        return Needs(("base", "run", "hosts"), (RUN_PYTHON, HOSTS_PYTHON), found.targets)
    return found


def _papers(options: argparse.Namespace) -> Needs:
    """Of the studies whose figures are to be run, with what is set for all of them."""
    found = [
        variant
        for path in sorted((programs.ROOT / "experiments/papers").glob("*.toml"))
        for table in [_read(path, options.set) or {}]
        if {"all", path.stem, *tables.get(table, "paper.figures", {})} & {*options.figures}
        for variant in variants(table)
    ]
    return _replay(found) if all(found) else Needs()


def _replay(experiments: Iterable[dict[str, Any]]) -> Needs:
    sections, targets = ["run"], list(REPLAY)  # the mutator also reads a finished run's trace, for `compare`
    for one in experiments:
        sections += [_SECTIONS.get(program, "run") for program in packaged_programs(one)]
        packets = tables.get(one, "replay.source_mode") == "packet" or front(one) == "bpf"
        sections += ["packet"] if packets else []
        targets += own_programs(one)
    return _needs(tuple(dict.fromkeys(sections)), *dict.fromkeys(targets))


def variants(experiment: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The experiment with each combination of the values of [sweep], up to a thousand."""
    for settings in itertools.islice(tables.combinations(experiment.get("sweep") or {}), 1_000):
        made = json.loads(json.dumps(experiment))
        for key, value in settings.items():
            tables.lay_over(made, f"{key}={tables.text_of(value)}")
        yield made


def _read(path: Path, settings: Sequence[str]) -> dict[str, Any] | None:
    """The experiment's tables with its --set; None where the command will refuse it."""
    try:
        found = tables.read(path)
        for setting in settings:
            tables.lay_over(found, setting)
    except RepriseError:
        return None
    return found
