"""The kinds of servers that Reprise starts: their programs, releases and complaints.

A configuration is written for the release that the program itself reports, and the server's own checker reads
it before the server starts.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from cli import programs

REFUSES = 78  # the exit status of a server whose checker refuses its configuration (EX_CONFIG of sysexits.h)
# A server's or its checker's complaint about an address, or about its configuration, from the file's name on;
# for knot-resolver the error itself, not the place in its code that it names too; for named what it says
# before its last lines, which only say that it ends. What is deprecated is no reason to end.
REASON = (
    r"\S.*(?i:address (?:already )?in use).*|(?<=error while loading config: )ERROR: .+|"
    r"[\w-]+\.conf:\d+: (?!in (?:main chunk|function)\b|.* is (?:deprecated|obsolete)).+|"
    r"(?<=\.\d{3} )\S.*(?=\n(?:.*loading configuration: failure\n)?.*exiting \(due to fatal error\))"
)
# What a checker says of a configuration that it takes is the server's to say. From 124 on a status says that
# the checker was not found, was killed, or could not be run by xargs.
_CHECK = (
    'checker=$1 file=$2; shift 2; said=$({check} 2>&1) && exec "$@"; status=$?; '
    'printf "%s\\n" "$said" >&2; [ $status -lt 124 ] && status={status}; exit $status'
)
_ONE = '"$checker" "$file"'
_LISTED = 'xargs -r -d "\\n" -n 1 "$checker" < "$file"'
_ASK_S = 10.0
_VERSION = re.compile(r"(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,5}")


@dataclass(frozen=True)
class ServerKind:
    """A server. `asks`: the option with which the program prints its version. `user`: whom it drops to, as
    its package does. `tested`: releases with which our tests ran. `complaints`: lines of its log that say
    that something broke while it answered on, as a regular expression; `refused`: those that say of a zone
    that it does not load, with the groups `what` and `why`. `checker`: the program that reads a configuration
    and complains of it; "" = only the server itself does.
    """

    title: str
    program: str
    asks: str
    user: str
    tested: tuple[str, ...]
    complaints: str
    checker: str = ""
    refused: str = ""

    def says(self) -> str:
        """The first line that the program of this machine says of its version; "" where there is none."""
        path = programs.find(self.program)
        if path is None:
            return ""
        try:
            done = subprocess.run(
                [path, self.asks],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
        return (done.stdout or done.stderr).partition("\n")[0].strip()

    def version(self) -> str:
        """The release of the program of this machine, such as "9.18.49"; "" where it is not known."""
        return release_in(self.says())

    def untested(self, version: str) -> str:
        """A line where a release is none of those tested, "" where it is."""
        if version and any(numbers(version)[:2] == numbers(one) for one in self.tested):
            return ""
        found = version or "of an unknown version"
        return f"{self.title} {found} is not tested; Reprise is tested with {' and '.join(self.tested)}"

    def refusal(self, version: str) -> str:
        """What the exit status REFUSES means."""
        return f"{self.title} {version or 'of an unknown version'} refuses its configuration"

    def checked(self, argv: tuple[str, ...], config: str, listed: bool = False) -> tuple[str, ...]:
        """The command `argv`, which is carried out when the checker takes the configuration, or each of those
        that are `listed` in it, a line each.
        """
        if not self.checker:
            return argv
        line = _CHECK.format(check=_LISTED if listed else _ONE, status=REFUSES)
        return ("sh", "-c", line, "sh", self.checker, config, *argv)


KINDS = {
    "nsd": ServerKind(
        "NSD", "nsd", "-v", "nsd", ("4.6", "4.12"),
        r"died unexpectedly|malloc failed|out of memory|internal error", "nsd-checkconf",
        r"error: (?P<why>zone (?P<what>\S+) .+)$",
    ),
    "bind": ServerKind(
        "BIND", "named", "-v", "bind", ("9.18", "9.20"),
        r"assertion failure|out of memory|unexpected error|fatal error", "named-checkconf",
        r"zone (?P<what>\S+?)/IN(?:/\S+)?: (?:loading from master file .+ failed: )?(?P<why>.+)$"
        r"(?=\n.*zone (?P=what)/IN\S*: not loaded due to errors\.$)",
    ),
    "unbound": ServerKind(
        "unbound", "unbound", "-V", "unbound", ("1.17", "1.26"),
        r"fatal error|malloc failure|out of memory", "unbound-checkconf",
    ),
    "knot-resolver": ServerKind(
        "knot-resolver", "kresd", "--version", "knot-resolver", ("5.6", "5.7"),
        r"out of memory|not enough memory|panic",
    ),
}  # fmt: skip


def release_in(text: str) -> str:
    """The first release named in a text, "" where there is none."""
    found = _VERSION.search(text)
    return found[0] if found else ""


def numbers(version: str) -> tuple[int, ...]:
    """A release as numbers, which compare as releases do; an unknown one is newer than all others."""
    return tuple(map(int, version.split("."))) if version else (2**31,)


def reason(log: str) -> str:
    """Why a server did not start, as its log says it; "" where the log says nothing known."""
    found = re.search(REASON, log)
    return found[0].strip() if found else ""
