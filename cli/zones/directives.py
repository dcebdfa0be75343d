"""The lines of zone files that begin with `$`: which files a zone includes, and how large it becomes.

BIND accepts a directive in quotes too, and after a parenthesis. Only the one form that BIND and these
expressions read the same way is accepted.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from cli.errors import RepriseError, UsageError, want
from cli.zones import zonefile
from report import compressed

_ANY = re.compile(rb'(?<![^\r\n])(?:[()\0][ \t()\0]*)?"?\$[^\r\n]*')
_HARMLESS = re.compile(rb"\$(?:TTL|ORIGIN)(?![^ \t;])", re.IGNORECASE)
_INCLUDE = re.compile(rb'\$INCLUDE[ \t]+(?:"([^"\\\r\n\0]+)"|([^\s;"()\\\0]+))(?=[\s;]|\Z)', re.IGNORECASE)
_GENERATE = re.compile(rb"\$GENERATE[ \t]+(\d{1,10})-(\d{1,10})(?:/(\d{1,10}))?[ \t]", re.IGNORECASE)
_WIDTH = re.compile(rb"\$\{[^},]*,(\d{1,10})")
_DEEPEST = 20  # files that include each other
_MOST_FILES = 1_000
_MOST_RECORDS = 1_000_000


def is_plain(text: bytes) -> bool:
    """Whether a zone has no directives except $TTL and $ORIGIN."""
    return b"$" not in text or all(_HARMLESS.match(found[0]) for found in _ANY.finditer(text))


def has_include(path: Path) -> bool:
    """Whether a zone file includes others, as far as it can be read here."""
    with suppress(RepriseError, *compressed.DAMAGED), zonefile.opened(path) as file:
        for line in iter(lambda: file.readline(1 << 20), b""):
            if b"$" in line and any(_INCLUDE.match(found[0]) for found in _ANY.finditer(line)):
                return True
    return False


class Checker:
    """Checks a zone's text and the files that it includes. No file outside the folder is read, whoever
    wrote the zone, and the size of the resulting zone is limited. `included` holds the files' texts, with
    numbers in place of names, by their names in the zone, in the order of their numbers.
    """

    def __init__(self, folder: Path) -> None:
        self.included: dict[str, bytes] = {}
        self._read: dict[str, bytes] = {}
        self._folder = folder.resolve()
        self._files = _MOST_FILES
        self._records = _MOST_RECORDS
        self._bytes = zonefile.MOST_BYTES

    def check(self, text: bytes, depth: int = 0) -> bytes:
        """The text, with the file's number in place of its name in each $INCLUDE. Throws UsageError."""
        want(depth < _DEEPEST, "zone files include each other endlessly", "remove an $INCLUDE")
        self._spend(len(text))
        return _ANY.sub(lambda found: self._checked(found[0], depth), text)

    def _checked(self, line: bytes, depth: int) -> bytes:
        if include := _INCLUDE.match(line):
            name = os.fsdecode(include[1] or include[2])
            self.included.setdefault(name, b"")  # takes the next number
            self.included[name] = self.check(self._included(name), depth + 1)
            start, end = include.span(include.lastindex or 0)
            return line[:start] + str(list(self.included).index(name)).encode() + line[end:]
        if generate := _GENERATE.match(line):
            self._generated(line, *(int(number or 1) for number in generate.groups()))
        else:
            want(bool(_HARMLESS.match(line)), *_refusal(line))
        return line

    def _spend(self, size: int) -> None:
        self._bytes -= size
        limit = f"{zonefile.MOST_BYTES >> 30} GiB"
        what = f"the zone is over {limit} with all that it includes or generates"
        want(self._bytes >= 0, what, "make it smaller")

    def _included(self, name: str) -> bytes:
        self._files -= 1
        want(self._files >= 0, f"the zone has over {_MOST_FILES} $INCLUDE lines", "merge the files")
        path = self._folder / name
        try:
            file = zonefile.open_below(path, self._folder)
        except OSError as error:
            hint = "copy the file into the zone folder"
            raise UsageError(f"$INCLUDE {name}: cannot read {path}: {error.strerror}", hint) from None
        if file is None:
            hint = "copy the file into it and use a relative path"
            raise UsageError(f"$INCLUDE {name} is outside the zone folder", hint)
        with file:
            return self._read.setdefault(name, file.read(self._bytes + 1))

    def _generated(self, line: bytes, first: int, last: int, step: int) -> None:
        count = max(0, last - first) // max(step, 1) + 1
        self._records -= count
        want(self._records >= 0, f"$GENERATE makes over {_MOST_RECORDS} records in a zone", "generate fewer")
        self._spend(count * (len(line) + sum(map(int, _WIDTH.findall(line)))))


def _refusal(line: bytes) -> tuple[str, str]:
    word = re.split(rb'[ \t;()"\0]', line.lstrip(b'() \t\0"'), maxsplit=1)[0].upper()
    shown = word[:40].decode("ascii", "backslashreplace")
    if word in (b"$INCLUDE", b"$GENERATE"):
        form = "$INCLUDE FILE" if word == b"$INCLUDE" else "$GENERATE FIRST-LAST OWNER TYPE DATA"
        return f"an {shown} cannot be understood", f"write it as {form} on a line of its own"
    return f"{shown} is not a known directive", "remove the line"
