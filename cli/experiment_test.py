"""Experiments: defaults, strictness, paths, --set."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.errors import UsageError
from cli.experiment import load

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
        ("synth.seed=7", 7),
    ],
)
def test_set_is_typed_by_the_schema(tmp_path: Path, setting: str, value: object) -> None:
    found: object = load(write(tmp_path, MINIMAL), [setting])
    for name in setting.split("=", maxsplit=1)[0].split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "what", "mend"),
    [
        ("schema = 2\ntrace='x'\n[server]\nzone='z'", "schema = 2 is unknown", "reads 1"),
        ("[server]\nzone='z'", "neither a trace nor a [synth] table", "add one"),
        ("trace='x'", "the server has no zone", "server.zone"),
        (MINIMAL + "zoen='y'", "unknown key server.zoen", "did you mean server.zone?"),
        (MINIMAL + "[replay]\ntimeout='5'", "unknown key replay.timeout", "did you mean replay.timeout_s?"),
        (
            MINIMAL + "[replay]\ntimeout_s='5'",
            "replay.timeout_s = '5' has the wrong type",
            "it wants a number",
        ),
        (MINIMAL + "[replay]\nanswers=1", "replay.answers = 1 has the wrong type", "true or false"),
        (MINIMAL + "[replay]\nports=['a']", "replay.ports = 'a' has the wrong type", "a whole number"),
        (MINIMAL + "[replay]\nspin_us=31", "replay.spin_us = 31 is out of range", "0 to 30"),
        (MINIMAL + "[replay]\nearly_us='soon'", "replay.early_us = 'soon' is out of range", "auto"),
        (MINIMAL + "[topology]\nkind='moon'", "topology.kind = 'moon' is unknown", "local"),
        (MINIMAL + "kind='knto'", "server.kind = 'knto' is unknown", "nsd, bind, address"),
        ("trace='x'\n[server]\nkind='address'", "server.addresses is empty", "name the server's address"),
        (
            "trace='x'\n[server]\nkind='address'\naddresses=['192.0.2.1']",
            "not a loopback address",
            "loopback",
        ),
        ("trace='x'\n[server]\nkind='address'\naddresses=['ns']", "no IP address", "numbers"),
        ("name='a/b'\n" + MINIMAL, "cannot name a folder", "letters"),
        ("trace = ", "is not TOML", "mend"),
        ("trace = 5\n[server]\nzone='z'", "trace = 5 has the wrong type", "text"),
        ("trace='x'\nserver=5", "server = 5 has the wrong type", "a table"),
    ],
)
def test_bad_experiments_are_one_line(tmp_path: Path, text: str, what: str, mend: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, text), [])
    assert what in caught.value.what
    assert mend in caught.value.mend
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("replay.timeout_s", "has no '='"),
        ("replay.nonsense=1", "unknown key replay.nonsense"),
        ("trace.deeper=1", "unknown key trace.deeper"),
        ("replay.timeout_s=fast", "wrong type"),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, setting: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, MINIMAL), [setting])
    assert what in caught.value.what


def test_a_missing_experiment_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no experiment"):
        load(tmp_path / "none.toml", [])


def test_every_experiment_of_the_project_loads() -> None:
    folder = Path(__file__).resolve().parent.parent / "experiments"
    files = sorted(folder.glob("*.toml"))
    assert files
    for path in files:
        assert load(path, []).title
