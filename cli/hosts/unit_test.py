"""What an agent is started by: systemd where a host was booted with it, else nothing."""

import os
import sys
from pathlib import Path

import pytest

from cli.hosts import changes, unit


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been started."""
    found: list[list[str]] = []

    def execv(_: str, argv: list[str]) -> None:
        found.append(argv)
        sys.exit(0)

    monkeypatch.setattr(os, "execv", execv)
    return found


def start(run: str) -> None:
    with pytest.raises(SystemExit):
        unit.main(run)


def test_a_host_without_systemd_starts_it_in_the_session(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "BOOTED", tmp_path / "none")
    start("r")
    assert started == [[sys.executable, "-P", "-m", "cli.call", "cli.hosts.agent.serve"]]


def test_a_host_with_systemd_starts_it_in_a_unit(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit, "possible", lambda: True)
    monkeypatch.setattr(changes, "STATE", tmp_path / "state")
    monkeypatch.setattr(changes, "RUNTIME", tmp_path / "run")
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    start("a-1")
    (service,) = started
    for word in ("--unit=reprise-a-1.service", "--setenv=SSH_CONNECTION", "--property=KillMode=mixed"):
        assert word in service
    assert service[-1] == "cli.hosts.agent.serve"
    repair = f'"{sys.executable}" "-P" "-m" "cli.call" "cli.hosts.changes.repair" "run=a-1"'
    assert f"--property=ExecStopPost=+{repair}" in service
    assert (tmp_path / "state").is_dir()
    assert (tmp_path / "run").is_dir()


def test_a_folder_below_tmp_is_seen_although_tmp_is_the_services_own() -> None:
    assert '--property=BindReadOnlyPaths="/tmp/a \\"b$"' in unit.service("r", Path('/tmp/a "b$'))
    assert not any("BindReadOnlyPaths" in word for word in unit.service("r", Path("/opt/reprise")))
