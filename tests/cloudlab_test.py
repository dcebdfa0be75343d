"""profile.py asks for the nodes that it should, and their manifest becomes an inventory."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli import programs
from cli.experiment import experiment as experiments
from cli.hosts import inventory
from tests import command, geni_lib
from tests.site_test import EXPERIMENT
from tests.testbed_hosts import PORT, opened

RSPEC = "{http://www.geni.net/resources/rspec/3}"
ALL_TCP = programs.ROOT / "experiments/all-tcp.toml"
ROLES = {"controller": "controller", "client0": "clients", "server0": "servers"}
Render = Callable[..., ElementTree.Element]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("geni-lib")
    geni_lib.convert(folder)
    return folder


@pytest.fixture
def render(library: Path) -> Render:
    def rendered(*arguments: str) -> ElementTree.Element:
        done = geni_lib.run(library, *arguments)
        assert done.returncode == 0, done.stderr
        return ElementTree.fromstring(done.stdout)

    return rendered


def nodes(request: ElementTree.Element) -> dict[str, str]:
    found = {}
    for node in request.findall(f"{RSPEC}node"):
        [ip] = node.findall(f"{RSPEC}interface/{RSPEC}ip")
        assert ip.get("netmask") == "255.255.255.0"
        found[node.get("client_id", "")] = ip.get("address", "")
    return found


def test_nodes_are_in_one_lan(render: Render) -> None:
    request = render("--clients", "2", "--servers", "2", "--metas", "1", "--nodeType", "c6525-25g")
    names = ["controller", "client0", "client1", "server0", "server1", "meta0"]
    assert nodes(request) == {name: f"172.16.1.{index}" for index, name in enumerate(names, 1)}
    [link] = request.findall(f"{RSPEC}link")
    ends = [one.get("client_id") for one in link.findall(f"{RSPEC}interface_ref")]
    assert ends == [f"{name}:if0" for name in names]
    assert link.findall(f"{RSPEC}property") == []
    for node in request.findall(f"{RSPEC}node"):
        assert node.get("exclusive") == "true"
        [kind] = node.findall(f"{RSPEC}hardware_type")
        assert kind.get("name") == "c6525-25g"
        [image] = node.findall(f"{RSPEC}sliver_type/{RSPEC}disk_image")
        assert image.get("name", "").endswith("emulab-ops//UBUNTU24-64-STD")


def test_the_default_is_two_hosts_and_a_controller(render: Render) -> None:
    assert list(nodes(render())) == ["controller", "client0", "server0"]


def test_the_speed_is_that_of_every_interface(render: Render) -> None:
    [link] = render("--linkSpeed", "10000000").findall(f"{RSPEC}link")
    assert [one.get("capacity") for one in link.findall(f"{RSPEC}property")] == ["10000000"] * 3


def test_the_largest_lan(render: Render) -> None:
    found = nodes(render("--clients", "200", "--servers", "53"))
    assert len(set(found.values())) == 254
    assert found["server52"] == "172.16.1.254"


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ("--clients 0", ["clients must be from 1 to 200"]),
        ("--servers 0 --metas -1", ["servers must be from 1 to 254", "metas must be from 0 to 254"]),
        ("--clients 200 --servers 54", ["these are 255 nodes; the LAN has addresses for 254"]),
        ("--diskImage=", ["diskImage is empty; choose an image"]),
    ],
)
def test_wrong_parameters_are_reported_to_the_portal(
    library: Path, arguments: str, messages: list[str]
) -> None:
    done = geni_lib.run(library, *arguments.split())
    assert done.returncode == 100 + len(messages)
    assert done.stdout == ""
    assert [one["message"] for one in json.loads(done.stderr)] == messages


# --- from the manifest to the experiment ------------------------------------------------------------------


def manifest(
    request: ElementTree.Element,
    users: tuple[str, ...] = ("alice", "bob"),
    domain: str = ".utah.cloudlab.us",
    port: int = 22,
) -> bytes:
    """What the portal adds: machines, logins of all members of the project, and addresses of the hosts. (It
    leaves type="request" as it is.)
    """
    for number, node in enumerate(request.findall(f"{RSPEC}node"), 140):
        name, machine = node.get("client_id"), f"amd{number}"
        node.set("component_id", f"urn:publicid:IDN+utah.cloudlab.us+node+{machine}")
        host = f"{name}.replay.dns-PG0.utah.cloudlab.us"
        ElementTree.SubElement(node, f"{RSPEC}host", name=host, ipv4=f"128.110.218.{number}")
        services = ElementTree.SubElement(node, f"{RSPEC}services")
        for user in users:
            ElementTree.SubElement(
                services,
                f"{RSPEC}login",
                authentication="ssh-keys",
                hostname=machine + domain,
                port=str(port),
                username=user,
            )
    return ElementTree.tostring(request)


def test_a_manifest_becomes_an_inventory_that_an_experiment_is_placed_on(
    render: Render, tmp_path: Path
) -> None:
    request = render("--clients", "11", "--metas", "1")
    (tmp_path / "manifest.xml").write_bytes(manifest(request))
    words = "inventory cloudlab manifest.xml --user alice --management 128.110.216.0/21 -o hosts.ini"
    done = command.run(*words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hosts.ini: controller 1, clients 11, servers 1, metas 1\n"
    listed = subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", str(tmp_path / "hosts.ini"), "--list"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(listed.stdout)
    assert listed.stderr == ""
    assert found["clients"]["hosts"] == [f"client{index}" for index in range(11)]
    assert found["_meta"]["hostvars"]["client1"] == {
        "ansible_host": "amd142.utah.cloudlab.us",
        "ansible_user": "alice",
        "ansible_become": "true",
        "reprise_address": "172.16.1.3",
        "reprise_management": ["128.110.216.0/21"],
        "reprise_root": "/opt/reprise",
    }
    experiment = experiments.load(ALL_TCP, ["topology.clients=2"])
    placed = inventory.place(experiment, inventory.read(tmp_path / "hosts.ini"))
    assert {host: target.name for target in placed for host in target.hosts} == {
        "controller": "controller0",
        "client1": "client0",
        "client2": "client1",
        "server": "server0",
    }
    assert placed[0].interface({"172.16.1.1": "ens1f0"}) == "ens1f0"
    way = "-l alice -a -x amd140.utah.cloudlab.us"
    assert placed[0].command("true")[-6:-1] == way.split()


@pytest.mark.slow
@pytest.mark.netns
def test_an_experiment_runs_on_the_hosts_of_a_manifest(render: Render, tmp_path: Path) -> None:
    """Namespaces with the names and addresses of profile.py's nodes stand in for CloudLab's machines."""
    request = render()
    machines = dict(zip(nodes(request), ("amd140", "amd141", "amd142"), strict=True))
    groups = {group: [machines[name]] for name, group in ROLES.items()}
    (tmp_path / "site.toml").write_text(EXPERIMENT.replace("clients = 2\n", ""))
    (tmp_path / "manifest.xml").write_bytes(manifest(request, ("root",), "", PORT))
    made = command.run("inventory", "cloudlab", "manifest.xml", "-o", "hosts.ini", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    with opened(tmp_path / "bed", groups) as hosts:
        ssh = hosts.inventory.read_text(encoding="utf-8").partition("[all:vars]")[2]
        (tmp_path / "ssh.ini").write_text(f"[all:vars]{ssh}reprise_root={programs.ROOT}\n", encoding="utf-8")
        inventories = ("--inventory", "hosts.ini", "--inventory", "ssh.ini")
        done = hosts.run("run", "site.toml", *inventories, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert found["clean"]
    assert found["queries"]["answered"] == found["queries"]["read"] > 1_000
    described = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["hosts"]
    assert [one["machine"] for one in described] == ["controller0", "client0", "server0"]


# --- the example -------------------------------------------------------------------------------------------


def test_the_example_inventory_is_read() -> None:
    groups = inventory.read(programs.ROOT / "playbooks/inventories/example.ini")
    counts = {group: len(hosts) for group, hosts in groups.items()}
    assert counts == {"controller": 1, "clients": 2, "servers": 1, "metas": 1}
    placed = inventory.place(experiments.load(ALL_TCP, []), groups)
    assert placed[0].root == "/opt/reprise"
    assert [one.interface({}) for one in placed if "server" in one.hosts] == ["eno2"]
    page = (programs.ROOT / "docs/testbeds.md").read_text(encoding="utf-8")
    for target in (one for group in groups.values() for one in group):
        for variable in target.variables:
            assert f"`{variable}" in page, variable
