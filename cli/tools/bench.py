"""`reprise bench NAME`: options, the measurement, the table and the JSON line."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cli.errors import EXIT_FAILED, UsageError, want
from cli.programs import HIERARCHY, REPLAY, flags

if TYPE_CHECKING:
    from bench.session import Options  # loaded when needed, so that other commands start quickly


class Bench(NamedTuple):
    """Runs of each tool, and the targets and sections of packages.txt beside those of every bench."""

    repeats: int
    targets: tuple[str, ...]
    sections: tuple[str, ...] = ()


BENCHES = {  # each keeps below about seven minutes; stateless takes over an hour
    "udp": Bench(5, (*REPLAY, "reprise-sink"), ("packet",)),  # clang, for the sink's BPF program
    "tcp": Bench(3, (*REPLAY, "reprise-sink", "reprise-floor")),
    "tls": Bench(3, (*REPLAY, "reprise-sink", "reprise-floor")),
    "timing": Bench(3, (*REPLAY, "reprise-sink"), ("packet",)),
    "reader": Bench(5, ("reprise-mutator", "reprise-bench-reader")),
    "mutate": Bench(5, ("reprise-mutator",)),
    "zones": Bench(3, ("reprise-mutator", "reprise-bench-reader", "reprise-zonebuilder")),
    "hierarchy": Bench(1, (*REPLAY, *HIERARCHY, "reprise-sink"), ("bind", "hierarchy", "packet")),
    "stateless": Bench(5, (*REPLAY, "reprise-proxy", "reprise-flood"), ("bind", "packet")),
}
_KEYS = ("ecdsa-p256", "rsa-2048")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure beside tools from Debian: udp, tcp, tls, timing, reader, mutate, zones, hierarchy; "
        "stateless: what a query costs the server",
    )
    parser.add_argument("bench", choices=tuple(BENCHES), help="what to measure")
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="runs of each tool (udp, reader, mutate, stateless 5; tcp, tls, timing, zones 3; hierarchy 1)",
    )
    parser.add_argument("--quick", action="store_true", help="seconds only: proves that it works, no claims")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument(
        "--sources",
        type=int,
        default=100_000,
        metavar="N",
        help="client addresses in udp's many-sources, "
        "and in tcp, where hold keeps as many connections (100000)",
    )
    parser.add_argument(
        "--seconds",
        type=int,
        metavar="N",
        help="length of timing's traces (3 and 8), of tcp's hold (60), of hierarchy's delay (5), "
        "of stateless's runs (5, flood 10)",
    )
    parser.add_argument(
        "--key", choices=_KEYS, default=_KEYS[0], help="of the server's certificate in tls (ecdsa-p256)"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ROW",
        help="measure this row of the table only (stateless: or this part: rates, sizes, flood)",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="measure that commit too, in turn, and tell the ratios of our figures",
    )
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="pairs of runs with --against (5)")
    parser.add_argument("--resume", action="store_true", help="add pairs to those of an earlier --against")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("bench-results"),
        metavar="DIR",
        help="parent of the result folders (./bench-results)",
    )


def options_of(arguments: argparse.Namespace) -> Options:
    """What the command line asks for. UsageError where a number is out of range."""
    from bench.session import Options  # noqa: PLC0415

    repeats = arguments.repeats
    if repeats is None:
        repeats = 1 if arguments.quick else BENCHES[arguments.bench].repeats
    for name, value, low, high in (
        ("repeats", repeats, 1, 100),
        ("sources", arguments.sources, 10, 1_000_000),
        ("pairs", arguments.pairs, 1, 100),
        ("seconds", arguments.seconds, 1, 3600),
    ):
        fits = value is None or low <= value <= high
        want(fits, f"--{name} {value}: out of range", f"give {low} to {high}")
    given = {one.name: getattr(arguments, one.name) for one in fields(Options)}
    return Options(**{**given, "repeats": repeats, "only": tuple(arguments.only)})


def command_bench(arguments: argparse.Namespace) -> int:
    """Measures, recomputes, prints; 1 where a check falls short."""
    from bench import against, session, table  # noqa: PLC0415

    options = options_of(arguments)
    if arguments.against is not None:
        if arguments.repeats is not None or arguments.json:
            raise UsageError("--against goes without --repeats and --json", "give --pairs instead")
        names = ("quick", "only", "seconds", "sources", "key")
        words = flags(**{name: getattr(options, name) for name in names})
        return against.measure(arguments, [options.bench, *words])
    session.need_root()
    module = "connections" if options.bench in ("tcp", "tls") else options.bench
    measure = importlib.import_module(f"bench.{module}").measure
    with session.opened(options) as opened:
        measure(opened)
    result = session.recomputed(opened.final)
    sys.stdout.write(table.render(result) + f"\nraw files: {opened.final}\n")
    if arguments.json:
        sys.stdout.write(json.dumps({key: result[key] for key in ("bench", "steal_s", "checks")}) + "\n")
    return 0 if all(entry["ok"] for entry in result["checks"]) else EXIT_FAILED
