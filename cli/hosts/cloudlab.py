"""A manifest of CloudLab (XML, GENI RSpec version 3) as nodes of an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from cli.errors import UsageError, want
from cli.hosts import inventory_file
from cli.hosts.inventory_file import Node

_RSPEC = "{http://www.geni.net/resources/rspec/3}"
_MOST_BYTES = 64 << 20  # 160 nodes with the logins of a large project have 0.4 MB
_DOWNLOAD = "save the manifest again when all nodes are ready"


def nodes(path: Path, user: str) -> tuple[list[Node], str]:
    """The nodes, and the user who logs in: `user`, or the only one there is."""
    root = _read(path)
    found = _by_name(path, root)
    for name in found:
        inventory_file.group(name, path)
    addresses = _addresses(path, root, found)
    user = user or _only_user(path, found)
    made = [_node(path, name, one, user, addresses[name]) for name, one in found.items()]
    inventory_file.check(made, path)
    return made, user


class _Builder(ElementTree.TreeBuilder):
    """No manifest has a document type, which could define entities of any size."""

    def doctype(self, name: str, _public: str | None, _system: str | None) -> None:
        raise UsageError(f"it has a document type ({name})", "a manifest has none; download it again")


def _read(path: Path) -> ElementTree.Element:
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


def _by_name(path: Path, root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    found: dict[str, ElementTree.Element] = {}
    for one in root.findall(f"{_RSPEC}node"):
        name = one.get("client_id", "")
        want(name not in found, f"{path}: two nodes are named {name}", "name each differently in the profile")
        found[name] = one
    want(bool(found), f"{path}: no nodes", "instantiate profile.py, and " + _DOWNLOAD)
    return found


def _addresses(
    path: Path, root: ElementTree.Element, found: dict[str, ElementTree.Element]
) -> dict[str, str]:
    """Each node's address in the LAN that joins them all."""
    owners = {
        face.get("client_id", ""): (name, face)
        for name, node in found.items()
        for face in node.findall(f"{_RSPEC}interface")
    }
    for link in root.findall(f"{_RSPEC}link"):
        ends = [owners[one] for one in _ends(link) if one in owners]
        if {name for name, _ in ends} == set(found):
            return {name: _address(path, name, face) for name, face in ends}
    raise UsageError(
        f"{path}: no link joins all nodes",
        "instantiate profile.py, whose nodes are in one LAN",
    )


def _ends(link: ElementTree.Element) -> Iterator[str]:
    for one in link.findall(f"{_RSPEC}interface_ref"):
        yield one.get("client_id", "")


def _address(path: Path, name: str, face: ElementTree.Element) -> str:
    ip = face.find(f"{_RSPEC}ip")
    if ip is None:
        raise UsageError(
            f"{path}: node {name} has no address in the LAN",
            "instantiate profile.py, which gives every node one",
        )
    return inventory_file.address(ip.get("address", ""), f"{path}: node {name}")


def _logins(node: ElementTree.Element) -> dict[str, ElementTree.Element]:
    found = node.findall(f"{_RSPEC}services/{_RSPEC}login")
    return {one.get("username", ""): one for one in found}


def _only_user(path: Path, found: dict[str, ElementTree.Element]) -> str:
    """CloudLab lists every member of the project at every node."""
    users = sorted({user for node in found.values() for user in _logins(node)})
    want(
        len(users) <= 1,
        f"{path}: logins of {len(users)} users ({', '.join(users[:5])}{', ...' if len(users) > 5 else ''})",
        "give yours with --user",
    )
    return users[0] if users else ""


def _node(path: Path, name: str, node: ElementTree.Element, user: str, address: str) -> Node:
    logins = _logins(node)
    want(bool(logins), f"{path}: node {name} has no login", _DOWNLOAD)
    want(
        user in logins,
        f"{path}: node {name} has no login of {user}",
        f"give --user; it has {', '.join(sorted(logins)[:5])}",
    )
    where = f"{path}: node {name}"
    port = logins[user].get("port", "22")
    want(port.isascii() and port.isdigit() and 0 < int(port) < 65536, f"{where}: no port {port}", _DOWNLOAD)
    host = inventory_file.host(logins[user].get("hostname", ""), where)
    return Node(name, inventory_file.group(name, path), host, address, int(port))
