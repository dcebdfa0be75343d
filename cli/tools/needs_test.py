"""What command lines need, and that it is what the plans use."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import bootstrap, programs
from cli.__main__ import build_parser
from cli.experiment import tables
from cli.servers import kinds
from cli.tools import bench, needs, packages
from cli.tools.needs import Needs

EXPERIMENTS = programs.ROOT / "experiments"
QUICKSTART = str(EXPERIMENTS / "quickstart.toml")
REPLAY = {"reprise-controller", "reprise-querier", "reprise-sampler", "reprise-mutator"}


def needs_of(words: list[str]) -> Needs:
    return needs.of(build_parser().parse_args(words))


@pytest.mark.parametrize(
    "words", ["", "--help", "--version", "run --help", "zap", "bench", "bench zap", "test -h"]
)
def test_help_and_what_is_no_command_need_nothing(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "_carry_out", lambda _: pytest.fail("something is installed"))
    bootstrap.prepare(words.split())
    assert capsys.readouterr() == ("", "")  # the command tells it


@pytest.mark.parametrize(("others", "left"), [(0, None), (1, "1")])
def test_who_owns_the_environment_compiles_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int, left: str | None
) -> None:
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + others)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "yes")
    bootstrap.decide_on_bytecode()
    assert os.environ.get("PYTHONDONTWRITEBYTECODE") == left


def test_the_value_of_an_option_names_no_bench() -> None:
    assert needs_of(["bench", "-o", "mutate", "udp"]) == needs_of(["bench", "udp"])
    assert "packet" in needs_of(["bench", "--repeats", "2", "udp", "--quick"]).sections
    assert needs_of(["bench", "--resume", "udp"]) == needs_of(["bench", "udp"])


@pytest.mark.parametrize(
    ("words", "sections", "more_targets"),
    [
        ("quickstart", "", ""),
        ("quickstart --set server.kind=bind", "bind", ""),
        ("quickstart --set=server.kind=bind --set sample.capture=true", "bind capture", ""),
        ("quickstart --set rtt.rtt_ms=20", "hierarchy", "reprise-proxy"),
        ("quickstart --set replay.source_mode=packet", "packet", ""),
        ("quickstart --set server.front=bpf", "packet", "reprise-proxy"),
        ("quickstart --set server.front=reference", "", "reprise-proxy"),
        ("quickstart --set server.front=dnsdist --set server.kind=knot", "knot dnsdist", ""),
        ("quickstart --set server.kind=command", "", ""),
        ("faults", "hierarchy", ""),
        ("hierarchy", "bind hierarchy capture", "reprise-zonebuilder reprise-proxy"),
        ("hierarchy --set hierarchy.data_path=nft", "bind hierarchy capture", "reprise-zonebuilder"),
        ('quickstart --set sweep.server.kind=["nsd","bind"] --set repeat.n=3', "bind", ""),
        ('quickstart --set sweep.replay.source_mode=["ports","packet"] --resume x', "packet", ""),
        (
            "hierarchy --set hierarchy.resolver=unbound --set hierarchy.engine=nsd",
            "hierarchy capture",
            "reprise-zonebuilder reprise-proxy",
        ),
        (  # which the command refuses
            "hierarchy --set hierarchy.resolver=5 --set hierarchy.engine=[1]",
            "hierarchy capture",
            "reprise-zonebuilder reprise-proxy",
        ),
    ],
)
def test_an_experiment_needs_what_it_asks_for(words: str, sections: str, more_targets: str) -> None:
    name, *settings = words.split()
    for command in ("run",) if "--resume" in words else ("run", "plan"):
        found = needs_of([command, str(EXPERIMENTS / f"{name}.toml"), *settings])
        assert set(found.sections) == {"base", "run", *sections.split()}
        assert set(found.targets) == REPLAY | set(more_targets.split())
        assert found.python == ("requirements.txt",)


def test_hosts_need_ansible_here() -> None:
    found = needs_of(["run", str(QUICKSTART), "--inventory=hosts"])
    assert found.sections == ("base", "run", "hosts")
    assert found.python == ("requirements.txt", "requirements-hosts.txt")
    assert set(found.targets) == REPLAY
    delayed = needs_of(["run", str(QUICKSTART), "--inventory=hosts", "--set", "rtt.rtt_ms=5"])
    assert set(delayed.targets) == REPLAY | {"reprise-proxy"}  # which looks at the options of [rtt]


@pytest.mark.parametrize("words", ["none.toml", f"{QUICKSTART} --set no.such=key"])
def test_nothing_is_installed_for_what_will_be_refused(words: str) -> None:
    assert needs_of(["run", *words.split()]) == Needs()


def test_every_experiment_gets_the_programs_of_its_plan() -> None:
    for path in sorted(EXPERIMENTS.glob("*.toml")):
        found = needs_of(["run", str(path)])
        assert set(kinds.own_programs(tables.read(path))) <= set(found.targets), path


def test_other_commands() -> None:
    assert needs_of(["trace", "info", "--help"]).targets == ("reprise-mutator",)
    assert needs_of(["report", "x"]).targets == ()
    assert needs_of(["check", "x"]).python == needs_of(["report", "x"]).python != ()
    assert needs_of(["mutate", "a", "-o", "b"]).sections == ("base",)
    assert needs_of(["mutate", "a", "--inventory=hosts", "-o", "b"]).sections == ("base", "spread", "hosts")
    assert needs_of(["zones", "synth", "--signed", "-o", "w"]).sections == ("base", "run")
    assert needs_of(["inventory", "cloudlab", "m.xml", "-o", "h.ini"]) == Needs()
    assert needs_of(["inventory", "merge", "g", "e", "--user", "u", "-o", "h.ini"]).python == (
        "requirements.txt",
        "requirements-hosts.txt",
    )
    assert "packet" in needs_of(["bench", "udp", "--quick"]).sections
    assert "packet" not in needs_of(["bench", "--quick", "mutate"]).sections
    assert needs_of(["test", "--slow"]).python == (
        "requirements.txt",
        "requirements-hosts.txt",
        "requirements-export.txt",
        "requirements-test.txt",
    )
    assert needs_of(["export", "x", "--csv"]).python == ("requirements.txt",)
    assert needs_of(["export", "x", "--parquet"]).python == ("requirements.txt", "requirements-export.txt")


def test_runs_that_are_asked_again_need_their_servers(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"experiment": {"server": {"kind": "bind"}}}')
    found = needs_of(["compare", "--again", str(tmp_path), "x"])
    assert set(found.sections) == {"base", "run", "bind"} and set(found.targets) == REPLAY
    assert needs_of(["compare", str(tmp_path), "x"]).targets == ("reprise-mutator",)


def test_sections_and_targets_exist() -> None:
    lines = [["run", str(path)] for path in EXPERIMENTS.glob("*.toml")]
    lines += [
        ["test"],
        ["doctor"],
        ["mutate", "--inventory=x"],
        ["zones", "plan", "x", "-o", "y"],
        ["run", QUICKSTART, "--set", "rtt.rtt_ms=1"],
    ]
    lines += [["fuzz"], ["package", "--deb"]]
    lines += [["bench", name] for name in bench.BENCHES]
    found = [needs_of(line) for line in lines]
    assert {section for one in found for section in one.sections} == set(packages.listed())
    made = "\n".join(path.read_text(encoding="utf-8") for path in programs.ROOT.glob("*/**/CMakeLists.txt"))
    for target in {target for one in found for target in one.targets}:
        assert re.search(rf"\b(add_executable|reprise_program)\({target}\s", made)


# --- packages and their programs --------------------------------------------------------------------------


def test_sections_of_packages() -> None:
    text = "# c\n[run]\na  # why\n\n[test]\nb # why\nc\n[none]\n"
    assert packages.read(text) == {"run": ("a",), "test": ("b", "c"), "none": ()}


def test_every_package_has_a_reason_and_one_section() -> None:
    text = (programs.ROOT / "packages.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith(("#", "[")):
            assert "  # " in line
    names = [name for section in packages.listed().values() for name in section]
    assert len(names) == len(set(names))
    for section in packages.read(text):
        assert re.search(rf"^\[{section}\] +# ", text, re.MULTILINE)


def test_every_program_that_is_called_comes_with_a_listed_package() -> None:
    essential = {"util-linux", "coreutils", "mount", "sh"}
    listed = {name for section in packages.listed().values() for name in section}
    with_others = {"wireshark-common": "tshark"}  # packages that a listed one depends on
    for path in sorted(
        path for room in ("bench", "cli", "tests") for path in (programs.ROOT / room).rglob("*.py")
    ):
        for name in re.findall(r'packaged\("([a-z-]+)"\)', path.read_text(encoding="utf-8")):
            package = programs.package_of(name)
            assert with_others.get(package, package) in listed | essential, (path, name)


def test_python_packages_are_pinned_once() -> None:
    names = []
    for file in (needs.RUN_PYTHON, needs.TEST_PYTHON):
        for line in (programs.ROOT / file).read_text(encoding="utf-8").splitlines():
            if not line.startswith(("#", "    --hash=sha256:")):
                assert re.fullmatch(r"[A-Za-z0-9_-]+==[0-9.]+ \\", line), line
                names.append(line.split("==", maxsplit=1)[0].lower())
    assert len(names) == len(set(names)) > 20


@pytest.mark.parametrize(
    "files", ["cli/bootstrap.py cli/tools/needs.py", "cli/hosts/changes.py cli/hosts/unit.py"]
)
def test_the_bootstrap_and_what_hosts_call_use_pythons_own_library_alone(files: str) -> None:
    """Followed by the imports of our modules, as they stand at the top of each. What hosts call is loaded for
    every few steps.
    """
    seen: set[Path] = set()
    left = [programs.ROOT / one for one in files.split()]
    while left:
        path = left.pop()
        seen.add(path)
        for module in at_the_top(path):
            assert module.split(".")[0] in {*sys.stdlib_module_names, "cli", "report"}, path
            file = programs.ROOT / f"{module.replace('.', '/')}.py"
            left += [file] if file.is_file() and file not in seen else []
    assert len(seen) >= 10
    assert not any(path.stem == "schema" for path in seen)


def at_the_top(path: Path) -> Iterator[str]:
    """Names of the modules, and of what may be modules, that a file imports when it is loaded."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_the_command_line_is_understood_without_packages() -> None:
    """Before anything is installed, with only Python's standard library."""
    done = subprocess.run([sys.executable, "-S", "-c", "import cli.__main__"], cwd=programs.ROOT, check=False)
    assert done.returncode == 0
