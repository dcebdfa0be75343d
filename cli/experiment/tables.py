"""Reads an experiment's file and lays `--set` settings over it, with Python's own library alone: what a
command needs is read off the tables before anything is installed.
"""

import datetime
import errno
import itertools
import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cli import programs
from cli.errors import UsageError, want
from report.run import leaves

_OURS = programs.ROOT / "experiments"
_MOST_BYTES = 1_000_000
_DEEPEST = 50  # levels of tables and lists
_TOO_DEEP = f"nests tables and lists more than {_DEEPEST} deep"


def find(given: str) -> Path:
    """The path of an experiment; those in experiments/ may be given by their names alone."""
    ours = _OURS / f"{given.removesuffix('.toml')}.toml"
    return ours if "/" not in given and not Path(given).is_file() and ours.is_file() else Path(given)


def read(path: Path) -> dict[str, Any]:
    """The file's tables; dates and times are RFC 3339 text, so that all can be written as JSON."""
    try:
        found: dict[str, Any] = plain(tomllib.loads(read_small(path).decode("utf-8-sig")))
    except FileNotFoundError:
        ours = ", ".join(sorted(one.stem for one in _OURS.glob("*.toml")))
        raise UsageError(f"no experiment {path}", f"give a file, or one of {ours}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "give a readable TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "correct it at the place named") from None
    except RecursionError:
        raise UsageError(f"{path} {_TOO_DEEP}", "use fewer levels") from None
    return found


def combinations(sweep: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of [sweep] by their keys; with mode = "list" the first values of all,
    the second ones and so on. What is no list of values is left out.
    """
    axes = {key: values for key, values in leaves(sweep) if isinstance(values, list) and values}
    alike = sweep.get("mode") == "list" and len({len(values) for values in axes.values()}) == 1
    rows = zip(*axes.values(), strict=True) if alike else itertools.product(*axes.values())
    return (dict(zip(axes, row, strict=True)) for row in rows)


def read_small(path: Path) -> bytes:
    """A file that a person writes: a regular one of at most 1 MB, as pipes and devices may never end. Raises
    OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        found = file.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 1 MB")
    return found


def plain(value: Any, depth: int = 0) -> Any:
    """The value with its dates and times as RFC 3339 text. Raises RecursionError where it is nested deeper
    than anything here is.
    """
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        return {key: plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one, depth + 1) for one in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat().replace("+00:00", "Z")
    return value


def parse(text: str) -> Any:
    """A value as TOML writes it; bare words are text."""
    try:
        return plain(tomllib.loads(f"value = {text}")["value"])
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        raise UsageError(f"a --set value {_TOO_DEEP}", "use fewer levels") from None


def line(key: str, value: Any) -> str:
    """A key with its value as TOML writes them."""
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return f"{key if bare else json.dumps(key)} = {text_of(value)}"


def text_of(value: Any) -> str:
    """A value as TOML writes it: texts, numbers, booleans and lists of them as JSON does, but for DEL."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(line(key, one) for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def lay_over(
    table: dict[str, Any],
    setting: str,
    value_of: Callable[[str, str], Any] = lambda _, text: parse(text),
) -> None:
    """Puts one `--set a.b=value` into the tables; `value_of` makes a key's value of the text."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {setting} has no '='", "write --set KEY=VALUE")
    names = key.strip().split(".")
    want(len(names) <= _DEEPEST, f"a --set key {_TOO_DEEP}", "see docs/formats.md for the keys")
    value = value_of(key.strip(), text)
    at = table
    for name in names[:-1]:
        at = at.setdefault(name, {})
        if not isinstance(at, dict):
            raise UsageError(f"--set {key}: {name} is not a table", "see docs/formats.md for the keys")
    at[names[-1]] = value


def unknown_keys(table: Mapping[str, Any]) -> list[str]:
    """Keys that the published schema does not have; what they hold is not looked at."""
    schema = json.loads((programs.ROOT / "docs/experiment.schema.json").read_text(encoding="utf-8"))

    def look(given: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
        known = next((one for one in known.get("anyOf", []) if "$ref" in one), known)
        known = schema["$defs"][known["$ref"].rpartition("/")[2]] if "$ref" in known else known
        for name, value in given.items():
            if "properties" in known and name not in known["properties"]:
                yield name
            elif isinstance(value, Mapping):
                yield from look(value, known.get("properties", {}).get(name, {}))

    return list(look(table, schema))


def get(table: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value of a dotted key, or the default where it is not there or has none."""
    found: Any = table
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return default if found is None else found
