"""The `reprise` command line."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

from cli import VERSION, programs, run_name
from cli.errors import EXIT_FAILED, RepriseError, UsageError, discard, hold_interrupts, telling
from cli.experiment import tables
from cli.hosts import testbeds
from cli.tools import bench, fire, fuzz, needs, papers, spread, traces
from cli.zones import options as zones
from report.errors import Parser
from report.run import Run

# Where the function `command_WORD` of a command that ends with WORD is, if not in cli.tools.COMMAND.
_MODULES = {
    "plan": "cli.executor.run",
    "inventory": "cli.hosts.testbeds",
    "papers run": "cli.tools.papers_run",
    "papers report": "cli.tools.papers_run",
    "test": "cli.tools.selftest",
    "zones synth": "cli.zones.world",
    "zones build": "cli.zones.build",
    "zones check": "cli.tools.zones_check",
    "zones harvest": "cli.zones.harvest",
    "zones resign": "cli.zones.resign",
    "zones plan": "cli.zones.zones",
}


def build_parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = Parser(
        prog="reprise", description="Replays DNS traffic against a real server."
    )
    parser.add_argument("--version", action="version", version=f"reprise {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    running = _experiment_command(commands, "run", "run an experiment and report")
    running.add_argument(
        "--inventory",
        type=Path,
        action="append",
        default=[],
        metavar="INVENTORY",
        help="run on the hosts of an Ansible inventory instead of in network namespaces on this machine; "
        "repeatable",
    )
    running.add_argument(
        "--no-deploy",
        action="store_true",
        help="with --inventory: skip preparing the hosts (they were prepared by an earlier run)",
    )
    run_name.add_parent(running)
    running.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="continue an interrupted series ([repeat], [sweep], [search]) in the folder DIR",
    )
    _experiment_command(commands, "plan", "print the plan of an experiment as JSON").add_argument(
        "--management",
        action="append",
        default=[],
        metavar="PREFIX",
        help="plan for hosts that you reach by ssh from this network, as ADDRESS/BITS; repeatable. Their "
        "guards let it through, and drop themselves unless a new connection confirms them within 60 s",
    )
    fire.add_command(commands)
    testbeds.add_command(commands)
    papers.add_command(commands)
    _passed_on(commands, "report", "report on finished runs; several are compared", "RUN...")
    _passed_on(commands, "compare", "compare answers: a run and its trace, runs, or traces", "A [B...]")
    _passed_on(commands, "check", "check runs against limits, and against a baseline", "RUN [--baseline RUN]")
    _passed_on(commands, "export", "the records of runs as a table: CSV or Parquet", "RUN... --csv|--parquet")
    _passed_on(
        commands,
        "trace",
        "info FILE: what a trace holds; names FILE: what it asks for; synth: make one",
        "info|names|synth ...",
    )
    _passed_on(commands, "mutate", "change traces by rules, or into another form", "IN... -o OUT RULES...")
    zones.add_command(commands)
    doctor = commands.add_parser("doctor", help="what this machine can do, and how to fix what it cannot")
    run_name.add_parent(doctor, "parent of the results, checked for free space")
    if programs.INSTALLED:
        for name in needs.SOURCE_COMMANDS:  # known, but not in the help
            commands.add_parser(name, add_help=False, prefix_chars="\0").add_argument("arguments", nargs="*")
    else:
        _source_commands(commands)
    return parser


def _source_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Those that build, check or measure."""
    packing = commands.add_parser(
        "package",
        help="a Debian package, or the mutator as an archive that runs without installation",
    )
    packing.add_argument("--deb", action="store_true", help="build the Debian package of Reprise")
    packing.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="archive to write (.tar.gz); with --deb its folder"
    )
    bench.add_command(commands)
    fuzz.add_command(commands)
    test = commands.add_parser("test", help="all checks and tests")
    test.add_argument("--slow", action="store_true", help="also run the slow tests, and check all files")
    test.add_argument(
        "--only", metavar="NAME", help="run only what has this name: a check, a test program, a test"
    )
    test.add_argument("--changed", action="store_true", help="only linters, and tests of what changed")
    test.add_argument("--list", action="store_true", help="print the names of checks and tests")


def _experiment_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text)
    parser.add_argument(
        "experiment",
        type=tables.find,
        metavar="EXPERIMENT",
        help="a TOML file, or the name of one that comes with Reprise, such as quickstart",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key of the experiment, such as server.kind=bind",
    )
    return parser


def _passed_on(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, arguments: str
) -> None:
    """A command whose arguments another program understands."""
    parser = commands.add_parser(name, help=text, add_help=False, prefix_chars="\0")
    parser.add_argument("arguments", nargs="*", metavar=arguments)


def run_command(options: argparse.Namespace) -> int:
    """Carries out the chosen command; large modules are loaded as needed, to start quickly."""
    if programs.INSTALLED and options.command in needs.SOURCE_COMMANDS:
        what = f"reprise {options.command} needs the source of Reprise"
        raise UsageError(what, f"run ./reprise {options.command} in a source tree")
    if options.command in ("report", "compare", "check", "export"):
        os.environ.setdefault("REPRISE_PROGRAMS", str(programs.BUILT))
        from report.__main__ import main as report  # noqa: PLC0415

        return report([options.command, *options.arguments], _play_again)
    if options.command in ("trace", "mutate"):
        return run_mutator(options.command, options.arguments)
    if options.command == "run":
        from cli.executor import run  # noqa: PLC0415
        from cli.tools import deploy, search  # noqa: PLC0415

        return search.command(options, deploy.command_run if options.inventory else run.command_run)
    return function_of(options)(options)


def function_of(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    words = [options.command, *([options.step] if "step" in options else [])]
    module = importlib.import_module(_MODULES.get(" ".join(words), f"cli.tools.{words[0]}"))
    found: Callable[[argparse.Namespace], int] = getattr(module, f"command_{words[-1]}")
    return found


def _play_again(run: Run, trace: Path) -> Path:
    from cli.tools import again  # noqa: PLC0415

    return again.play(run, trace)


def run_mutator(command: str, arguments: list[str]) -> int:
    """`mutate`, `trace info` and `trace synth` are the mutator's: we become it."""
    if command == "mutate":
        if programs.given("--inventory", arguments):
            return spread.command_spread(arguments)
        arguments = ["mutate", *arguments]
    elif arguments[:1] == ["names"]:
        return traces.command_names(arguments[1:])
    elif not arguments or arguments[0] not in ("info", "synth"):
        if arguments[:1] in (["-h"], ["--help"]):
            sys.stdout.write(
                "usage: reprise trace info FILE [--json] [--port N]\n"
                "       reprise trace names FILE [--top N] [-o LIST]\n"
                "       reprise trace synth OPTIONS -o FILE\n(each with --help)\n"
            )
            return 0
        raise UsageError("trace needs info, names or synth", "see reprise trace --help")
    program = programs.own("reprise-mutator")
    sys.stdout.flush()
    return os.execv(program, [program, *arguments])


@telling
def main(arguments: list[str]) -> int:
    """Parses, runs, and turns every expected failure into its one line."""
    _open_closed_streams()
    try:
        status = run_command(build_parser().parse_args(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        discard(1)  # the reader of our output left; nothing more to say
        return EXIT_FAILED
    except OSError as error:
        discard(1)
        where = f"{error.filename}: " if error.filename else "cannot write the output: "
        hint = "check the disk's space and permissions"
        raise RepriseError(f"{where}{error.strerror or error}", hint) from None
    return status


def _open_closed_streams() -> None:
    """A standard stream that came closed leads nowhere: its number must not become another file's."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files may be any bytes


if __name__ == "__main__":
    exit_status = main(sys.argv[1:])
    hold_interrupts()  # all is done, and Python's own end would show a traceback
    sys.exit(exit_status)
