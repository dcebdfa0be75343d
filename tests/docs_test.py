"""The commands that README and tutorial print: all are understood; the tutorial works in its order."""

import dataclasses
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from cli import programs
from cli.__main__ import build_parser
from cli.experiment.experiment import load
from cli.experiment.schema import Experiment
from report import kernel

ROOT = programs.ROOT
PAGES = (
    "README.md",
    "docs/artifact.md",
    "docs/container.md",
    "docs/hierarchy.md",
    "docs/testbeds.md",
    "docs/tutorial.md",
)
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench").glob("*.md"),
        ROOT / "playbooks/README.md",
    ]
)


def commands(page: str, *others: str) -> list[str]:
    """Indented lines that begin with ./reprise or one of the other words, continued lines joined."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    return [
        line.strip()
        for line in text.splitlines()
        if line.startswith(tuple(f"    {one}" for one in ("./reprise", *others)))
    ]


@pytest.mark.parametrize(("page", "command"), [(page, one) for page in PAGES for one in commands(page)])
def test_every_command_is_understood(page: str, command: str) -> None:
    words = shlex.split(re.sub(r"\$\(.*?\)", "file", command), comments=True)[1:]
    options = build_parser().parse_args(words)
    if options.command in ("run", "plan"):
        load(ROOT / options.experiment, options.set)
    if options.command in ("trace", "mutate"):
        command = words[1] if options.command == "trace" else "mutate"
        help_text = subprocess.run(
            [programs.own("reprise-mutator"), command, "--help"], capture_output=True, text=True, check=True
        ).stdout
        known = re.findall(r"--[a-z0-9-]+", help_text)
        assert all(word in known for word in words if word.startswith("--")), page


@pytest.mark.slow
@pytest.mark.netns
def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    """In an empty folder with the experiments in it, by the shell, stopping at the first failure."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    wrapper = tmp_path / "reprise"
    wrapper.write_text(f'#!/bin/sh\nexec {ROOT}/reprise "$@"\n', encoding="ascii")
    wrapper.chmod(0o755)
    script = "set -e\n" + "\n".join(commands("docs/tutorial.md", "(umask"))
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "results/comparison.html").is_file()


def keys(kind: type[Any], prefix: str = "") -> list[str]:
    """Every key of an experiment, dotted."""
    found: list[str] = []
    for one in dataclasses.fields(kind):
        parts = [part for part in (hints(kind)[one.name], *get_args(hints(kind)[one.name])) if is_table(part)]
        found += keys(parts[0], f"{prefix}{one.name}.") if parts else [prefix + one.name.rstrip("_")]
    return found


def hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def is_table(kind: object) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def test_every_key_of_an_experiment_is_documented() -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    table = page[page.index("## Experiments") :]
    for key in keys(Experiment):
        last = key.rsplit(".", 1)[-1]
        assert f"`{key}`" in table or f"`.{last}`" in table or f"[{last}]" in table, key


# --- the pages themselves ----------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """Of the headings, as they are made from their words."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short_and_links_lead_somewhere(page: Path) -> None:
    """Rows of tables and headings, which cannot be broken, may be longer than 100 characters."""
    text = page.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#"))]
    assert [line for line in lines if len(line) > 100] == []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def test_no_page_has_marks_of_a_merge() -> None:
    for path in DOCUMENTS:
        assert not re.search(r"^(<<<<<<<|>>>>>>>) ", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_the_architecture_is_a_short_page() -> None:
    assert len((ROOT / "docs/architecture.md").read_text(encoding="utf-8").split()) <= 1_700


# --- the troubleshooting page -----------------------------------------------------------------------------


def _sources() -> str:
    folders = ("cli", "report", "core", "mutator", "zonebuilder", "controller", "querier", "proxy")
    paths: list[Path] = [programs.ROOT / "reprise"]
    for folder in folders:
        for ending in ("*.py", "*.cc", "*.hh"):
            paths += (programs.ROOT / folder).rglob(ending)
    texts = [path.read_text(encoding="utf-8") for path in paths if "_test" not in path.name]
    # Literals that go on in the next line are one text.
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))


def _pieces(heading: str) -> list[str]:
    """The fixed pieces: capitals are filled in, and " failed: " joins a step's title and the tool's words."""
    return [one for one in re.split(r"\b[A-Z]+\b| failed: ", heading) if len(one.strip()) > 3]


def test_every_message_of_the_troubleshooting_page_is_still_printed() -> None:
    page = (programs.ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### `(.+)`$", page, re.MULTILINE)
    assert len(headings) > 40
    sources = _sources()
    missing = [one for one in headings if not all(piece in sources for piece in _pieces(one))]
    assert missing == []


def test_every_fault_of_the_table_has_its_test() -> None:
    page, _, _figures = (ROOT / "docs/reliability.md").read_text(encoding="utf-8").partition("## A minute")
    rows = [line.strip("|").split("|")[-1].strip() for line in page.splitlines() if line.startswith("| ")]
    named = [row for row in rows if row not in ("test", "")]
    assert len(named) >= 20
    for one in named:
        path, _, name = one.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        written = f"def {name}(" if path.endswith(".py") else name.replace(".", ", ")
        assert written in text, f"docs/reliability.md names {one}"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("reassembly/tally.hh", r'\{"([a-z0-9_]+)"'),
        ("forms/dnstap/dnstap_source.cc", r'"([a-z0-9]+_[a-z0-9_]+)"'),
        ("forms/cdns/cdns_block.cc", r'"([a-z0-9]+_[a-z0-9_]+)"'),
        ("forms/cdns/cdns_source.cc", r'"([a-z0-9]+_[a-z0-9_]+)"'),
    ],
)
def test_every_counter_of_the_reader_is_in_the_formats(file: str, name: str) -> None:
    """Those of dnstap and C-DNS are counted by name: no other text in their readers has an underscore."""
    names = set(re.findall(name, (ROOT / "core/trace" / file).read_text(encoding="utf-8")))
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert len(names) > 4
    assert [one for one in sorted(names) if f"`{one}`" not in page] == []


def test_every_counter_of_a_kernel_is_in_the_formats_as_it_is_judged() -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    table = page.split("## `counters-HOST.txt`")[1].split("\n|---|---|---|---|\n")[1].split("\n\n")[0]
    assert table.splitlines() == [
        f"| `{one.key}` | {one.verdict} | {one.tolerance} | {one.why} |" for one in kernel.TABLE
    ]
