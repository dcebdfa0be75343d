"""Runs on several hosts: the experiment that a local run carries out, by an inventory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.testbed_hosts import opened

pytestmark = pytest.mark.netns

EXPERIMENT = """schema = 1
name = "site"
[synth]
rate = 400
duration = 5
clients = 200
[server]
kind = "nsd"
[server.root_like]
seed = 1
[topology]
clients = 2
queriers = 1
[replay]
source_mode = "ports"
"""
GROUPS = {"controller": ["boss"], "clients": ["load1", "load2"], "servers": ["dns"]}


def run_of(parent: Path) -> Path:
    (found,) = parent.iterdir()
    return found


def summary(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return value


def test_a_run_on_hosts_equals_the_local_one_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    with opened(tmp_path / "bed", GROUPS) as hosts:
        before = {name: hosts.state(name) for name in hosts.names}
        done = hosts.run("run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        local = hosts.run("run", "site.toml", "-o", "near", cwd=tmp_path)
        assert local.returncode == 0, local.stderr
        assert {name: hosts.state(name) for name in hosts.names} == before
    far, near = (summary(run_of(tmp_path / name)) for name in ("far", "near"))
    assert far["clean"]
    for one in (far, near):
        del one["queries"]["send_unsure"]  # calls in which this machine was busy with others
    assert far["queries"] == near["queries"]
    assert far["queries"]["answered"] == far["queries"]["read"] > 1_500
