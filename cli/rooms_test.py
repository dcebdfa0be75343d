"""Imports between the packages of this folder point one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

from cli import programs

# A package may import from those before it; "" is what lies in this folder itself.
ORDER = ("", "experiment", "servers", "zones", "plan", "executor", "hosts", "tools")
COMMANDS = ("__main__", "bootstrap", "completion")  # use everything, and are imported by nothing else
FOLDER = programs.ROOT / "cli"
BASE = tuple(path.stem for path in FOLDER.glob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of what a file imports from here."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cli":
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name.startswith("cli."))


def place(parts: tuple[str, ...]) -> int:
    """Where in the order a file or an imported name is, after "cli"."""
    if parts[0] in COMMANDS or parts[:2] == ("experiment", "document"):
        return len(ORDER)
    return ORDER.index(parts[0]) if parts[0] in ORDER else 0


def test_imports_between_packages_point_one_way() -> None:
    wrong = [
        f"{path.relative_to(programs.ROOT)}:{line} imports {name}"
        for path in sorted(FOLDER.rglob("*.py"))
        if not path.stem.endswith("_test")
        for line, name in imports(path)
        if place(tuple(name.split(".")[1:])) > place(path.relative_to(FOLDER).with_suffix("").parts)
    ]
    assert wrong == []


def test_every_package_is_in_the_order() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(ORDER) - {""}


def test_the_executor_needs_nothing_but_the_plan() -> None:
    """Another one has only plan.json; the command around ours (run.py, preflight.py) may make the plan."""
    given = {"cli.plan.planned", "cli.plan.network"}
    given |= {"cli.servers.ask", "cli.servers.nftables", "cli.servers.running"}
    wrong = [
        f"{path.name} imports {name}"
        for path in sorted((FOLDER / "executor").glob("*.py"))
        if path.stem not in ("run", "preflight") and not path.stem.endswith("_test")
        for _, name in imports(path)
        if name.count(".") > 1 and name.split(".")[1] not in ("executor", *BASE)
        if not any(name == one or name.startswith(f"{one}.") for one in given)
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = {
        ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts): path for path in FOLDER.rglob("*.py")
    }
    needs = {
        name: {
            one if one in known else one.rpartition(".")[0]
            for _, one in imports(path)
            if one in known or one.rpartition(".")[0] in known
        }
        for name, path in known.items()
        if not name.endswith("_test") and path.stem not in COMMANDS
    }
    while free := [name for name, wanted in needs.items() if not wanted & needs.keys()]:
        for name in free:
            del needs[name]
    assert sorted(needs) == []
