"""What Merge testbeds generate (SPHERE is one) as nodes of an inventory.

`mrg nodes generate inventory` gives names and groups in Ansible's form, and `mrg nodes generate etchosts`
addresses in the form of /etc/hosts.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

from cli.errors import want
from cli.hosts import inventory, inventory_file
from cli.hosts.inventory_file import Node

_PREFIX = "exp-"  # which `-p` puts before the names in Merge's manual


def nodes(groups: Path, etchosts: Path, lan: str = inventory_file.LAN) -> list[Node]:
    """The nodes. They are reached by their own names, as the testbed's XDC resolves them."""
    network = inventory_file.network("--lan", lan)
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
            made.append(Node(name, group, inventory_file.host(name, where), str(there.pop())))
    inventory_file.check(made, groups)
    return made


def _hosts(path: Path) -> dict[str, list[ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    want(path.is_file(), f"no file {path}", "make it with `mrg nodes generate etchosts`")
    found: dict[str, list[ipaddress.IPv4Address | ipaddress.IPv6Address]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            address = ipaddress.ip_address(inventory_file.address(words[0], f"{path}:{number}"))
            for name in words[1:]:
                found.setdefault(name, []).append(address)
    return found
