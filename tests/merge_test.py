"""playbooks/merge/model.py is what Merge's own library makes of it, and becomes an inventory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment import experiment as experiments
from cli.hosts import inventory, testbeds
from tests import command

MODEL = programs.ROOT / "playbooks/merge/model.py"
# Runs a model as Merge's compiler does: experiment() puts the network into a variable of the library.
RUNNER = """
import runpy, sys
try:
    import google.protobuf.json_format, mergexp
except ImportError as error:
    sys.exit(f"{error}; ./reprise test installs it (requirements-test.txt)")
runpy.run_path(sys.argv[1])
print(google.protobuf.json_format.MessageToJson(vars(mergexp)["__xp"]["topo"].xir()))
"""


def render(folder: Path, **constants: object) -> dict[str, Any]:
    """The model as JSON, with other values of its constants."""
    lines = MODEL.read_text(encoding="utf-8").splitlines()
    for name, value in constants.items():
        [number] = [number for number, line in enumerate(lines) if line.startswith(f"{name} = ")]
        lines[number] = f"{name} = {value!r}"
    (folder / "model.py").write_text("\n".join(lines), encoding="utf-8")
    argv = [sys.executable, "-P", "-c", RUNNER, str(folder / "model.py")]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_nodes_are_in_one_lan(tmp_path: Path) -> None:
    model = render(tmp_path, CLIENTS=2, METAS=1)
    names = ["controller", "client0", "client1", "server0", "meta0"]
    assert [one["id"] for one in model["nodes"]] == names
    for index, one in enumerate(model["nodes"], 1):
        [socket] = one["sockets"]
        assert socket["addrs"] == [f"172.16.1.{index}/24"]
        assert one["image"] == {"op": "EQ", "value": "2404"}
        assert one["proc"]["cores"] == {"op": "GE", "value": 4}
        assert one["memory"]["capacity"] == {"op": "GE", "value": str(8 << 30)}
        assert "metal" not in one
    [link] = model["links"]
    assert [one["socket"]["element"] for one in link["endpoints"]] == names
    assert "capacity" not in link
    # Without this, names of nodes would mean addresses in the LAN.
    assert not model["parameters"].get("experimentnetresolution")


def test_machines_and_a_speed(tmp_path: Path) -> None:
    model = render(tmp_path, METAL=True, SPEED_GBPS=10)
    assert [one["metal"] for one in model["nodes"]] == [{"op": "EQ", "value": True}] * 3
    assert model["links"][0]["capacity"] == {"op": "EQ", "value": "10000000000"}


# --- from what Merge generates to the experiment ----------------------------------------------------------


def generate(folder: Path, model: dict[str, Any]) -> None:
    """The files that `mrg nodes generate` makes, in the form of Merge's manual."""
    groups: dict[str, list[str]] = {"all": []}
    lines = []
    for one in model["nodes"]:
        groups["all"].append(one["id"])
        for group in one["properties"]["keyvalues"]["group"]["values"]:
            groups.setdefault(group, []).append(one["id"])
        lines.append(f"{one['sockets'][0]['addrs'][0].partition('/')[0]} exp-{one['id']}")
    text = "\n".join("\n".join([f"[{group}]", *names, ""]) for group, names in groups.items())
    (folder / "groups.ini").write_text(text, encoding="ascii")
    (folder / "etchosts").write_text("\n".join(lines) + "\n", encoding="ascii")


def test_what_merge_generates_becomes_an_inventory_that_an_experiment_is_placed_on(tmp_path: Path) -> None:
    generate(tmp_path, render(tmp_path, CLIENTS=2, METAS=1))
    words = "inventory merge groups.ini etchosts --user murphy --jump mergejump,murphy@x0-murphy -o hosts.ini"
    done = command.run(*words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hosts.ini: controller 1, clients 2, servers 1, metas 1\n"
    groups = inventory.read(tmp_path / "hosts.ini")
    placed = inventory.place(
        experiments.load(programs.ROOT / "experiments/all-tcp.toml", ["topology.clients=2"]), groups
    )
    names = ["controller0", "client0", "client1", "server0"]
    assert [one.name for one in placed] == names
    assert placed[-1].interface({"172.16.1.4": "eth1"}) == "eth1"
    way = "-l murphy -J mergejump,murphy@x0-murphy -a -x controller"
    assert placed[0].command("true")[-8:-1] == way.split()


GROUPS = "[all]\nc\na\ns\n[controller]\nc\n[clients]\na\n[servers]\ns\n"
HOSTS = "172.16.1.1 c\n172.16.1.2 a a-0 # LAN\n\n172.16.1.3 exp-s\n"


@pytest.mark.parametrize(
    ("groups", "hosts", "options", "what"),
    [
        (None, HOSTS, "", "no inventory groups.ini"),
        (GROUPS, None, "", "no file etchosts"),
        ("[all\nc", HOSTS, "", "cannot be read"),
        ("[all]\nc\na\ns\n", HOSTS, "", "groups.ini: no host is in one of the groups controller, clients"),
        ("[all]\nc\n[senders]\nc\n", HOSTS, "", "unknown group senders"),
        (GROUPS, HOSTS.replace("exp-s", "t"), "", "etchosts: node s has no addresses in 172.16.1.0/24"),
        (GROUPS, HOSTS + "172.16.1.9 s\n", "", "etchosts: node s has 2 addresses in 172.16.1.0/24"),
        (GROUPS, HOSTS, "--lan 10.0.0.0/8", "etchosts: node c has no addresses in 10.0.0.0/8"),
        (GROUPS, HOSTS, "--lan 10.0.0.1/8", "--lan '10.0.0.1/8' is not a network"),
        (GROUPS, "c 172.16.1.1\n", "", "etchosts:1: 'c' is not an IP address"),
        (GROUPS, HOSTS.replace("172.16.1.2", "172.16.1.1"), "", "two nodes have the address 172.16.1.1"),
        (GROUPS.replace("[servers]\ns\n", ""), HOSTS, "", "no node for the group servers"),
        (GROUPS.replace("[servers]", "[servers]\na"), HOSTS, "", "two nodes have the name a"),
        (GROUPS, HOSTS, "--jump a;b", "--jump 'a;b' is not a list of hosts"),
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, groups: str | None, hosts: str | None, options: str, what: str
) -> None:
    for name, text in (("groups.ini", groups), ("etchosts", hosts)):
        if text is not None:
            (tmp_path / name).write_text(text, encoding="ascii")
    words = f"inventory merge groups.ini etchosts --user murphy -o hosts.ini {options}"
    done = command.run(*words.split(), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert what in done.stderr
    assert not (tmp_path / "hosts.ini").exists()


def test_a_host_that_is_an_option_of_ssh_is_refused(tmp_path: Path) -> None:
    (tmp_path / "groups.ini").write_text("[clients]\n-oProxyCommand=x\n", encoding="ascii")
    (tmp_path / "etchosts").write_text("172.16.1.1 -oProxyCommand=x -oProxyCommand\n", encoding="ascii")
    with pytest.raises(UsageError, match=r"'-oProxyCommand(=x)?' is not a host name"):
        testbeds.of_merge(tmp_path / "groups.ini", tmp_path / "etchosts")
