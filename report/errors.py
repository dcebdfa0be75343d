"""How errors are told: in one line, never as a traceback, and safe for a terminal."""

import argparse
from collections.abc import Sequence
from typing import NoReturn


class ReportError(Exception):
    """What this package raises for bad input. `what` is wrong and `hint` is what the operator can do.

    `status` is the command's: 1, or 2 where what was named is not there or not what was asked for.
    """

    def __init__(self, what: str, hint: str, status: int = 1) -> None:
        super().__init__(f"{what}; {hint}")
        self.what = what
        self.hint = hint
        self.status = status


class Parser(argparse.ArgumentParser):
    """A wrong command line is one line with the hint, as every other error, and exit status 2."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """What no option takes is told with the help of the command that it was given to."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            command = " ".join((self.prog, getattr(found, "command", ""))).strip()
            self.exit(2, _line(f"{' '.join(left)} is not understood", command))
        return found

    def error(self, message: str) -> NoReturn:
        self.exit(2, _line(message, self.prog))


def _line(what: str, command: str) -> str:
    return f"reprise: error: {' '.join(what.split())}; see {command} --help\n"


def printable(text: str) -> str:
    """Text from elsewhere, with escapes such as \\x1b for what a terminal would obey or not show."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
