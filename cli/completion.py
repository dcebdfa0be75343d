"""What the Debian package says of the command line besides its help: `python -m cli.completion` prints
the completion for bash, with `--commands` a line for each man page: the command, a tab, what it does.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cli import programs
from cli.__main__ import build_parser

_SCRIPT = """\
# bash completion of reprise, made from its help
_reprise()
{{
    local cur=${{COMP_WORDS[COMP_CWORD]}} command=reprise options='' words='' index
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "$command ${{COMP_WORDS[index]}}" in
            {known}) command="$command ${{COMP_WORDS[index]}}" ;;
        esac
    done
    case $command in
{cases}
    esac
    [[ $cur == -* ]] && words=$options
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -o bashdefault -o default -F _reprise reprise
"""
_CASE = "        '{line}') options='{options}' words='{words}' ;;"
_EXPERIMENTS = " ".join(sorted(one.stem for one in (programs.ROOT / "experiments").glob("*.toml")))
_TRACE = ("info", "synth")  # steps of the mutator's


@dataclass(frozen=True)
class Command:
    """A command or a step of one: its line, what it does, its options, and the words that may come next."""

    line: str
    text: str
    options: tuple[str, ...]
    words: str = ""
    has_page: bool = True


def commands() -> list[Command]:
    """All that the help shows."""
    parser = build_parser()
    return list(_walk(parser, "reprise", parser.description or ""))


def _walk(parser: argparse.ArgumentParser, line: str, text: str) -> Iterator[Command]:
    if not parser.add_help:  # another program explains its options
        steps = _TRACE if line == "reprise trace" else ()
        yield Command(line, text, () if steps else _options_of(line), " ".join(steps))
        for name in steps:
            yield Command(f"{line} {name}", "", _options_of(f"{line} {name}"), has_page=False)
        return
    options = [one for action in parser._actions for one in action.option_strings if one.startswith("--")]
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    shown = {one.dest: one.help or "" for action in below for one in action._choices_actions}
    names = any(action.dest == "experiment" for action in parser._actions)
    yield Command(line, text, tuple(options), _EXPERIMENTS if names else " ".join(shown))
    for action in below:
        for name, help_text in shown.items():
            yield from _walk(action.choices[name], f"{line} {name}", help_text)


def _options_of(line: str) -> tuple[str, ...]:
    argv = [sys.executable, "-P", "-m", "cli", *line.split()[1:], "--help"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return tuple(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", said)))


def script(found: Sequence[Command]) -> str:
    """The completion for bash. Where none of the words fits, it completes names of files."""
    cases = (_CASE.format(line=one.line, options=" ".join(one.options), words=one.words) for one in found)
    known = " | ".join(f"'{one.line}'" for one in found if one.line != "reprise")
    return _SCRIPT.format(known=known, cases="\n".join(cases))


def main(arguments: list[str]) -> int:
    found = commands()
    if arguments == ["--commands"]:
        sys.stdout.writelines(f"{one.line}\t{one.text}\n" for one in found if one.has_page)
    else:
        sys.stdout.write(script(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
