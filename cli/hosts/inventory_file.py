"""Writes an inventory that cli/hosts/inventory.py reads.

What is written comes from files of testbeds, so everything is checked before it can become an option of ssh
or a template of Ansible.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.errors import UsageError, want

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


def group(name: str, source: Path) -> str:
    """The group of a node that is named as profile.py and playbooks/merge/model.py name them."""
    found = re.fullmatch(r"(controller)|(client|server|meta)[0-9]+", name)
    if found is None:
        raise UsageError(
            f"{source}: node {name} has no known role",
            "name nodes controller, client0, server0, meta0 as profile.py does, or write the "
            "inventory by hand",
        )
    return GROUPS[found[1] or found[2]]


def host(text: str, where: str) -> str:
    """A name that ssh can be given."""
    want(bool(re.fullmatch(_NAME, text)), f"{where}: {text!r} is not a host name", "download the file again")
    return text


def address(text: str, where: str) -> str:
    """An IP address without a zone."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        found = None
    if found is None or "%" in text:
        raise UsageError(f"{where}: {text!r} is not an IP address", "download the file again")
    return str(found)


def variables(user: str, management: Sequence[str] = (), jump: str = "") -> dict[str, str]:
    """What all hosts have: a user who may use sudo, networks that guards let through, jump hosts of ssh."""
    want(
        bool(re.fullmatch(_USER, user)),
        f"--user {user!r} is not a user name",
        "give your name on the testbed",
    )
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
        found["reprise_management"] = json.dumps([str(network("--management", one)) for one in management])
    return found


def network(option: str, text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        hint = "give ADDRESS/BITS with the host bits zero"
        raise UsageError(f"{option} {text!r} is not a network", hint) from None


def check(nodes: Iterable[Node], source: Path) -> None:
    """Every role that an experiment needs is there, and nothing twice."""
    nodes = list(nodes)
    for wanted in ("controller", "clients", "servers"):
        want(
            any(one.group == wanted for one in nodes),
            f"{source}: no node for the group {wanted}",
            "an experiment needs a controller, a client and a server",
        )
    for what, values in (
        ("name", [one.label for one in nodes]),
        ("address", [one.address for one in nodes]),
    ):
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
