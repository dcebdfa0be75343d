"""Experiments: defaults, strictness, paths, --set."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment import document, tables
from cli.experiment.experiment import as_dict, load, read
from cli.servers import kinds
from report.run import RENAMED

MINIMAL = """
schema = 1
trace = "t.pcap"
[server]
zone = "z.zone"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "one.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_and_paths_relative_to_the_file(tmp_path: Path) -> None:
    found = load(write(tmp_path, MINIMAL), [])
    assert found.name == "one"
    assert found.trace == str(tmp_path / "t.pcap")
    assert found.server.zone == str(tmp_path / "z.zone")
    assert found.server.kind == "nsd"
    assert found.replay.timeout_s == 5.0


def test_set_paths_are_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, MINIMAL)
    monkeypatch.chdir("/")
    assert load(path, ["trace=elsewhere.pcap"]).trace == "/elsewhere.pcap"


def test_files_of_a_trace_that_is_made_are_paths_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "[synth]\nnames = 'list.txt'\nclients = 5\n[server]\nzone = 'z.zone'\n")
    monkeypatch.chdir("/")
    assert load(path, []).synth == {"names": str(tmp_path / "list.txt"), "clients": 5}
    found = load(path, ["synth.names=other.txt", "synth.tld_file=tlds", "synth.clients=7"]).synth
    assert found == {"names": "/other.txt", "tld_file": "/tlds", "clients": 7}


def test_paths_in_tables_of_set_are_absolute_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, MINIMAL)
    monkeypatch.chdir("/")
    rule = 'mutate.rule={kind="anonymize", key="@secret"}'
    found = load(path, ['rtt={table="rtts.txt"}', 'synth={names="list"}', rule])
    assert found.rtt and found.rtt.table == "/rtts.txt"
    assert found.synth == {"names": "/list"}
    assert found.mutate and found.mutate.rule[0]["key"] == "@/secret"


def test_a_list_is_taken_back_as_any_key_is(tmp_path: Path) -> None:
    text = MINIMAL + "[replay]\nports = [5353]\n[[fault]]\nat = 1\nfor = 1\nloss = 0.5\n"
    found = load(write(tmp_path, text), ["replay.ports=", "fault="])
    assert (found.replay.ports, found.fault) == ((53,), ())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("replay.timeout_s=2", 2.0),
        ("replay.answers=true", True),
        ("replay.early_us=20", 20),
        ("replay.early_us=auto", "auto"),
        ("replay.ports=[53, 5353]", (53, 5353)),
        ("replay.ports=5353", (5353,)),
        ("server.kind=bind", "bind"),
        ("replay.speed=2", 2.0),
        ("replay.until=10", 10),
        ("replay.until=2016-10-06T13:55:51Z", "2016-10-06T13:55:51Z"),
        ("replay.until=2016-10-06T15:55:51.5+02:00", "2016-10-06T15:55:51.500000+02:00"),
        ("replay.sample_sources=10%", "10%"),
        ("replay.sample_sources=0.1", 0.1),
        ("replay.sample_sources=0.00002", 0.00002),
        ("replay.skip_sources=192.0.2.0/24", ("192.0.2.0/24",)),
        ("replay.cpus=0,2-3", "0,2-3"),
        ("synth.seed=7", 7),
        ('title="a b"', "a b"),
        ('title=sh -c "a b"', 'sh -c "a b"'),
        ('title="a b" "c"', '"a b" "c"'),
        ("replay.transport=tls", "tls"),
        ("replay.queries_per_connection=1", 1),
        ("tls.port=8853", 8853),
        ("tls.version=1.3", "1.3"),
    ],
)
def test_set_is_typed_by_the_schema(tmp_path: Path, setting: str, value: object) -> None:
    found: object = load(write(tmp_path, MINIMAL), [setting])
    for name in setting.split("=", maxsplit=1)[0].split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == value
    assert type(found) is type(value)


def test_from_is_a_key_in_spite_of_python(tmp_path: Path) -> None:
    found = load(write(tmp_path, MINIMAL), ["replay.from=2.5"])
    assert found.replay.from_ == 2.5
    assert as_dict(found)["replay"]["from"] == 2.5


GENERATE = "[generate]\nname='www.example.com'\n[server]\nzone='z'\n"


def test_a_generator_needs_no_trace(tmp_path: Path) -> None:
    found = load(write(tmp_path, GENERATE), ["replay.rate=5", "replay.limit=1"])
    assert found.generate is not None
    assert found.generate.type == "A"


def test_a_missing_experiment_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no experiment"):
        load(tmp_path / "none.toml", [])


def test_files_that_are_no_experiments_are_one_line(tmp_path: Path) -> None:
    """A pipe or a device that never ends, a loop of links, too much of it, too deep."""
    pipe, loop, large = tmp_path / "pipe", tmp_path / "loop", tmp_path / "large.toml"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    large.write_text("#" * 1_000_001)
    for path, why in (
        (pipe, "it is not a regular file"),
        (Path("/dev/zero"), "it is not a regular file"),
        (loop, "Too many levels of symbolic links"),
        (large, "it is larger than 1 MB"),
    ):
        with pytest.raises(UsageError, match=f"^cannot read {path}: {why}$"):
            load(path, [])
    for text in ("synth = " + "[" * 5_000, f"synth = {'[' * 60}{']' * 60}", f"[{'a.' * 5_000}b]"):
        with pytest.raises(UsageError, match="nests tables and lists more than 50 deep"):
            load(write(tmp_path, text), [])
    for setting in ("server=" + "[" * 5_000, "synth." + "a." * 5_000 + "b=1"):
        with pytest.raises(UsageError, match="nests tables and lists more than 50 deep"):
            load(write(tmp_path, MINIMAL), [setting])


def test_a_loop_of_links_is_left_to_who_reads_it(tmp_path: Path) -> None:
    (tmp_path / "t.pcap").symlink_to("t.pcap")
    assert load(write(tmp_path, MINIMAL), []).trace == str(tmp_path / "t.pcap")


def test_keys_that_were_given_are_told(tmp_path: Path) -> None:
    """By the file and by settings, unless one takes a key back; the file's name is none of them."""
    text = MINIMAL + "[replay]\nspeed = 2.0\ntimeout_s = 3.0\n"
    _, keys = read(write(tmp_path, text), ["topology.queriers=1", "replay.timeout_s="])
    assert {"replay.speed", "topology.queriers"} <= set(keys)
    assert not {"name", "replay.timeout_s", "replay.transport"} & set(keys)


def test_every_experiment_of_the_project_loads() -> None:
    folder = programs.ROOT / "experiments"
    files = sorted(folder.glob("*.toml"))
    assert files
    for path in files:
        assert load(path, []).title


def test_what_experiments_name_is_there() -> None:
    """Headings of the report, pages of the documentation, files of the results."""
    report = programs.ROOT / "report"
    headings = (report / "templates/run.html.j2").read_text() + (report / "plots.py").read_text()
    formats = (programs.ROOT / "docs/formats.md").read_text()
    for path in sorted((programs.ROOT / "experiments").rglob("*.toml")):
        said = " ".join(line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#"))
        named = re.findall(r'report, "([^"]+)"|"([^"]+)" in the report', said)
        assert all(f"{one or other}" in headings for one, other in named), (path, named)
        assert all((programs.ROOT / one).is_file() for one in re.findall(r"docs/[\w-]+\.md", said)), path
        files = re.findall(r"\b[\w-]+\.(?:csv|json|pcap|rps)\b", said)
        assert all(one in formats for one in files), (path, files)


def test_times_in_rules_are_text(tmp_path: Path) -> None:
    text = MINIMAL + '[[mutate.rule]]\nkind = "drop"\nwhere = { from = 2016-10-06T14:28:00Z }\n'
    experiment = load(write(tmp_path, text), [])
    assert experiment.mutate is not None
    assert experiment.mutate.rule[0]["where"] == {"from": "2016-10-06T14:28:00Z"}
    json.dumps(as_dict(experiment))


def test_the_documentation_is_what_the_schema_says() -> None:
    """`python -m cli.experiment.document` writes it."""
    text = document.PAGE.read_text(encoding="utf-8")
    assert document.page(text) == text
    assert document.SCHEMA_FILE.read_text(encoding="utf-8") == document.json_schema()


def test_a_renamed_key_says_its_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENAMED, "replay.wait_s", "replay.timeout_s")
    for text, settings in ((MINIMAL + "[replay]\nwait_s=5", []), (MINIMAL, ["replay.wait_s=5"])):
        with pytest.raises(UsageError, match=r"unknown key replay\.wait_s") as caught:
            load(write(tmp_path, text), settings)
        assert caught.value.hint == "it is replay.timeout_s now"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("speed", "did you mean replay.speed?"),
        ("rate", "did you mean replay.rate?"),
        ("replay.speeed", "did you mean replay.speed?"),
        ("replay.nonsense", "known keys of replay: "),
    ],
)
def test_only_near_keys_are_suggested(tmp_path: Path, key: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"unknown key {key}") as caught:
        load(write(tmp_path, MINIMAL), [f"{key}=1"])
    assert caught.value.hint.startswith(hint)


EXPERIMENTS = sorted((programs.ROOT / "experiments").glob("*.toml"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda one: one.stem)
def test_programs_are_the_same_of_the_file_and_of_the_experiment(path: Path) -> None:
    """The tables of a file lack what has a default."""
    file, resolved = tables.read(path), as_dict(load(path, []))
    for judge in (kinds.own_programs, kinds.packaged_programs, kinds.front):
        assert judge(file) == judge(resolved)
    assert tables.unknown_keys(file) == []
    assert tables.unknown_keys(resolved) == []
    assert tables.unknown_keys({**file, "server": {"zoen": 1}}) == ["zoen"]


def test_values_are_written_as_they_are_read() -> None:
    value = {"a b": ['\x7f\U0001f600"\n', 1, 2.5, True], "c": [{"d": "e", "f": []}]}
    assert tomllib.loads(tables.line("x", value)) == {"x": value}


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert load(write(tmp_path, "\ufeff" + MINIMAL), []) == load(write(tmp_path, MINIMAL), [])
