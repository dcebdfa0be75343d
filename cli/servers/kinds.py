"""The servers that Reprise starts, by the names that experiments give them.

A configuration is written for the release that the program itself reports, and the server's own checker reads
it before the server starts. Uses Python's own library alone: the bootstrap reads it.
"""

from __future__ import annotations

from cli import programs
from cli.servers import bind, command, dnsdist, knot, kresd, nsd, pdns, recursor, unbound

KINDS = {
    "nsd": nsd.KIND,
    "bind": bind.KIND,
    "knot": knot.KIND,
    "pdns": pdns.KIND,
    "unbound": unbound.KIND,
    "knot-resolver": kresd.KIND,
    "pdns-recursor": recursor.KIND,
    "dnsdist": dnsdist.KIND,
}
programs.PACKAGES.update({one.program: one.packages[0] for one in KINDS.values()})
STARTED = {**KINDS, "command": command.KIND}  # with what is no package
# A server's or its checker's complaint about an address, or about its configuration, from the file's name on;
# for knot-resolver the error itself, not the place in its code that it names too; for named what it says
# before its last lines, which only say that it ends. What is deprecated is no reason to end.
REASON = (
    r"(?<=error: )config, file .+|(?<=Fatal error: ).+|(?<=Fatal Lua error: ).+|"
    r"\S.*(?i:address (?:already )?in use).*|(?<=error while loading config: )ERROR: .+|"
    r"[\w-]+\.conf:\d+: (?!in (?:main chunk|function)\b|.* is (?:deprecated|obsolete)).+|"
    r"(?<=\.\d{3} )\S.*(?=\n(?:.*loading configuration: failure\n)?.*exiting \(due to fatal error\))"
)


def users_lines(name: str, config: str, lines: str, key: str) -> dict[str, str]:
    """Places in the configuration `name` that hold one of the user's lines, each with that line's place in
    the file that `key` names. They are found by their text, from the end, where the user's lines are: BIND's
    are split up.
    """
    found: dict[str, str] = {}
    theirs: dict[str, list[int]] = {}
    for number, text in enumerate(lines.splitlines(), 1):
        theirs.setdefault(text.strip(), []).append(number)
    ours = config.splitlines()
    for number in range(len(ours), 0, -1):
        if same := theirs.get(ours[number - 1].strip()):
            found[f"{name}:{number}:"] = f"{key}:{same.pop()}:"
    return found
