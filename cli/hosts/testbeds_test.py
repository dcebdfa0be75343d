"""Manifests that are not what they should be: one line says what is wrong and how to fix it."""

from pathlib import Path
from typing import Any

import pytest

from cli.errors import UsageError
from cli.hosts import testbeds
from cli.hosts.testbeds import Node

SPACE = 'xmlns="http://www.geni.net/resources/rspec/3"'
LOGIN = '<login authentication="ssh-keys" hostname="{host}" port="{port}" username="{user}"/>'
NAMES = ("controller", "client0", "server0")


def login(host: str = "ms1.utah.cloudlab.us", port: str = "22", user: str = "alice") -> str:
    return LOGIN.format(host=host, port=port, user=user)


def node(name: str, address: str, logins: str | None = None) -> str:
    ip = f'<ip address="{address}" netmask="255.255.255.0" type="ipv4"/>' if address else ""
    return (
        f'<node client_id="{name}"><interface client_id="{name}:if0">{ip}</interface>'
        f"<services>{login() if logins is None else logins}</services></node>"
    )


def link(*names: str) -> str:
    ends = "".join(f'<interface_ref client_id="{name}:if0"/>' for name in names)
    return f'<link client_id="lan">{ends}</link>'


def rspec(*parts: str) -> str:
    return f"<rspec {SPACE}>{''.join(parts)}</rspec>"


def good(**changed: str) -> str:
    """A manifest of three nodes; `changed` has other nodes by name."""
    there = {name: node(name, f"172.16.1.{index}") for index, name in enumerate(NAMES, 1)}
    return rspec(*{**there, **changed}.values(), link(*NAMES))


def read(folder: Path, text: str | bytes, user: str = "") -> tuple[list[Node], str]:
    path = folder / "m.xml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return testbeds.of_cloudlab(path, user)


def test_the_only_user_need_not_be_given(tmp_path: Path) -> None:
    nodes, user = read(tmp_path, good())
    assert user == "alice"
    assert nodes[1] == Node("client0", "clients", "ms1.utah.cloudlab.us", "172.16.1.2")


def test_another_port_and_other_networks(tmp_path: Path) -> None:
    face = '<interface client_id="client0:if1"><ip address="10.9.9.9"/></interface>'
    client = node("client0", "172.16.1.2", login(port="2222")).replace("<services>", face + "<services>")
    text = good(client0=client).replace(
        "<link ", '<link><interface_ref client_id="client0:if1"/></link><link '
    )
    nodes, _ = read(tmp_path, text)
    assert nodes[1].line() == (
        "client0 ansible_host=ms1.utah.cloudlab.us ansible_port=2222 reprise_address=172.16.1.2"
    )


BAD: dict[str, tuple[str | bytes, str]] = {
    "junk": (b"\x00\xffno manifest", "is not whole XML"),
    "empty": ("", "is not whole XML: no element found"),
    "truncated": (good()[:-40], "is not whole XML"),
    "other encoding": (
        '<?xml version="1.0" encoding="utf-99"?><rspec/>',
        "is not whole XML: unknown encoding",
    ),
    "other XML": ("<html></html>", "is XML, but no manifest"),
    "no space": (good().replace(SPACE, ""), "is XML, but no manifest"),
    "document type": (
        f'<!DOCTYPE rspec [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>{good()}',
        r"it has a document type \(rspec\)",
    ),
    "outside entity": (
        f'<!DOCTYPE rspec [<!ENTITY a SYSTEM "file:///etc/passwd">]>{good()}'.replace("ms1", "&a;"),
        r"it has a document type \(rspec\)",
    ),
    "no nodes": (rspec(), "m.xml: no nodes"),
    "no logins": (good(client0=node("client0", "172.16.1.2", "")), "node client0 has no login"),
    "other user": (
        good(client0=node("client0", "172.16.1.2", login(user="bob"))),
        r"logins of 2 users \(alice, bob\)",
    ),
    "unknown name": (good(client0=node("node-1", "172.16.1.2")), "node node-1 has no known role"),
    "no name": (good().replace('client_id="client0"', ""), "node  has no known role"),
    "twice": (rspec(node("client0", ""), node("client0", "")), "two nodes are named client0"),
    "no LAN": (good().replace("link", "lin"), "no link joins all nodes"),
    "not in the LAN": (good(meta0=node("meta0", "172.16.1.9")), "no link joins all nodes"),
    "no address": (good(client0=node("client0", "")), "node client0 has no address in the LAN"),
    "bad address": (good(client0=node("client0", "172.16.1")), "'172.16.1' is not an IP address"),
    "zone": (good(client0=node("client0", "fe80::1%{{ x }}")), "'fe80::1%{{ x }}' is not an IP address"),
    "same address": (good(client0=node("client0", "172.16.1.1")), "two nodes have the address 172.16.1.1"),
    "bad port": (good(client0=node("client0", "172.16.1.2", login(port="0"))), "no port 0"),
    "option": (
        good(client0=node("client0", "172.16.1.2", login(host="-oProxyCommand=x"))),
        "'-oProxyCommand=x' is not a host name",
    ),
    "template": (
        good(client0=node("client0", "172.16.1.2", login(host="{{ lookup('pipe', 'x') }}"))),
        "is not a host name",
    ),
    "two lines": (good(client0=node("client0", "172.16.1.2", login(host="a&#10;b"))), "is not a host name"),
    "no server": (
        rspec(node("controller", "172.16.1.1"), node("client0", "172.16.1.2"), link(*NAMES[:2])),
        "no node for the group servers",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_manifest_is_refused(tmp_path: Path, name: str) -> None:
    text, what = BAD[name]
    with pytest.raises(UsageError, match=what) as caught:
        read(tmp_path, text)
    assert "m.xml" in caught.value.what
    assert caught.value.hint


def test_a_user_without_login_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="node controller has no login of bob") as caught:
        read(tmp_path, good(), "bob")
    assert caught.value.hint == "give --user; it has alice"


def test_there_must_be_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="no manifest"):
            testbeds.of_cloudlab(path, "")
    monkeypatch.setattr(testbeds, "_MOST_BYTES", 100)
    with pytest.raises(UsageError, match="too large"):
        read(tmp_path, good())


# --- what is written --------------------------------------------------------------------------------------


def test_nodes_are_in_the_order_of_their_numbers() -> None:
    nodes = [Node(f"client{index}", "clients", "h", f"172.16.1.{index}") for index in (10, 2, 0)]
    text = testbeds.text(nodes, testbeds.variables("root"))
    names = [line.split()[0] for line in text.splitlines() if line.startswith("client")]
    assert names == ["client0", "client2", "client10"]
    assert text.endswith("[all:vars]\nansible_user=root\nreprise_root=/opt/reprise\n")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("-l",), "--user '-l' is not a user name"),
        (("a b",), "not a user name"),
        (("alice", ["192.0.2.1/24"]), "--management '192.0.2.1/24' is not a network"),
        (("alice", [], "a,,b"), "--jump 'a,,b' is not a list of hosts"),
        (("alice", [], "a -oProxyCommand=x"), "not a list of hosts"),
    ],
)
def test_bad_options_are_refused(arguments: tuple[Any, ...], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        testbeds.variables(*arguments)
