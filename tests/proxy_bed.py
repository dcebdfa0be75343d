"""Two hosts for the proxies: a resolver's and the meta-DNS-server's, with a link, rules and TUN devices.

The resolver's host has a route to the meta addresses only, so what reaches the other host went through the
proxy.
"""

import json
from pathlib import Path
from typing import Any

from cli import programs
from cli.plan.network import Address, Host, Link, Network, Route, Sysctl, sysctls
from cli.process import Process
from tests.bed import BareBed

RESOLVER, META = "resolver", "meta"
OWN4, OWN6 = "198.19.254.1", "fd00:198:19:fe::1"
TUN = "reprise0"
# Real addresses of root servers: a.root-servers.net and b.root-servers.net.
ROOT_A4, ROOT_A6 = "198.41.0.4", "2001:503:ba3e::2:30"
ROOT_B4, ROOT_B6 = "199.9.14.201", "2001:500:200::b"
META4 = {1: "198.18.128.1", 2: "198.18.128.2"}
META6 = {1: "fd00:198:18::1", 2: "fd00:198:18::2"}
SLOTS = {ROOT_A4: 1, ROOT_A6: 1, ROOT_B4: 2, ROOT_B6: 2}


def map_text() -> str:
    """The map of one resolver, two slots and four server addresses."""
    lines = ["#reprise-map 1", f"resolver\t1\t{OWN4}\t{OWN6}"]
    lines += [f"meta\t{slot}\t1\t1\t{META4[slot]}\t{META6[slot]}" for slot in META4]
    lines += [f"oqda\t{address}\t{slot}" for address, slot in SLOTS.items()]
    return "\n".join(lines) + "\n"


def network(mtu: int) -> Network:
    """The two hosts; everything is known but what the TUN devices need."""
    forwarding = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")
    return Network(
        kind="namespaces",
        hosts=(Host(RESOLVER), Host(META)),
        links=(
            Link(
                RESOLVER,
                META,
                "up0",
                "down0",
                ("198.19.253.1/30", "fd00:198:19:fd::1/126"),
                ("198.19.253.2/30", "fd00:198:19:fd::2/126"),
                mtu=mtu,
            ),
        ),
        addresses=(
            Address(RESOLVER, "lo", f"{OWN4}/32"),
            Address(RESOLVER, "lo", f"{OWN6}/128"),
            *(Address(META, "lo", f"{one}/32") for one in META4.values()),
            *(Address(META, "lo", f"{one}/128") for one in META6.values()),
        ),
        routes=(
            Route(RESOLVER, "198.18.128.0/17", via="198.19.253.2"),
            Route(RESOLVER, "fd00:198:18::/48", via="fd00:198:19:fd::2"),
            Route(META, "198.19.254.0/24", via="198.19.253.1"),
            Route(META, "fd00:198:19:fe::/64", via="fd00:198:19:fd::1"),
        ),
        sysctls=(
            *(one for host in (RESOLVER, META) for one in sysctls(host, 4096)),
            *(Sysctl(host, key, "1") for host in (RESOLVER, META) for key in forwarding),
        ),
    )


class ProxyBed(BareBed):
    """The two hosts with their TUN devices."""

    def __init__(self, folder: Path, mtu: int = 1500) -> None:
        super().__init__(folder, network(mtu))
        self.map.write_text(map_text(), encoding="ascii")
        self.folder.chmod(0o777)  # also for the user to whom a proxy changes
        for host, ports in ((RESOLVER, "dport 53"), (META, "sport 53")):
            self.make_tun(host)
            for family in ("-4", "-6"):
                for protocol in ("udp", "tcp"):
                    words = f"{family} rule add pref 100 iif lo ipproto {protocol} {ports} lookup 100"
                    self.ip(host, *words.split())

    @property
    def map(self) -> Path:
        return self.folder / "map.tsv"

    def make_tun(self, host: str) -> None:
        """A persistent device and the routes to it."""
        self.ip(host, "tuntap", "add", "dev", TUN, "mode", "tun")
        self.ip(host, "link", "set", TUN, "up")
        for family, own in (("-4", OWN4), ("-6", OWN6)):
            source = ["src", own] if host == RESOLVER else []
            self.ip(host, family, "route", "add", "default", "dev", TUN, *source, "table", "100")

    def stats_file(self, host: str) -> Path:
        return self.folder / f"{host}.json"

    def start_proxy(
        self,
        host: str,
        *extra: str,
        stats: Path | None = None,
        tun: str = TUN,
        wrap: tuple[str, ...] = (),
    ) -> Process:
        """The host's proxy, once it reads."""
        argv = [*wrap, programs.own("reprise-proxy"), host, "--tun", tun, "--map", str(self.map)]
        argv += ["--stats", str(stats or self.stats_file(host)), *extra]
        return self.start(host, argv, f"proxy-{host}").until("event=ready")

    def start_both(self) -> tuple[Process, Process]:
        self.start_responder()
        return self.start_proxy(RESOLVER), self.start_proxy(META)

    def start_responder(self) -> Process:
        """A server at all meta addresses that answers with the slot that was asked."""
        slots = [(address, slot) for family in (META4, META6) for slot, address in family.items()]
        words = [word for address, slot in slots for word in (f"{address}:53", f"text={slot}")]
        return self.start_dns_server(META, *words)

    def dig(self, server: str, name: str, *options: str) -> str:
        """What dig says on the resolver's host, in its short form unless it failed."""
        argv = [programs.packaged("dig"), f"@{server}", name, "TXT", "+tries=1", "+time=2", "+short"]
        return self.output(RESOLVER, *argv, *options).strip()

    def statistics(self, host: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.stats_file(host).read_text())
        return loaded

    def finish(self, program: Process, host: str) -> dict[str, Any]:
        """Ends a proxy in order; its last statistics."""
        assert program.stop() == 0, program.text()
        return self.statistics(host)
