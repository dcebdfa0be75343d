"""The Debian package says what packages.txt says; versions; the command as it is installed."""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from cli import VERSION, completion, programs
from cli.__main__ import build_parser
from cli.errors import UsageError
from cli.hosts import source
from cli.servers.kinds import KINDS
from cli.tools import package, packages

RULES = programs.ROOT / "packaging/debian"


def field(name: str) -> set[str]:
    """Packages of a field of debian/control, without versions, `:native` and what debhelper fills in."""
    text = (RULES / "control").read_text(encoding="utf-8")
    (value,) = re.findall(rf"^{name}:\n((?: .*\n)+)", text, re.MULTILINE)
    names = {one.split()[0].removesuffix(":native") for one in value.replace("\n", " ").split(",")}
    return {one for one in names if not one.startswith("$")}


def listed(*sections: str) -> set[str]:
    return {name for section in sections for name in packages.listed()[section]}


def test_the_package_is_built_with_what_programs_are_built_with() -> None:
    essential = {"g++"}  # for every build of a package
    assert field("Build-Depends") == {
        "debhelper-compat",
        *(listed("base", "packet", "man") - essential - {"publicsuffix"}),
    }


def test_the_package_depends_on_what_runs_need() -> None:
    assert field("Depends") == listed("run") | {"publicsuffix"}
    assert field("Recommends") == listed("bind", "hierarchy", "capture", "hosts")
    assert field("Suggests") == listed("spread")  # and the other servers, by debian/rules


def test_every_section_is_for_runs_or_for_building() -> None:
    runs = {"run", "hierarchy", "capture", "spread", "hosts"}
    runs |= {name for name, kind in KINDS.items() if not kind.section}
    assert runs | set(packages.BUILDING) == set(packages.listed())
    assert not runs & set(packages.BUILDING)


def test_programs_with_a_man_page_are_installed() -> None:
    lists = "\n".join(path.read_text(encoding="utf-8") for path in programs.ROOT.glob("*/**/CMakeLists.txt"))
    documented = set(re.findall(r"^reprise_man\((\S+)", lists, re.MULTILINE))
    rules = (RULES / "rules").read_text(encoding="utf-8")
    assert set(re.findall(r"^PROGRAMS = (.*)$", rules, re.MULTILINE)[0].split()) == documented
    links = (RULES / "reprise.links").read_text(encoding="utf-8")
    assert set(re.findall(r"^usr/bin/(\S+) ", links, re.MULTILINE)) == documented


def test_later_commits_are_later_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    files, said = source.checksum()[:8], platform.freedesktop_os_release()
    system = f"+{said['ID'][:3]}{said['VERSION_ID']}"
    known: dict[str, list[str]] = {}  # what git says
    monkeypatch.setattr(package, "git", lambda *words: known.get(words[0]))
    assert package.version()[0] == f"{VERSION}+{files}{system}"
    known |= {"show": ["1700000000 abc1234"], "rev-parse": [], "status": []}
    first, time_s = package.version()
    assert (first, time_s) == (f"{VERSION}+git202311142213.abc1234{system}", 1_700_000_000)
    known |= {"show": ["1700000060 0123456"], "status": [" M one"]}
    later, _ = package.version()
    assert later == f"{VERSION}+git202311142214.0123456.{files}{system}"
    for low, high in ((VERSION, first), (first, later)):
        subprocess.run(["dpkg", "--compare-versions", low, "lt", high], check=True)
    known["rev-parse"] = ["within/another/repository/"]
    assert package.version()[0] == f"{VERSION}+{files}{system}"


@pytest.mark.slow  # with which the tool comes
def test_the_changelog_is_read_by_debians_tools(tmp_path: Path) -> None:
    file = tmp_path / "changelog"
    file.write_text(package.changelog("1.2+git3", 1_700_000_000), encoding="utf-8")
    for name, value in (("Version", "1.2+git3"), ("Timestamp", "1700000000"), ("Source", "reprise")):
        argv = ["dpkg-parsechangelog", "-l", str(file), "-S", name]
        assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == value


def test_the_output_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        package.command_package(argparse.Namespace(deb=True, output=tmp_path / "none"))


# --- as it is installed -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the command where the package would have them, without programs."""
    root = tmp_path_factory.mktemp("installed")
    shutil.copytree(programs.ROOT / "cli", root / "cli", ignore=shutil.ignore_patterns("*_test.py"))
    for name in ("report", "experiments"):
        shutil.copytree(programs.ROOT / name, root / name)
    (root / "docs").mkdir()
    for name in ("docs/experiment.schema.json", "packages.txt", "reprise"):
        shutil.copy2(programs.ROOT / name, root / name)
    (root / "source.sha256").write_text("12ab\n", encoding="ascii")
    (root / ".venv").symlink_to(Path(sys.executable).parents[1])
    return root


def said(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Of the command, by a link as in /usr/bin."""
    link = root / "bin/reprise"
    link.parent.mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to("../reprise")
    return subprocess.run([str(link), *words], cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("line", ["test --slow", "bench udp", "fuzz", "package --deb"])
def test_what_builds_needs_the_source(installed: Path, line: str) -> None:
    done = said(installed, *line.split())
    command = line.split(maxsplit=1)[0]
    assert done.returncode == 2
    assert done.stderr == (
        f"reprise: error: reprise {command} needs the source of Reprise; "
        f"run ./reprise {command} in a source tree\n"
    )
    help_text = said(installed, "--help").stdout
    assert not re.search(rf"^    {command}\b", help_text, re.MULTILINE)
    assert re.search(r"^    run\b", help_text, re.MULTILINE)


def test_a_program_that_is_gone_is_not_built(installed: Path) -> None:
    done = said(installed, "trace", "info", "none.pcap")
    assert done.returncode == 1
    assert done.stderr == (
        "reprise: error: program reprise-mutator is missing; as root: apt install --reinstall reprise\n"
    )


def test_missing_packages_are_named_and_not_installed(installed: Path) -> None:
    """One that nobody has stands in for zstd."""
    file = installed / "packages.txt"
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace("\nzstd ", "\nnone-such "), encoding="utf-8")
    try:
        done = said(installed, "run", "quickstart")
    finally:
        file.write_text(before, encoding="utf-8")
    assert done.returncode == 1
    what = "Debian packages are missing: none-such; as root: apt install none-such"
    assert done.stderr == f"reprise: error: {what}\n"


def test_its_source_is_the_one_it_was_built_from(installed: Path) -> None:
    argv, environment = ["/usr/bin/python3", "-P", "-m", "cli.call"], {"PYTHONPATH": str(installed)}
    told, removed = (
        subprocess.run(
            [*argv, f"cli.hosts.source.{function}"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for function in ("checksum", "remove")
    )
    assert (told.returncode, told.stdout, removed.returncode) == (0, "12ab\n", 1)
    assert "belongs to the Debian package; as root: apt remove reprise" in removed.stderr
    assert (installed / "cli/programs.py").is_file()


# --- completion -------------------------------------------------------------------------------------------


def test_bash_completes(tmp_path: Path) -> None:
    """Without a match bash goes on with the names of files, of which there are none here."""
    lines = {
        "reprise ru": {"run"},
        "reprise run quick": {"quickstart"},
        "reprise run quickstart --inv": {"--inventory"},
        "reprise zones syn": {"synth"},
        "reprise zones synth --sig": {"--signed"},
        "reprise trace synth --prof": {"--profile"},
        "reprise mutate in.pcap --anon": {"--anonymize"},
        "reprise report res": set(),
    }
    asked = [
        f'COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; _shtab_reprise; echo "${{COMPREPLY[@]}}"'
        for line in lines
    ]
    argv = ["bash", "-c", "\n".join((completion.script("bash"), *asked))]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [set(one.split()) for one in done.stdout.splitlines()] == [*lines.values()]


def test_zsh_completes(tmp_path: Path) -> None:
    """In a shell at a terminal, as it finds the file after installation."""
    (tmp_path / "_reprise").write_text(completion.script("zsh"), encoding="utf-8")
    environment = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb", "HOME": str(tmp_path)}
    shell = pexpect.spawn(
        programs.packaged("zsh"), ["-f", "-i"], cwd=str(tmp_path), env=environment, timeout=30
    )
    try:
        shell.sendline(
            f"PS1='ready> '; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D; echo un''til"
        )
        shell.expect("until\r\n")
        shell.expect("ready> ")
        for typed, completed in (
            ("reprise exp", "reprise export "),
            ("reprise run quick", "reprise run quickstart "),
            ("reprise zones har", "reprise zones harvest "),
            ("reprise fire --tr", "reprise fire --tra"),
        ):
            shell.send(f"{typed}\t")
            shell.expect_exact(completed)
            shell.sendcontrol("u")
    finally:
        shell.close(force=True)


def test_every_command_has_a_man_page_with_its_line() -> None:
    found = dict(completion.commands(build_parser(), "reprise", "what it is for"))
    assert all(found.values())
    assert {"reprise", "reprise run", "reprise zones synth", "reprise compare"} <= found.keys()
