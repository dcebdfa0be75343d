"""The local topology as values: hosts, links, addresses, routes, sysctls. Nothing here touches the system.

The controller talks to every client over its own link, every client to the server over its own link. The
server's service addresses lie on its loopback. There is no route to anywhere else, so nothing can leak.
198.18.0.0/15 is set aside for benchmarks (RFC 2544, RFC 6890); the fd00::/8 prefix is a private one (RFC
4193).
"""

from __future__ import annotations

from dataclasses import dataclass

CONTROLLER = "controller"
SERVER = "server"
SERVICE_V4 = "198.19.255.53"
SERVICE_V6 = "fd00:198:19:ff::53"


@dataclass(frozen=True)
class Host:
    """One network namespace."""

    name: str


@dataclass(frozen=True)
class Link:
    """A veth pair; addresses in CIDR form."""

    a: str
    b: str
    a_if: str
    b_if: str
    a_addresses: tuple[str, ...]
    b_addresses: tuple[str, ...]
    mtu: int = 1500


@dataclass(frozen=True)
class Address:
    """An address on an interface that is no end of a link (a loopback)."""

    host: str
    interface: str
    address: str


@dataclass(frozen=True)
class Route:
    """A route of one host."""

    host: str
    to: str
    via: str


@dataclass(frozen=True)
class Sysctl:
    """A kernel setting of one host's network namespace, set before its links exist."""

    host: str
    key: str
    value: str


@dataclass(frozen=True)
class Network:
    """The whole; with kind "host" every process runs in the machine's own network and the lists are empty."""

    kind: str
    hosts: tuple[Host, ...] = ()
    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()


def client(index: int) -> str:
    """Name of the client number `index`, from 1."""
    return f"client{index}"


def control_address(index: int) -> str:
    """The address on which the distributor of client `index` listens."""
    return f"198.18.{index}.2"


def local(clients: int, listen_queue: int) -> Network:
    """The topology with `clients` clients."""
    indices = range(1, clients + 1)
    names = [CONTROLLER, *(client(index) for index in indices), SERVER]
    return Network(
        kind="namespaces",
        hosts=tuple(Host(name) for name in names),
        links=tuple(link for index in indices for link in (_control(index), _data(index))),
        addresses=(Address(SERVER, "lo", f"{SERVICE_V4}/32"), Address(SERVER, "lo", f"{SERVICE_V6}/128")),
        routes=tuple(route for index in indices for route in _routes(index)),
        sysctls=tuple(setting for name in names for setting in _sysctls(name, listen_queue)),
    )


def _control(index: int) -> Link:
    return Link(
        CONTROLLER,
        client(index),
        f"control{index}",
        "control",
        (f"198.18.{index}.1/24",),
        (f"{control_address(index)}/24",),
    )


def _data(index: int) -> Link:
    return Link(
        client(index),
        SERVER,
        "data",
        f"data{index}",
        (f"198.19.{index}.1/24", f"fd00:198:19:{index}::1/64"),
        (f"198.19.{index}.2/24", f"fd00:198:19:{index}::2/64"),
    )


def _routes(index: int) -> tuple[Route, Route]:
    return (
        Route(client(index), f"{SERVICE_V4}/32", f"198.19.{index}.2"),
        Route(client(index), f"{SERVICE_V6}/128", f"fd00:198:19:{index}::2"),
    )


def _sysctls(host: str, listen_queue: int) -> tuple[Sysctl, ...]:
    """No router advertisements, no duplicate address detection (it delays addresses by 1 s), many ports."""
    values = {
        "net/ipv6/conf/all/accept_ra": "0",
        "net/ipv6/conf/default/accept_ra": "0",
        "net/ipv6/conf/default/router_solicitations": "0",
        "net/ipv6/conf/all/accept_dad": "0",
        "net/ipv6/conf/default/accept_dad": "0",
        "net/ipv6/conf/default/dad_transmits": "0",
        "net/ipv4/conf/all/rp_filter": "0",
        "net/ipv4/conf/default/rp_filter": "0",
        "net/ipv4/ip_local_port_range": "1024 65535",
        "net/ipv4/tcp_max_syn_backlog": "65536",
        "net/ipv4/tcp_max_tw_buckets": "1000000",
        "net/ipv4/tcp_no_metrics_save": "1",
        "net/core/somaxconn": str(max(listen_queue, 4096)),
    }
    return tuple(Sysctl(host, key, value) for key, value in values.items())
