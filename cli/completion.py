"""What the Debian package says of the command line besides its help: `python -m cli.completion bash` (or
`zsh`) prints the completion for that shell, with `--commands` a line for each man page: the command, a tab,
what it does.
"""

import argparse
import functools
import re
import subprocess
import sys
from collections.abc import Iterator

import shtab

from cli import programs
from cli.__main__ import build_parser

_EXPERIMENTS = sorted(one.stem for one in (programs.ROOT / "experiments").glob("*.toml"))
_TRACE = ("info", "names", "synth")


def commands(parser: argparse.ArgumentParser, line: str, text: str) -> Iterator[tuple[str, str]]:
    """Each command with what it does. On the way the parsers learn what completion needs: the names of
    experiments, and the options that another program explains.
    """
    yield line, text
    for action in parser._actions:
        if action.dest == "experiment":
            action.choices = _EXPERIMENTS
        if isinstance(action, argparse._SubParsersAction):
            for one in action._choices_actions:
                yield from commands(action.choices[one.dest], f"{line} {one.dest}", one.help or "")
    if not parser.add_help:
        parser._actions.clear()
        parser.prefix_chars = "-"
        steps = _TRACE if line == "reprise trace" else ()
        below = parser.add_subparsers() if steps else None
        for name in steps or ("",):
            taker = below.add_parser(name, help="", add_help=False) if below else parser
            taker.add_argument("file", nargs="*").complete = shtab.FILE  # type: ignore[attr-defined]
            for option in dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", _help(f"{line} {name}"))):
                taker.add_argument(option, nargs="?")


@functools.cache
def _help(line: str) -> str:
    argv = [sys.executable, "-P", "-m", "cli", *line.split()[1:], "--help"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def script(wanted: str) -> str:
    root = build_parser()
    found = list(commands(root, "reprise", root.description or ""))
    if wanted == "--commands":
        return "".join(f"{line}\t{text}\n" for line, text in found)
    return shtab.complete(root, wanted)


if __name__ == "__main__":
    sys.stdout.write(script(sys.argv[1]))
