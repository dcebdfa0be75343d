"""Zone files as they come: plain or compressed (gz, bz2, xz, zst, lz4); their origin; unpacking; which files
they include, and how large that makes them.
"""

import os
import re
import stat
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO

from cli.errors import RepriseError, UsageError, want
from report import compressed

_SCAN_LIMIT = 4 * 1024 * 1024  # bytes read in search of the SOA record
MOST_BYTES = 1 << 30  # in a zone's text once decompressed or written out: a small file can hold more


def compression(path: Path) -> str | None:
    """The compression by the file's first bytes, None for plain text."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        raise UsageError(f"no zone file {path}", "set server.zone to a zone file") from None
    except OSError as error:
        raise UsageError(f"cannot read zone file {path}: {error.strerror}", "give a readable file") from None
    want(bool(head), f"zone file {path} is empty", "set server.zone to a zone file")
    return compressed.compression_of(head)


def opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    """The file's text as bytes, decompressed as it is read."""
    compression(path)
    return compressed.opened(path)


def open_below(path: Path, top: Path) -> IO[bytes] | None:
    """Opens a regular file below the folder `top`, which has no links in its name; None for everything else,
    wherever links lead. Throws OSError.
    """
    if not Path(os.path.realpath(path)).is_relative_to(top):
        return None
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    real = Path(f"/proc/self/fd/{file}").readlink()  # links may have changed
    if stat.S_ISREG(os.fstat(file).st_mode) and real.is_relative_to(top):
        return os.fdopen(file, "rb")
    os.close(file)
    return None


def find_origin(path: Path) -> str:
    """The owner of the zone's SOA record, absolute and with its final dot."""
    try:
        with opened(path) as file:
            text = file.read(_SCAN_LIMIT).decode("utf-8", "replace")
    except compressed.DAMAGED as error:
        raise UsageError(f"zone file {path} cannot be decompressed: {error}", "fetch it again") from None
    origin = origin_of(text)
    if origin is None:
        raise UsageError(f"zone file {path} has no SOA record with a full name", "set server.origin")
    return origin


def origin_of(text: str) -> str | None:
    """The SOA's owner in zone file text; None when it is not there or relative to an unknown origin."""
    origin: str | None = None
    owner = "@"

    def absolute(name: str) -> str | None:
        if name == "@" or (origin is None and not name.endswith(".")):
            return origin
        return (name if name.endswith(".") else f"{name}.{'' if origin == '.' else origin}").lower()

    for line in text.splitlines():
        words = line.split(";", 1)[0].split()
        if not words:
            continue
        if words[0].upper() == "$ORIGIN" and len(words) > 1:
            origin = absolute(words[1])
            continue
        if not line[0].isspace():
            owner = words.pop(0)
        if "SOA" in (word.upper() for word in words[:3]):
            return absolute(owner)
    return None


def unpack(source: Path, target: Path) -> None:
    """Writes the decompressed zone; plain files may have any size. A broken archive or a full disk is one
    line.
    """
    packed = compression(source) is not None
    left = MOST_BYTES
    try:
        with opened(source) as file, target.open("wb") as out:
            while part := file.read(1 << 20):
                left -= len(part)
                what = f"{source} is over {MOST_BYTES >> 30} GiB decompressed"
                want(left >= 0 or not packed, what, "decompress it yourself")
                out.write(part)
    except compressed.DAMAGED as error:
        hint = "fetch it again or make room in memory"
        raise RepriseError(f"cannot unpack {source}: {error}", hint) from None


# --- lines that begin with `$` -----------------------------------------------------------------------------

# BIND accepts a directive in quotes too, and after a parenthesis. Only the one form that BIND and these
# expressions read the same way is accepted.
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
    with suppress(RepriseError, *compressed.DAMAGED), opened(path) as file:
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
        self._bytes = MOST_BYTES

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
            first, last, step = (int(number or 1) for number in generate.groups())
            count = max(0, last - first) // max(step, 1) + 1
            self._records -= count
            what = f"$GENERATE makes over {_MOST_RECORDS} records in a zone"
            want(self._records >= 0, what, "generate fewer")
            self._spend(count * (len(line) + sum(map(int, _WIDTH.findall(line)))))
        else:
            want(bool(_HARMLESS.match(line)), *_refusal(line))
        return line

    def _spend(self, size: int) -> None:
        self._bytes -= size
        what = f"the zone is over {MOST_BYTES >> 30} GiB with all that it includes or generates"
        want(self._bytes >= 0, what, "make it smaller")

    def _included(self, name: str) -> bytes:
        self._files -= 1
        want(self._files >= 0, f"the zone has over {_MOST_FILES} $INCLUDE lines", "merge the files")
        path = self._folder / name
        try:
            file = open_below(path, self._folder)
        except OSError as error:
            hint = "copy the file into the zone folder"
            raise UsageError(f"$INCLUDE {name}: cannot read {path}: {error.strerror}", hint) from None
        if file is None:
            hint = "copy the file into it and use a relative path"
            raise UsageError(f"$INCLUDE {name} is outside the zone folder", hint)
        with file:
            return self._read.setdefault(name, file.read(self._bytes + 1))


def _refusal(line: bytes) -> tuple[str, str]:
    word = re.split(rb'[ \t;()"\0]', line.lstrip(b'() \t\0"'), maxsplit=1)[0].upper()
    shown = word[:40].decode("ascii", "backslashreplace")
    if word in (b"$INCLUDE", b"$GENERATE"):
        form = "$INCLUDE FILE" if word == b"$INCLUDE" else "$GENERATE FIRST-LAST OWNER TYPE DATA"
        return f"an {shown} cannot be understood", f"write it as {form} on a line of its own"
    return f"{shown} is not a known directive", "remove the line"
