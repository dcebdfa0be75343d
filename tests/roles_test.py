"""The roles of the playbooks on a host: what a role promises is asked of the host itself, not of Ansible."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli import VERSION, programs
from cli.hosts import changes
from cli.tools import deploy
from tests.playbook_roles_test import FOLDER, ROLES, read
from tests.testbed_hosts import Testbed, opened

pytestmark = pytest.mark.netns

NODE = "node"
OWN = ("reprise-controller", "reprise-mutator", "reprise-proxy", "reprise-zonebuilder")
LEFT = changes.STATE / "runs/left-over-20260101T000000Z-0000"


@dataclass(frozen=True)
class Played:
    """A host after a playbook, and what ansible-playbook said, by play."""

    hosts: Testbed
    folder: Path
    status: int
    said: dict[str, str]
    wanted: dict[str, Any]

    def ask(self, command: str) -> str:
        """A command on the host."""
        return self.hosts.on(NODE, command)


def play(title: str, role: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A play of one role."""
    common = {"hosts": NODE, "gather_facts": role == "common", "gather_subset": ["min"]}
    roles = [{"role": str(FOLDER / "roles" / role), "vars": values}]
    return {"name": title, **common, "vars": {"ansible_pipelining": True}, "roles": roles, **more}


def carried_out(hosts: Testbed, folder: Path, plays: list[dict[str, Any]], needed: dict[str, Any]) -> Played:
    (folder / "plays.yml").write_text(json.dumps(plays))  # which is YAML
    done = hosts.run_python(
        "ansible", "playbook", "plays.yml", "-i", str(hosts.inventory), cwd=folder, limit_s=300
    )
    parts = re.split(r"^PLAY (?:\[(.*)\]|RECAP) \**$", done.stderr, flags=re.MULTILINE)
    return Played(hosts, folder, done.returncode, dict(zip(parts[1::2], parts[2::2], strict=True)), needed)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with opened(tmp_path_factory.mktemp("roles") / "bed", {"servers": [NODE]}) as made:
        yield made


@pytest.fixture(scope="module")
def needed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the hosts of the quickstart need; the archive goes into a folder of its own."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    try:
        example = str(programs.ROOT / "experiments/quickstart.toml")
        return deploy.wanted(example, [])
    finally:
        del os.environ["XDG_CACHE_HOME"]
        os.environ.update({} if before is None else {"XDG_CACHE_HOME": before})


@pytest.fixture(scope="module")
def prepared(node: Testbed, needed: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All roles, one after the other; a run has left its results."""
    folder = tmp_path_factory.mktemp("prepared")
    node.on(
        NODE, f"mkdir -p {LEFT}/logs; echo records > {LEFT}/queries-client1-0.rq; echo x > {LEFT}/logs/a.log"
    )
    here = str(programs.ROOT)
    values: dict[str, dict[str, Any]] = {
        "common": {"common_wanted": needed, "common_here": here},
        "controller": {},
        "client": {},
        "server": {"server_programs": ["nsd", "named"]},
        "resolver": {"resolver_programs": ["named", "unbound"]},
        "hierarchy": {"hierarchy_tun": True},
        "guard": {},
        "collect": {"collect_here": here, "collect_output": "results"},
    }
    assert set(values) == set(ROLES)
    plays = [play(role, role, one) for role, one in values.items()]
    played = carried_out(node, folder, plays, needed)
    assert played.status == 0, "\n".join(played.said.values())
    return played


# --- what they promise ------------------------------------------------------------------------------------


def test_common_leaves_packages_programs_and_the_source(prepared: Played) -> None:
    packages = prepared.wanted["packages"]
    listed = prepared.ask(f"dpkg-query -W -f '${{Package}} ${{db:Status-Status}}\\n' {' '.join(packages)}")
    assert set(packages) <= {line.split()[0] for line in listed.splitlines() if line.endswith(" installed")}
    root = programs.ROOT
    asked = f"PYTHONPATH={root} python3 -P -m cli.call cli.hosts.source.checksum"
    assert prepared.ask(asked).strip() == prepared.wanted["source"]
    folder = root / "build/release/bin"
    assert prepared.ask("; ".join(f"{folder}/{name} --version" for name in OWN)).count(VERSION) == len(OWN)
    assert "--listen" in prepared.ask(f"{folder}/reprise-querier distribute --help")


def test_common_warns_of_the_clock_that_the_host_has(prepared: Played) -> None:
    python = f"PYTHONPATH={programs.ROOT} python3 -P -m cli.call"
    clock = json.loads(prepared.ask(f"{python} cli.linux.clock"))
    good = clock["synchronized"] and clock["estimated_error_us"] <= 1000
    assert (f"warning: the clock of {NODE}" in prepared.said["common"]) == (not good)


def test_controller_has_the_room(prepared: Played) -> None:
    free = int(prepared.ask("df --output=avail -B1 /var/lib").split()[-1])
    assert free > read("controller", "defaults/main.yml")["controller_least_bytes"]


def test_client_may_have_the_descriptors(prepared: Played) -> None:
    least = read("client", "defaults/main.yml")["client_least_descriptors"]
    assert int(prepared.ask(f"ulimit -n {least} && ulimit -n")) == least


@pytest.mark.parametrize(
    ("command", "version"),
    [("nsd -v", r"NSD version \d"), ("named -v", r"BIND 9\.\d"), ("unbound -V", r"Version \d")],
)
def test_server_and_resolver_have_their_programs(prepared: Played, command: str, version: str) -> None:
    assert re.search(version, prepared.ask(f"PATH=/usr/sbin:$PATH {command} 2>&1"))


def test_hierarchy_has_tun_devices(prepared: Played) -> None:
    made = prepared.ask("ip tuntap add dev probe0 mode tun && ip -d link show probe0; ip link del probe0")
    assert "tun type tun" in made


def test_guard_loads_nothing_and_can_be_loaded(prepared: Played) -> None:
    assert prepared.ask("nft list ruleset") == ""
    probe = read("guard", "defaults/main.yml")["guard_probe"]
    shown = prepared.ask(f"nft '{probe}' && nft list ruleset; nft flush ruleset")
    assert "hook postrouting priority 300" in shown
    assert prepared.ask("nft list ruleset") == ""


def test_collect_moves_what_was_left(prepared: Played) -> None:
    there = prepared.folder / "results/left-over-20260101T000000Z-0000.partial"
    assert (there / "queries-client1-0.rq").read_text() == "records\n"
    assert (there / "logs/a.log").read_text() == "x\n"
    assert prepared.ask(f"ls {LEFT.parent}") == ""


# --- what they refuse -------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "too few descriptors": (
        "client", {"client_least_descriptors": 2_147_483_647}, r"allows \d+ file descriptors per process",
    ),
    "too little room": ("controller", {"controller_least_bytes": 1 << 60}, r"has only \d+ bytes free"),
    "no such server": ("server", {"server_programs": ["nsd", "no-such-server"]}, "item=no-such-server"),
    "no such resolver": ("resolver", {"resolver_programs": ["no-such-resolver"]}, "item=no-such-resolver"),
    "no TUN device": ("hierarchy", {"hierarchy_tun": True}, "has no /dev/net/tun; load the kernel's module"),
    "no rules of nftables": ("guard", {"guard_probe": "table inet {"}, "syntax error"),
    "no folder for results": (
        "collect",
        {"collect_here": str(programs.ROOT), "collect_output": "/dev/null/results"},
        "Not a directory|No such file",
    ),
    "no argument": ("server", {}, "missing required arguments: server_programs"),
    "an argument of another type": (
        "client", {"client_least_descriptors": "many"}, "many.* converted to an int",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def refused(node: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Each on a host that lacks what the role wants; the playbook goes on."""
    node.on(
        NODE, f"mkdir -p {LEFT}; echo records > {LEFT}/queries-client1-0.rq; mount -t tmpfs none /dev/net"
    )
    plays = [play(title, role, values, ignore_errors=True) for title, (role, values, _) in REFUSED.items()]
    yield carried_out(node, tmp_path_factory.mktemp("refused"), plays, {})
    node.on(NODE, f"umount /dev/net; rm -r {LEFT}")


@pytest.mark.slow
@pytest.mark.parametrize("title", REFUSED)
def test_a_role_says_what_its_host_lacks(refused: Played, title: str) -> None:
    said = refused.said[title]
    assert "...ignoring" in said, said
    assert re.search(REFUSED[title][2], said.replace("\n", " ")), said


@pytest.mark.slow
def test_results_that_could_not_be_collected_stay(refused: Played) -> None:
    assert refused.ask(f"cat {LEFT}/queries-client1-0.rq") == "records\n"
