"""`python -m cli.experiment.document`: writes what is said once in the places that repeat it.

Settings and counters, as `reprise-controller --describe` has them, and the names of servers go to
cli/experiment/settings.py and report/counters.json. The keys of experiments go to the table in
docs/formats.md and to docs/experiment.schema.json, a JSON Schema for editors; the bootstrap, too, knows the
keys from there. The page's table of counters is made of report/counters.json.
"""

import json
import keyword
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from cli import programs
from cli.experiment.experiment import choices, fields, table_of
from cli.experiment.schema import Experiment
from cli.servers.kinds import KINDS

PAGE = programs.ROOT / "docs/formats.md"
SCHEMA_FILE = programs.ROOT / "docs/experiment.schema.json"
SETTINGS = programs.ROOT / "cli/experiment/settings.py"
_COUNTERS = programs.ROOT / "report/counters.json"
_HEAD = "| key | default | meaning |\n|---|---|---|\n"
_COUNTERS_HEAD = "| group | counter | meaning |\n|---|---|---|\n"


def rows(kind: Any = Experiment, prefix: str = "") -> Iterator[str]:
    """A row for each key, below that of its table."""
    for name, field in fields(kind).items():
        below = table_of(field)
        if below is None:
            yield f"| `{prefix}{name}` | {_default(field)} | {_meaning(field)} |\n"
            continue
        said = field.description or " ".join(str(below.__doc__).split())
        title = f"[{prefix}{name}]" if field.default != () else f"[[{prefix}{name}]]"
        yield f"| `{title}` | | {said} |\n"
        yield from rows(below, f"{prefix}{name}.")


def _default(field: FieldInfo) -> str:
    value = field.get_default()
    if value is None or field.is_required() or value == "":
        return ""
    return json.dumps(list(value) if isinstance(value, tuple) else value).join(("`", "`"))


def _meaning(field: FieldInfo) -> str:
    words = next((get_args(one) for one, _ in choices(field.annotation) if get_origin(one) is Literal), ())
    listed = ", ".join(f"`{word}`" for word in words)
    said = field.description or ""
    return f"{listed}: {said}" if listed and not said.startswith('`"') else said


def page(text: str) -> str:
    """The page with its tables as they should be."""
    counters = (
        f"| {group and f'`{group}`'} | `{name}` | {meaning} |\n"
        for group, counters in json.loads(_COUNTERS.read_text(encoding="utf-8")).items()
        for name, meaning in counters.items()
    )
    return _with_table(_with_table(text, _COUNTERS_HEAD, counters), _HEAD, rows())


def _with_table(text: str, head: str, lines: Iterable[str]) -> str:
    """The text with other lines below the head of a table."""
    begin = text.index(head)
    end = text.index("\n\n", begin) + 1
    return text[:begin] + head + "".join(lines) + text[end:]


def json_schema() -> str:
    """The JSON Schema of experiments; a file need not name itself."""

    def untitled(table: dict[str, Any]) -> dict[str, Any]:
        """Without the titles that pydantic makes of names."""
        return {name: one for name, one in table.items() if name != "title" or isinstance(one, dict)}

    text = json.dumps(TypeAdapter(Experiment).json_schema(by_alias=True))
    value = json.loads(text, object_hook=untitled)
    value["required"] = [name for name in value.pop("required", []) if name != "name"]
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return re.sub(r"\n {5,}", " ", re.sub(r"\n {4,}(?=[\]}])", "", text)) + "\n"  # a key a line


def described() -> dict[str, Any]:
    argv = [programs.own("reprise-controller"), "--describe"]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(told)
    return found


_TYPES = {
    "flag": "Flag", "number": "Number", "whole number": "Whole", "text": "Text", "texts": "Texts",
    "number or text": "Mixed", "path": "Path | None", "optional text": "Text | None",
}  # fmt: skip


def settings_module(tables: dict[str, Any]) -> str:
    """The module with the names of servers by what they can be, and a class for each table of settings."""
    lines = [
        '"""Settings, and names of servers, by `python -m cli.experiment.document`. Do not edit."""\n\n',
        "from typing import Annotated, Literal\n\n",
        "from pydantic import Field\n\n",
        "from cli.experiment.keys import Flag, Mixed, Number, Path, Table, Text, Texts, Whole, doc, span\n",
        "\n",
        "# fmt: off\n",
    ]
    for title, can in (("Authoritative", "authoritative"), ("Resolver", "resolver"), ("Proxy", "front")):
        lines += [f"{title} = Literal{[name for name, kind in KINDS.items() if getattr(kind, can)]}\n"]
    for title, can in (("RELOADS", "reloads"), ("TAKES_EXPIRED", "takes_expired")):
        lines += [f"{title} = { {name: kind.title for name, kind in KINDS.items() if getattr(kind, can)} }\n"]
    lines += ["\n"]
    for table, settings in tables.items():
        lines += [f"\nclass {table.title()}Settings(Table):\n"]
        lines += [_setting(name, one) for name, one in settings.items()] + ["\n"]
    return "".join(lines).rstrip() + "\n"


def _setting(name: str, one: dict[str, Any]) -> str:
    kind, default, meaning = one["type"], one["default"], f"doc({one['help']!r})"
    value = repr(tuple(default) if isinstance(default, list) else default)
    if "low" in one and kind != "whole numbers":
        low, high = (int(one[end]) if one[end] == int(one[end]) else one[end] for end in ("low", "high"))
        meaning = f"span({low}, {high}, {one['help']!r})"
    if kind == "whole numbers":
        annotation = f"tuple[Annotated[Whole, Field(ge={int(one['low'])}, le={int(one['high'])})], ...]"
    elif "words" in one:
        annotation = f"Literal[{', '.join(map(repr, one['words'].split(', ')))}]"
    else:
        annotation = _TYPES[kind]
    if keyword.iskeyword(name):
        name, meaning = f"{name}_", f"Field(alias={name!r}, description={one['help']!r})"
    return f"    {name}: Annotated[{annotation}, {meaning}] = {None if '| None' in annotation else value}\n"


def main() -> None:
    told = described()
    _COUNTERS.write_text(json.dumps(told["counters"], indent=2) + "\n", encoding="utf-8")
    module = settings_module(told["settings"])
    if SETTINGS.read_text(encoding="utf-8") != module:
        SETTINGS.write_text(module, encoding="utf-8")
        os.execv(sys.executable, [sys.executable, "-m", "cli.experiment.document"])  # which reads it
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA_FILE.write_text(json_schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
