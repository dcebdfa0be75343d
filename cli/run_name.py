"""The name of a run, which is that of its folders: NAME-UTC-xxxx, as in quickstart-20261105T130201Z-1a2b; and
where they lie.
"""

import argparse
import datetime
import re
import secrets
from pathlib import Path

from cli.errors import RepriseError

EXPERIMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RUN = re.compile(rf"{EXPERIMENT.pattern}-[0-9]{{8}}T[0-9]{{6}}Z-[0-9a-f]{{4}}")


def add_parent(parser: argparse.ArgumentParser, words: str = "parent of the results (./results)") -> None:
    """The option for the folder in which runs get theirs."""
    parser.add_argument("-o", "--output", type=Path, default=Path("results"), metavar="DIR", help=words)


def new(experiment: str) -> str:
    """A name for a run of an experiment that begins now."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{experiment}-{now}-{secrets.token_hex(2)}"


def checked(text: str) -> str:
    """The text, if it is a run's name; anything else, such as a path, is an error."""
    if not _RUN.fullmatch(text):
        raise RepriseError(f"{text!r} is not the name of a run", "use a name that `reprise run` has given")
    return text
