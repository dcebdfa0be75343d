"""Makes a planned network real: one anonymous namespace per host, held by descriptors only.

The namespaces have no name anywhere. They live as long as a descriptor or a process refers to them, so they
vanish with the sandbox.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from cli import linux, programs
from cli.errors import RepriseError
from cli.plan.network import Network, Sysctl
from report.hosts import snmp, snmp6


@dataclass
class Hosts:
    """Descriptors of the hosts' namespaces, and the settings that this user may not change."""

    descriptors: dict[str, int] = field(default_factory=dict)
    refused_sysctls: list[str] = field(default_factory=list)

    def of(self, host: str) -> int | None:
        """The namespace of a host; None means the machine's own network."""
        return self.descriptors.get(host)


def build(network: Network) -> Hosts:
    """Namespaces, settings, links, addresses and routes, in this order."""
    hosts = Hosts()
    if network.kind in ("host", "hosts"):
        return hosts
    _set_all(hosts, [one for one in network.sysctls if not one.host])
    for host in network.hosts:
        hosts.descriptors[host.name] = _new_namespace()
    _set_all(hosts, [one for one in network.sysctls if one.host])
    _ip(None, link_commands(network, hosts.descriptors))
    for host in network.hosts:
        _ip(hosts.of(host.name), host_commands(network, host.name))
        for family in (4, 6):  # which only the option tells apart
            rules = [
                f"rule add pref {one.priority}{one.protocol and f' ipproto {one.protocol}'} "
                f"lookup {one.table}"
                for one in network.rules
                if (one.host, one.family) == (host.name, family)
            ]
            _ip(hosts.of(host.name), rules, f"-{family}")
    return hosts


def link_commands(network: Network, descriptors: dict[str, int]) -> list[str]:
    """`ip -batch` lines that make every veth pair with its ends in their hosts."""

    def end(name: str, mac: str, mtu: int, host: str) -> str:
        address = mac and f" address {mac}"
        return f"name {name}{address} mtu {mtu} netns /proc/{os.getpid()}/fd/{descriptors[host]}"

    return [
        f"link add {end(one.a_if, one.a_mac, one.mtu, one.a)} type veth "
        f"peer {end(one.b_if, one.b_mac, one.mtu, one.b)}"
        for one in network.links
    ]


def host_commands(network: Network, host: str) -> list[str]:
    """`ip -batch` lines for one host: loopback, addresses, links up, neighbors, then routes."""
    lines = ["link set dev lo up"]
    for interface, addresses, _, _ in network.ends(host):
        lines += [_add(address, interface) for address in addresses]
        lines.append(f"link set dev {interface} up")
    lines += [_add(one.address, one.interface) for one in network.addresses if one.host == host]
    lines += [
        f"neigh replace {one.address} lladdr {one.mac} dev {one.interface} nud permanent"
        for one in network.neighbors
        if one.host == host
    ]
    return lines + [" ".join(("route", "add", *one.words)) for one in network.routes if one.host == host]


def _add(address: str, interface: str) -> str:
    return f"addr add {address} dev {interface}" + (" nodad" if ":" in address else "")


def _new_namespace() -> int:
    """A fresh network namespace; this process is in it only until its descriptor is taken."""
    back = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        linux.unshare(linux.CLONE_NEWNET, "network namespace")
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        linux.setns(back)
        os.close(back)


def _set_all(hosts: Hosts, settings: list[Sysctl]) -> None:
    for one in settings:
        with linux.inside(hosts.of(one.host)):
            try:
                Path("/proc/sys", one.key).write_text(one.value, encoding="ascii")
            except OSError:
                hosts.refused_sysctls.append(f"{one.host}:{one.key}")


def _ip(netns: int | None, lines: list[str], *options: str) -> None:
    if not lines:
        return
    argv, given = [programs.packaged("ip"), *options, "-batch", "-"], "\n".join(lines) + "\n"
    with linux.inside(netns):
        done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        what = f"cannot set up the network: {done.stderr.strip() or 'ip failed'}"
        raise RepriseError(what, "see what `reprise doctor` says of veth")


def refused_packets(hosts: Hosts) -> dict[str, int]:
    """Packets that a host wanted to send and the kernel refused for want of a route, by host."""
    found = {}
    for host, descriptor in hosts.descriptors.items():
        with linux.inside(descriptor):
            four, six = (Path("/proc/self/net", name).read_text("ascii") for name in ("snmp", "snmp6"))
        found[host] = snmp(four).get("IpOutNoRoutes", 0) + snmp6(six).get("Ip6OutNoRoutes", 0)
    return {host: count for host, count in found.items() if count}
