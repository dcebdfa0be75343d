"""`reprise inventory`: what testbeds say of their nodes, as an inventory that cli/hosts/inventory.py reads.

What is written comes from files of testbeds, so everything is checked before it can become an option of ssh
or a template of Ansible.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from cli.errors import UsageError, want
from cli.experiment.addresses import Address, parsed

GROUPS = {"controller": "controller", "client": "clients", "server": "servers", "meta": "metas"}
ROOT = "/opt/reprise"  # on the hosts
LAN = "172.16.1.0/24"  # of profile.py and playbooks/merge/model.py
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_USER = r"[A-Za-z_][A-Za-z0-9_.-]*"
_JUMP = rf"(?:{_USER}@)?{_NAME}(?::[0-9]+)?"


@dataclass(frozen=True)
class Node:
    """One host, how ssh reaches it, and its address in the experiment's LAN."""

    name: str
    group: str
    host: str
    address: str
    port: int = 22

    @property
    def label(self) -> str:
        """Its name in the inventory, where Ansible wants no host named as a group."""
        return f"{self.name}0" if self.name in GROUPS.values() else self.name

    def line(self) -> str:
        port = f" ansible_port={self.port}" if self.port != 22 else ""
        return f"{self.label} ansible_host={self.host}{port} reprise_address={self.address}"


def group_of(name: str, source: Path) -> str:
    """The group of a node that is named as profile.py and playbooks/merge/model.py name them."""
    if found := re.fullmatch(r"(controller)|(client|server|meta)[0-9]+", name):
        return GROUPS[found[1] or found[2]]
    hint = "name nodes controller, client0, server0, meta0 as profile.py does, or write the inventory by hand"
    raise UsageError(f"{source}: node {name} has no known role", hint)


def _host(text: str, where: str) -> str:
    """A name that ssh can be given."""
    want(bool(re.fullmatch(_NAME, text)), f"{where}: {text!r} is not a host name", "download the file again")
    return text


def _ip(text: str, where: str) -> Address:
    """An IP address without a zone."""
    error = UsageError(f"{where}: {text!r} is not an IP address", "download the file again")
    return parsed(text.replace("%", " "), error)


def variables(user: str, management: Sequence[str] = (), jump: str = "") -> dict[str, str]:
    """What all hosts have: a user who may use sudo, networks that guards let through, jump hosts of ssh."""
    if not re.fullmatch(_USER, user):
        raise UsageError(f"--user {user!r} is not a user name", "give your name on the testbed")
    found = {"ansible_user": user, "reprise_root": ROOT}
    if user != "root":
        found["ansible_become"] = "true"
    if jump:
        hosts = jump.split(",")
        want(
            all(re.fullmatch(_JUMP, one) for one in hosts),
            f"--jump {jump!r} is not a list of hosts",
            "give [USER@]HOST[:PORT], separated by commas, as for ssh -J",
        )
        found["ansible_ssh_common_args"] = f"-J {jump}"
    if management:
        found["reprise_management"] = json.dumps([str(_network("--management", one)) for one in management])
    return found


def _network(option: str, text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        hint = "give ADDRESS/BITS with the host bits zero"
        raise UsageError(f"{option} {text!r} is not a network", hint) from None


def _check(nodes: Sequence[Node], source: Path) -> None:
    """Every role that an experiment needs is there, and nothing twice."""
    for wanted in ("controller", "clients", "servers"):
        want(
            any(one.group == wanted for one in nodes),
            f"{source}: no node for the group {wanted}",
            "an experiment needs a controller, a client and a server",
        )
    for what, values in (("name", [one.label for one in nodes]), ("address", [one.address for one in nodes])):
        twice = sorted({one for one in values if values.count(one) > 1})
        want(not twice, f"{source}: two nodes have the {what} {', '.join(twice)}", "give each its own")


def text(nodes: Iterable[Node], shared: Mapping[str, str]) -> str:
    """The inventory, with nodes in the order of their numbers."""
    ordered = sorted(nodes, key=lambda one: (int(re.sub(r"\D", "", one.name) or 0), one.name))
    lines: list[str] = []
    for name in GROUPS.values():
        lines += [f"[{name}]", *(one.line() for one in ordered if one.group == name), ""]
    lines += ["[all:vars]", *(f"{key}={value}" for key, value in sorted(shared.items()))]
    return "\n".join(lines) + "\n"


# --- CloudLab ---------------------------------------------------------------------------------------------

_RSPEC = "{http://www.geni.net/resources/rspec/3}"
_MOST_BYTES = 64 << 20  # 160 nodes with the logins of a large project have 0.4 MB
_DOWNLOAD = "save the manifest again when all nodes are ready"


def of_cloudlab(path: Path, user: str) -> tuple[list[Node], str]:
    """The nodes of a manifest (XML, GENI RSpec version 3), and the user who logs in: `user`, or the only one
    there is.
    """
    root = _read(path)
    found: dict[str, Element] = {}
    for one in root.findall(f"{_RSPEC}node"):
        name = one.get("client_id", "")
        want(name not in found, f"{path}: two nodes are named {name}", "name each differently in the profile")
        found[name] = one
    want(bool(found), f"{path}: no nodes", "instantiate profile.py, and " + _DOWNLOAD)
    groups = {name: group_of(name, path) for name in found}
    addresses = _addresses(path, root, found)
    logins = {
        name: {one.get("username", ""): one for one in node.findall(f"{_RSPEC}services/{_RSPEC}login")}
        for name, node in found.items()
    }
    users = sorted({one for of_node in logins.values() for one in of_node})  # often all of the project
    shown = f"{', '.join(users[:5])}{', ...' if len(users) > 5 else ''}"
    clear = bool(user) or len(users) <= 1
    want(clear, f"{path}: logins of {len(users)} users ({shown})", "give yours with --user")
    user = user or "".join(users)
    made = []
    for name, group in groups.items():
        host, port = _way(f"{path}: node {name}", logins[name], user)
        made.append(Node(name, group, host, addresses[name], port))
    _check(made, path)
    return made, user


class _Builder(ElementTree.TreeBuilder):
    """No manifest has a document type, which could define entities of any size."""

    def doctype(self, name: str, _public: str | None, _system: str | None) -> None:
        raise UsageError(f"it has a document type ({name})", "a manifest has none; download it again")


def _read(path: Path) -> Element:
    want(path.is_file(), f"no manifest {path}", "give the XML file that you saved from CloudLab's portal")
    want(path.stat().st_size <= _MOST_BYTES, f"{path} is too large for a manifest", _DOWNLOAD)
    try:
        root = ElementTree.fromstring(path.read_bytes(), ElementTree.XMLParser(target=_Builder()))
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise UsageError(f"{path} is not whole XML: {error}", _DOWNLOAD) from None
    except UsageError as error:
        raise UsageError(f"{path}: {error.what}", error.hint) from None
    want(root.tag == f"{_RSPEC}rspec", f"{path} is XML, but no manifest", _DOWNLOAD)
    return root


def _addresses(path: Path, root: Element, found: Mapping[str, Element]) -> dict[str, str]:
    """Each node's address in the LAN that joins them all."""
    owners = {
        face.get("client_id", ""): (name, face)
        for name, node in found.items()
        for face in node.findall(f"{_RSPEC}interface")
    }
    for link in root.findall(f"{_RSPEC}link"):
        ends = (one.get("client_id", "") for one in link.findall(f"{_RSPEC}interface_ref"))
        faces = dict(owners[one] for one in ends if one in owners)
        if faces.keys() == found.keys():
            return {name: _address(f"{path}: node {name}", face) for name, face in faces.items()}
    raise UsageError(f"{path}: no link joins all nodes", "instantiate profile.py, whose nodes are in one LAN")


def _address(where: str, face: Element) -> str:
    ip = face.find(f"{_RSPEC}ip")
    if ip is None:
        hint = "instantiate profile.py, which gives every node one"
        raise UsageError(f"{where} has no address in the LAN", hint)
    return str(_ip(ip.get("address", ""), where))


def _way(where: str, logins: Mapping[str, Element], user: str) -> tuple[str, int]:
    """Host and port by which ssh reaches a node."""
    want(bool(logins), f"{where} has no login", _DOWNLOAD)
    hint = f"give --user; it has {', '.join(sorted(logins)[:5])}"
    want(user in logins, f"{where} has no login of {user}", hint)
    port = logins[user].get("port", "22")
    want(port.isascii() and port.isdigit() and 0 < int(port) < 65536, f"{where}: no port {port}", _DOWNLOAD)
    return _host(logins[user].get("hostname", ""), where), int(port)


# --- Merge (SPHERE is one of its testbeds) ----------------------------------------------------------------

_PREFIX = "exp-"  # which `-p` puts before the names in Merge's manual


def of_merge(groups: Path, etchosts: Path, lan: str = LAN) -> list[Node]:
    """The nodes, of the files of `mrg nodes generate inventory` and `mrg nodes generate etchosts`. They are
    reached by their own names, as the testbed's XDC resolves them.
    """
    from cli.hosts import inventory  # noqa: PLC0415 - the bootstrap has no pydantic

    network = _network("--lan", lan)
    members = {group: [one.name for one in hosts] for group, hosts in inventory.read(groups).items()}
    want(
        any(members.values()),
        f"{groups}: no host is in one of the groups {', '.join(inventory.GROUPS)}",
        "give nodes the property `group` as playbooks/merge/model.py does, and generate it again",
    )
    found = _hosts(etchosts)
    made = []
    for group, names in members.items():
        for name in names:
            where = f"{groups}: node {name}"
            there = {one for key in (name, _PREFIX + name) for one in found.get(key, ()) if one in network}
            want(
                len(there) == 1,
                f"{etchosts}: node {name} has {len(there) or 'no'} addresses in {lan}",
                "generate it again, or give the LAN of your model with --lan",
            )
            made.append(Node(name, group, _host(name, where), str(there.pop())))
    _check(made, groups)
    return made


def _hosts(path: Path) -> dict[str, list[Address]]:
    want(path.is_file(), f"no file {path}", "make it with `mrg nodes generate etchosts`")
    found: dict[str, list[Address]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            address = _ip(words[0], f"{path}:{number}")
            for name in words[1:]:
                found.setdefault(name, []).append(address)
    return found


# --- the command ------------------------------------------------------------------------------------------


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("inventory", help="write the inventory of a testbed, for run --inventory")
    steps = parser.add_subparsers(dest="testbed", required=True, metavar="TESTBED")
    lab = steps.add_parser("cloudlab", help="from the manifest of an experiment on CloudLab")
    lab.add_argument("manifest", type=Path, metavar="MANIFEST.xml", help="saved from CloudLab's portal")
    lab.add_argument(
        "--user",
        default="",
        metavar="NAME",
        help="your user name on CloudLab (default: the only one in the manifest)",
    )
    merge = steps.add_parser("merge", help="from what `mrg nodes generate` prints, on SPHERE and others")
    merge.add_argument("groups", type=Path, metavar="INVENTORY", help="of `mrg nodes generate inventory`")
    merge.add_argument("etchosts", type=Path, metavar="ETCHOSTS", help="of `mrg nodes generate etchosts`")
    merge.add_argument("--user", required=True, metavar="NAME", help="your user name on the testbed")
    merge.add_argument(
        "--jump", default="", metavar="HOSTS", help="hosts on the way to the nodes, as for ssh -J"
    )
    merge.add_argument(
        "--lan", default=LAN, metavar="PREFIX", help=f"addresses of the experiment's LAN (default: {LAN})"
    )
    for one in (lab, merge):
        one.add_argument(
            "--management",
            action="append",
            default=[],
            metavar="PREFIX",
            help="a network, as ADDRESS/BITS, that hosts may reach during a run; repeatable",
        )
        one.add_argument(
            "-o", "--output", type=Path, required=True, metavar="FILE", help="inventory to write"
        )


def command_inventory(options: argparse.Namespace) -> int:
    output: Path = options.output
    there = output.absolute().parent.is_dir()
    want(there, f"{output}: its folder is not there", "make it, or give another -o")
    want(not output.is_dir(), f"{output} is a folder", "give the inventory's name with -o")
    if options.testbed == "cloudlab":
        nodes, user = of_cloudlab(options.manifest, options.user)
        shared = variables(user, options.management)
    else:
        nodes = of_merge(options.groups, options.etchosts, options.lan)
        shared = variables(options.user, options.management, options.jump)
    output.write_text(text(nodes, shared), encoding="utf-8")
    counts = [f"{group} {sum(one.group == group for one in nodes)}" for group in GROUPS.values()]
    print(f"{output}: {', '.join(counts)}")
    return 0
