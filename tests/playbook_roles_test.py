"""Roles of the playbooks: what they say of their arguments is what they do."""

from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cli import programs

FOLDER = programs.ROOT / "playbooks"
ROLES = sorted(path.name for path in (FOLDER / "roles").iterdir())


def read(role: str, file: str) -> dict[str, Any]:
    path = FOLDER / "roles" / role / file
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


@pytest.mark.parametrize("role", ROLES)
def test_a_role_takes_the_defaults_that_it_names(role: str) -> None:
    options = read(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    named = {name: option["default"] for name, option in options.items() if "default" in option}
    assert named == read(role, "defaults/main.yml")


def test_every_role_is_in_a_playbook_and_on_their_page() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yml"))
    assert [role for role in ROLES if f"role: {role}\n" not in texts] == []
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [role for role in ROLES if f"\n| `{role}` |" not in page] == []
    assert all((FOLDER / f"{name}.yml").is_file() for name in ("deploy", "site", "teardown"))
