"""Experiments: a strict TOML file becomes one frozen value with every default in sight.

Unknown keys, wrong types and values out of range are refused with the key's whole name and what it wants.
Paths in the file are relative to the file, paths given by `--set` to the working directory; both are
absolute afterward.
"""

import dataclasses
import difflib
import functools
import os
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from cli.errors import UsageError, want_choice
from cli.experiment import keys, rules, tables
from cli.experiment.schema import Experiment
from report.run import RENAMED
from report.run import leaves as leaves_in

_READER = TypeAdapter(Experiment)
EARLIER = re.compile(r"@(\d+)/(.+)")  # a value of [sweep]: a file of an earlier variant, counted from 1
_NEAR = 0.7  # of a name, to be suggested: "nonsense" is none of "answers"


def load(path: Path, settings: list[str]) -> Experiment:
    """Reads the file, lays the `--set` settings over it and checks the whole."""
    return read(path, settings)[0]


def read(path: Path, settings: list[str]) -> tuple[Experiment, tuple[str, ...]]:
    """As `load`, with the dotted keys that the file and the settings give; all others have their defaults."""
    table, here = with_paths(tables.read(path), _absolute(path.resolve().parent)), _absolute(Path.cwd())
    for setting in settings:
        tables.lay_over(table, setting, lambda key, text: with_paths(_typed(key, text), here, key))
    named = given(table)
    return of({"name": path.stem, **named}), tuple(name for name, _ in leaves_in(named))


def of(table: Mapping[str, Any]) -> Experiment:
    """Checks the tables of an experiment, whose paths are absolute."""
    try:
        experiment = _READER.validate_python(given(table))
    except ValidationError as error:
        raise _usage_error(error) from None
    rules.check(experiment)
    return experiment


def as_dict(value: Any) -> dict[str, Any]:
    """The experiment, or what holds it, as plain values under the keys of the file."""
    return dataclasses.asdict(value, dict_factory=lambda pairs: {key.rstrip("_"): one for key, one in pairs})


def given(table: Mapping[str, Any]) -> dict[str, Any]:
    """The tables without keys that have no value, such as what `--set KEY=` has taken back."""
    return {
        name: given(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


# --- the schema's keys ------------------------------------------------------------------------------------


def fields(kind: Any) -> dict[str, FieldInfo]:
    """The keys of a table of the schema; none where the type is no table."""
    found: dict[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    return {one.alias or name: one for name, one in found.items()}


def choices(kind: Any, items: bool = False) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The types that a value may have, each with its own annotations; `items`: that one in a list may."""
    if typing.get_origin(kind) is Annotated:
        inner, *notes = typing.get_args(kind)
        yield from ((one, (*more, *notes)) for one, more in choices(inner, items))
    elif isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        for part in typing.get_args(kind):
            yield from choices(part, items)
    elif items and _is_list(kind):
        yield from choices(typing.get_args(kind)[0])
    elif kind is not type(None):
        yield kind, ()


def table_of(field: FieldInfo) -> Any:
    """The type of the table, or of each of the tables, that a key holds; None where it holds a value."""
    return next((kind for kind, _ in choices(field.annotation, items=True) if fields(kind)), None)


def is_path(field: FieldInfo) -> bool:
    """Whether a key holds the path of a file or a folder."""
    notes = (note for _, more in choices(field.annotation) for note in more)
    return any(isinstance(note, keys.File) for note in (*notes, *field.metadata))


@functools.cache
def file_keys() -> frozenset[str]:
    """The whole names of those keys, with the ones of [synth]."""
    return frozenset(("synth.names", "synth.tld_file", *(name for name, field in leaves() if is_path(field))))


@functools.cache
def leaves(kind: Any = Experiment, prefix: str = "") -> tuple[tuple[str, FieldInfo], ...]:
    """The whole names of all keys that hold values, or lists of tables; those of [replay] come last."""
    known, found = fields(kind), list[tuple[str, FieldInfo]]()
    for name in sorted(known, key=lambda one: one == "replay"):
        is_list = any(_is_list(one) for one, _ in choices(known[name].annotation))
        below = None if is_list else table_of(known[name])
        found += leaves(below, f"{prefix}{name}.") if below else [(prefix + name, known[name])]
    return tuple(found)


def keys_of(*tables: str) -> tuple[str, ...]:
    """The whole names of the keys in some tables; `TABLE.` where a table may have any."""
    every = [name for name, _ in leaves()]
    return tuple(
        f"{name}." if name == table else name
        for table in tables
        for name in every
        if table in (name, name.rpartition(".")[0])
    )


def _typed(key: str, text: str) -> Any:
    """A `--set` value: text where the schema wants text, otherwise a TOML value (bare words are text)."""
    kind: Any = Experiment
    field = None
    names = key.split(".")
    for depth, name in enumerate(names):
        if field is not None and any(typing.get_origin(one) is dict for one, _ in choices(field.annotation)):
            return tables.parse(text)
        if name not in fields(kind):
            raise _unknown(".".join(names[: depth + 1]), fields(kind))
        field = fields(kind)[name]
        kind = table_of(field)
    assert field is not None
    kinds = [one for one, _ in choices(field.annotation)]
    said = text.strip()
    said = str(tables.parse(said)) if said.startswith('"') else said  # only a whole text has quotes around it
    if all(one is str or typing.get_origin(one) is Literal for one in kinds):
        return said or None
    value = tables.parse(text) if text.strip() else None
    return [value] if _is_list(kinds[0]) and value is not None and not isinstance(value, list) else value


def with_paths(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """The tables, or the value of a key, with every path as `change` makes it of its key and itself: also in
    lists, in [sweep] and in rules (`key = "@FILE"`). Wrong types are left for the schema to name.
    """
    key = key.removeprefix("sweep.")
    if isinstance(value, dict):
        return {name: with_paths(one, change, f"{key}.{name}".lstrip(".")) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_paths(one, change, key) for one in value]
    if not isinstance(value, str) or not value:
        return value
    if key == "mutate.rule.key" and value.startswith("@"):
        return f"@{change(key, value[1:])}"
    return change(key, value) if key in file_keys() else value


def _absolute(base: Path) -> Callable[[str, str], str]:
    """Paths count from a folder, but for those in the results of an earlier variant."""
    return lambda _, path: path if EARLIER.fullmatch(path) else os.path.normpath(base / path)


# --- errors -----------------------------------------------------------------------------------------------


def _usage_error(error: ValidationError) -> UsageError:
    """The first complaint in our words; keys that are unknown come first."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "unexpected_keyword_argument"), found[0])
    kind: Any = Experiment
    field = None
    names: list[str] = []
    rest = list(first["loc"])
    while rest and rest[0] in fields(kind):
        names.append(str(rest.pop(0)))
        field = fields(kind)[names[-1]]
        kind = table_of(field)
        if kind and len(rest) > 1 and isinstance(rest[0], int):
            names[-1] += f" {int(rest.pop(0)) + 1}"
    key = ".".join(names)
    if first["type"] == "unexpected_keyword_argument":
        return _unknown(".".join([*names, str(rest[0])]), fields(kind))
    assert field is not None
    same = [one for one in found if one["loc"][: len(names)] == first["loc"][: len(names)]]
    return _wrong(key, field, same, any(isinstance(one, int) for one in rest))


def _wrong(key: str, field: FieldInfo, found: list[Any], is_item: bool) -> UsageError:
    """What is wrong with a value, or with a value in a list; of a key of several types each has its
    complaint.
    """
    by_type = {one["type"]: one for one in reversed(found)}
    value = found[0]["input"]
    if "missing" in by_type:
        return UsageError(f"{key} is missing", "add it, see docs/formats.md")
    if form := by_type.get("form", {}).get("ctx"):
        return UsageError(f"{key} = {value!r} {form['what']}", form["hint"])
    word = next(
        (one["input"] for one in found if one["type"] == "literal_error" and type(one["input"]) is str), None
    )
    if word is not None:
        words = next(_literals(field))
        for other, one in leaves():
            if any(word in known for known in _literals(one)):
                hint = f"it is a value of {other}; use one of {', '.join(words)}"
                return UsageError(f"{key} = {word!r} is unknown", hint)
        want_choice(key, word, words)  # which it is not
    if by_type.keys() & {"greater_than_equal", "less_than_equal"}:
        kind, notes = _number(field)
        low, high = (next(getattr(one, end) for one in notes if hasattr(one, end)) for end in ("ge", "le"))
        shown = float(value) if kind is float else value
        has = f"{key} has {shown}" if is_item else f"{key} = {shown} is out of range"
        return UsageError(has, f"use {low:g} to {high:g}" if high < 1e6 else f"use {low} to {high}")
    shown = "..." if key.startswith("mutate.rule") else repr(value)  # it may hold a secret key
    wants = " or ".join(dict.fromkeys(describe(one) for one, _ in choices(field.annotation, is_item)))
    return UsageError(f"{key} = {shown} has the wrong type", f"it must be {wants}")


def _number(field: FieldInfo) -> tuple[Any, list[Any]]:
    """The type with a range among those of a key or of a list's items."""
    found = choices(field.annotation, items=True)
    kind, notes = next((kind, notes) for kind, notes in found if kind in (int, float))
    return kind, [*notes, *field.metadata, *(one for note in notes for one in getattr(note, "metadata", []))]


def _literals(field: FieldInfo) -> Iterator[tuple[str, ...]]:
    """The words that a key, or an item of its list, may be."""
    found = (kind for kind, _ in choices(field.annotation, items=True))
    return (typing.get_args(kind) for kind in found if typing.get_origin(kind) is Literal)


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def describe(kind: Any) -> str:
    """What values of a type are called in messages."""
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if _is_list(kind):
        return f"a list, each {' or '.join(describe(one) for one, _ in choices(typing.get_args(kind)[0]))}"
    return "text" if typing.get_origin(kind) is Literal else words.get(kind, "a table")


def _unknown(key: str, known: Mapping[str, Any]) -> UsageError:
    """A key that is in no table, with the nearest that is."""
    prefix, _, name = key.rpartition(".")
    what = f"unknown key {key}"
    if key in RENAMED:
        return UsageError(what, f"it is {RENAMED[key]} now")
    if not known:
        return UsageError(what, f"{prefix} has no keys of its own")
    elsewhere = {one.rpartition(".")[2]: one for one, _ in leaves()}
    if name in elsewhere:
        return UsageError(what, f"did you mean {elsewhere[name]}?")
    for names in ({one: f"{prefix}.{one}".removeprefix(".") for one in known}, elsewhere):
        near = difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)
        if near:
            return UsageError(what, f"did you mean {names[near[0]]}?")
    return UsageError(what, f"known keys{' of ' + prefix if prefix else ''}: {', '.join(known)}")
