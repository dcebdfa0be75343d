"""The local topology as values: hosts, links, addresses, routes, sysctls. Nothing here touches the system.

The controller talks to every client over its own link, every client to the server over its own link. The
server's service addresses lie on its loopback. There is no route to anywhere else, so nothing can leak: where
the server sees the trace's own addresses as sources, its default route ends at the client.
198.18.0.0/15 is set aside for benchmarks (RFC 2544, RFC 6890); the fd00::/8 prefix is a private one (RFC
4193).
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from cli.experiment import addresses

CONTROLLER = "controller"
SERVER = "server"
SERVICE_V4, SERVICE_V6 = addresses.SERVICES
BEHIND, BEHIND6 = "127.0.0.1", "::1"  # where the server listens that has a front before it
_CLIENT_MAC = "02:72:65:70:00:01"
_SERVER_MAC = "02:72:65:70:00:02"
_OURS, _NOBODYS = "100", "101"  # routing tables of source mode packet
# A table of connections for each host, as on a machine of its own: the kernel's shared one would make looking
# through one host's sockets cost as much as all of them.
_BUCKETS = "262144"
_EVERYTHING = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True)
class Host:
    """A network namespace, or a machine."""

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
    a_mac: str = ""  # "": as the kernel chooses
    b_mac: str = ""


@dataclass(frozen=True)
class Address:
    """An address on an interface that is no end of a link (a loopback)."""

    host: str
    interface: str
    address: str


@dataclass(frozen=True)
class Route:
    """A route of one host: via a neighbor, or of a kind ("local", "blackhole") on an interface."""

    host: str
    to: str
    via: str = ""
    kind: str = ""
    interface: str = ""
    table: str = "main"

    @property
    def words(self) -> tuple[str, ...]:
        ways = (("via", self.via), ("dev", self.interface), ("table", self.table))
        words = (self.kind, self.to, *(word for name, value in ways if value for word in (name, value)))
        return words if self.kind else words[1:]


@dataclass(frozen=True)
class Rule:
    """Packets of a protocol ("" = all) look into a table too; lower priorities first, "main" has 32766."""

    host: str
    family: int  # 4 or 6
    priority: int
    table: str
    protocol: str = ""


@dataclass(frozen=True)
class Neighbor:
    """A neighbor that is known for good."""

    host: str
    address: str
    mac: str
    interface: str


@dataclass(frozen=True)
class Sysctl:
    """A kernel setting of one host's network namespace, set before its links exist.

    Host "" is the namespace in which the hosts are made; its settings come first.
    """

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
    rules: tuple[Rule, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()

    def ends(self, host: str) -> Iterator[tuple[str, tuple[str, ...], str, tuple[str, ...]]]:
        """A host's ends of links: the interface, its addresses, and the other end's host and addresses."""
        for link in self.links:
            if link.a == host:
                yield link.a_if, link.a_addresses, link.b, link.b_addresses
            if link.b == host:
                yield link.b_if, link.b_addresses, link.a, link.a_addresses


def client(index: int) -> str:
    """Name of the client number `index`, from 1."""
    return f"client{index}"


def control_address(index: int) -> str:
    """The address on which the distributor of client `index` listens."""
    return f"198.18.{index}.2"


def server(index: int) -> str:
    """Name of the server's host number `index`, from 1; further ones are further resolvers under test."""
    return SERVER if index == 1 else f"{SERVER}{index}"


def servers(count: int) -> list[str]:
    return [server(index) for index in range(1, count + 1)]


def server_of(client_index: int, servers: int, place: int) -> str:
    """The server that a client asks, where there are several with the same addresses; its peer number
    `place`, from 1, is the one so many places further on.
    """
    return server((client_index - 1 + place) % servers + 1)


def own_prefixes(clients: int, hierarchy: bool) -> tuple[str, ...]:
    """Where the testbed's own addresses lie: no source that the server sees can be one of them."""
    links = (
        prefix
        for index in range(1, clients + 1)
        for prefix in (f"198.18.{index}.0/24", f"198.19.{index}.0/24", f"fd00:198:19:{index}::/64")
    )
    return (*addresses.SERVICE_PREFIXES, *links, *(addresses.PREFIXES if hierarchy else ()))


def source_prefixes(index: int, clients: int) -> tuple[str, str]:
    """The prefixes out of which client `index` of `clients` gives every source an address (mode mapped)."""
    bits = 8 + (clients - 1).bit_length()
    part = ipaddress.ip_network("10.0.0.0/8")[(index - 1) << (32 - bits)]
    return f"{part}/{bits}", f"fd00:6d61:{index:x}::/64"


def local(
    clients: int, listen_queue: int, source_mode: str = "ports", peers: tuple[str, ...] = (), servers: int = 1
) -> Network:
    """The topology with `clients` clients, each at one of `servers` servers with the same addresses; without
    any, the server is anywhere else.

    `peers` are further addresses of all servers. A client's way to those of each family leads to its own
    server where there is one, and to the ones after it where there are several.
    """
    indices = range(1, clients + 1)
    hosts = [server(index) for index in range(1, servers + 1)]
    names = [CONTROLLER, *(client(index) for index in indices), *hosts]
    fixed = source_mode == "packet"
    services = (SERVICE_V4, SERVICE_V6, *peers)
    families = [":" in one for one in peers] if servers > 1 else []
    places = range(max(families.count(True), families.count(False)) + 1 if servers else 0)
    links: list[Link] = []
    routes: list[Route] = []
    for index in indices:
        links.append(_control(index))
        routes += _routes(index, peers, len(places) > 1) if servers else []
        for place in places:
            links.append(_data(index, place, servers, fixed))
            routes += _source_routes(index, place, clients, servers, source_mode)
    return Network(
        kind="namespaces",
        hosts=tuple(Host(name) for name in names),
        links=tuple(links),
        addresses=tuple(Address(host, "lo", whole(one)) for host in hosts for one in services),
        routes=tuple(routes),
        rules=_rules() if fixed else (),
        neighbors=_neighbors() if fixed else (),
        sysctls=(
            *((Sysctl("", "net/ipv4/tcp_child_ehash_entries", _BUCKETS),) if servers else ()),
            *(one for name in names for one in sysctls(name, listen_queue, name not in (CONTROLLER, *hosts))),
        ),
    )


def whole(address: str) -> str:
    """An address alone, in CIDR form."""
    return f"{address}/{128 if ':' in address else 32}"


def _source_routes(index: int, place: int, clients: int, servers: int, source_mode: str) -> tuple[Route, ...]:
    """The ways of the sources' addresses to a client's server, or its peer number `place`.

    The server sends answers back through the client. There every address is the client's own (AnyIP: a local
    route; that of the main table gives way to the links' more specific ones). In mode packet that holds for
    TCP only, by tables behind the main one: for the rest its kernel would answer with port unreachable, so
    they go nowhere.
    """
    if source_mode == "ports":
        return ()
    ways, _ = _ends(index, place)
    here, there = client(index), server_of(index, servers, place)
    own = source_prefixes(index, clients) if source_mode == "mapped" else _EVERYTHING
    found = [("local", "lo", "main")] if place == 0 else []
    if source_mode == "packet":
        found = [("local", "lo", _OURS), ("blackhole", "", _NOBODYS)]
    back = (Route(there, to, via) for to, via in zip(own, ways, strict=True))
    return (*(Route(here, to, "", *one) for one in found for to in own), *back)


def _rules() -> tuple[Rule, ...]:
    """Source mode packet, see `_source_routes`: what the main table does not know."""
    here = client(1)
    rules = ((40_000, _OURS, "tcp"), (40_001, _NOBODYS, ""))
    return tuple(Rule(here, family, *rule) for family in (4, 6) for rule in rules)


def _neighbors() -> tuple[Neighbor, ...]:
    """Both ends of the data link of client 1: no address resolution in the middle of a burst."""
    here, there = _ends(1, 0)
    return (
        *(Neighbor(client(1), address, _SERVER_MAC, "data") for address in there),
        *(Neighbor(SERVER, address, _CLIENT_MAC, "data1") for address in here),
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


def _ends(index: int, place: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Both ends (the client's first) of the link to a client's server, or its peer number `place`."""
    one, other = 4 * place + 1, 4 * place + 2
    four, six = f"198.19.{index}.", f"fd00:198:19:{index}::"
    return (f"{four}{one}", f"{six}{one:x}"), (f"{four}{other}", f"{six}{other:x}")


def _data(index: int, place: int, servers: int, fixed: bool) -> Link:
    bits4, bits6 = (30, 126) if place else (24, 64)
    here, there = _ends(index, place)
    return Link(
        client(index),
        server_of(index, servers, place),
        *((f"peer{place}", f"peer{index}-{place}") if place else ("data", f"data{index}")),
        (f"{here[0]}/{bits4}", f"{here[1]}/{bits6}"),
        (f"{there[0]}/{bits4}", f"{there[1]}/{bits6}"),
        a_mac=_CLIENT_MAC if fixed else "",
        b_mac=_SERVER_MAC if fixed else "",
    )


def _routes(index: int, peers: tuple[str, ...], elsewhere: bool) -> list[Route]:
    """A client's ways to its server's addresses and to the peers', which may be `elsewhere`."""
    found = []
    for six, service in enumerate((SERVICE_V4, SERVICE_V6)):
        same = (service, *(one for one in peers if (":" in one) is bool(six)))
        for place, one in enumerate(same):
            found.append(Route(client(index), whole(one), _ends(index, place if elsewhere else 0)[1][six]))
    return found


def sysctls(host: str, listen_queue: int, is_client: bool = False) -> tuple[Sysctl, ...]:
    """No forwarding (first: it resets others), no router advertisements, no duplicate address detection (it
    delays addresses by 1 s); and room for TCP connections: ports, queues, TIME-WAIT.

    A client takes a port in TIME-WAIT again after a second (tcp_tw_reuse): with a fresh connection for each
    query one address would be out of ports after a minute of 1,000 queries a second.
    """
    values = {
        "net/ipv4/ip_forward": "0",
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
    if is_client:
        values["net/ipv4/tcp_tw_reuse"] = "1"
    return tuple(Sysctl(host, key, value) for key, value in values.items())
