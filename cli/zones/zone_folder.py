"""A folder of zone files, with or without zones.json: what is in it, and its files in plain form.

Compressed files and those with $GENERATE or $INCLUDE are written out by named-compilezone, one record a line.
$INCLUDE takes files below the folder, by names from there.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cli.errors import RepriseError, UsageError, want
from cli.zones import bind_tools, zonefile
from report import compressed

LIST = "zones.json"
_SCHEMA = 1
_KEYS = ("name", "file", "addresses")  # of an entry in zones.json
_MARK = ".reprise-plain"  # in folders of files that were written out
# What a server loads, whatever else may be wrong with it.
LENIENT = (
    *("-i", "none", "-k", "ignore", "-m", "ignore", "-M", "ignore"),
    *("-n", "ignore", "-r", "ignore", "-S", "ignore", "-W", "ignore"),
)


@dataclass(frozen=True)
class Entry:
    """A zone file. `addresses` are None where the zone's own records say who serves it."""

    name: str
    file: str
    addresses: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ZoneFolder:
    """A folder's zones. `asked` is the list of that name in zones.json."""

    path: Path
    entries: tuple[Entry, ...]
    asked: tuple[dict[str, Any], ...] = ()


def read(path: Path) -> ZoneFolder:
    """The zones that zones.json lists, else all *.zone files. Their texts are not looked at."""
    want(path.is_dir(), f"{path} is not a folder", "give the folder of zone files")
    listed = path / LIST
    if listed.exists():
        try:
            value = json.loads(listed.read_text(encoding="utf-8"))
            if value["schema"] != _SCHEMA:
                raise ValueError(f"schema is not {_SCHEMA}")
            return ZoneFolder(path, tuple(map(_entry, value["zones"])), tuple(value.get("asked", ())))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RepriseError(f"{listed} cannot be read: {error!r}", "see docs/formats.md") from None
    files = sorted(path.glob("*.zone"))
    want(bool(files), f"no zone in {path}", f"put *.zone files there, or list them in {LIST}")
    return ZoneFolder(path, tuple(Entry(zonefile.find_origin(file), file.name) for file in files))


def _entry(one: dict[str, Any]) -> Entry:
    name, file, addresses = one["name"], one["file"], one.get("addresses")
    listed = addresses is None or isinstance(addresses, list)
    texts = (name, file, *(addresses or ()))
    if not (listed and all(isinstance(text, str) for text in texts)) or one.keys() - {*_KEYS}:
        raise ValueError(f"bad entry {one}")
    if os.path.normpath(file).startswith(("/", "../")):
        raise ValueError(f"file {file} is outside the folder")
    return Entry(name, file, None if addresses is None else tuple(addresses))


def write_list(folder: ZoneFolder, path: Path) -> None:
    """Writes zones.json into another folder."""
    told = [{key: had for key in _KEYS if (had := getattr(one, key)) is not None} for one in folder.entries]
    lines = ",\n ".join(map(json.dumps, told))
    asked = f',\n"asked":{json.dumps(list(folder.asked))}' if folder.asked else ""
    text = f'{{"schema":{_SCHEMA},\n"zones":[\n {lines}]{asked}}}\n'
    (path / LIST).write_text(text, encoding="utf-8")


def is_plain(path: Path) -> bool:
    """Servers and the planner can read the file as it is; so it seems also where it cannot be read at all."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - there may be ten thousand
            text = file.readall()
    except OSError:
        return True
    return compressed.compression_of(text) is None and zonefile.is_plain(text)


def plain(source: Path, target: Path, skip_bad: bool = False) -> Path:
    """`source` itself where all its files are plain; else `target`, where all have been written plainly. With
    `skip_bad` files that cannot be written out are copied as they are.
    """
    if not source.is_dir():
        return source  # the planner says what is wrong
    listed = (source / LIST).exists()
    files = [source / one.file for one in read(source).entries] if listed else sorted(source.glob("*.zone"))
    if all(is_plain(file) for file in files):
        return source
    folder = read(source)
    other = "give -o another folder"
    want(not source.resolve().is_relative_to(target.resolve()), f"{target} would replace {source}", other)
    ours = not target.exists() or (target / _MARK).is_file()
    want(ours, f"{target} was not made by `reprise zones plan`", other)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / _MARK).touch()
    entries = tuple(replace(one, file=f"{number}.zone") for number, one in enumerate(folder.entries))
    for one, made in zip(folder.entries, entries, strict=True):
        _write_plain(folder, one, target / made.file, skip_bad)
    write_list(ZoneFolder(target, entries, folder.asked), target)
    return target


def _write_plain(folder: ZoneFolder, one: Entry, target: Path, skip_bad: bool) -> None:
    source = folder.path / one.file
    if not is_plain(source):
        try:
            target.write_text(text_of(folder, one), encoding="latin-1")
            return
        except RepriseError:
            if not skip_bad:
                raise
    if source.is_file():
        shutil.copyfile(source, target)


def text_of(folder: ZoneFolder, one: Entry) -> str:
    """The zone's records, one a line with all its fields: owner, TTL, IN, type, data."""
    source = folder.path / one.file
    try:
        with zonefile.opened(source) as file:
            text = file.read(zonefile.MOST_BYTES + 1)
    except compressed.DAMAGED as error:
        raise RepriseError(f"zone file {source} cannot be decompressed: {error}", "fetch it again") from None
    return written_out(one.name, text, folder.path, source)


def written_out(name: str, text: bytes, folder: Path, source: Path) -> str:
    """The records of a zone's text, as of `text_of`, which includes files below a folder; `source` is the
    file that errors name. Throws RepriseError and, where included files cannot be copied, OSError.
    """
    checker = zonefile.Checker(folder)
    text = checker.check(text)
    # The tool may not be able to enter the user's folder; it gets the files that were checked.
    with tempfile.TemporaryDirectory(prefix="reprise-zone-", dir=bind_tools.PLACE) as copies:
        for number, included in enumerate(checker.included.values()):
            (Path(copies) / str(number)).write_bytes(included)
        asked, place = ("-w", copies, *LENIENT), Path(copies)
        made = bind_tools.run(
            ("named-compilezone", "-q", *asked, "-s", "full", "-o", "-", "--", name, "-"), place, text=text
        )
        if made.returncode == 0:
            return made.stdout.decode("latin-1")
        told = bind_tools.run(("named-checkzone", *asked, "--", name, "-"), place, text=text)
    said = told.stdout.decode("utf-8", "replace")
    numbered = {str(number): file for number, file in enumerate(checker.included)}
    why = _complaint(said, numbered) or f"exit status {told.returncode}"
    raise RepriseError(f"zone {name} ({source}) does not load: {why}", "correct the file")


def _complaint(said: str, included: Mapping[str, str]) -> str:
    """The line of named-checkzone that has the reason; warnings about other things come before it."""
    reason = re.search(r"^zone .*?/IN: (?:loading from .* failed: )?(.+)$", said, re.MULTILINE)
    lines = [line for line in said.splitlines() if reason is None or line.endswith(reason[1])]
    text = lines[0] if lines else ""
    text = re.sub(r"^(\w+: )(\d+)(?=:\d+: )", lambda at: at[1] + included.get(at[2], at[2]), text)
    return re.sub(r"stream-0x[0-9a-f]+:", "line ", text)


def copy(source: Path, target: Path) -> None:
    """Copies the files of a folder into another one, with those that links inside the folder name. Whoever
    may enter `target` can read them. Throws UsageError at a link that leaves the folder or names a folder,
    and at devices and the like.
    """
    path = top = source.resolve()
    try:
        for folder, folders, files in os.walk(top, onerror=_fail):
            place = target / Path(folder).relative_to(top)
            if place != target:
                place.mkdir()
                place.chmod(0o755)
            for name in (*files, *(one for one in folders if Path(folder, one).is_symlink())):
                path = Path(folder, name)
                file = zonefile.open_below(path, top)
                if file is None:
                    hint = "copy the file there, or remove it"
                    raise UsageError(f"{path} is not a file of the zone folder", hint)
                with file, (place / name).open("wb") as out:
                    shutil.copyfileobj(file, out)
                    os.fchmod(out.fileno(), 0o644)
    except OSError as error:
        what = f"zone folder {source} cannot be copied: {error.filename or path}: {error.strerror}"
        raise RepriseError(what, "make it readable, or make room in memory") from None


def _fail(error: OSError) -> None:
    raise error
