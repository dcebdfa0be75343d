"""`python -m cli.tools.role_tables`: writes what the roles' arguments are into playbooks/README.md.

Everything up to the heading of the roles is written by hand; behind it is a table for each role.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from cli import programs

FOLDER = programs.ROOT / "playbooks"
PAGE = FOLDER / "README.md"
HEADING = "## Roles\n"
_HEAD = "| argument | type | default | required | meaning |\n|---|---|---|---|---|\n"


def roles(folder: Path = FOLDER) -> list[str]:
    """Names, in their alphabetical order."""
    return sorted(path.name for path in (folder / "roles").iterdir())


def spec(role: str, folder: Path = FOLDER) -> Mapping[str, Any]:
    """The specification of a role's entry point."""
    text = (folder / "roles" / role / "meta/argument_specs.yml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)["argument_specs"]["main"]
    return found


def defaults(role: str, folder: Path = FOLDER) -> Mapping[str, Any]:
    """What the role itself takes where an argument is not given."""
    path = folder / "roles" / role / "defaults/main.yml"
    found: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def rows(options: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """A row for each argument; those that a dictionary holds are below it."""
    for name, option in options.items():
        kind = f"list of {option['elements']}" if "elements" in option else option.get("type", "str")
        default = f"`{_value(option['default'])}`" if "default" in option else ""
        required = "yes" if option.get("required") else "no"
        yield f"| `{prefix}{name}` | {kind} | {default} | {required} | {option['description']} |\n"
        yield from rows(option.get("options", {}), f"{prefix}{name}.")


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def section(role: str) -> str:
    """A role's part of the page."""
    found = spec(role)
    return f"### `{role}`\n\n{found['short_description']}.\n\n{_HEAD}{''.join(rows(found['options']))}"


def page(text: str) -> str:
    """The page with the tables as they should be."""
    return text[: text.index(HEADING)] + HEADING + "\n" + "\n".join(map(section, roles()))


def main() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
