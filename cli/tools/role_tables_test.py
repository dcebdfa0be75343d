"""The page of the playbooks says of roles what their argument specifications do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.tools import role_tables


def test_the_page_is_what_the_roles_say() -> None:
    """`python -m cli.tools.role_tables` writes it."""
    text = role_tables.PAGE.read_text(encoding="utf-8")
    assert role_tables.page(text) == text


@pytest.mark.parametrize("role", role_tables.roles())
def test_a_role_takes_the_defaults_that_it_names(role: str) -> None:
    named = {
        name: option["default"]
        for name, option in role_tables.spec(role)["options"].items()
        if "default" in option
    }
    assert named == role_tables.defaults(role)


def test_arguments_within_others_have_rows_of_their_own() -> None:
    inner = {"type": "int", "default": 3, "description": "How many."}
    listed = {"type": "list", "elements": "str", "required": True, "description": "Which."}
    options = {"outer": {"type": "dict", "description": "All.", "options": {"inner": inner, "names": listed}}}
    assert list(role_tables.rows(options)) == [
        "| `outer` | dict |  | no | All. |\n",
        "| `outer.inner` | int | `3` | no | How many. |\n",
        "| `outer.names` | list of str |  | yes | Which. |\n",
    ]


def test_every_role_is_in_a_playbook() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in role_tables.FOLDER.glob("*.yml"))
    assert [role for role in role_tables.roles() if f"role: {role}\n" not in texts] == []
    assert all(Path(f"{role_tables.FOLDER}/{name}.yml").is_file() for name in ("deploy", "site", "teardown"))
